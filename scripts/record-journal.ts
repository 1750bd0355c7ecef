// Records the journal a release keeps for ever: `node scripts/record-journal.ts <release>`. Never overwrites.
import { existsSync, writeFileSync } from 'node:fs';
import { openSqliteStore } from '../src/adapters/sqlite/open-sqlite-store.ts';
import { tenantId, threadId, turnId } from '../src/protocol/ids.ts';
import { withTurn } from '../src/runtime/with-turn.ts';
import { MemoryVault } from '../src/testing/memory-vault.ts';
import { World } from '../src/testing/world.ts';
import { recordedAgent, toText } from '../test/replay/recorded.ts';

const release = process.argv[2];
if (release === undefined || !/^\d+\.\d+\.\d+$/.test(release))
  throw new Error('expected a release, e.g. 0.1.0');
const path = new URL(`../test/replay/journals/${release}.json`, import.meta.url);
if (existsSync(path)) throw new Error(`${release} is recorded already and is never edited`);

const agent = recordedAgent();
const store = openSqliteStore({
  path: ':memory:',
  names: { secret: async () => new Uint8Array(32) },
  sleep: async () => undefined,
  random: () => 0.5,
});
const world = new World({ store, agents: [agent], vault: new MemoryVault() });
const ref = {
  tenant: tenantId('tenant', 'acme'),
  thread: threadId('thread', 'golden'),
  turn: turnId('turn', 't1'),
};
const process1 = world.start();
const request = {
  ref,
  agent,
  input: { order: 7, note: 'é😀' },
  subject: null,
  budget: null,
  actor: 'ann',
};
const answer = await world.settle(process1, withTurn(process1.runtime, request));
if (answer === 'died' || answer.kind !== 'concluded') throw new Error('the turn did not conclude');
const begun = await store.begin(ref, null);
if (begun.key === null) throw new Error('the turn has no key');
const positions = await store.journal(ref);
writeFileSync(
  path,
  toText({ release, ref, key: begun.key, positions, head: begun.head, end: begun.end }),
);
