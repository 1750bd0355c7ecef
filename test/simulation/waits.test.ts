// Approvals, events and timers (waits.md, the wake part of leases.md, the approvals part of field.md).
import { expect } from 'vitest';
import { TurnstoneError } from '../../src/protocol/errors.ts';
import type { ApprovalAnswer } from '../../src/runtime/answer-approval.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { publishEvent } from '../../src/runtime/events.ts';
import { sweep } from '../../src/runtime/sweep.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const hour = 3_600_000;

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    (value) => value,
    (thrown: unknown) => thrown,
  );
  return error instanceof TurnstoneError ? error.code : JSON.stringify(error);
}

async function answer(
  scene: Scene,
  id: string,
  given: Partial<ApprovalAnswer> & { actor?: string } = {},
): Promise<unknown> {
  const { runtime } = scene.world.start();
  const { tenant } = scene.ref();
  const { items } = await listApprovals(runtime, tenant, {
    status: 'all',
    limit: 100,
    cursor: null,
  });
  const digest = given.digest ?? items.find((item) => item.id === id)?.digest ?? '';
  const decision = given.decision ?? 'approve';
  const note = given.note ?? null;
  return answerApproval(runtime, tenant, id, { decision, digest, note }, given.actor ?? 'bob');
}

const event = (scene: Scene, id: string, correlation: unknown, data: unknown = id) =>
  publishEvent(scene.world.start().runtime, {
    tenant: scene.ref().tenant,
    source: 'shop',
    id,
    type: 'paid',
    correlation,
    data,
  });

/** Charges, asks, and mails once it was allowed. */
const asking = (outside: Outside) => async (context: TurnContext) => {
  await context.effect(outside.effect({ recovery: 'idempotent' }));
  const said = await context.approval({ action: { pay: 10 }, expiresInMs: hour });
  if (said.decision !== 'approved') return said.decision;
  await context.effect(outside.effect({ kind: 'mail', recovery: 'idempotent' }));
  return [said.decision, said.by, said.note];
};

onEachStore(
  'T105 an approval resumes the turn with it; a denial resumes it with a denial [T7 T10]',
  async (open) => {
    for (const decision of ['approve', 'deny'] as const) {
      const outside = new Outside();
      const scene = new Scene(await open(), agentOf(asking(outside)));
      const turn = await scene.suspend();
      expect(turn.waits).toMatchObject([{ kind: 'approval', summary: '{"pay":10}' }]);
      expect(outside.requests).toBe(1);
      expect(await scene.kinds()).toEqual([
        'RunAdmitted',
        'ES(a1)',
        'ED',
        'ES(a1)',
        'RunSuspended',
      ]);
      await answer(scene, turn.waits[0]?.id ?? '', { decision, note: 'seen' });
      await scene.inbox();
      const view = await scene.view();
      expect(view).toMatchObject({ status: 'succeeded', revision: 1 });
      expect(view.result).toEqual(decision === 'approve' ? ['approved', 'bob', 'seen'] : 'denied');
      expect(outside.requests).toBe(decision === 'approve' ? 2 : 1);
      expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
      const keys = (await scene.journal()).flatMap((body) =>
        body.kind === 'EffectDone' ? [body.key] : [],
      );
      expect(new Set(keys).size).toBe(keys.length);
      expect((await scene.conclude()).replayed).toBe(true);
    }
  },
);

onEachStore(
  'F17 T117 the first decision wins; a repeat is answered the same, another is refused with it [T10]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(await open(), agentOf(asking(outside)));
    const id = (await scene.suspend()).waits[0]?.id ?? '';
    expect(await codeOf(answer(scene, id, { digest: 'another' }))).toBe('digest_mismatch');
    expect(await codeOf(answer(scene, id, { actor: 'ann' }))).toBe('four_eyes');
    expect(await codeOf(answer(scene, 'nobody'))).toBe('not_found');
    const both = await Promise.all([
      codeOf(answer(scene, id, { actor: 'bob' })),
      codeOf(answer(scene, id, { actor: 'carl', decision: 'deny' })),
    ]);
    expect(both.filter((code) => code === 'already_decided')).toHaveLength(1);
    const [item] = (
      await listApprovals(scene.process.runtime, scene.ref().tenant, {
        status: 'all',
        limit: 10,
        cursor: null,
      })
    ).items;
    const won = item?.decision?.decision ?? 'deny';
    expect(await answer(scene, id, { decision: won })).toMatchObject({
      decision: { decision: won },
    });
    const other = won === 'approve' ? ('deny' as const) : ('approve' as const);
    expect(await codeOf(answer(scene, id, { decision: other }))).toBe('already_decided');
    await scene.inbox();
    await scene.inbox();
    expect(await scene.view()).toMatchObject({ status: 'succeeded' });
    expect(outside.requests).toBe(won === 'approve' ? 2 : 1);
  },
);

onEachStore(
  'F19 T106 T114 silence never consents: one before the deadline is in time, at it and after it is refused [T10]',
  async (open) => {
    for (const [at, code] of [
      [hour - 1, null],
      [hour, 'expired'],
      [hour + 1_000, 'expired'],
    ] as const) {
      const outside = new Outside();
      const scene = new Scene(await open(), agentOf(asking(outside)));
      const id = (await scene.suspend()).waits[0]?.id ?? '';
      scene.world.clock.advance(at);
      if (code === null) await answer(scene, id);
      else expect(await codeOf(answer(scene, id))).toBe(code);
      await scene.passTime(2_000);
      expect(await scene.view()).toMatchObject({ status: 'succeeded' });
      expect((await scene.view()).result).toEqual(
        code === null ? ['approved', 'bob', null] : 'expired',
      );
      expect(outside.requests).toBe(code === null ? 2 : 1);
      expect(await codeOf(answer(scene, id, { decision: 'deny' }))).toBe(
        code === null ? 'already_decided' : 'expired',
      );
    }
  },
);

onEachStore(
  'F19 an approval that races the deadline ends one way: never both [T10]',
  async (open) => {
    for (let lag = 0; lag < 4; lag += 1) {
      const outside = new Outside();
      const scene = new Scene(await open(), agentOf(asking(outside)));
      const id = (await scene.suspend()).waits[0]?.id ?? '';
      scene.world.clock.advance(hour - 1);
      const said = codeOf(answer(scene, id));
      for (let tick = 0; tick < lag; tick += 1) await new Promise(setImmediate);
      scene.world.clock.advance(1);
      await scene.passTime(1);
      const code = await said;
      await scene.passTime(2_000);
      const { result } = await scene.view();
      expect(result).toEqual(code === 'expired' ? 'expired' : ['approved', 'bob', null]);
      expect(outside.requests).toBe(code === 'expired' ? 1 : 2);
    }
  },
);

onEachStore(
  'T112 three approvals of one turn are answered in any order, each once [T10]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        const answers = await Promise.all(
          [1, 2, 3].map((n) => context.approval({ action: { n }, expiresInMs: hour })),
        );
        return answers.map(({ by }) => by);
      }),
    );
    const ids = (await scene.suspend()).waits.map(({ id }) => id);
    for (const [index, actor] of [
      [2, 'c'],
      [0, 'a'],
      [1, 'b'],
    ] as const) {
      await answer(scene, ids[index] ?? '', { actor });
      expect(await codeOf(answer(scene, ids[index] ?? '', { decision: 'deny', actor }))).toBe(
        'already_decided',
      );
      await scene.inbox();
    }
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: ['a', 'b', 'c'] });
    expect((await scene.journal()).filter((body) => body.kind === 'RunSuspended')).toHaveLength(3);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'T13 K-49 another turn of the thread goes on while one waits, and the wait is untouched; both changes stand [T1 T3]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        context.state.append('log', context.turn);
        const before = context.state.get('count') ?? 0;
        if (context.turn === 't1') await context.approval({ action: 'go', expiresInMs: hour });
        context.state.add('count', 1);
        return [before, context.state.get('log')];
      }),
    );
    const waiting = await scene.suspend('t1');
    for (let n = 2; n < 60; n += 1) await scene.conclude(`t${n}`);
    await answer(scene, waiting.waits[0]?.id ?? '');
    await scene.inbox();
    expect(await scene.view('t1')).toMatchObject({
      status: 'succeeded',
      revision: 59,
      result: [0, ['t1']],
    });
    const last = await scene.conclude('t60');
    expect(last.result).toMatchObject([59, { length: 60 }]);
    expect(await scene.strict('t1')).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'E225 E226 an event is stored once, wakes the oldest of two waiting turns, and one that came early is kept [T10]',
  async (open) => {
    const waiter = agentOf(async (context) => {
      const got = await context.event({ type: 'paid', correlation: { order: 7 } });
      return got.kind === 'event' ? got.data : got.kind;
    });
    const scene = new Scene(await open(), waiter);
    await scene.suspend('t1');
    scene.world.clock.advance(5);
    await scene.suspend('t2');
    expect(await event(scene, 'e1', { order: 7 })).toEqual({ stored: true });
    expect(await event(scene, 'e1', { order: 7 })).toEqual({ stored: false });
    await event(scene, 'other', { order: 8 });
    await scene.inbox();
    expect(await scene.view('t1')).toMatchObject({ status: 'succeeded', result: 'e1' });
    expect(await scene.view('t2')).toMatchObject({ status: 'suspended' });
    expect((await scene.kinds('t1')).filter((kind) => kind === 'ED')).toHaveLength(1);
    await event(scene, 'e2', { order: 7 });
    await scene.inbox();
    expect(await scene.view('t2')).toMatchObject({ status: 'succeeded', result: 'e2' });
    await event(scene, 'early', { order: 7 }, { came: 'first' });
    const rested = await scene.deliver('t3');
    expect(rested).toMatchObject({ kind: 'pending' });
    await scene.inbox();
    expect(await scene.view('t3')).toMatchObject({ result: { came: 'first' } });
  },
);

onEachStore(
  'RD-3 a publisher that dies between storing and matching: the sweep finishes its look [T10]',
  async (open) => {
    for (let call = 1; call < 12; call += 1) {
      const scene = new Scene(
        await open(),
        agentOf(async (context) => (await context.event({ type: 'paid', correlation: 1 })).kind),
      );
      await scene.suspend();
      const process = scene.world.start({ call, kind: 'doneButUnheard' });
      const { tenant } = scene.ref();
      const published = { tenant, source: 'shop', id: 'e', type: 'paid', correlation: 1, data: 1 };
      await scene.world.settle(process, publishEvent(process.runtime, published));
      const stored = process.names.includes('store.putEvent');
      await scene.passTime(3_000);
      await scene.passTime(3_000);
      const { status } = await scene.view();
      expect(status, `${call} ${process.fired}`).toBe(stored ? 'succeeded' : 'suspended');
    }
  },
);

onEachStore(
  'E228 T108 a timer that fires late and twice records its due instant once; a stale one does nothing [T7]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.sleep(hour);
        await context.effect(outside.effect({ recovery: 'idempotent' }));
        await context.sleep(hour);
        return 'awake';
      }),
    );
    const turn = await scene.suspend();
    const until = turn.waits[0]?.until ?? 0;
    await scene.passTime(hour - 5_000);
    expect(outside.requests).toBe(0);
    await scene.passTime(20_000);
    await scene.passTime(1_000);
    await scene.passTime(1_000);
    expect(outside.requests).toBe(1);
    const done = (await scene.journal()).filter((body) => body.kind === 'EffectDone');
    expect(done).toHaveLength(2);
    expect(await scene.view()).toMatchObject({ status: 'suspended' });
    await scene.passTime(hour);
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'awake' });
    const { readJournal } = await import('../../src/runtime/read-turn.ts');
    const page = await readJournal(scene.process.runtime, scene.ref(), { after: 0, limit: 100 });
    const first = page?.records.find((record) => record.body.kind === 'EffectDone');
    expect(first?.payload).toEqual({ at: new Date(until).toISOString() });
    const rows = await scene.world.store.due(scene.world.clock.now(), 10);
    await scene.passTime(1_000);
    expect(await scene.world.store.due(scene.world.clock.now(), 10)).toEqual([]);
    expect(rows.length).toBeLessThanOrEqual(2);
  },
);

onEachStore(
  'E230 dying at any call between asking and resting: the wait is registered once and its answer wakes the turn [T5 T10]',
  async (open) => {
    for (let call = 1; call < 12; call += 1) {
      const outside = new Outside();
      const scene = new Scene(await open(), agentOf(asking(outside)));
      scene.restart({ call, kind: call % 2 === 0 ? 'doneButUnheard' : 'lostBefore' });
      await scene.deliver();
      await scene.world.recover();
      scene.restart();
      const answered = await scene.deliver();
      if (answered !== 'died' && answered.kind === 'pending') await scene.inbox();
      const turn = await scene.view();
      expect(turn, `call ${call}`).toMatchObject({ status: 'suspended' });
      await answer(scene, turn.waits[0]?.id ?? '');
      await scene.inbox();
      expect(await scene.view(), `call ${call}`).toMatchObject({ status: 'succeeded' });
      const asked = (await scene.journal()).filter(
        (body) => body.kind === 'EffectStarted' && body.wait === 'approval',
      );
      expect(asked).toHaveLength(1);
      expect(new Set(outside.keys).size).toBe(2);
    }
  },
);

onEachStore(
  'B-57 dying at any call of the pass an answer woke: the answer is not lost and nothing is asked twice [T7 T10]',
  async (open) => {
    for (let call = 1; call < 14; call += 1) {
      const outside = new Outside();
      const scene = new Scene(await open(), agentOf(asking(outside)));
      const turn = await scene.suspend();
      await answer(scene, turn.waits[0]?.id ?? '');
      const [message] = scene.world.queues.inbox.take();
      const { handleInboxBatch } = await import('../../src/runtime/drive.ts');
      const kind = call % 2 === 0 ? 'doneButUnheard' : 'lostBefore';
      const process = scene.world.start({ call, kind });
      const batch = [{ id: 'm', body: message?.body ?? '', receives: 1 }];
      await scene.world.settle(process, handleInboxBatch(process.runtime, batch, {}));
      await scene.world.recover();
      expect(await scene.view(), `call ${call}`).toMatchObject({ status: 'succeeded' });
      expect(new Set(outside.keys).size).toBe(2);
      expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
    }
  },
);

onEachStore(
  'decision 6 CC-2 a swallowed suspension suspends; a failing sibling is not hidden behind a wait [T8]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        try {
          await context.approval({ action: 1 });
          return 'answered';
        } catch {
          return 'swallowed';
        }
      }),
    );
    const waiting = await scene.suspend();
    await answer(scene, waiting.waits[0]?.id ?? '');
    await scene.inbox();
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'answered' });
    const failing = new Scene(
      await open(),
      agentOf(async (context) => {
        await Promise.all([
          context.step('a', {}, (step) => step.approval({ action: 1 })),
          context.step('b', {}, async () => {
            throw new Error('b broke');
          }),
        ]);
      }),
    );
    expect(await failing.conclude()).toMatchObject({ status: 'failed' });
    const { items } = await listApprovals(failing.process.runtime, failing.ref().tenant, {
      status: 'pending',
      limit: 10,
      cursor: null,
    });
    expect(items).toEqual([]);
  },
);

onEachStore(
  'E92 a wait takes a slot, though no ceiling refuses it; figures are equal on every pass [T11]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.approval({ action: 1 });
        await context.sleep(1_000);
        await context.effect(outside.effect({ recovery: 'idempotent' }));
        return 'done';
      }),
    );
    const waiting = await scene.suspend('t1', { budget: { effects: 3 } });
    expect(waiting.spend).toMatchObject({ attempts: 1 });
    await answer(scene, waiting.waits[0]?.id ?? '');
    await scene.inbox();
    await scene.passTime(2_000);
    expect(await scene.view()).toMatchObject({ status: 'succeeded', spend: { attempts: 3 } });
  },
);

onEachStore(
  'a hundred and fifty waits of one turn are more than a transaction: all are registered and answered [T11]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        const got = await Promise.all(
          Array.from({ length: 150 }, (_, n) => context.event({ type: 'paid', correlation: n })),
        );
        return got.length;
      }),
    );
    const turn = await scene.suspend();
    expect(turn.waits).toHaveLength(150);
    for (let n = 0; n < 150; n += 1) await event(scene, `e${n}`, n);
    await scene.inbox();
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 150 });
  },
);

onEachStore(
  'E229 a busy thread makes an answered turn wait, and costs it nothing [T3]',
  async (open) => {
    const outside = new Outside();
    const gate = Promise.withResolvers<void>();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        if (context.turn === 't1') return (await context.approval({ action: 1 })).decision;
        return context.effect(
          outside.effect({
            recovery: 'idempotent',
            perform: async () => {
              outside.requests += 1;
              await gate.promise;
              return 1;
            },
          }),
        );
      }),
    );
    const turn = await scene.suspend('t1');
    const running = scene.deliver('t2');
    while (outside.requests === 0) await new Promise(setImmediate);
    await answer(scene, turn.waits[0]?.id ?? '');
    const { runtime } = scene.world.start();
    const [message] = scene.world.queues.inbox.take();
    const { handleInboxBatch } = await import('../../src/runtime/drive.ts');
    const outcomes = await handleInboxBatch(
      runtime,
      [{ id: 'm', body: message?.body ?? '', receives: 1 }],
      {},
    );
    expect(outcomes.get('m')).toMatchObject({ kind: 'later' });
    gate.resolve();
    await running;
    await sweep(scene.world.start().runtime);
    await scene.inbox();
    expect(await scene.view('t1')).toMatchObject({ status: 'succeeded', result: 'approved' });
  },
);
