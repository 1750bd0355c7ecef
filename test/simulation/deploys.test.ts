// What a deployment does to threads and turns that were there before it (state.md, the deploy part of field.md).
import { expect, test } from 'vitest';
import type { Position, TurnStore } from '../../src/ports/store.ts';
import { recordHash } from '../../src/protocol/chain.ts';
import { TurnstoneError } from '../../src/protocol/errors.ts';
import { subjectId } from '../../src/protocol/ids.ts';
import type { AgentOptions } from '../../src/runtime/agent-definition.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { handleInboxBatch } from '../../src/runtime/drive.ts';
import { reopenTurn } from '../../src/runtime/person-acts.ts';
import { eraseSubject } from '../../src/runtime/subjects.ts';
import { sweep } from '../../src/runtime/sweep.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const day = 86_400_000;
const renamed: Partial<AgentOptions> = {
  schema: 2,
  migrations: { 1: ({ n, ...rest }) => ({ ...rest, count: n }) },
};

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    (value) => value,
    (thrown: unknown) => thrown,
  );
  return error instanceof TurnstoneError ? error.code : `no TurnstoneError: ${String(error)}`;
}

/** Approves whatever waits. */
async function approve(scene: Scene): Promise<void> {
  const { runtime } = scene.world.start();
  const { tenant } = scene.ref();
  const page = { status: 'pending', limit: 10, cursor: null } as const;
  const { items } = await listApprovals(runtime, tenant, page);
  for (const { id, digest } of items) {
    await answerApproval(runtime, tenant, id, { decision: 'approve', digest, note: null }, 'bob');
  }
}

/** Hands the waiting inbox messages to a process of the build that is deployed. */
async function handled(scene: Scene, receives = 1): Promise<readonly unknown[]> {
  const process = scene.world.start();
  const batch = scene.world.queues.inbox
    .take()
    .map(({ body }, index) => ({ id: `${index}`, body, receives }));
  const outcomes = await scene.world.settle(process, handleInboxBatch(process.runtime, batch, {}));
  return outcomes === 'died' ? [] : [...outcomes.values()];
}

onEachStore(
  'T118 B-66 a failing turn leaves the state of the old revision as it is; the next commit writes the new one [T1]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async (context) => context.state.add('n', 2)),
    );
    await scene.conclude('t1');
    const before = await scene.world.store.thread(scene.ref());
    const seen: unknown[] = [];
    const next = (fails: boolean) =>
      agentOf(async (context) => {
        seen.push(context.state.get('count'));
        context.state.add('count', 1);
        if (fails) throw new Error('no');
        return context.state.get('count');
      }, renamed);
    scene.deploy(next(true));
    expect(await scene.conclude('t2')).toMatchObject({ status: 'failed' });
    expect((await scene.world.store.thread(scene.ref())).checkpoint).toEqual(before.checkpoint);
    scene.deploy(next(false));
    expect(await scene.conclude('t3')).toMatchObject({ status: 'succeeded', result: 3 });
    expect((await scene.world.store.thread(scene.ref())).checkpoint).toMatchObject({
      revision: 2,
      schema: 2,
    });
    expect(await scene.conclude('t4')).toMatchObject({ result: 4 });
    expect(seen).toEqual([2, 2, 3]);
  },
);

onEachStore(
  'a migration keeps every subject apart: erasing one takes what was made of that share, and nothing else [T12]',
  async (open) => {
    const write = agentOf(async (context, input) => {
      context.state.append('notes', input);
      context.state.add('n', 1);
    });
    const scene = new Scene(await open(), write);
    await scene.conclude('t1', { subject: subjectId('subject', 'ann'), input: 'of ann' });
    await scene.conclude('t2', { subject: subjectId('subject', 'ben'), input: 'of ben' });
    const read = agentOf(async ({ state }) => [state.get('texts'), state.get('count')], {
      schema: 2,
      migrations: {
        1: ({ notes, n }) => ({
          texts: (notes as string[] | undefined)?.map((text) => text.toUpperCase()),
          count: n,
        }),
      },
    });
    scene.deploy(read);
    expect(await scene.conclude('t3')).toMatchObject({ result: [['OF ANN', 'OF BEN'], 2] });
    const person = { tenant: scene.ref().tenant, subject: subjectId('subject', 'ann') };
    await eraseSubject(scene.process.runtime, person, 'eve');
    scene.restart();
    expect(await scene.conclude('t4')).toMatchObject({ result: [['OF BEN'], 1] });
  },
);

onEachStore(
  'decision 19 a waiting turn and a stranded one are held while an older build runs: nothing is written, then all goes on [T4]',
  async (open) => {
    const outside = new Outside();
    const run = async (context: TurnContext) => {
      if (context.turn === 'commit') return context.state.get('count');
      if (context.turn === 't1') await context.approval({ action: 'go', expiresInMs: 5 * day });
      await context.effect(outside.effect({ recovery: 'idempotent' }));
      context.state.add('count', 1);
      return 'done';
    };
    const old = agentOf(run);
    const next = agentOf(run, renamed);
    const scene = new Scene(await open(), old);
    await scene.conclude('commit');
    await scene.suspend('t1');
    scene.deploy(next);
    await scene.conclude('t0');
    scene.restart({ call: 4, kind: 'lostBefore' });
    await scene.deliver('t2');
    const at = async () => ({
      head: await scene.world.store.head(scene.ref()),
      t1: await scene.world.store.journal(scene.ref('t1')),
      t2: await scene.world.store.journal(scene.ref('t2')),
    });
    const open2 = (await at()).head?.open;
    expect(open2?.turn).toBe('t2');
    scene.deploy(old);
    await approve(scene);
    scene.world.clock.advance(60_000);
    const before = await at();
    expect(await handled(scene)).toMatchObject([{ kind: 'later', afterMs: 10_000 }]);
    expect(await codeOf(scene.deliver('t2'))).toBe('schema_from_future');
    await approve(scene);
    await scene.world.settle(scene.process, sweepOnce(scene));
    expect(await handled(scene, 9)).toMatchObject([
      { kind: 'later', afterMs: 2_560_000 },
      { kind: 'later', afterMs: 2_560_000 },
    ]);
    expect(await at()).toEqual(before);
    scene.deploy(next);
    scene.world.queues.inbox.forgetIds();
    await scene.passTime(20_000);
    await scene.passTime(20_000);
    expect(await scene.view('t2')).toMatchObject({ status: 'succeeded' });
    expect(await scene.view('t1')).toMatchObject({ status: 'succeeded' });
  },
);

async function sweepOnce(scene: Scene): Promise<void> {
  scene.world.queues.inbox.forgetIds();
  await sweep(scene.process.runtime);
}

/** A journal with one more record, as a newer build would have written it. */
function withFuture(store: TurnStore, turn: string): TurnStore {
  const more = (positions: readonly Position[]): readonly Position[] => {
    const last = positions.at(-1);
    const prev = last?.records.at(-1);
    if (last === undefined || prev === undefined) return positions;
    const seq = positions.reduce((sum, { records }) => sum + records.length, 0) + 1;
    const body = JSON.stringify({ ...JSON.parse(prev.body), k: 'DreamDreamt', q: seq, v: 1 });
    const record = { body, hash: recordHash(prev.hash, body) };
    return [...positions, { ...last, index: last.index + 1, records: [record] }];
  };
  return new Proxy(store, {
    get: (target, name) => {
      if (name !== 'journal') {
        const member: unknown = Reflect.get(target, name);
        return typeof member === 'function' ? member.bind(target) : member;
      }
      return async (...of: Parameters<TurnStore['journal']>) => {
        const positions = await target.journal(...of);
        return of[0].turn === turn ? more(positions) : positions;
      };
    },
  });
}

test('decision 19 a record of a newer build and a missing agent hold a turn: its message comes again, it is never parked', async () => {
  const store = memoryStore();
  const waiting = agentOf(async (context) => (await context.approval({ action: 1 })).decision);
  for (const kind of ['record', 'agent'] as const) {
    const turn = `t-${kind}`;
    const first = new Scene(store, waiting);
    await first.suspend(turn);
    const scene = new Scene(kind === 'record' ? withFuture(store, turn) : store, waiting);
    if (kind === 'agent') scene.deploy(agentOf(async () => 1, { name: 'another' }));
    await approve(scene);
    scene.world.clock.advance(1);
    const outcomes = await handled(scene, 19);
    expect(outcomes, kind).toMatchObject([{ kind: 'later' }]);
    const [row] = (await store.workOf(scene.ref())).filter(({ ref }) => ref.turn === turn);
    expect(row, kind).toMatchObject({ parkedReason: null, wakeAt: expect.any(Number) });
  }
});

test('T120 a revision without its step, or a step from nowhere, is refused where the agent is defined', () => {
  const step = (state: Readonly<Record<string, unknown>>) => ({ ...state });
  const bad: readonly [Partial<AgentOptions>, string][] = [
    [{ schema: 2 }, 'migrations.1: expected a step to revision 2, got none'],
    [{ schema: 4, migrations: { 1: step, 3: step } }, 'migrations.2'],
    [{ schema: 2, migrations: { 1: step, 2: step } }, 'migrations.2: expected steps from 1 to 1'],
    [{ schema: 0 }, 'schema: expected an integer of at least 1, got 0'],
  ];
  for (const [options, message] of bad) {
    expect(() => agentOf(async () => 1, options)).toThrow(message);
  }
  const chain = agentOf(async () => 1, { schema: 3, migrations: { 1: step, 2: step } });
  expect([...chain.migrations.keys()]).toEqual([1, 2]);
});

onEachStore(
  'a turn that waits two weeks goes on after three deployments of its code: once each, state migrated under it [T7 T10]',
  async (open) => {
    const outside = new Outside();
    const run =
      (build: number, key: string) =>
      async (context: TurnContext): Promise<unknown> => {
        if (context.turn !== 'long') return context.state.add(key, 10);
        await context.step('pay', {}, (step) =>
          step.effect(outside.effect({ recovery: 'idempotent' })),
        );
        const said = await context.approval({ action: { ship: 7 }, expiresInMs: 20 * day });
        await context.effect(outside.effect({ kind: 'ship', recovery: 'idempotent' }));
        context.state.add(key, 1);
        return [build, said.decision];
      };
    const scene = new Scene(
      await open(),
      agentOf(run(1, 'n'), { authority: 'pay', presentation: 'v1' }),
    );
    const first = scene.agent.authority;
    const wait = async (days: number): Promise<void> => {
      for (let n = 0; n < days; n += 1) await scene.passTime(day);
    };
    await scene.conclude('before');
    await scene.suspend('long');
    const rests = await scene.kinds('long');
    await wait(4);
    scene.deploy(agentOf(run(2, 'n'), { authority: 'pay', presentation: 'kinder words' }));
    await wait(4);
    scene.deploy(agentOf(run(3, 'count'), { authority: 'pay', ...renamed }));
    await scene.conclude('meanwhile');
    await wait(3);
    const wider = { authority: ['pay', 'ship'], accepts: [first], ...renamed };
    scene.deploy(agentOf(run(4, 'count'), wider));
    await wait(3);
    expect(await scene.kinds('long')).toEqual(rests);
    expect(outside.requests).toBe(1);
    await approve(scene);
    await scene.inbox();
    expect(await scene.view('long')).toMatchObject({
      status: 'succeeded',
      result: [4, 'approved'],
      revision: 3,
    });
    expect(outside.requests).toBe(2);
    expect(await scene.strict('long')).toMatchObject({ verdict: 'verified' });
    scene.deploy(agentOf(async (context) => context.state.get('count'), wider));
    expect(await scene.conclude('after')).toMatchObject({ result: 21 });
  },
);

onEachStore(
  'K-64 a waiting turn whose build changed its authority undeclared is quarantined untouched; accepted by the next build it goes on [T7]',
  async (open) => {
    const outside = new Outside();
    const run = async (context: TurnContext) => {
      const { decision } = await context.approval({ action: 1, expiresInMs: 20 * day });
      await context.effect(outside.effect({ recovery: 'idempotent' }));
      return decision;
    };
    const scene = new Scene(await open(), agentOf(run, { authority: 'a' }));
    const first = scene.agent.authority;
    await scene.suspend();
    scene.world.clock.advance(14 * day);
    scene.deploy(agentOf(run, { authority: 'b' }));
    await approve(scene);
    await scene.inbox();
    expect(await scene.view()).toMatchObject({
      status: 'quarantined',
      error: { code: 'fingerprint_mismatch' },
    });
    expect(outside.requests).toBe(0);
    scene.deploy(agentOf(run, { authority: 'b', accepts: [first] }));
    const { runtime } = scene.process;
    await scene.world.settle(
      scene.process,
      reopenTurn(runtime, scene.ref(), 'the new build accepts it', 'olga', {}),
    );
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'approved' });
    expect(outside.requests).toBe(1);
  },
);
