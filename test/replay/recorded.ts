// Journals as files: written once by a release (scripts/record-journal.ts), read for ever, never edited.
import type { Begun, Position, TurnRef } from '../../src/ports/store.ts';
import type { KeyRow } from '../../src/ports/subjects.ts';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import type { AgentDefinition } from '../../src/runtime/agent-definition.ts';
import { defineTurnAgent } from '../../src/runtime/agent-definition.ts';

export interface Recorded {
  readonly release: string;
  readonly ref: TurnRef;
  readonly key: KeyRow;
  readonly positions: readonly Position[];
  readonly head: Begun['head'];
  readonly end: Begun['end'];
}

/** JSON with bytes as `{"$bytes": base64}`. */
export function toText(recorded: Recorded): string {
  const text = JSON.stringify(
    recorded,
    (_key, value: unknown) =>
      value instanceof Uint8Array
        ? { $bytes: Buffer.from(value).toString('base64') }
        : bytesOf(value),
    1,
  );
  return `${text}\n`;
}

function bytesOf(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('type' in value) || value.type !== 'Buffer')
    return value;
  return { $bytes: Buffer.from(Reflect.get(value, 'data')).toString('base64') };
}

export function fromText(text: string): Recorded {
  return JSON.parse(text, (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null || !('$bytes' in value)) return value;
    return new Uint8Array(Buffer.from(String(value.$bytes), 'base64'));
  });
}

/** The agent whose turns are recorded; it must go on replaying what earlier builds wrote. */
export function recordedAgent(): AgentDefinition {
  let refusals = 0;
  return defineTurnAgent({
    name: 'golden',
    run: async (context, input) => {
      context.note('begun');
      const [held, rate] = await Promise.all([
        context.step('reserve', {}, (step) =>
          step.effect({
            kind: 'inventory.reserve',
            args: { sku: 'lamp', count: 2n },
            recovery: 'idempotent',
            perform: async () => {
              refusals += 1;
              if (refusals === 1) throw new EffectNotAppliedError('connection refused');
              return { hold: 'h1', at: new Date(0) };
            },
          }),
        ),
        context.step('rate', {}, (step) =>
          step.effect({ kind: 'rate.read', args: null, mutates: false, perform: async () => 1.25 }),
        ),
      ]);
      const charge = await context.step('charge', { compensation: 'pivot' }, (step) =>
        step.effect({
          kind: 'payments.charge',
          args: { held, rate, big: 'x'.repeat(1_500), nonce: context.uuid() },
          cost: { minorUnits: 1990 },
          perform: async (call) => {
            call.bill({ minorUnits: 1990, tokens: 3 });
            return { id: 'ch_1' };
          },
        }),
      );
      const mail = await context
        .effect({
          kind: 'mail.send',
          args: { charge },
          recovery: 'reconcile',
          retry: { maxAttempts: 1 },
          perform: async () => {
            throw new Error('socket hang up');
          },
          probe: async () => ({ outcome: 'landed', output: { id: 'mail_1' } }),
        })
        .catch(() => null);
      context.state.append('orders', { input, mail });
      return { held, rate, charge, mail, drawn: context.random() };
    },
  });
}
