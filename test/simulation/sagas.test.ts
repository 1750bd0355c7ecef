// Sagas and the unwinding part of cancellation (sagas.md without groups, policy and replanning; cancel.md).
import { expect } from 'vitest';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { readAttention } from '../../src/runtime/attention.ts';
import { cancelTurn } from '../../src/runtime/cancel-turn.ts';
import {
  abandonTurn,
  assertFact,
  reopenTurn,
  resumeByPerson,
} from '../../src/runtime/person-acts.ts';
import type { Effect, StepOptions, TurnContext } from '../../src/runtime/turn-context.ts';
import { EffectFailure } from '../../src/runtime/turn-context.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';

/** What the world was asked to do and undo, in order. */
class Log {
  readonly calls: string[] = [];
  readonly fail = new Map<string, () => Error>();
  /** What each undo was given. */
  readonly outputs = new Map<string, unknown>();

  effect(kind: string, options: Partial<Effect<unknown>> = {}): Effect<unknown> {
    return {
      kind,
      args: { kind },
      recovery: 'idempotent',
      retry: { maxAttempts: 1 },
      perform: async () => {
        this.calls.push(kind);
        const failure = this.fail.get(kind);
        if (failure !== undefined) throw failure();
        return `${kind}-done`;
      },
      ...options,
    };
  }

  undo(kind: string): NonNullable<StepOptions['undo']> {
    return (context, output) => {
      this.outputs.set(`undo-${kind}`, output);
      return context.effect(this.effect(`undo-${kind}`, { args: { output: output ?? null } }));
    };
  }

  /** A compensatable step that makes one call. */
  step(context: TurnContext, name: string, options: Partial<StepOptions> = {}): Promise<unknown> {
    return context.step(
      name,
      { compensation: 'compensatable', undo: this.undo(name), ...options },
      (step) => step.effect(this.effect(name)),
    );
  }
}

const broken = (message: string) => async (): Promise<never> => {
  throw new Error(message);
};

const undone = (log: Log): readonly string[] => log.calls.filter((call) => call.startsWith('undo'));

async function approve(scene: Scene): Promise<void> {
  const { runtime } = scene.world.start();
  const { tenant } = scene.ref();
  const { items } = await listApprovals(runtime, tenant, {
    status: 'pending',
    limit: 10,
    cursor: null,
  });
  for (const { id, digest } of items) {
    await answerApproval(runtime, tenant, id, { decision: 'approve', digest, note: null }, 'bob');
  }
  await scene.inbox();
}

onEachStore(
  'E116 E148 E104 SA-4 a failure undoes completed steps in reverse of ready order, with their outputs; the failing one too [T8]',
  async (open) => {
    const log = new Log();
    const slow = Promise.withResolvers<void>();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await Promise.all([
          context.step(
            'a',
            { compensation: 'compensatable', undo: log.undo('a') },
            async (step) => {
              const value = await step.effect(
                log.effect('a', {
                  perform: async () => {
                    log.calls.push('a');
                    await slow.promise;
                    return 'hold-a';
                  },
                }),
              );
              return { value };
            },
          ),
          log.step(context, 'b').then(() => slow.resolve()),
        ]);
        await context.step(
          'c',
          { compensation: 'compensatable', undo: log.undo('c') },
          async (step) => {
            await step.effect(log.effect('c'));
            throw new Error('c broke');
          },
        );
      }),
    );
    const turn = await scene.conclude();
    expect(turn).toMatchObject({
      status: 'failed',
      error: { code: 'agent_failed', message: 'c broke' },
    });
    expect(undone(log)).toEqual(['undo-c', 'undo-b', 'undo-a']);
    const journal = await scene.journal();
    expect(journal.filter((body) => body.kind === 'UnwindStarted')).toHaveLength(1);
    expect((await scene.kinds()).filter((kind) => kind.startsWith('SC'))).toEqual([
      'SC(c,ok)',
      'SC(b,ok)',
      'SC(a,ok)',
    ]);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'failed' });
    // SA-10, E148: work that was taken back is not gone on with.
    const before = log.calls.length;
    const again = await resumeByPerson(
      scene.process.runtime,
      scene.ref(),
      { reason: null, budget: null },
      'olga',
      {},
    );
    expect(again).toMatchObject({ kind: 'concluded', replayed: true });
    expect(log.calls).toHaveLength(before);
    expect((await readAttention(scene.process.runtime, scene.ref().tenant)).items).toEqual([]);
  },
);

onEachStore(
  'E122 E124 a pivot stops the walk and stands; a step that only read is undone all the same [T8]',
  async (open) => {
    const log = new Log();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await log.step(context, 'a');
        await log.step(context, 'p', { compensation: 'pivot' });
        await log.step(context, 'b');
        await context.step('r', { compensation: 'compensatable', undo: log.undo('r') }, (step) =>
          step.effect(log.effect('r', { mutates: false, recovery: 'retry' })),
        );
        await context.step('c', {}, broken('c broke'));
      }),
    );
    expect(await scene.conclude()).toMatchObject({ status: 'failed' });
    expect(undone(log)).toEqual(['undo-r', 'undo-b']);
    // E124: its undo is given what the step came to.
    expect(log.outputs.get('undo-r')).toBe('r-done');
    expect((await scene.kinds()).filter((kind) => kind.startsWith('SC'))).toEqual([
      'SC(r,ok)',
      'SC(b,ok)',
    ]);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'E117 E118 an undeclared step is judged on evidence: passed over when nothing landed, else quarantined by name [T8]',
  async (open) => {
    const run = async (mail: () => Error | null) => {
      const log = new Log();
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          await log.step(context, 'a');
          await context.step('u', {}, async (step) => {
            const effect = log.effect('mail', {
              perform: async () => {
                log.calls.push('mail');
                const failure = mail();
                if (failure !== null) throw failure;
                return 'sent';
              },
            });
            await step.effect(effect).catch(() => null);
          });
          await context.step('c', {}, broken('c broke'));
        }),
      );
      return { turn: await scene.conclude(), log, scene };
    };
    const clean = await run(() => new EffectNotAppliedError('refused'));
    expect(clean.turn).toMatchObject({ status: 'failed' });
    expect(undone(clean.log)).toEqual(['undo-a']);
    const landed = await run(() => null);
    expect(landed.turn).toMatchObject({
      status: 'quarantined',
      error: { code: 'undo_undeclared', step: 'u' },
    });
    expect(undone(landed.log)).toEqual([]);
    for (const { scene, turn } of [clean, landed]) {
      expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: turn.status });
    }
  },
);

onEachStore(
  'E120 SA-2 each attempt resets the evidence: refused, then landed with an unusable answer that the step caught, quarantines [T8]',
  async (open) => {
    const log = new Log();
    const failures = [
      new EffectNotAppliedError('busy'),
      new EffectFailure('garbled', { code: 'garbled', disposition: 'landed', permanent: true }),
    ];
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await log.step(context, 'a');
        await context.step('u', {}, async (step) => {
          const mail = log.effect('mail', {
            retry: { maxAttempts: 2, initialMs: 0 },
            perform: async () => {
              log.calls.push('mail');
              throw failures[log.calls.filter((call) => call === 'mail').length - 1];
            },
          });
          await step.effect(mail).catch(() => null);
        });
        await context.step('c', {}, broken('c broke'));
      }),
    );
    expect(await scene.conclude()).toMatchObject({
      status: 'quarantined',
      error: { code: 'undo_undeclared', step: 'u' },
    });
    expect(log.calls).toEqual(['a', 'mail', 'mail']);
    const effects = (await scene.kinds()).filter((kind) => kind.startsWith('E'));
    expect(effects.slice(2)).toEqual(['ES(a1)', 'EF(did_not_happen)', 'ES(a2)', 'EF(landed)']);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'quarantined' });
  },
);

onEachStore(
  'E125 E141 SA-14 an undo that is missing or throws stops the walk and names its step; reopening goes on with it [T8]',
  async (open) => {
    const bare = new Log();
    const none = new Scene(
      await open(),
      agentOf(async (context) => {
        await bare.step(context, 'a');
        await context.step('b', { compensation: 'compensatable' }, (step) =>
          step.effect(bare.effect('b')),
        );
        await context.step('c', {}, broken('c broke'));
      }),
    );
    expect(await none.conclude()).toMatchObject({
      status: 'quarantined',
      error: { code: 'undo_failed', step: 'b' },
    });
    expect(undone(bare)).toEqual([]);
    expect((await none.kinds()).filter((kind) => kind.startsWith('SC'))).toEqual(['SC(b,failed)']);
    const log = new Log();
    log.fail.set('undo-b', () => new EffectNotAppliedError('refund refused'));
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await log.step(context, 'a');
        await log.step(context, 'b');
        await context.step('c', {}, broken('c broke'));
      }),
    );
    expect(await scene.conclude()).toMatchObject({
      status: 'quarantined',
      error: { code: 'undo_failed', step: 'b' },
      undecided: [],
    });
    expect(undone(log)).toEqual(['undo-b']);
    log.fail.clear();
    const process = scene.world.start();
    const reopened = await scene.world.settle(
      process,
      reopenTurn(process.runtime, scene.ref(), 'the bank is back', 'olga', {}),
    );
    expect(reopened).toMatchObject({
      turn: { status: 'failed', error: { message: 'c broke' } },
    });
    expect(undone(log)).toEqual(['undo-b', 'undo-b', 'undo-a']);
    expect((await scene.kinds()).filter((kind) => kind.startsWith('SC'))).toEqual([
      'SC(b,failed)',
      'SC(b,ok)',
      'SC(a,ok)',
    ]);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'failed' });
  },
);

onEachStore(
  'E140 E114 an undo in doubt quarantines and is listed; a person answers it and the walk goes on, or abandons [T6 T8]',
  async (open) => {
    for (const end of ['answer', 'abandon'] as const) {
      const log = new Log();
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          await log.step(context, 'a');
          await log.step(context, 'b', {
            undo: (undo) =>
              undo.effect(
                log.effect('undo-b', {
                  recovery: 'operator',
                  perform: async () => {
                    log.calls.push('undo-b');
                    throw new Error('socket hang up');
                  },
                }),
              ),
          });
          await context.step('c', {}, broken('c broke'));
        }),
      );
      const turn = await scene.conclude();
      expect(turn).toMatchObject({
        status: 'quarantined',
        undecided: [{ step: 'b', phase: 'compensating', kind: 'undo-b' }],
      });
      expect((await scene.kinds()).filter((kind) => kind.startsWith('SC'))).toEqual([]);
      const { runtime } = scene.world.start();
      if (end === 'abandon') {
        expect(await abandonTurn(runtime, scene.ref(), 'written off', 'olga')).toMatchObject({
          turn: { status: 'abandoned' },
        });
        expect(undone(log)).toEqual(['undo-b']);
        continue;
      }
      const key = turn.undecided[0]?.effectKey ?? '';
      const fact = { outcome: 'landed', output: 'refunded', note: 'in the ledger' } as const;
      await assertFact(runtime, scene.ref(), key, fact, 'olga');
      expect(await reopenTurn(runtime, scene.ref(), 'answered', 'olga', {})).toMatchObject({
        turn: { status: 'failed' },
      });
      expect(undone(log)).toEqual(['undo-b', 'undo-a']);
      expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
    }
  },
);

onEachStore(
  'E126 E317 a failing step alone opens no unwind and is listed; a stop undoes it, a resume goes on [T8 T13]',
  async (open) => {
    for (const end of ['cancel', 'resume'] as const) {
      const log = new Log();
      let ill = true;
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          await context.step(
            'a',
            { compensation: 'compensatable', undo: log.undo('a') },
            async (step) => {
              await step.effect(log.effect('a'));
              if (ill) throw new Error('a broke');
              return 'well';
            },
          );
          return 'done';
        }),
      );
      expect(await scene.conclude()).toMatchObject({ status: 'failed' });
      expect(undone(log)).toEqual([]);
      const { runtime } = scene.world.start();
      expect((await readAttention(runtime, scene.ref().tenant)).items).toMatchObject([
        { condition: 'turn.failed_with_landed_work' },
      ]);
      ill = false;
      if (end === 'cancel') {
        await cancelTurn(runtime, scene.ref(), 'no more', 'olga');
        expect(await scene.view()).toMatchObject({ status: 'cancelled' });
        expect(undone(log)).toEqual(['undo-a']);
      } else {
        await resumeByPerson(runtime, scene.ref(), { reason: null, budget: null }, 'olga', {});
        expect(await scene.view()).toMatchObject({ status: 'succeeded' });
      }
      expect((await readAttention(runtime, scene.ref().tenant)).items).toEqual([]);
      expect(log.calls.filter((call) => call === 'a')).toHaveLength(1);
    }
  },
);

onEachStore(
  'E128 E129 E130 E132 a suspended sibling that mutated is undone first; one that only read opens nothing [T8]',
  async (open) => {
    for (const [first, mutates, expected] of [
      [true, true, ['undo-b', 'undo-a']],
      [false, true, ['undo-b']],
      [false, false, []],
    ] as const) {
      const log = new Log();
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          if (first) await log.step(context, 'a');
          const posted = Promise.withResolvers<void>();
          await Promise.all([
            context.step(
              'b',
              { compensation: 'compensatable', undo: log.undo('b') },
              async (step) => {
                await step.effect(
                  log.effect('b', { mutates, recovery: mutates ? 'idempotent' : 'retry' }),
                );
                posted.resolve();
                await step.approval({ action: 'go on' });
              },
            ),
            context.step('c', {}, async () => {
              await posted.promise;
              throw new Error('c broke');
            }),
          ]);
        }),
      );
      expect(await scene.conclude()).toMatchObject({ status: 'failed' });
      expect(undone(log)).toEqual(expected);
      const { runtime } = scene.world.start();
      const { items } = await listApprovals(runtime, scene.ref().tenant, {
        status: 'pending',
        limit: 10,
        cursor: null,
      });
      expect(items).toEqual([]);
      expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'failed' });
      if (mutates) continue;
      // E130: nothing was undone, so it stays open: a resume gives it another pass.
      expect(await scene.kinds()).not.toContain('UnwindStarted');
      const more = { reason: null, budget: null };
      const again = await resumeByPerson(runtime, scene.ref(), more, 'olga', {});
      expect(again).toMatchObject({ replayed: false, turn: { status: 'failed' } });
      expect(log.calls).toEqual(['b']);
    }
  },
);

onEachStore(
  'E133 CC-2 a doubt beside a failure: quarantined, nothing is undone [T8]',
  async (open) => {
    const log = new Log();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await log.step(context, 'a');
        await Promise.all([
          context.step('b', {}, (step) =>
            step.effect(
              log.effect('b', {
                recovery: 'operator',
                perform: async () => {
                  throw new Error('hang up');
                },
              }),
            ),
          ),
          context.step('c', {}, broken('c broke')),
        ]);
      }),
    );
    expect(await scene.conclude()).toMatchObject({ status: 'quarantined' });
    expect(undone(log)).toEqual([]);
  },
);

onEachStore(
  'E146 SA-12 an undo waits for a person: suspended, earlier steps untouched, then the walk goes on once [T8 T10]',
  async (open) => {
    const log = new Log();
    const careful =
      (kind: string): NonNullable<StepOptions['undo']> =>
      async (undo, output) => {
        await undo.approval({ action: { refund: kind } });
        await log.undo(kind)(undo, output);
      };
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await log.step(context, 'a', { undo: careful('a') });
        await log.step(context, 'b', { undo: careful('b') });
        await context.step('c', {}, broken('c broke'));
      }),
    );
    expect(await scene.suspend()).toMatchObject({ waits: [{ kind: 'approval' }] });
    expect(undone(log)).toEqual([]);
    await approve(scene);
    expect(undone(log)).toEqual(['undo-b']);
    expect(await scene.view()).toMatchObject({ status: 'suspended' });
    await approve(scene);
    expect(undone(log)).toEqual(['undo-b', 'undo-a']);
    expect(await scene.view()).toMatchObject({ status: 'failed', error: { message: 'c broke' } });
    expect((await scene.kinds()).filter((kind) => kind.startsWith('SC'))).toEqual([
      'SC(b,ok)',
      'SC(a,ok)',
    ]);
    const calls = [...log.calls];
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'failed' });
    expect(log.calls).toEqual(calls);
  },
);

onEachStore(
  'E144 E145 decision 4 dying at any call of an unwind: the recorded failure stands, every undo lands once [T6 T8]',
  async (open) => {
    for (let call = 1; call < 22; call += 1) {
      const log = new Log();
      let ill = true;
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          await log.step(context, 'a');
          await log.step(context, 'b', {
            undo: async (undo) => {
              await undo.effect(log.effect('undo-b1'));
              await undo.effect(log.effect('undo-b2'));
            },
          });
          await context.step('c', {}, async () => {
            if (ill) throw new Error('c broke');
            return 'well';
          });
          return 'done';
        }),
      );
      const process = scene.restart({
        call,
        kind: call % 2 === 0 ? 'doneButUnheard' : 'lostBefore',
      });
      const first = await scene.deliver();
      // Decision 4: once the unwind's start is recorded, later passes obey it, whatever the step would do now.
      const begun = (await scene.journal()).some((body) => body.kind === 'UnwindStarted');
      if (begun) ill = false;
      await scene.world.recover();
      scene.restart();
      const turn = first === 'died' ? await scene.conclude() : await scene.view();
      expect(turn, `call ${call} ${process.fired}`).toMatchObject({ status: 'failed' });
      expect(turn.error?.message).toBe('c broke');
      const landed = [...new Set(undone(log))];
      expect(landed, `call ${call}`).toEqual(['undo-b1', 'undo-b2', 'undo-a']);
      const compensated = (await scene.kinds()).filter((kind) => kind.startsWith('SC'));
      expect(compensated).toEqual(['SC(b,ok)', 'SC(a,ok)']);
      const keys = (await scene.journal()).flatMap((body) =>
        body.kind === 'EffectStarted' ? [body.key] : [],
      );
      expect(new Set(keys).size).toBe(keys.length);
      expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'failed' });
    }
  },
);

onEachStore(
  'E94 GA-3 an undo is exempt from the verdict of the budget, not from its slot [T8 T11]',
  async (open) => {
    const log = new Log();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await log.step(context, 'a');
        await context.step('c', {}, broken('c broke'));
      }),
    );
    expect(await scene.conclude('t1', { budget: { effects: 1 } })).toMatchObject({
      status: 'failed',
      spend: { attempts: 2 },
    });
    expect(undone(log)).toEqual(['undo-a']);
  },
);

onEachStore(
  'E192 E196 E197 a stopped turn that waits is replayed, then undone in true order with true outputs [T8]',
  async (open) => {
    const log = new Log();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await log.step(context, 'c');
        await log.step(context, 'a');
        await log.step(context, 'b');
        await context.step(
          'd',
          { compensation: 'compensatable', undo: log.undo('d') },
          async (step) => {
            await step.effect(log.effect('d'));
            await step.approval({ action: 'go' });
          },
        );
      }),
    );
    await scene.suspend();
    const before = log.calls.length;
    const { runtime } = scene.world.start();
    const asked = await Promise.all(
      ['olga', 'omar'].map((actor) => cancelTurn(runtime, scene.ref(), `${actor} says so`, actor)),
    );
    expect(asked.map(({ recorded }) => recorded).sort()).toEqual([false, true]);
    await scene.inbox();
    await scene.passTime(11_000);
    expect(await scene.view()).toMatchObject({ status: 'cancelled' });
    expect(log.calls.slice(before)).toEqual(['undo-d', 'undo-b', 'undo-a', 'undo-c']);
    // E197: true outputs; the interrupted step has none.
    expect(['d', 'b', 'a', 'c'].map((step) => log.outputs.get(`undo-${step}`))).toEqual([
      null,
      'b-done',
      'a-done',
      'c-done',
    ]);
    const started = (await scene.journal()).filter((body) => body.kind === 'RunCancelled');
    expect(started).toHaveLength(1);
    // An answer that comes afterwards resumes nothing.
    await expect(approve(scene)).resolves.toBeUndefined();
    expect(await scene.view()).toMatchObject({ status: 'cancelled' });
    expect(await scene.strict()).toMatchObject({
      verdict: 'cannot_replay',
      reason: 'ended_by_an_act',
    });
  },
);

onEachStore(
  'E193 E194 F31 a stop during the last call: the call finishes and is recorded, then it is undone; not succeeded [T8]',
  async (open) => {
    const log = new Log();
    const gate = Promise.withResolvers<void>();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        context.state.set('done', true);
        await context.step('a', { compensation: 'compensatable', undo: log.undo('a') }, (step) =>
          step.effect(
            log.effect('a', {
              perform: async () => {
                log.calls.push('a');
                await gate.promise;
                return 'late';
              },
            }),
          ),
        );
      }),
    );
    const pass = scene.deliver();
    while (log.calls.length === 0) await new Promise(setImmediate);
    const { runtime } = scene.world.start();
    expect(await cancelTurn(runtime, scene.ref(), 'stop', 'olga')).toEqual({ recorded: true });
    gate.resolve();
    expect(await pass).toMatchObject({ turn: { status: 'cancelled', revision: 0 } });
    expect(log.calls).toEqual(['a', 'undo-a']);
    expect(await scene.kinds()).toEqual(
      expect.arrayContaining(['ED', 'RunCancelled', 'UnwindStarted', 'SC(a,ok)', 'RC(cancelled)']),
    );
  },
);

onEachStore(
  'E204 dying at any call after the stop was recorded: one record of it, every undo once, cancelled [T8]',
  async (open) => {
    for (let call = 1; call < 20; call += 1) {
      const log = new Log();
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          await log.step(context, 'a');
          await log.step(context, 'b');
          await context.approval({ action: 'go' });
        }),
      );
      await scene.suspend();
      const process = scene.world.start({
        call,
        kind: call % 2 === 0 ? 'doneButUnheard' : 'lostBefore',
      });
      await scene.world.settle(process, cancelTurn(process.runtime, scene.ref(), 'stop', 'olga'));
      const recorded = (await scene.world.store.stopOf(scene.ref())) !== null;
      await scene.world.recover();
      const view = await scene.view();
      expect(view.status, `call ${call} ${process.fired}`).toBe(
        recorded ? 'cancelled' : 'suspended',
      );
      if (!recorded) continue;
      expect([...new Set(undone(log))]).toEqual(['undo-b', 'undo-a']);
      const kinds = await scene.kinds();
      expect(kinds.filter((kind) => kind === 'RunCancelled')).toHaveLength(1);
      expect(kinds.filter((kind) => kind.startsWith('SC'))).toEqual(['SC(b,ok)', 'SC(a,ok)']);
    }
  },
);

onEachStore('E206 a stop during a failing unwind ends it cancelled [T8]', async (open) => {
  const log = new Log();
  const scene = new Scene(
    await open(),
    agentOf(async (context) => {
      await log.step(context, 'a', {
        undo: async (undo, output) => {
          await undo.approval({ action: 'refund?' });
          await log.undo('a')(undo, output);
        },
      });
      await context.step('c', {}, broken('c broke'));
    }),
  );
  await scene.suspend();
  const { runtime } = scene.world.start();
  await cancelTurn(runtime, scene.ref(), 'stop', 'olga');
  await scene.inbox();
  expect(await scene.view()).toMatchObject({ status: 'suspended' });
  await approve(scene);
  expect(await scene.view()).toMatchObject({ status: 'cancelled' });
  expect(undone(log)).toEqual(['undo-a']);
  const kinds = await scene.kinds();
  expect(kinds.filter((kind) => kind === 'RunCancelled')).toHaveLength(1);
  expect(kinds.filter((kind) => kind === 'UnwindStarted')).toHaveLength(1);
});
