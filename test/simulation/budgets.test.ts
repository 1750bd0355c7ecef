// Ceilings, exhaustion as a pause, readmission (section G of budgets.md, without waits, groups and undo).
import { expect } from 'vitest';
import type { Budget } from '../../src/protocol/budget.ts';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import { resumeByPerson } from '../../src/runtime/person-acts.ts';
import { BudgetExhaustedError } from '../../src/runtime/turn-context.ts';
import type { TurnAnswer } from '../../src/runtime/turn-view.ts';
import { verifyTurn } from '../../src/runtime/verify-turn.ts';
import { onEachStore } from '../stores.ts';
import type { Run } from './scene.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const keyed = { recovery: 'idempotent' as const };

/** `count` calls one after another. */
const calls =
  (outside: Outside, count: number): Run =>
  async (context) => {
    for (let n = 0; n < count; n += 1)
      await context.effect(outside.effect({ ...keyed, args: { n } }));
    return count;
  };

async function raise(scene: Scene, budget: Budget): Promise<TurnAnswer | 'died'> {
  const { runtime } = scene.process;
  return scene.world.settle(
    scene.process,
    resumeByPerson(runtime, scene.ref(), { reason: 'more', budget }, 'olga', {}),
  );
}

async function strict(scene: Scene): Promise<unknown> {
  return scene.world.settle(scene.process, verifyTurn(scene.process.runtime, scene.ref()));
}

onEachStore(
  'E82 BU-2 every attempt is admitted: three calls, then the refusal under the fourth key, exhausted [T11]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.effect(
          outside.effect({
            retry: { maxAttempts: 50 },
            perform: async () => {
              outside.requests += 1;
              throw new EffectNotAppliedError('refused');
            },
          }),
        ),
      ),
    );
    const turn = await scene.conclude('t1', { budget: { effects: 3 } });
    expect(turn).toMatchObject({
      status: 'exhausted',
      error: { code: 'budget_exhausted', message: expect.stringContaining('effects') },
      spend: { attempts: 3 },
    });
    expect(outside.requests).toBe(3);
    expect((await scene.kinds()).slice(-3)).toEqual([
      'EF(did_not_happen)',
      'BudgetRefused',
      'RC(exhausted)',
    ]);
    expect(await strict(scene)).toMatchObject({ verdict: 'verified', outcome: 'exhausted' });
  },
);

onEachStore(
  'E86 E87 E88 E89 exhaustion pauses; the same ceiling adds nothing, a raised one goes on with the same key [T11]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(await open(), agentOf(calls(outside, 4)));
    expect(await scene.conclude('t1', { budget: { effects: 3 } })).toMatchObject({
      status: 'exhausted',
      revision: 0,
    });
    const before = await scene.kinds();
    expect(await raise(scene, { effects: 3 })).toMatchObject({ turn: { status: 'exhausted' } });
    expect(await scene.kinds()).toEqual(before);
    const answer = await raise(scene, { effects: 4 });
    expect(answer).toMatchObject({ turn: { status: 'succeeded', spend: { attempts: 4 } } });
    const journal = await scene.journal();
    const refused = journal.find((body) => body.kind === 'BudgetRefused');
    const readmitted = journal.find((body) => body.kind === 'BudgetReadmitted');
    const last = journal.filter((body) => body.kind === 'EffectStarted').at(-1);
    expect(readmitted).toMatchObject({ key: refused?.kind === 'BudgetRefused' ? refused.key : '' });
    expect(last).toMatchObject({ key: refused?.kind === 'BudgetRefused' ? refused.key : '' });
    expect(outside.requests).toBe(4);
    expect(await strict(scene)).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
  },
);

onEachStore(
  'E90 BU-9 a refusal the code caught and went on from is raised again verbatim [T7 T11]',
  async (open) => {
    const outside = new Outside();
    let fail = true;
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.effect(outside.effect({ ...keyed, args: 1, cost: { minorUnits: 5 } }));
        const rich = await context
          .effect(outside.effect({ ...keyed, args: 2, cost: { minorUnits: 9 } }))
          .catch((error: unknown) => {
            if (error instanceof BudgetExhaustedError) return 'too dear';
            throw error;
          });
        const cheap = await context.effect(
          outside.effect({ ...keyed, args: 3, cost: { minorUnits: 1 } }),
        );
        if (fail) throw new Error('later');
        return [rich, cheap !== null];
      }),
    );
    expect(await scene.conclude('t1', { budget: { minorUnits: 10 } })).toMatchObject({
      status: 'failed',
    });
    fail = false;
    expect(await raise(scene, { minorUnits: 1_000 })).toMatchObject({
      turn: { status: 'succeeded', result: ['too dear', true] },
    });
    expect((await scene.kinds()).filter((kind) => kind.startsWith('Budget'))).toEqual([
      'BudgetRefused',
    ]);
    expect(outside.requests).toBe(2);
  },
);

onEachStore(
  'F41 twenty parallel effects that reserve 1 of 10: ten are sent, the refusals recorded, replay agrees [T11]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        const ends = await Promise.allSettled(
          Array.from({ length: 20 }, (_, n) =>
            context.effect(outside.effect({ ...keyed, args: { n }, cost: { minorUnits: 1 } })),
          ),
        );
        const stop = ends.find((end) => end.status === 'rejected');
        if (stop?.status === 'rejected') throw stop.reason;
      }),
    );
    expect(await scene.conclude('t1', { budget: { minorUnits: 10 } })).toMatchObject({
      status: 'exhausted',
      spend: { minorUnits: 10 },
    });
    expect(outside.requests).toBe(10);
    expect((await scene.kinds()).filter((kind) => kind === 'BudgetRefused')).toHaveLength(10);
    expect(await strict(scene)).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'F41 an unknown cost is charged at its reserve, and a doubt keeps it charged [T11]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context
          .effect(
            outside.effect({
              cost: { minorUnits: 6 },
              perform: async () => {
                outside.requests += 1;
                throw new Error('hang up');
              },
            }),
          )
          .catch(() => null);
        return context
          .effect(outside.effect({ ...keyed, cost: { minorUnits: 6 } }))
          .catch(() => 'refused');
      }),
    );
    expect(await scene.conclude('t1', { budget: { minorUnits: 10 } })).toMatchObject({
      status: 'quarantined',
      spend: { minorUnits: 6 },
    });
    expect(outside.requests).toBe(1);
  },
);

onEachStore(
  'E84 E85 undeclared spend may overshoot by one operation, then everything is refused; figures never shrink [T11]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.effect(
          outside.effect({
            ...keyed,
            perform: async (call) => {
              outside.requests += 1;
              call.bill({ tokens: 130 });
              call.bill({ tokens: -5 });
              call.bill({ tokens: Number.NaN });
              return 1;
            },
          }),
        );
        return context.effect({
          kind: 'look',
          args: null,
          mutates: false,
          perform: async () => {
            outside.requests += 1;
            return 1;
          },
        });
      }),
    );
    expect(await scene.conclude('t1', { budget: { tokens: 100 } })).toMatchObject({
      status: 'exhausted',
      spend: { tokens: 130 },
      error: { message: expect.stringContaining('tokens') },
    });
    expect(outside.requests).toBe(1);
  },
);

onEachStore(
  'E81 E93 tallies are equal on every pass: a failed attempt, a crash and a resume count three slots once [T11]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.effect(
          outside.effect({
            ...keyed,
            args: 1,
            perform: async () => {
              outside.requests += 1;
              if (outside.requests === 1) throw new EffectNotAppliedError('no');
              return 1;
            },
          }),
        );
        return context.effect(outside.effect({ ...keyed, args: 2 }));
      }),
    );
    const dying = scene.restart({ call: 6, kind: 'doneButUnheard' });
    await scene.deliver('t1', { budget: { effects: 3 } });
    expect(dying.dead).toBe(true);
    await scene.world.recover();
    scene.restart();
    expect(await scene.conclude('t1', { budget: { effects: 3 } })).toMatchObject({
      status: 'succeeded',
      spend: { attempts: 3, effects: 2 },
    });
  },
);

onEachStore(
  'a ceiling on steps and on the clock refuses the step and is asked again on resume [T11]',
  async (open) => {
    const run: Run = async (context) => {
      for (const name of ['a', 'b', 'c']) {
        await context.step(name, {}, (step) =>
          step.effect({ kind: 'look', args: name, mutates: false, perform: async () => name }),
        );
      }
      return 'done';
    };
    const scene = new Scene(await open(), agentOf(run));
    expect(await scene.conclude('t1', { budget: { steps: 2 } })).toMatchObject({
      status: 'exhausted',
      error: { step: 'c', message: expect.stringContaining('steps') },
      spend: { steps: 2 },
    });
    expect(await strict(scene)).toMatchObject({ verdict: 'verified', outcome: 'exhausted' });
    expect(await raise(scene, { steps: 3 })).toMatchObject({
      turn: { status: 'succeeded', spend: { steps: 3 } },
    });
    expect(await strict(scene)).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
    const slow = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.step('a', {}, (step) =>
          step.effect({
            kind: 'look',
            args: 1,
            mutates: false,
            perform: async () => {
              slow.world.clock.advance(5_000);
              return 1;
            },
          }),
        );
        return context.step('b', {}, async () => 1);
      }),
    );
    expect(await slow.conclude('t1', { budget: { wallClockMs: 4_000 } })).toMatchObject({
      status: 'exhausted',
      error: { message: expect.stringContaining('wallClockMs') },
    });
  },
);

onEachStore('egress is refused before it leaves, also at zero [T11]', async (open) => {
  const outside = new Outside();
  const scene = new Scene(
    await open(),
    agentOf((context) => context.effect(outside.effect({ ...keyed, args: 'x'.repeat(50) }))),
  );
  expect(await scene.conclude('t1', { budget: { egressBytes: 0 } })).toMatchObject({
    status: 'exhausted',
    error: { message: expect.stringContaining('egressBytes') },
  });
  expect(outside.requests).toBe(0);
});

onEachStore(
  'E100 BU-1 a week that a turn waited or lay still counts on its clock: the next step is refused, and a strict pass repeats that without a clock [T11]',
  async (open) => {
    const day = 86_400_000;
    for (const pause of ['wait', 'crash'] as const) {
      const outside = new Outside();
      let dies = pause === 'crash';
      const scene: Scene = new Scene(
        await open(),
        agentOf(async (context) => {
          await context.step('a', {}, async (step) => {
            await step.effect(outside.effect(keyed));
            if (pause === 'wait') await step.sleep(7 * day);
            else
              await step.effect(
                outside.effect({
                  ...keyed,
                  kind: 'slow',
                  perform: async () => {
                    outside.requests += 1;
                    if (!dies) return 'sent';
                    scene.process.kill();
                    return new Promise(() => undefined);
                  },
                }),
              );
          });
          return context.step('b', {}, (step) => step.effect(outside.effect(keyed)));
        }),
      );
      const budget = { wallClockMs: day };
      const first = await scene.deliver('t1', { budget });
      expect(first === 'died').toBe(pause === 'crash');
      dies = false;
      if (pause === 'wait') await scene.passTime(7 * day + 1_000);
      else {
        scene.world.clock.advance(7 * day);
        await scene.world.recover();
      }
      scene.restart();
      expect(await scene.view()).toMatchObject({
        status: 'exhausted',
        error: { step: 'b', message: expect.stringContaining('wallClockMs') },
      });
      const kinds = await scene.kinds();
      expect(kinds.slice(-2)).toEqual(['BudgetRefused', 'RC(exhausted)']);
      const { requests } = outside;
      const { runtime } = scene.world.start();
      const clock = {
        ...scene.world.clock,
        now: () => {
          throw new Error('a strict pass reads no clock');
        },
        monotonicMs: () => 0,
        timer: scene.world.clock.timer.bind(scene.world.clock),
        sleep: scene.world.clock.sleep.bind(scene.world.clock),
      };
      expect(await verifyTurn({ ...runtime, clock }, scene.ref())).toMatchObject({
        verdict: 'verified',
        outcome: 'exhausted',
      });
      expect(await raise(scene, { wallClockMs: day })).toMatchObject({
        turn: { status: 'exhausted' },
      });
      expect(await scene.kinds()).toEqual(kinds);
      expect(outside.requests).toBe(requests);
      expect(await raise(scene, { wallClockMs: 30 * day })).toMatchObject({
        turn: { status: 'succeeded' },
      });
      expect(outside.requests).toBe(requests + 1);
      expect(await strict(scene)).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
    }
  },
);
