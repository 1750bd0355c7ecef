// Plans the end-to-end tests send.
export interface CallOptions {
  readonly recovery: 'operator' | 'retry' | 'idempotent' | 'reconcile';
  readonly timeoutMs?: number;
}

function effect(kind: string, options: CallOptions) {
  return {
    effect: {
      kind,
      request: {
        method: 'POST',
        url: `\${vars.world}/${kind}`,
        body: { key: '${idempotencyKey}' },
      },
      recovery: options.recovery,
      probe: { method: 'GET', url: '${vars.world}/probe/${idempotencyKey}' },
      ...(options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }),
    },
    as: kind,
  };
}

/** Three calls in two steps. */
export function threeCalls(world: string, recovery: CallOptions['recovery'] = 'reconcile') {
  return {
    vars: { world },
    steps: [
      {
        id: 'order',
        do: [effect('reserve', { recovery }), effect('charge', { recovery })],
        output: '${charge.body.id}',
      },
      { id: 'notice', needs: ['order'], do: [effect('mail', { recovery })] },
    ],
    reply: { charge: '${steps.order}', mail: '${mail.body.id}' },
  };
}
