// What the saver promises beyond LangGraph's suite: size, cost, sealing, erasure, races; on each engine.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunnableConfig } from '@langchain/core/runnables';
import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
import { type Checkpoint, emptyCheckpoint, uuid6 } from '@langchain/langgraph-checkpoint';
import { expect, test } from 'vitest';
import type { RequestInfo } from '../../src/adapters/table/driver.ts';
import { openGraphSaver } from '../../src/local/open-graph-saver.ts';
import { tenantId, threadId } from '../../src/protocol/ids.ts';
import { MemoryVault } from '../../src/testing/memory-vault.ts';
import { skipLoudly } from '../stores.ts';
import { engines, type OpenGraphs, saverOf } from './graph-savers.ts';

function onEachEngine(title: string, body: (open: OpenGraphs) => Promise<void>): void {
  for (const { name, open } of engines) {
    if (typeof open === 'string')
      skipLoudly(`${title} (${name}): no emulator: ${open}`, () => undefined);
    else test(`${title} (${name})`, () => body(open));
  }
}

/** Requests since the last `take`, as `op` names. */
function counted(): { readonly on: (info: RequestInfo) => void; take(): readonly string[] } {
  let seen: string[] = [];
  return {
    on: ({ op }) => seen.push(op),
    take: () => {
      const taken = seen;
      seen = [];
      return taken;
    },
  };
}

const meta = { source: 'loop' as const, step: 0, parents: {} };
const root = (thread: string): RunnableConfig => ({
  configurable: { thread_id: thread, checkpoint_ns: '' },
});

function checkpointOf(
  values: Record<string, unknown>,
  versions: Record<string, number>,
): Checkpoint {
  return {
    ...emptyCheckpoint(),
    id: uuid6(0),
    channel_values: values,
    channel_versions: versions,
  };
}

const big = Array.from({ length: 20_000 }, (_, at) => `line ${at} of a long document, as it came`);

onEachEngine(
  'a state of more than 400 KB comes back, and is not stored again while it stands [T5]',
  async (open) => {
    const requests = counted();
    const saver = saverOf(await open(requests.on));
    const first = checkpointOf({ document: big, count: 1 }, { document: 1, count: 1 });
    expect(JSON.stringify(first).length).toBeGreaterThan(800_000);
    const one = await saver.put(root('big'), first, meta, { document: 1, count: 1 });
    requests.take();
    const second = checkpointOf({ document: big, count: 2 }, { document: 1, count: 2 });
    const two = await saver.put(one, second, meta, { count: 2 });
    expect(requests.take()).toEqual(['put']);
    expect((await saver.getTuple(two))?.checkpoint).toEqual(second);
    expect((await saver.getTuple(root('big')))?.checkpoint).toEqual(second);
    expect((await saver.getTuple(one))?.checkpoint).toEqual(first);
  },
);

onEachEngine(
  'a put is one request, the newest checkpoint with its writes another [T5]',
  async (open) => {
    const requests = counted();
    const saver = saverOf(await open(requests.on));
    const one = await saver.put(root('t'), checkpointOf({ a: 1 }, { a: 1 }), meta, { a: 1 });
    requests.take();
    const two = await saver.put(one, checkpointOf({ a: 2 }, { a: 2 }), meta, { a: 2 });
    expect(requests.take()).toEqual(['put']);
    await saver.putWrites(
      two,
      [
        ['a', 3],
        ['b', 4],
      ],
      'task',
      'path',
    );
    expect(requests.take()).toEqual(['put']);
    const tuple = await saver.getTuple(root('t'));
    expect(requests.take()).toEqual(['query']);
    expect(tuple?.pendingWrites).toEqual([
      ['task', 'a', 3],
      ['task', 'b', 4],
    ]);
  },
);

onEachEngine('another process reads what a parent holds once, then puts [T5]', async (open) => {
  const requests = counted();
  const store = await open(requests.on);
  const vault = new MemoryVault();
  const one = await saverOf(store, { vault }).put(
    root('t'),
    checkpointOf({ text: big }, { text: 1 }),
    meta,
    { text: 1 },
  );
  const other = saverOf(store, { vault });
  requests.take();
  const second = checkpointOf({ text: big, n: 1 }, { text: 1, n: 1 });
  const two = await other.put(one, second, meta, { n: 1 });
  expect(requests.take()).toEqual(['batchGet', 'batchGet', 'put']);
  expect((await other.getTuple(two))?.checkpoint).toEqual(second);
});

onEachEngine(
  'writes that are stored before their checkpoint do not hide the one before [T1]',
  async (open) => {
    const saver = saverOf(await open());
    const one = await saver.put(root('t'), checkpointOf({ a: 1 }, { a: 1 }), meta, { a: 1 });
    const next = checkpointOf({ a: 2 }, { a: 2 });
    const early = { configurable: { ...one.configurable, checkpoint_id: next.id } };
    await saver.putWrites(early, [['a', 9]], 'task');
    expect((await saver.getTuple(root('t')))?.config).toEqual(one);
    await saver.put(one, next, meta, { a: 2 });
    const newest = await saver.getTuple(root('t'));
    expect(newest?.config).toEqual(early);
    expect(newest?.pendingWrites).toEqual([['task', 'a', 9]]);
  },
);

onEachEngine('a repeated write keeps the first, an interrupt the last [T5]', async (open) => {
  const saver = saverOf(await open());
  const one = await saver.put(root('t'), checkpointOf({}, {}), meta, {});
  await saver.putWrites(one, [['a', 1]], 'task');
  await saver.putWrites(
    one,
    [
      ['a', 2],
      ['b', 3],
    ],
    'task',
  );
  await saver.putWrites(one, [['__interrupt__', 'first']], 'task');
  await saver.putWrites(one, [['__interrupt__', 'second']], 'task');
  expect((await saver.getTuple(one))?.pendingWrites).toEqual([
    ['task', '__interrupt__', 'second'],
    ['task', 'a', 1],
    ['task', 'b', 3],
  ]);
});

onEachEngine('a history of more than one page lists whole, newest first [T13]', async (open) => {
  const saver = saverOf(await open());
  let config = root('long');
  const ids: string[] = [];
  for (let at = 0; at < 30; at += 1) {
    const checkpoint = checkpointOf({ at }, { at });
    config = await saver.put(config, checkpoint, meta, { at });
    await saver.putWrites(config, [['at', at]], `task-${at % 3}`);
    ids.unshift(checkpoint.id);
  }
  const seen: unknown[] = [];
  for await (const { checkpoint, pendingWrites } of saver.list(root('long'))) {
    seen.push([checkpoint.id, pendingWrites?.length]);
  }
  expect(seen).toEqual(ids.map((id) => [id, 1]));
});

onEachEngine('a deleted thread leaves no row and no part behind [T12]', async (open) => {
  const store = await open();
  const saver = saverOf(store);
  const put = await saver.put(root('gone'), checkpointOf({ big }, { big: 1 }), meta, { big: 1 });
  await saver.putWrites(put, [['big', big]], 'task');
  const kept = await saver.put(root('kept'), checkpointOf({ big }, { big: 1 }), meta, { big: 1 });
  const place = { tenant: tenantId('tenant', 'acme'), thread: threadId('thread', 'gone') };
  const found = await store.graphs.tuple({ ...place, namespace: '' }, null);
  const payloads = [
    ...(found?.checkpoint.values.map(({ payload }) => payload) ?? []),
    ...(found?.writes.map(({ payload }) => payload) ?? []),
  ];
  expect(payloads.map(({ kind }) => kind)).toEqual(['parts', 'parts']);
  await saver.deleteThread('gone');
  expect(await saver.getTuple(root('gone'))).toBeUndefined();
  expect(await store.graphs.threads(place.tenant)).toEqual(['kept']);
  for (const payload of payloads) {
    if (payload.kind !== 'parts') throw new Error('expected parts');
    await expect(store.getParts(place.tenant, payload)).rejects.toMatchObject({
      code: 'payload_missing',
    });
  }
  expect((await saver.getTuple(kept))?.checkpoint.channel_values).toEqual({ big });
});

onEachEngine('nothing of a state or a write is stored in clear [T12]', async (open) => {
  const store = await open();
  const saver = saverOf(store);
  const put = await saver.put(
    root('t'),
    checkpointOf({ note: 'a plain secret' }, { note: 1 }),
    meta,
    { note: 1 },
  );
  await saver.putWrites(put, [['note', 'a plain secret']], 'task');
  const place = { tenant: tenantId('tenant', 'acme'), thread: threadId('thread', 't') };
  const found = await store.graphs.tuple({ ...place, namespace: '' }, null);
  const bytes = [found?.checkpoint.head, found?.checkpoint.metadata, found?.writes[0]?.payload].map(
    (payload) => (payload?.kind === 'inline' ? Buffer.from(payload.bytes).toString('latin1') : ''),
  );
  for (const text of bytes) {
    expect(text.length).toBeGreaterThan(30);
    expect(text).not.toContain('secret');
    expect(text).not.toContain('loop');
  }
});

onEachEngine('an erased person’s graphs cannot be read or written [T12]', async (open) => {
  const store = await open();
  const vault = new MemoryVault();
  const saver = saverOf(store, { vault, subject: 'ann' });
  const others = saverOf(store, { vault });
  const put = await saver.put(root('t'), checkpointOf({ a: 1 }, { a: 1 }), meta, { a: 1 });
  await others.put(root('u'), checkpointOf({ a: 1 }, { a: 1 }), meta, { a: 1 });
  const tenant = tenantId('tenant', 'acme');
  const scope = await store.subjectScope(tenant, 'ann');
  const row = await store.key(tenant, scope);
  if (row === null) throw new Error('expected a key row');
  const erased = { ...row, state: 'erased', lifecycle: 1, wrapped: null } as const;
  expect(await store.changeKey(tenant, row, erased)).toEqual({ kind: 'done' });
  await expect(saver.getTuple(put)).rejects.toMatchObject({ code: 'subject_erased' });
  const next = checkpointOf({ a: 2 }, { a: 2 });
  await expect(saver.put(put, next, meta, { a: 2 })).rejects.toMatchObject({
    code: 'subject_erased',
  });
  expect((await others.getTuple(root('u')))?.checkpoint.channel_values).toEqual({ a: 1 });
  await saver.deleteThread('t');
  expect(await saver.getTuple(root('t'))).toBeUndefined();
});

onEachEngine('a row moved to another thread does not open [T12]', async (open) => {
  const store = await open();
  const saver = saverOf(store);
  await saver.put(root('t'), checkpointOf({ a: 1 }, { a: 1 }), meta, { a: 1 });
  const tenant = tenantId('tenant', 'acme');
  const from = { tenant, thread: threadId('thread', 't'), namespace: '' };
  const found = await store.graphs.tuple(from, null);
  if (found === null) throw new Error('expected a checkpoint');
  const to = { ...from, thread: threadId('thread', 'moved') };
  await store.graphs.putCheckpoint(to, found.checkpoint);
  await expect(saver.getTuple(root('moved'))).rejects.toThrow();
});

onEachEngine('a graph goes on in another process from what the saver kept [T13]', async (open) => {
  const store = await open();
  const vault = new MemoryVault();
  const State = Annotation.Root({
    lines: Annotation<string[]>({
      reducer: (left, right) => [...left, ...right],
      default: () => [],
    }),
  });
  const graph = new StateGraph(State)
    .addNode('read', () => ({ lines: ['read'] }))
    .addNode('write', () => ({ lines: ['written'] }))
    .addEdge(START, 'read')
    .addEdge('read', 'write')
    .addEdge('write', END);
  const config = { configurable: { thread_id: 'graph' } };
  const run = (line: string) =>
    graph.compile({ checkpointer: saverOf(store, { vault }) }).invoke({ lines: [line] }, config);
  expect(await run('one')).toEqual({ lines: ['one', 'read', 'written'] });
  expect(await run('two')).toEqual({
    lines: ['one', 'read', 'written', 'two', 'read', 'written'],
  });
});

test.each([
  ['thread_id', { thread_id: 'no spaces' }, 'configurable.thread_id'],
  ['checkpoint_id', { thread_id: 't', checkpoint_id: 'a:b' }, 'configurable.checkpoint_id'],
  ['checkpoint_ns', { thread_id: 't', checkpoint_ns: 7 }, 'configurable.checkpoint_ns'],
])('a %s that cannot be is refused by name [T11]', async (_field, configurable, named) => {
  const [first] = engines;
  if (first === undefined || typeof first.open === 'string') throw new Error('no engine');
  const saver = saverOf(await first.open());
  await expect(saver.getTuple({ configurable })).rejects.toThrow(named);
});

test('a saver over a data folder finds what another one kept there [T13]', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'turnstone-graph-'));
  try {
    const one = openGraphSaver(folder, { tenant: 'acme' });
    const put = await one.saver.put(root('t'), checkpointOf({ a: 1 }, { a: 1 }), meta, { a: 1 });
    await one.close();
    const two = openGraphSaver(folder, { tenant: 'acme' });
    expect((await two.saver.getTuple(put))?.checkpoint.channel_values).toEqual({ a: 1 });
    await two.close();
  } finally {
    rmSync(folder, { recursive: true });
  }
});
