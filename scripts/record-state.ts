// Records the store a release keeps for ever: `node scripts/record-state.ts <release>`. Never overwrites.
//
// Threads at rest with a snapshot, a turn that waits for an act, a person and an event, a turn whose process died
// in its effect, a receipt, a fact about a person, a case, and an event nobody waited for.
import { existsSync, writeFileSync } from 'node:fs';
import { SqliteDriver } from '../src/adapters/sqlite/sqlite-driver.ts';
import { SqliteFile } from '../src/adapters/sqlite/sqlite-file.ts';
import type { Table } from '../src/adapters/table/driver.ts';
import { Names } from '../src/adapters/table/names.ts';
import { TableStore } from '../src/adapters/table/table-store.ts';
import { publishEvent } from '../src/runtime/events.ts';
import { withTurn } from '../src/runtime/with-turn.ts';
import type { Fault } from '../src/testing/process.ts';
import { World } from '../src/testing/world.ts';
import type { RecordedState } from '../test/replay/state.ts';
import { ann, refOf, secret, stateAgent, stateToText } from '../test/replay/state.ts';

const release = process.argv[2];
if (release === undefined || !/^\d+\.\d+\.\d+$/.test(release))
  throw new Error('expected a release, e.g. 0.1.0');
const path = new URL(`../test/replay/state/${release}.json`, import.meta.url);
if (existsSync(path)) throw new Error(`${release} is recorded already and is never edited`);

const retry = { sleep: async () => undefined, random: () => 0.5 };
const driver = new SqliteDriver(new SqliteFile({ kind: 'memory' }), retry);
const names = new Names({ secret: async () => secret });
const store = new TableStore({ driver, names, shards: 1, retry });
const keys: Record<string, string> = {};
const agent = stateAgent((kind, key) => {
  keys[kind] = key;
});
const world = new World({ store, agents: [agent] });

async function deliver(thread: string, turn: string, what: string, fault: Fault | null = null) {
  const started = world.start(fault);
  const request = {
    ref: refOf(thread, turn),
    agent,
    input: { what },
    subject: thread === 'remembered' ? ann : null,
    budget: null,
    actor: 'ann',
  };
  const answer = await world.settle(started, withTurn(started.runtime, request));
  if (answer !== 'died' && answer.kind === 'concluded' && answer.turn.status !== 'succeeded')
    throw new Error(`${thread}/${turn} is ${answer.turn.status}: ${answer.turn.error?.message}`);
  return {
    answer: answer === 'died' ? answer : answer.kind,
    names: started.names,
    fired: started.fired,
  };
}

for (const turn of ['t1', 't2', 't3', 't4']) await deliver('settled', turn, 'commit');
const waiting = await deliver('waiting', 't1', 'wait');
if (waiting.answer !== 'pending') throw new Error(`the turn does not wait: ${waiting.answer}`);
await deliver('keyed', 't1', 'invoice');
await deliver('remembered', 't1', 'remember');
await deliver('matter', 't1', 'case');
await deliver('died', 't0', 'charge');
const calls = await deliver('died', 't1', 'charge');
const call = calls.names.indexOf('store.conclude') + 1;
const died = await deliver('died', 't2', 'charge', { call, kind: 'lostBefore' });
if (died.fired !== 'store.conclude') throw new Error(`the process died at ${died.fired}`);
await publishEvent(world.start().runtime, {
  tenant: refOf('early', 'none').tenant,
  source: 'shop',
  id: 'early',
  type: 'paid',
  correlation: 8,
  data: { sum: 8 },
});

const rows: RecordedState['rows'][number][] = [];
for (const table of ['DATA', 'WORK', 'KEYS', 'LEDGER'] satisfies Table[]) {
  let after: string | null = null;
  do {
    const page = await driver.scan({ table }, after);
    rows.push(...page.rows.map(({ pk, sk, item }) => ({ table, pk, sk, item })));
    after = page.after;
  } while (after !== null);
}
writeFileSync(path, stateToText({ release, now: world.clock.now(), keys, rows }));
process.stdout.write(`${rows.length} rows\n`);
