// Whole stores as files: written once by a release (scripts/record-state.ts), taken up by every later build.
import type { Item, Table, TableDriver } from '../../src/adapters/table/driver.ts';
import type { TurnRef } from '../../src/ports/store.ts';
import { subjectId, tenantId, threadId, turnId } from '../../src/protocol/ids.ts';
import type { AgentDefinition } from '../../src/runtime/agent-definition.ts';
import { defineTurnAgent } from '../../src/runtime/agent-definition.ts';

export interface RecordedState {
  readonly release: string;
  /** Where the clock stood. */
  readonly now: number;
  /** Idempotency keys that the outside saw, by effect kind. */
  readonly keys: Readonly<Record<string, string>>;
  readonly rows: readonly { table: Table; pk: string; sk: string; item: Item }[];
}

export const secret = new Uint8Array(32).fill(7);
export const ann = subjectId('subject', 'ann');

export function refOf(thread: string, turn: string): TurnRef {
  return {
    tenant: tenantId('tenant', 'acme'),
    thread: threadId('thread', thread),
    turn: turnId('turn', turn),
  };
}

export function stateToText(state: RecordedState): string {
  const bytes = (_key: string, value: unknown) =>
    value instanceof Uint8Array ? { $bytes: Buffer.from(value).toString('base64') } : value;
  const head = { release: state.release, now: state.now, keys: state.keys };
  const rows = state.rows.map((row) => `  ${JSON.stringify(plain(row), bytes)}`);
  return `{"head": ${JSON.stringify(head)},\n "rows": [\n${rows.join(',\n')}\n]}\n`;
}

/** A Buffer answers JSON before a replacer sees it; plain byte arrays do not. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return new Uint8Array(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member)]));
}

export function stateFromText(text: string): RecordedState {
  const read = JSON.parse(text, (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null || !('$bytes' in value)) return value;
    return new Uint8Array(Buffer.from(String(value.$bytes), 'base64'));
  });
  return { ...read.head, rows: read.rows };
}

/** Puts every row where it stood. */
export async function restore(driver: TableDriver, state: RecordedState): Promise<void> {
  for (const { table, pk, sk, item } of state.rows) {
    const written = await driver.write([{ kind: 'put', key: { table, pk, sk }, item, when: [] }]);
    if (written.kind !== 'done') throw new Error(`${table} ${pk} ${sk}: ${written.kind}`);
  }
}

/** The agent whose threads are recorded; it must go on with what earlier builds wrote. */
export function stateAgent(seen: (kind: string, key: string) => void): AgentDefinition {
  return defineTurnAgent({
    name: 'keeper',
    acts: {
      mail: () => ({
        recovery: 'idempotent',
        perform: async ({ idempotencyKey }) => {
          seen('mail', idempotencyKey);
          return { mailed: true };
        },
      }),
    },
    run: async (context, input) => {
      const what: unknown = Reflect.get(Object(input), 'what');
      const call = (kind: string, key?: string) =>
        context.effect({
          kind,
          args: { kind },
          recovery: 'idempotent',
          ...(key === undefined ? {} : { key }),
          perform: async ({ idempotencyKey }) => {
            seen(kind, idempotencyKey);
            return { [kind]: 1 };
          },
        });
      switch (what) {
        case 'commit':
          context.state.append('log', 'é😀'.repeat(300));
          context.state.set('last', context.turn);
          context.state.add('count', 1);
          return context.state.get('count');
        case 'read':
          return ['log', 'last', 'count'].map((key) => {
            const value = context.state.get(key);
            return Array.isArray(value) ? value.length : value;
          });
        case 'wait': {
          await context.step('reserve', {}, () => call('reserve'));
          const id = await context.act({ kind: 'mail', args: { to: 'ann' } });
          const [mail, said, paid] = await Promise.all([
            context.event({ type: 'act.result', correlation: id }),
            context.approval({ action: { ship: 7 }, expiresInMs: 30 * 86_400_000 }),
            context.event({ type: 'paid', correlation: 7, expiresInMs: 30 * 86_400_000 }),
          ]);
          const shipped = await call('ship');
          return { mail, decision: said.decision, paid, shipped };
        }
        case 'charge':
          return call('charge');
        case 'invoice':
          return call('invoice', 'invoice-1');
        case 'remember':
          return context.remember({ id: 'diet', purpose: 'care', content: { eats: 'no nuts' } });
        case 'recall':
          return (await context.recall({ purpose: 'care' })).map(({ content }) => content);
        case 'case':
          return context.case({ id: 'claim-1', status: 'open', state: { sum: 10 } });
        case 'case again':
          return context.case({ id: 'claim-1', status: 'closed' });
        default:
          throw new Error(`what: expected something known, got ${String(what)}`);
      }
    },
  });
}
