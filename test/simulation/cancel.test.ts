// Stopping a turn as a side record, and the attention list (cancel.md without undo; section Q of operator.md).
import { expect } from 'vitest';
import { TurnstoneError } from '../../src/protocol/errors.ts';
import { acceptTurn } from '../../src/runtime/accept-turn.ts';
import { readAttention } from '../../src/runtime/attention.ts';
import { cancelTurn } from '../../src/runtime/cancel-turn.ts';
import { assertFact, reopenTurn, resumeByPerson } from '../../src/runtime/person-acts.ts';
import { readJournal } from '../../src/runtime/read-turn.ts';
import { verifyTurn } from '../../src/runtime/verify-turn.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    (value) => value,
    (thrown: unknown) => thrown,
  );
  return error instanceof TurnstoneError ? error.code : JSON.stringify(error);
}

/** A turn of two steps that stands inside the first one's call. */
async function running(scene: Scene, outside: Outside) {
  const pass = withTurn(scene.process.runtime, scene.request());
  while (outside.requests === 0) await new Promise(setImmediate);
  return { pass };
}

function twoSteps(outside: Outside, gate: Promise<unknown>) {
  return agentOf(async (context) => {
    await context.step('a', { compensation: 'unnecessary' }, (step) =>
      step.effect(
        outside.effect({
          recovery: 'idempotent',
          timeoutMs: 900_000,
          perform: async () => {
            outside.requests += 1;
            await gate;
            return 1;
          },
        }),
      ),
    );
    return context.step('b', {}, (step) =>
      step.effect(outside.effect({ kind: 'mail', recovery: 'idempotent' })),
    );
  });
}

onEachStore(
  'CA-1 CA-2 two operators race: one is recorded; the owner stops at the next boundary, never inside the call [T8]',
  async (open) => {
    const outside = new Outside();
    const gate = Promise.withResolvers<void>();
    const scene = new Scene(await open(), twoSteps(outside, gate.promise), {
      turnTimeoutMs: 900_000,
    });
    const { pass } = await running(scene, outside);
    const { runtime } = scene.world.start();
    const asked = await Promise.all(
      ['olga', 'omar'].map((actor) => cancelTurn(runtime, scene.ref(), `${actor} says so`, actor)),
    );
    expect(asked.map(({ recorded }) => recorded).sort()).toEqual([false, true]);
    const first = asked[0]?.recorded === true ? 'olga' : 'omar';
    scene.world.clock.advance(1_500);
    gate.resolve();
    const answer = await scene.world.settle(scene.process, pass);
    expect(answer).toMatchObject({
      kind: 'concluded',
      turn: { status: 'cancelled', revision: 0, error: { code: 'cancelled_with_landed_work' } },
    });
    expect(outside.requests).toBe(1);
    const kinds = await scene.kinds();
    expect(kinds.slice(-2)).toEqual(['RunCancelled', 'RC(cancelled)']);
    expect((await scene.journal()).find((body) => body.kind === 'RunCancelled')).toMatchObject({
      actor: first,
    });
    const page = await readJournal(runtime, scene.ref(), { after: 0, limit: 100 });
    expect(page?.records.find((record) => record.body.kind === 'RunCancelled')?.payload).toEqual({
      reason: `${first} says so`,
    });
    expect(await cancelTurn(runtime, scene.ref(), 'again', 'olga')).toEqual({ recorded: false });
    expect(await scene.conclude()).toMatchObject({ status: 'cancelled', replayed: true });
    expect(await verifyTurn(runtime, scene.ref())).toMatchObject({
      verdict: 'cannot_replay',
      reason: 'ended_by_an_act',
    });
  },
);

onEachStore(
  'a stop recorded during the last call is honoured by the commit itself: no success after "recorded" [T1 T8]',
  async (open) => {
    const outside = new Outside();
    const gate = Promise.withResolvers<void>();
    const scene = new Scene(
      await open(),
      agentOf((context) => {
        context.state.set('done', true);
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
    const { pass } = await running(scene, outside);
    const { runtime } = scene.world.start();
    expect(await cancelTurn(runtime, scene.ref(), 'stop', 'olga')).toEqual({ recorded: true });
    gate.resolve();
    expect(await scene.world.settle(scene.process, pass)).toMatchObject({
      turn: { status: 'cancelled', revision: 0 },
    });
    expect(scene.world.queues.events.accepted).toHaveLength(0);
    expect((await scene.kinds()).filter((kind) => kind.startsWith('RC'))).toEqual([
      'RC(cancelled)',
    ]);
  },
);

onEachStore('a stop of one turn is none of another turn of the thread [T8]', async (open) => {
  const outside = new Outside();
  const gate = Promise.withResolvers<void>();
  const scene = new Scene(await open(), twoSteps(outside, gate.promise), {
    turnTimeoutMs: 900_000,
  });
  await scene.world.settle(scene.process, acceptTurn(scene.process.runtime, scene.request('t2')));
  const { pass } = await running(scene, outside);
  const { runtime } = scene.world.start();
  expect(await cancelTurn(runtime, scene.ref('t2'), 'not this one', 'olga')).toEqual({
    recorded: true,
  });
  gate.resolve();
  expect(await scene.world.settle(scene.process, pass)).toMatchObject({
    turn: { status: 'succeeded', revision: 1 },
  });
  const requests = outside.requests;
  await scene.world.recover();
  scene.restart();
  expect(await scene.conclude('t2')).toMatchObject({ status: 'cancelled', revision: 1 });
  expect(outside.requests).toBe(requests);
});

onEachStore(
  'E317 a failed turn with landed work is listed; a stop ends it and takes it off [T8 T13]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.effect(outside.effect({ recovery: 'idempotent' }));
        throw new Error('then it broke');
      }),
    );
    expect(await scene.conclude()).toMatchObject({ status: 'failed' });
    const { runtime } = scene.process;
    const list = await readAttention(runtime, scene.ref().tenant);
    expect(list.items).toMatchObject([
      {
        condition: 'turn.failed_with_landed_work',
        count: 1,
        subjects: [{ threadId: 'order-7', turnId: 't1' }],
      },
    ]);
    expect(await cancelTurn(runtime, scene.ref(), 'give it up', 'olga')).toEqual({
      recorded: true,
    });
    expect(await scene.conclude()).toMatchObject({ status: 'cancelled', replayed: true });
    expect((await readAttention(runtime, scene.ref().tenant)).items).toEqual([]);
    expect((await scene.kinds()).slice(-2)).toEqual(['RunCancelled', 'RC(cancelled)']);
  },
);

onEachStore(
  'CA-4 E316 a quarantine refuses the stop; it is listed until it is answered [T8 T13]',
  async (open) => {
    const outside = new Outside();
    let broken = true;
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.effect(
          outside.effect({
            perform: async () => {
              outside.requests += 1;
              if (broken) throw new Error('hang up');
              return 1;
            },
          }),
        ),
      ),
    );
    const turn = await scene.conclude();
    const { runtime } = scene.process;
    expect(await codeOf(cancelTurn(runtime, scene.ref(), 'why', 'olga'))).toBe('quarantined');
    expect((await readAttention(runtime, scene.ref().tenant)).items).toMatchObject([
      { condition: 'turn.quarantined', count: 1 },
    ]);
    broken = false;
    await assertFact(
      runtime,
      scene.ref(),
      turn.undecided[0]?.effectKey ?? '',
      { outcome: 'landed', output: 1, note: 'seen' },
      'olga',
    );
    await scene.world.settle(
      scene.process,
      reopenTurn(runtime, scene.ref(), 'answered', 'olga', {}),
    );
    expect((await readAttention(runtime, scene.ref().tenant)).items).toEqual([]);
  },
);

onEachStore(
  'decision 11 a stop that stood when a turn quarantined is honoured on reopen, through the doubt [T8]',
  async (open) => {
    const outside = new Outside();
    const gate = Promise.withResolvers<void>();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.effect(
          outside.effect({
            perform: async () => {
              outside.requests += 1;
              await gate.promise;
              throw new Error('hang up');
            },
          }),
        );
        return context.effect(outside.effect({ kind: 'mail' }));
      }),
    );
    const { pass } = await running(scene, outside);
    const { runtime } = scene.world.start();
    expect(await cancelTurn(runtime, scene.ref(), 'stop', 'olga')).toEqual({ recorded: true });
    gate.resolve();
    const answer = await scene.world.settle(scene.process, pass);
    expect(answer).toMatchObject({ turn: { status: 'quarantined' } });
    if (answer === 'died' || answer.kind !== 'concluded') throw new Error('no conclusion');
    const key = answer.turn.undecided[0]?.effectKey ?? '';
    await assertFact(
      runtime,
      scene.ref(),
      key,
      { outcome: 'did_not_happen', note: 'no trace' },
      'olga',
    );
    const reopened = await scene.world.settle(
      scene.process,
      reopenTurn(scene.process.runtime, scene.ref(), 'answered', 'olga', {}),
    );
    expect(reopened).toMatchObject({ turn: { status: 'cancelled' } });
    expect(outside.requests).toBe(1);
    expect((await scene.kinds()).filter((kind) => kind === 'RunCancelled')).toHaveLength(1);
  },
);

onEachStore(
  'E86 an exhausted turn is listed and leaves the list when it is resumed [T11 T13]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        for (const n of [1, 2])
          await context.effect(outside.effect({ recovery: 'idempotent', args: n }));
      }),
    );
    await scene.conclude('t1', { budget: { effects: 1 } });
    const { runtime } = scene.process;
    expect((await readAttention(runtime, scene.ref().tenant)).items).toMatchObject([
      { condition: 'turn.exhausted' },
    ]);
    await scene.world.settle(
      scene.process,
      resumeByPerson(runtime, scene.ref(), { reason: 'more', budget: { effects: 5 } }, 'olga', {}),
    );
    expect((await readAttention(runtime, scene.ref().tenant)).items).toEqual([]);
  },
);
