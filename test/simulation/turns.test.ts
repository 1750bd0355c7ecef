// The turn boundary: identity, replay, order, atomicity (cases of turns.md and the duplicate reports).
import { expect } from 'vitest';
import { TurnstoneError } from '../../src/protocol/errors.ts';
import { acceptTurn } from '../../src/runtime/accept-turn.ts';
import { handleInboxBatch } from '../../src/runtime/drive.ts';
import { readTurn } from '../../src/runtime/read-turn.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  return error instanceof TurnstoneError ? error.code : `no TurnstoneError: ${String(error)}`;
}

onEachStore(
  'T1 a first turn commits revision 1, its result, an event, and releases the lease [T1]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        context.state.set('seen', 1);
        return { ok: true };
      }),
    );
    const turn = await scene.conclude();
    expect(turn).toMatchObject({
      status: 'succeeded',
      revision: 1,
      result: { ok: true },
      replayed: false,
    });
    expect(scene.world.queues.events.accepted).toHaveLength(1);
    const head = await scene.world.store.head(scene.ref());
    expect(head).toMatchObject({ open: null, revision: 1 });
  },
);

onEachStore(
  'T2 a resent turnId is answered the same, marked replayed, and nothing runs again [T2]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) => context.effect(outside.effect())),
    );
    const first = await scene.conclude();
    expect(first.error).toBeUndefined();
    const requests: string[] = [];
    const process = scene.restart();
    const again = await scene.conclude();
    requests.push(...process.names);
    expect(again).toEqual({ ...first, replayed: true });
    expect(outside.requests).toBe(1);
    expect(scene.world.queues.events.accepted).toHaveLength(1);
    expect(requests).toEqual(['store.begin']);
  },
);

onEachStore(
  'T4 two turns of a thread are ordered and the second sees the state of the first [T3]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async (context, input) => {
        context.state.append('turns', input);
        await context.effect({ kind: 'look', args: null, mutates: false, perform: async () => 1 });
        return context.state.get('turns');
      }),
    );
    const [left, right] = [scene.world.start(), scene.world.start()];
    const ask = (process: typeof left, turn: string) =>
      withTurn(process.runtime, scene.request(turn, { input: turn }));
    const answers = await scene.world.settle(left, Promise.all([ask(left, 'a'), ask(right, 'b')]));
    if (answers === 'died') throw new Error('died');
    const kinds = answers.map((answer) => answer.kind);
    const late = kinds[0] === 'busy' ? 'a' : 'b';
    if (kinds.includes('busy')) await scene.conclude(late, { input: late });
    const revisions = await Promise.all(
      ['a', 'b'].map(async (turn) => (await scene.conclude(turn, { input: turn })).revision),
    );
    expect([...revisions].sort()).toEqual([1, 2]);
    const second = await scene.conclude(revisions[0] === 2 ? 'a' : 'b', {
      input: revisions[0] === 2 ? 'a' : 'b',
    });
    expect(second.result).toHaveLength(2);
  },
);

onEachStore('T5 two threads are inside their turns at the same time [T3]', async (open) => {
  let inside = 0;
  let most = 0;
  const both = Promise.withResolvers<void>();
  const scene = new Scene(
    await open(),
    agentOf((context) =>
      context.effect({
        kind: 'meet',
        args: null,
        perform: async () => {
          inside += 1;
          most = Math.max(most, inside);
          if (inside === 2) both.resolve();
          await both.promise;
          inside -= 1;
          return null;
        },
      }),
    ),
  );
  const at = (thread: string) =>
    withTurn(scene.process.runtime, scene.request('t1', { ref: scene.ref('t1', thread) }));
  await scene.world.settle(scene.process, Promise.all([at('left'), at('right')]));
  expect(most).toBe(2);
});

onEachStore(
  'T6 E222 one turnId delivered to two workers at once runs once; the other gets the replay [T2]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) => context.effect(outside.effect())),
    );
    const [left, right] = [scene.world.start(), scene.world.start()];
    const answers = await scene.world.settle(
      left,
      Promise.all([
        withTurn(left.runtime, scene.request()),
        withTurn(right.runtime, scene.request()),
      ]),
    );
    if (answers === 'died') throw new Error('died');
    expect(answers.some((answer) => answer.kind === 'concluded')).toBe(true);
    expect(outside.requests).toBe(1);
    expect((await scene.conclude()).replayed).toBe(true);
    expect((await scene.kinds()).filter((kind) => kind === 'RunAdmitted')).toHaveLength(1);
  },
);

onEachStore(
  'T9 a turn whose code throws concludes failed: no revision, empty outbox, and answers that again (decision 24) [T1]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        context.state.set('half', true);
        throw new Error('planning went wrong');
      }),
    );
    const turn = await scene.conclude();
    expect(turn).toMatchObject({
      status: 'failed',
      revision: 0,
      error: { code: 'agent_failed', message: 'planning went wrong' },
    });
    expect(scene.world.queues.events.accepted).toHaveLength(0);
    expect(await scene.world.store.head(scene.ref())).toMatchObject({ revision: 0, open: null });
    expect((await scene.conclude()).replayed).toBe(true);
  },
);

onEachStore(
  'T10 F5 a holder that pauses past its lease changes nothing after another has taken over [T4]',
  async (open) => {
    const gate = Promise.withResolvers<void>();
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.effect(
          outside.effect({
            recovery: 'idempotent',
            perform: async () => {
              outside.requests += 1;
              if (outside.requests === 1) await gate.promise;
              return outside.requests;
            },
            timeoutMs: 900_000,
          }),
        ),
      ),
      { renew: false, turnTimeoutMs: 900_000 },
    );
    const frozen = withTurn(scene.process.runtime, scene.request());
    while (outside.requests === 0) await new Promise(setImmediate);
    scene.world.clock.advance(scene.world.settings.leaseMs * 2);
    const other = scene.world.start();
    const taken = await scene.world.settle(other, withTurn(other.runtime, scene.request()));
    expect(taken).toMatchObject({ kind: 'concluded', turn: { status: 'succeeded', result: 2 } });
    const before = await scene.kinds();
    gate.resolve();
    const woken = await scene.world.settle(scene.process, frozen);
    expect(woken).toMatchObject({ kind: 'concluded', replayed: true, turn: { result: 2 } });
    expect(await scene.kinds()).toEqual(before);
    expect(await scene.world.store.head(scene.ref())).toMatchObject({ revision: 1 });
  },
);

onEachStore(
  'T12 F13 the same turnId with another payload is refused and changes nothing [T2]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) => context.effect(outside.effect())),
    );
    const first = await scene.conclude();
    for (const changes of [{ input: { order: 8 } }, { budget: { effects: 3 } }]) {
      expect(await codeOf(scene.deliver('t1', changes))).toBe('turn_payload_changed');
    }
    expect(await scene.conclude()).toEqual({ ...first, replayed: true });
    expect(outside.requests).toBe(1);
  },
);

onEachStore(
  'T14 K-15 a stored result that is not one fails closed and never runs again [T2]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) => context.effect(outside.effect())),
    );
    await scene.conclude();
    const { store } = scene.world;
    const begin = store.begin.bind(store);
    store.begin = async (ref, subject) => {
      const begun = await begin(ref, subject);
      if (begun.end === null || begun.end.view.kind !== 'inline') return begun;
      const bytes = Uint8Array.from(begun.end.view.bytes);
      bytes[20] = (bytes[20] ?? 0) ^ 1;
      return { ...begun, end: { ...begun.end, view: { kind: 'inline', bytes } } };
    };
    expect(await codeOf(scene.deliver())).toBe('invalid_durable_turn_result');
    expect(outside.requests).toBe(1);
  },
);

onEachStore(
  'T16 a live sink that always throws never decides: the turn commits [T1]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async () => 1),
    );
    const { runtime } = scene.process;
    const loud = {
      ...runtime,
      telemetry: {
        emit: () => {
          throw new Error('sink down');
        },
      },
    };
    const answer = await scene.world.settle(scene.process, withTurn(loud, scene.request()));
    expect(answer).toMatchObject({ kind: 'concluded', turn: { status: 'succeeded' } });
    expect(scene.world.queues.events.accepted).toHaveLength(1);
  },
);

onEachStore(
  'T17 a consumer of the outbox alone sees a final committed record, by reference only [T1]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async () => ({ secret: 'ann@example.org' })),
    );
    await scene.conclude();
    const [message] = scene.world.queues.events.accepted;
    expect(JSON.parse(message?.body ?? '{}')).toMatchObject({
      type: 'turn.committed',
      turnId: 't1',
      revision: 1,
      sequence: 1,
    });
    expect(message?.body).not.toContain('ann@example.org');
  },
);

onEachStore(
  'T18 a queue message delivered again after the dedup window is a replay [T2]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) => context.effect(outside.effect())),
    );
    const { runtime } = scene.process;
    const accepted = await scene.world.settle(scene.process, acceptTurn(runtime, scene.request()));
    expect(accepted).toMatchObject({ kind: 'pending', turn: { status: 'running' } });
    const [message] = scene.world.queues.inbox.take();
    const batch = [{ id: 'm', body: message?.body ?? '', receives: 1 }];
    const once = await scene.world.settle(scene.process, handleInboxBatch(runtime, batch, {}));
    scene.world.clock.advance(360_000);
    const twice = await scene.world.settle(scene.process, handleInboxBatch(runtime, batch, {}));
    for (const outcome of [once, twice])
      expect(outcome === 'died' ? null : outcome.get('m')).toEqual({ kind: 'done' });
    expect(outside.requests).toBe(1);
    expect(await readTurn(runtime, scene.ref())).toMatchObject({
      status: 'succeeded',
      revision: 1,
    });
    expect((await scene.kinds()).filter((kind) => kind === 'RunAdmitted')).toHaveLength(1);
  },
);

onEachStore(
  'ruling 12: another payload under an accepted turnId is refused before it ran [T2]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async () => 1),
    );
    const { runtime } = scene.process;
    await scene.world.settle(scene.process, acceptTurn(runtime, scene.request()));
    expect(await codeOf(acceptTurn(runtime, scene.request('t1', { input: 2 })))).toBe(
      'turn_payload_changed',
    );
    expect(await codeOf(scene.deliver('t1', { input: 2 }))).toBe('turn_payload_changed');
  },
);

onEachStore(
  'T80 a turn that makes no progress for its whole limit fails with turn_timeout; the next goes on at the same revision [T11]',
  async (open) => {
    let hang = true;
    const scene = new Scene(
      await open(),
      agentOf(async () => {
        if (hang) await new Promise(() => undefined);
        return 'went on';
      }),
    );
    const turn = await scene.conclude();
    expect(turn).toMatchObject({ status: 'failed', error: { code: 'turn_timeout' }, revision: 0 });
    hang = false;
    expect(await scene.conclude('t2')).toMatchObject({ status: 'succeeded', revision: 1 });
  },
);

onEachStore(
  'K-63 K-64 only another authority refuses; a compatibility entry lets it go on',
  async (open) => {
    const run = async (): Promise<string> => 'ok';
    const scene = new Scene(
      await open(),
      agentOf(run, { authority: 'v1', presentation: 'polite' }),
    );
    await scene.conclude('t1');
    const first = scene.agent.authority;
    scene.deploy(agentOf(run, { authority: 'v1', presentation: 'terse' }));
    await scene.conclude('t2');
    scene.deploy(agentOf(run, { authority: 'v2' }));
    expect(await codeOf(scene.deliver('t3'))).toBe('fingerprint_mismatch');
    expect(
      (await codeOf(scene.deliver('t1'))).startsWith('no TurnstoneError'),
      'K-03: a replay is answered first',
    ).toBe(true);
    scene.deploy(agentOf(run, { authority: 'v2', accepts: [first] }));
    expect(await scene.conclude('t3')).toMatchObject({ status: 'succeeded', revision: 3 });
  },
);

onEachStore(
  'K-65 a checkpoint newer than the code is held untouched; an older one is migrated by the next commit',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async (context) => context.state.set('n', 1)),
    );
    await scene.conclude('t1');
    const read = agentOf(async (context) => context.state.get('count'), {
      schema: 2,
      migrations: { 1: ({ n }) => ({ count: n }) },
    });
    scene.deploy({ ...read, authority: scene.agent.authority });
    expect(await scene.conclude('t2')).toMatchObject({ result: 1 });
    scene.deploy(agentOf(async () => 1));
    expect(await codeOf(scene.deliver('t3'))).toBe('schema_from_future');
    expect(await scene.world.store.head(scene.ref())).toMatchObject({ revision: 2, schema: 2 });
  },
);

onEachStore(
  'ruling 10: a thread belongs to the agent of its first committed turn',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async () => 1),
    );
    await scene.conclude('t1');
    scene.deploy(agentOf(async () => 1, { name: 'other' }));
    expect(await codeOf(scene.deliver('t2'))).toBe('agent_mismatch');
  },
);

onEachStore(
  'F25 a batch whose first message of a thread waits holds back that thread only [T3]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) => context.effect(outside.effect())),
      { renew: false },
    );
    const gate = Promise.withResolvers<void>();
    const holder = scene.world.start();
    const blocking = {
      ...scene.agent,
      run: (context: Parameters<typeof scene.agent.run>[0]) =>
        context.effect({
          kind: 'hold',
          args: null,
          perform: () => gate.promise,
          timeoutMs: 900_000,
        }),
    };
    void withTurn(holder.runtime, scene.request('held', { agent: blocking }));
    while ((await scene.world.store.head(scene.ref()))?.open == null)
      await new Promise(setImmediate);
    const { runtime } = scene.process;
    const a1 = scene.request('a1');
    const b1 = scene.request('b1', { ref: scene.ref('b1', 'other') });
    for (const request of [a1, scene.request('a2'), b1]) await acceptTurn(runtime, request);
    const bodies = scene.world.queues.inbox.take().map((message) => message.body);
    const batch = bodies.map((body, index) => ({ id: `m${index}`, body, receives: 1 }));
    const outcomes = await scene.world.settle(scene.process, handleInboxBatch(runtime, batch, {}));
    if (outcomes === 'died') throw new Error('died');
    expect([...outcomes].sort().map(([, outcome]) => outcome.kind)).toEqual([
      'later',
      'later',
      'done',
    ]);
    expect(outside.requests).toBe(1);
    gate.resolve();
  },
);
