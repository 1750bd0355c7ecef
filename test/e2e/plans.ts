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

const post = (kind: string, path: string, extra: Record<string, unknown> = {}) => ({
  kind,
  request: { method: 'POST', url: `\${vars.world}/${path}`, ...extra },
  recovery: 'reconcile',
  probe: { method: 'GET', url: '${vars.world}/probe/${idempotencyKey}' },
});

/** Holds stock, asks a person, defers a mail, waits for what came of it, naps, waits for the bank. */
export function everyWait(world: string, correlation: string) {
  return {
    vars: { world },
    steps: [
      {
        id: 'hold',
        compensation: 'compensatable',
        do: [
          { effect: post('hold', 'hold'), as: 'hold' },
          { approve: { action: { ship: '${hold.body.id}' }, expiresInMs: 60_000 }, as: 'ok' },
        ],
        undo: [{ effect: post('release', 'release', { body: { hold: '${hold.body.id}' } }) }],
        output: '${hold.body.id}',
      },
      {
        id: 'tell',
        needs: ['hold'],
        compensation: 'unnecessary',
        do: [
          { act: post('mail', 'mail', { body: { about: '${steps.hold}' } }), as: 'mail' },
          { wait: { event: 'act.result', correlation: '${mail}' }, as: 'sent' },
          { sleep: 300 },
          { wait: { event: 'paid', correlation }, as: 'paid' },
        ],
      },
    ],
    reply: {
      by: '${ok.by}',
      hold: '${steps.hold}',
      sent: '${sent.output.body.id}',
      paid: '${paid}',
    },
  };
}
