// Stores of every release are taken up by every later build: nothing is lost, nothing happens twice.
import { readdirSync, readFileSync } from 'node:fs';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { expect, inject, test } from 'vitest';
import { createTables } from '../../src/adapters/dynamodb/create-tables.ts';
import { DynamoDriver } from '../../src/adapters/dynamodb/dynamo-driver.ts';
import { SqliteDriver } from '../../src/adapters/sqlite/sqlite-driver.ts';
import { SqliteFile } from '../../src/adapters/sqlite/sqlite-file.ts';
import type { TableDriver } from '../../src/adapters/table/driver.ts';
import { Names } from '../../src/adapters/table/names.ts';
import { TableStore } from '../../src/adapters/table/table-store.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { publishEvent } from '../../src/runtime/events.ts';
import { readJournal } from '../../src/runtime/read-turn.ts';
import { verifyTurn } from '../../src/runtime/verify-turn.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import { TurnedClock } from '../../src/testing/turned-clock.ts';
import { World } from '../../src/testing/world.ts';
import { ann, refOf, restore, secret, stateAgent, stateFromText } from '../replay/state.ts';
import { skipLoudly, tools } from '../stores.ts';

const folder = new URL('../replay/state/', import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith('.json'));

async function sqlite(): Promise<TableDriver> {
  return new SqliteDriver(new SqliteFile({ kind: 'memory' }), tools);
}

async function dynamo(url: string): Promise<TableDriver> {
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const client = new DynamoDBClient({ endpoint: url, region: 'us-east-1', credentials });
  const id = `golden-${process.pid}-${Math.trunc(Math.random() * 1e9)}`;
  const tables = { DATA: `${id}-d`, WORK: `${id}-w`, KEYS: `${id}-k`, LEDGER: `${id}-l` };
  await createTables(client, tables);
  return new DynamoDriver(client, tables, tools);
}

test('there is a recorded store', () => {
  expect(files.length).toBeGreaterThan(0);
});

async function takesUp(name: string, driver: TableDriver): Promise<void> {
  const state = stateFromText(readFileSync(new URL(name, folder), 'utf8'));
  await restore(driver, state);
  const names = new Names({ secret: async () => secret });
  const store = new TableStore({ driver, names, shards: 1, retry: tools });
  const seen: [string, string][] = [];
  const agent = stateAgent((kind, key) => seen.push([kind, key]));
  const clock = new TurnedClock(state.now + 14 * 86_400_000);
  const world = new World({ store, agents: [agent], clock });
  const deliver = async (thread: string, turn: string, what: string) => {
    const process = world.start();
    const request = {
      ref: refOf(thread, turn),
      agent,
      input: { what },
      subject: thread === 'remembered' ? ann : null,
    };
    return world.settle(
      process,
      withTurn(process.runtime, { ...request, budget: null, actor: 'ann' }),
    );
  };
  const concluded = (result: unknown, replayed = false) => ({
    kind: 'concluded',
    replayed,
    turn: { status: 'succeeded', result },
  });

  expect(await deliver('settled', 't2', 'commit')).toMatchObject(concluded(2, true));
  expect(await deliver('settled', 'new', 'read')).toMatchObject(concluded([4, 't4', 4]));
  expect(await deliver('keyed', 'new', 'invoice')).toMatchObject(concluded({ invoice: 1 }));
  expect(await deliver('remembered', 'new', 'recall')).toMatchObject(
    concluded([{ eats: 'no nuts' }]),
  );
  expect(await deliver('matter', 'new', 'case again')).toMatchObject(
    concluded({ version: 2, status: 'closed' }),
  );
  expect(seen).toEqual([]);

  const { runtime } = world.start();
  const { tenant } = refOf('waiting', 't1');
  const page = { status: 'pending', limit: 10, cursor: null } as const;
  const [asked] = (await listApprovals(runtime, tenant, page)).items;
  expect(asked).toMatchObject({ threadId: 'waiting', action: { ship: 7 }, requestedBy: 'ann' });
  const decision = { decision: 'approve', digest: asked?.digest ?? '', note: null } as const;
  await answerApproval(runtime, tenant, asked?.id ?? '', decision, 'bob');
  await publishEvent(runtime, {
    tenant,
    source: 'shop',
    id: 'p1',
    type: 'paid',
    correlation: 7,
    data: { sum: 7 },
  });
  await world.recover();
  expect(await deliver('waiting', 't1', 'wait')).toMatchObject(
    concluded(
      {
        mail: { kind: 'expired' },
        decision: 'approved',
        paid: { kind: 'event', data: { sum: 7 } },
        shipped: { ship: 1 },
      },
      true,
    ),
  );
  expect(await deliver('died', 't2', 'charge')).toMatchObject(concluded({ charge: 1 }, true));
  expect(seen.map(([kind]) => kind).sort()).toEqual(['charge', 'ship']);
  expect(await store.owedIntents(clock.now(), 10)).toEqual([]);
  expect(seen.find(([kind]) => kind === 'charge')?.[1]).toBe(state.keys.charge);

  for (const [thread, turn] of [
    ['settled', 't4'],
    ['waiting', 't1'],
    ['died', 't2'],
    ['keyed', 't1'],
  ] as const) {
    const ref = refOf(thread, turn);
    expect(await readJournal(runtime, ref, { after: 0, limit: 1_000 })).toMatchObject({
      verified: true,
    });
    expect(await verifyTurn(runtime, ref), thread).toMatchObject({ verdict: 'verified' });
  }
  await store.close();
}

test.each(files)(
  'the store of %s is taken up after two weeks: every thread, wait, act, receipt and fact [T1 T2 T7 T10] (sqlite)',
  async (name) => takesUp(name, await sqlite()),
);

const endpoint = inject('dynamodb').ministack;
if ('url' in endpoint) {
  test.each(files)(
    'the store of %s is taken up after two weeks: every thread, wait, act, receipt and fact [T1 T2 T7 T10] (dynamodb)',
    async (name) => takesUp(name, await dynamo(endpoint.url)),
  );
} else skipLoudly(`golden store: no emulator: ${endpoint.unavailable}`, () => undefined);
