// Answering a quarantine, resuming, abandoning (section H of operator.md, without undo).
import { expect } from 'vitest';
import { EffectNotAppliedError, TurnstoneError } from '../../src/protocol/errors.ts';
import { JournalWriter, payloadOf } from '../../src/runtime/journal-writer.ts';
import {
  abandonTurn,
  assertFact,
  reopenTurn,
  resumeByPerson,
} from '../../src/runtime/person-acts.ts';
import { readTurn } from '../../src/runtime/read-turn.ts';
import { readStanding } from '../../src/runtime/resume-turn.ts';
import type { TurnAnswer } from '../../src/runtime/turn-view.ts';
import { verifyTurn } from '../../src/runtime/verify-turn.ts';
import { personWriter } from '../../src/runtime/writer-identity.ts';
import type { OpenStore } from '../stores.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  return error instanceof TurnstoneError ? error.code : `no TurnstoneError: ${String(error)}`;
}

/** A turn quarantined by a call that hung up, then a second call after it. */
async function quarantined(open: OpenStore, maxAttempts = 3) {
  const outside = new Outside();
  const broken = { on: true };
  const scene = new Scene(
    await open(),
    agentOf(async (context) => {
      const charge = await context.step('pay', {}, (step) =>
        step.effect(
          outside.effect({
            retry: { maxAttempts },
            perform: async () => {
              outside.requests += 1;
              if (broken.on) throw new Error('socket hang up');
              return { id: `ch_${outside.requests}` };
            },
          }),
        ),
      );
      return {
        charge,
        mail: await context.effect(outside.effect({ kind: 'mail', recovery: 'idempotent' })),
      };
    }),
  );
  const turn = await scene.conclude();
  expect(turn).toMatchObject({ status: 'quarantined' });
  const key = turn.undecided[0]?.effectKey ?? '';
  broken.on = false;
  const run = <T>(work: Promise<T>): Promise<T | 'died'> => scene.world.settle(scene.process, work);
  return { scene, outside, key, run };
}

function statusOf(answer: TurnAnswer | 'died'): string {
  return answer === 'died' || answer.kind === 'busy' ? 'none' : answer.turn.status;
}

onEachStore(
  'E102 a landed answer stands in for the output; the turn goes on after reopen, with no further call for it [T6 T13]',
  async (open) => {
    const { scene, outside, key, run } = await quarantined(open);
    const { runtime } = scene.process;
    await assertFact(
      runtime,
      scene.ref(),
      key,
      { outcome: 'landed', output: { id: 'ch_seen' }, note: 'seen in the dashboard' },
      'olga',
    );
    expect(await readTurn(runtime, scene.ref())).toMatchObject({
      status: 'quarantined',
      undecided: [],
    });
    const answer = await run(reopenTurn(runtime, scene.ref(), 'answered', 'olga', {}));
    expect(answer).toMatchObject({
      kind: 'concluded',
      turn: { status: 'succeeded', revision: 1, result: { charge: { id: 'ch_seen' } } },
    });
    expect(outside.requests).toBe(2);
    expect(await scene.kinds()).toEqual([
      'RunAdmitted',
      'StepStarted',
      'ES(a1)',
      'EF(in_doubt)',
      'RC(quarantined)',
      'ER(landed)',
      'QuarantineDecided',
      'StepFinished',
      'ES(a1)',
      'ED',
      'RC(succeeded)',
    ]);
    expect(await run(verifyTurn(runtime, scene.ref()))).toMatchObject({
      verdict: 'verified',
      outcome: 'succeeded',
    });
    expect((await scene.conclude()).replayed).toBe(true);
  },
);

onEachStore(
  'E103 a did-not-happen answer is an ordinary failed attempt: the next one is announced and performed [T6]',
  async (open) => {
    const { scene, outside, key, run } = await quarantined(open);
    const { runtime } = scene.process;
    await assertFact(
      runtime,
      scene.ref(),
      key,
      { outcome: 'did_not_happen', note: 'not in their books' },
      'olga',
    );
    expect(statusOf(await run(reopenTurn(runtime, scene.ref(), 'answered', 'olga', {})))).toBe(
      'succeeded',
    );
    expect((await scene.kinds()).filter((kind) => /^E/.test(kind))).toEqual([
      'ES(a1)',
      'EF(in_doubt)',
      'ER(did_not_happen)',
      'ES(a2)',
      'ED',
      'ES(a1)',
      'ED',
    ]);
    expect(outside.requests).toBe(3);
  },
);

onEachStore(
  'E104 with one attempt allowed the reopened turn fails instead of calling again [T6]',
  async (open) => {
    const { scene, outside, key, run } = await quarantined(open, 1);
    const { runtime } = scene.process;
    await assertFact(runtime, scene.ref(), key, { outcome: 'did_not_happen', note: 'no' }, 'olga');
    expect(statusOf(await run(reopenTurn(runtime, scene.ref(), 'answered', 'olga', {})))).toBe(
      'failed',
    );
    expect(outside.requests).toBe(1);
  },
);

onEachStore(
  'E105 an assertion replaces nothing: known outcomes, unknown keys and turns not quarantined are refused, the journal unchanged [T13]',
  async (open) => {
    const { scene, key } = await quarantined(open);
    const { runtime } = scene.process;
    const fact = { outcome: 'landed' as const, output: 1, note: 'x' };
    expect(await codeOf(assertFact(runtime, scene.ref(), 'nothing', fact, 'olga'))).toBe(
      'not_found',
    );
    await assertFact(runtime, scene.ref(), key, fact, 'olga');
    const before = await scene.kinds();
    expect(await codeOf(assertFact(runtime, scene.ref(), key, fact, 'olga'))).toBe('not_undecided');
    expect(
      await codeOf(
        resumeByPerson(runtime, scene.ref(), { reason: null, budget: null }, 'olga', {}),
      ),
    ).toBe('not_resumable');
    expect(await scene.kinds()).toEqual(before);
    const fine = new Scene(
      await open(),
      agentOf(async () => 1),
    );
    await fine.conclude();
    expect(await codeOf(reopenTurn(fine.process.runtime, fine.ref(), 'why', 'olga', {}))).toBe(
      'not_quarantined',
    );
    expect(await codeOf(abandonTurn(fine.process.runtime, fine.ref(), 'why', 'olga'))).toBe(
      'not_quarantined',
    );
  },
);

onEachStore(
  'E106 a reopening without an answer is spent: quarantined again, no call; a plain redelivery executes nothing [T6]',
  async (open) => {
    const { scene, outside, run } = await quarantined(open);
    const { runtime } = scene.process;
    expect(statusOf(await run(reopenTurn(runtime, scene.ref(), 'try', 'olga', {})))).toBe(
      'quarantined',
    );
    expect(outside.requests).toBe(1);
    const kinds = await scene.kinds();
    expect(await scene.conclude()).toMatchObject({ status: 'quarantined', replayed: true });
    expect(await scene.kinds()).toEqual(kinds);
  },
);

onEachStore(
  'E108 E110 abandoning concludes for good: no call, nothing undone, the doubt stays on record [T13]',
  async (open) => {
    const { scene, outside } = await quarantined(open);
    const { runtime } = scene.process;
    expect(await abandonTurn(runtime, scene.ref(), 'written off', 'olga')).toMatchObject({
      kind: 'concluded',
      turn: { status: 'abandoned', undecided: [{ kind: 'charge' }] },
    });
    expect((await scene.kinds()).slice(-2)).toEqual(['QuarantineDecided', 'RC(abandoned)']);
    expect(await codeOf(reopenTurn(runtime, scene.ref(), 'why', 'olga', {}))).toBe(
      'not_quarantined',
    );
    expect(await scene.conclude()).toMatchObject({ status: 'abandoned', replayed: true });
    expect(outside.requests).toBe(1);
    expect(await scene.world.store.head(scene.ref())).toMatchObject({ revision: 0, open: null });
  },
);

/** Leaves the decision to abandon in the journal without its conclusion, as a writer of two steps would. */
async function decideOnly(scene: Scene): Promise<void> {
  const { runtime } = scene.world.start();
  const { head, history, sealer } = await readStanding(runtime, scene.ref());
  const writer = personWriter(runtime, head);
  const journal = new JournalWriter({
    store: scene.world.store,
    ref: scene.ref(),
    sealer,
    writer,
    index: history.positions,
    seq: history.head.seq,
    hash: history.head.hash,
    announced: history.announced(),
    now: () => runtime.clock.now(),
    claim: async (batch) => {
      const now = runtime.clock.now();
      const added = { ref: scene.ref(), seen: head, writer, batch, wakeAt: now, now };
      const outcome = await scene.world.store.annotate(added);
      if (outcome.kind === 'done') return outcome;
      throw new Error(`the decision was not written: ${outcome.kind}`);
    },
    progressed: () => undefined,
  });
  journal.urgent(
    { kind: 'QuarantineDecided', decision: 'abandon', decider: 'olga' },
    payloadOf({ reason: 'written off' }),
  );
  await journal.settled();
  if (journal.end !== null) throw new Error(`the decision was not written: ${journal.end.kind}`);
}

onEachStore(
  'E109 QA-3 an abandonment that was journaled and not concluded: the next resume, whose ever, concludes it and executes nothing [T13]',
  async (open) => {
    const host = {};
    const nexts = {
      reopen: (scene: Scene) =>
        reopenTurn(scene.process.runtime, scene.ref(), 'why', 'otto', host).then(statusOf),
      resume: (scene: Scene) =>
        resumeByPerson(
          scene.process.runtime,
          scene.ref(),
          { reason: null, budget: null },
          'otto',
          host,
        ).then(statusOf),
      abandon: (scene: Scene) =>
        abandonTurn(scene.process.runtime, scene.ref(), 'again', 'otto').then(statusOf),
      sweep: async (scene: Scene) => {
        await scene.world.recover();
        return (await scene.view()).status;
      },
    };
    for (const [name, next] of Object.entries(nexts)) {
      const { scene, outside } = await quarantined(open);
      await decideOnly(scene);
      expect((await scene.kinds()).at(-1), name).toBe('QuarantineDecided');
      expect(await next(scene), name).toBe('abandoned');
      expect((await scene.kinds()).slice(-3), name).toEqual([
        'RC(quarantined)',
        'QuarantineDecided',
        'RC(abandoned)',
      ]);
      expect(outside.requests, name).toBe(1);
      const kinds = await scene.kinds();
      expect(await scene.conclude()).toMatchObject({ status: 'abandoned', replayed: true });
      expect(await scene.kinds(), name).toEqual(kinds);
    }
  },
);

onEachStore(
  'E109 dying at any call of an abandonment leaves the quarantine as it was, or the turn abandoned whole [T1 T13]',
  async (open) => {
    for (const kind of ['lostBefore', 'doneButUnheard'] as const) {
      for (let call = 1; ; call += 1) {
        const { scene, outside } = await quarantined(open);
        const dying = scene.world.start({ call, kind });
        await scene.world.settle(
          dying,
          abandonTurn(dying.runtime, scene.ref(), 'written off', 'olga'),
        );
        if (!dying.dead) break;
        const ends = (await scene.kinds()).slice(-2);
        const { status } = await scene.view();
        expect([status, ...ends]).toEqual(
          status === 'abandoned'
            ? ['abandoned', 'QuarantineDecided', 'RC(abandoned)']
            : ['quarantined', 'EF(in_doubt)', 'RC(quarantined)'],
        );
        await abandonTurn(scene.process.runtime, scene.ref(), 'again', 'olga').catch(
          (error: unknown) => expect(error).toMatchObject({ code: 'not_quarantined' }),
        );
        expect((await scene.kinds()).slice(-2)).toEqual(['QuarantineDecided', 'RC(abandoned)']);
        expect(outside.requests).toBe(1);
      }
    }
  },
);

onEachStore(
  'QA-3 a reopening that was journaled and not acted on is finished by the next sweep [T13]',
  async (open) => {
    const { scene, key, outside } = await quarantined(open);
    await assertFact(
      scene.process.runtime,
      scene.ref(),
      key,
      { outcome: 'landed', output: 1, note: 'x' },
      'olga',
    );
    const dying = scene.world.start({ call: 4, kind: 'lostBefore' });
    await scene.world.settle(dying, reopenTurn(dying.runtime, scene.ref(), 'answered', 'olga', {}));
    expect(dying.dead).toBe(true);
    await scene.world.recover();
    scene.restart();
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded', replayed: true });
    expect(outside.requests).toBe(2);
  },
);

onEachStore('B27 a person answers while another turn of the thread runs [T3]', async (open) => {
  const { scene, key } = await quarantined(open);
  const gate = Promise.withResolvers<void>();
  const blocking = agentOf(
    (context) =>
      context.effect({ kind: 'hold', args: 1, perform: () => gate.promise, timeoutMs: 900_000 }),
    {},
  );
  const other = scene.world.start();
  const { withTurn } = await import('../../src/runtime/with-turn.ts');
  void withTurn(other.runtime, scene.request('t2', { agent: blocking }));
  while ((await scene.world.store.head(scene.ref()))?.open == null) await new Promise(setImmediate);
  await assertFact(
    scene.process.runtime,
    scene.ref(),
    key,
    { outcome: 'landed', output: 1, note: 'x' },
    'olga',
  );
  expect(await readTurn(scene.process.runtime, scene.ref())).toMatchObject({ undecided: [] });
  gate.resolve();
});

onEachStore(
  'decision 24 E310 a failed turn resumes from its journal; with nothing to do its journal does not grow [T7]',
  async (open) => {
    const outside = new Outside();
    let refuse = true;
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        const first = await context.effect(outside.effect({ recovery: 'idempotent' }));
        if (refuse) throw new Error('the till is closed');
        return [
          first,
          await context.effect(outside.effect({ kind: 'mail', recovery: 'idempotent' })),
        ];
      }),
    );
    expect(await scene.conclude()).toMatchObject({ status: 'failed' });
    const before = await scene.kinds();
    const again = () =>
      scene.world.settle(
        scene.process,
        resumeByPerson(
          scene.process.runtime,
          scene.ref(),
          { reason: 'again', budget: null },
          'olga',
          {},
        ),
      );
    for (let times = 0; times < 3; times += 1) expect(statusOf(await again())).toBe('failed');
    expect(await scene.kinds()).toEqual(before);
    refuse = false;
    expect(statusOf(await again())).toBe('succeeded');
    expect(outside.requests).toBe(2);
    expect(await scene.conclude()).toMatchObject({
      status: 'succeeded',
      replayed: true,
      revision: 1,
    });
  },
);

onEachStore(
  'a refused effect of a failed turn is tried by its policy on resume and read back when it is permanent [T7]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.effect(
          outside.effect({
            retry: { maxAttempts: 1 },
            perform: async () => {
              outside.requests += 1;
              throw new EffectNotAppliedError('refused');
            },
          }),
        ),
      ),
    );
    expect(await scene.conclude()).toMatchObject({
      status: 'failed',
      error: { code: 'effect_not_applied' },
    });
    await scene.world.settle(
      scene.process,
      resumeByPerson(
        scene.process.runtime,
        scene.ref(),
        { reason: 'again', budget: null },
        'olga',
        {},
      ),
    );
    expect(outside.requests).toBe(1);
  },
);
