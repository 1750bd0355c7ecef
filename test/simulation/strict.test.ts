// Strict passes: what is verified, what differs and how that is said (section P of operator.md, and the strict
// halves of sections D and E of effects.md).
import { expect } from 'vitest';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import { resumeByPerson } from '../../src/runtime/person-acts.ts';
import type { Effect, ProbeAnswer } from '../../src/runtime/turn-context.ts';
import { EffectFailure } from '../../src/runtime/turn-context.ts';
import { verifyTurn } from '../../src/runtime/verify-turn.ts';
import { onEachStore } from '../stores.ts';
import type { Run } from './scene.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const keyed = { recovery: 'idempotent' as const };

/** Everything of a turn and its tenant that a store can show. */
async function shown(scene: Scene): Promise<unknown> {
  const { store, queues, clock } = scene.world;
  const { inbox, events, intents } = queues;
  return {
    thread: await store.thread(scene.ref()),
    begun: await store.begin(scene.ref(), null),
    journal: await store.journal(scene.ref()),
    stop: await store.stopOf(scene.ref()),
    attention: await store.attention(scene.ref().tenant),
    work: await store.workOf(scene.ref()),
    due: await store.dueWork(clock.now(), { unsentMs: 0, limit: 100 }),
    messages: [inbox, events, intents].map(({ accepted }) => accepted.length),
  };
}

/** A turn recorded by one build and verified under another of the same authority. */
async function verifiedUnder(scene: Scene, after: Run): Promise<unknown> {
  scene.deploy({ ...agentOf(after), authority: scene.agent.authority });
  const before = await shown(scene);
  const verdict = await scene.strict();
  expect(await shown(scene)).toEqual(before);
  return verdict;
}

const calls =
  (outside: Outside, kinds: readonly string[]): Run =>
  (context) =>
    context.step('pay', {}, async (step) => {
      for (const kind of kinds) await step.effect(outside.effect({ ...keyed, kind }));
    });

onEachStore(
  'E290 a strict pass of any turn leaves head, journal, lease, lists, queues and the world as they were [T7 T13]',
  async (open) => {
    const outside = new Outside();
    const ends: Readonly<Record<string, Run>> = {
      succeeded: (context) => context.effect(outside.effect(keyed)),
      failed: async (context) => {
        const undo = { ...keyed, kind: 'refund' };
        const options = {
          compensation: 'compensatable' as const,
          undo: (taking: typeof context) => taking.effect(outside.effect(undo)),
        };
        await context.step('pay', options, (step) => step.effect(outside.effect(keyed)));
        throw new Error('the till is closed');
      },
      quarantined: (context) =>
        context.effect(
          outside.effect({
            perform: async () => {
              outside.requests += 1;
              throw new Error('socket hang up');
            },
          }),
        ),
      exhausted: calls(outside, ['a', 'b', 'c']),
      suspended: async (context) => {
        await context.effect(outside.effect(keyed));
        await context.sleep(60_000);
      },
    };
    for (const [status, run] of Object.entries(ends)) {
      outside.requests = 0;
      const scene = new Scene(await open(), agentOf(run));
      const budget = status === 'exhausted' ? { effects: 2 } : null;
      await scene.deliver('t1', { budget });
      expect((await scene.view()).status).toBe(status);
      const { requests } = outside;
      const before = await shown(scene);
      const reader = scene.world.start();
      const verdict = await verifyTurn(reader.runtime, scene.ref());
      expect(verdict).toMatchObject(
        status === 'suspended'
          ? { verdict: 'cannot_replay', reason: 'not_concluded' }
          : { verdict: 'verified', outcome: status },
      );
      expect(reader.names.filter((name) => !/^store\.[a-z]+$/.test(name))).toEqual([]);
      expect(await shown(scene)).toEqual(before);
      expect(outside.requests).toBe(requests);
    }
  },
);

onEachStore(
  'E292 an undo that shrank and a failing step that stops earlier are divergences, though the statuses agree [T7]',
  async (open) => {
    const outside = new Outside();
    const undoes =
      (kinds: readonly string[]): Run =>
      async (context) => {
        const undo = async (taking: typeof context): Promise<void> => {
          for (const kind of kinds) await taking.effect(outside.effect({ ...keyed, kind }));
        };
        const options = { compensation: 'compensatable' as const, undo };
        await context.step('pay', options, (step) => step.effect(outside.effect(keyed)));
        throw new Error('closed');
      };
    const undone = new Scene(await open(), agentOf(undoes(['refund', 'mail'])));
    expect(await undone.conclude()).toMatchObject({ status: 'failed' });
    expect(await verifiedUnder(undone, undoes(['refund']))).toMatchObject({
      verdict: 'diverged',
      step: 'pay',
      phase: 'compensating',
      ordinal: 1,
      moved: 'missing',
      recorded: { kind: 'mail' },
    });
    const fails =
      (kinds: readonly string[]): Run =>
      (context) =>
        context.step('pay', {}, async (step) => {
          for (const kind of kinds) await step.effect(outside.effect({ ...keyed, kind }));
          throw new Error('closed');
        });
    const failed = new Scene(await open(), agentOf(fails(['a', 'b'])));
    expect(await failed.conclude()).toMatchObject({ status: 'failed' });
    const { requests } = outside;
    expect(await verifiedUnder(failed, fails(['a']))).toMatchObject({
      verdict: 'diverged',
      step: 'pay',
      phase: 'forward',
      ordinal: 1,
      moved: 'missing',
    });
    expect(outside.requests).toBe(requests);
  },
);

onEachStore(
  'E293 a step that is no longer reached is a divergence at the end: a slice nobody asked for [T7]',
  async (open) => {
    const outside = new Outside();
    const steps =
      (guard: boolean): Run =>
      async (context) => {
        await context.step('a', {}, (step) => step.effect(outside.effect({ ...keyed, kind: 'a' })));
        if (guard)
          await context.step('b', {}, (step) =>
            step.effect(outside.effect({ ...keyed, kind: 'b' })),
          );
        return 'done';
      };
    const scene = new Scene(await open(), agentOf(steps(true)));
    await scene.conclude();
    expect(await verifiedUnder(scene, steps(false))).toMatchObject({
      verdict: 'diverged',
      step: 'b',
      ordinal: 0,
      moved: 'missing',
      recorded: { kind: 'b' },
      asked: null,
    });
    expect(outside.requests).toBe(2);
  },
);

onEachStore(
  'E294 a recorded failure that comes out again is verified as failed, not an error [T7]',
  async (open) => {
    const outside = new Outside();
    const refused = outside.effect({
      perform: async () => {
        outside.requests += 1;
        throw new EffectFailure('no', {
          code: 'card_declined',
          disposition: 'did_not_happen',
          permanent: true,
        });
      },
    });
    for (const [run, code] of [
      [calls(outside, ['a']), null],
      [(context) => context.effect(refused), 'card_declined'],
      [
        async () => {
          throw new Error('closed');
        },
        'agent_failed',
      ],
    ] as const satisfies readonly (readonly [Run, string | null])[]) {
      const scene = new Scene(await open(), agentOf(run));
      const turn = await scene.conclude();
      expect(turn.error?.code ?? null).toBe(code);
      const { requests } = outside;
      expect(await verifiedUnder(scene, run)).toMatchObject({
        verdict: 'verified',
        outcome: code === null ? 'succeeded' : 'failed',
      });
      expect(outside.requests).toBe(requests);
    }
  },
);

onEachStore(
  'E297 every effect matches and the step now fails: the outcome differs, both endings named, nothing written [T7]',
  async (open) => {
    const outside = new Outside();
    const run =
      (fails: boolean): Run =>
      (context) =>
        context.step('pay', {}, async (step) => {
          await step.effect(outside.effect(keyed));
          if (fails) throw new Error('a new check says no');
        });
    const scene = new Scene(await open(), agentOf(run(false)));
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
    expect(await verifiedUnder(scene, run(true))).toMatchObject({
      verdict: 'diverged',
      moved: 'outcome',
      recordedOutcome: 'succeeded',
      outcome: 'failed',
    });
    expect(outside.requests).toBe(1);
  },
);

onEachStore(
  'E298 a declaration edited where the turn never went is verified with both digests and that they differ [T13]',
  async (open) => {
    const outside = new Outside();
    const run: Run = (context, input) =>
      context.effect(outside.effect({ ...keyed, kind: input === 'mail' ? 'mail' : 'charge' }));
    const recorded = agentOf(run, { effects: ['charge', 'mail'] });
    const edited = agentOf(run, { effects: ['charge', 'mail', 'refund'] });
    expect(recorded.authority).not.toBe(edited.authority);
    const scene = new Scene(await open(), recorded);
    await scene.conclude();
    expect(await scene.strict()).toMatchObject({ declaration: { same: true } });
    scene.deploy(edited);
    expect(await scene.strict()).toMatchObject({
      verdict: 'verified',
      declaration: { recorded: recorded.authority, inHand: edited.authority, same: false },
    });
    expect(outside.requests).toBe(1);
  },
);

onEachStore(
  'E300 a divergence at the second of five effects is reported as that one, not as what is left unread [T7]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(await open(), agentOf(calls(outside, ['a', 'b', 'c', 'd', 'e'])));
    await scene.conclude();
    expect(await verifiedUnder(scene, calls(outside, ['a', 'x', 'c', 'd', 'e']))).toMatchObject({
      verdict: 'diverged',
      step: 'pay',
      ordinal: 1,
      moved: 'kind',
      recorded: { kind: 'b' },
      asked: { kind: 'x' },
    });
    expect(outside.requests).toBe(5);
  },
);

onEachStore(
  'E302 notes after the last effect stand once, though the turn died after them and was resumed twice (decision 12)',
  async (open) => {
    const outside = new Outside();
    const closed = { till: true };
    const run: Run = async (context) => {
      context.note('before');
      await context.effect(outside.effect(keyed));
      context.note('after');
      context.note('after');
      if (closed.till) throw new Error('the till is closed');
      return 'open';
    };
    const scene = new Scene(await open(), agentOf(run));
    await scene.conclude();
    const { runtime } = scene.world.start();
    const again = () =>
      resumeByPerson(runtime, scene.ref(), { reason: null, budget: null }, 'olga', {});
    for (let times = 0; times < 2; times += 1)
      expect(await again()).toMatchObject({ turn: { status: 'failed' } });
    closed.till = false;
    expect(await again()).toMatchObject({ turn: { status: 'succeeded' } });
    expect((await scene.kinds()).filter((kind) => kind === 'Note')).toHaveLength(3);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
    expect(outside.requests).toBe(1);
  },
);

/** A charge that is never heard of, and a probe that answers as told, counted. */
function probed(
  outside: Outside,
  asked: { probes: number },
  answer: (() => Promise<ProbeAnswer>) | null,
  maxAttempts: number,
): Effect<unknown> {
  return outside.effect({
    recovery: 'reconcile',
    retry: { maxAttempts },
    perform: async () => {
      outside.requests += 1;
      if (outside.requests === 1) throw new Error('socket hang up');
      return { id: outside.requests };
    },
    ...(answer === null
      ? {}
      : {
          probe: () => {
            asked.probes += 1;
            return answer();
          },
        }),
  });
}

onEachStore(
  'E61 E62 a strict pass reads every verdict of a probe: no probe, no call, the recorded ending; the last verdict wins [T6 T7]',
  async (open) => {
    const never = async (): Promise<ProbeAnswer> => ({ outcome: 'did_not_happen' });
    const found = async (): Promise<ProbeAnswer> => ({ outcome: 'landed', output: { id: 'x' } });
    const down = async (): Promise<ProbeAnswer> => {
      throw new Error('probe down');
    };
    for (const [answer, maxAttempts, status, records, requests] of [
      [never, 2, 'succeeded', ['ES(a1)', 'EF(in_doubt)', 'ER(did_not_happen)', 'ES(a2)', 'ED'], 2],
      [never, 1, 'failed', ['ES(a1)', 'EF(in_doubt)', 'ER(did_not_happen)'], 1],
      [down, 3, 'quarantined', ['ES(a1)', 'EF(in_doubt)', 'ER(in_doubt)'], 1],
      [null, 3, 'quarantined', ['ES(a1)', 'EF(in_doubt)', 'ER(in_doubt)'], 1],
      [found, 3, 'succeeded', ['ES(a1)', 'EF(in_doubt)', 'ER(landed)'], 1],
    ] as const) {
      const outside = new Outside();
      const asked = { probes: 0 };
      const seen: unknown[] = [];
      const run: Run = async (context) => {
        const value = await context.effect(probed(outside, asked, answer, maxAttempts));
        seen.push(value);
        return value;
      };
      const scene = new Scene(await open(), agentOf(run));
      expect(await scene.conclude()).toMatchObject({ status });
      expect((await scene.kinds()).filter((kind) => /^E/.test(kind))).toEqual(records);
      expect(asked.probes).toBe(answer === null ? 0 : 1);
      expect(outside.requests).toBe(requests);
      expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: status });
      expect(asked.probes).toBe(answer === null ? 0 : 1);
      expect(outside.requests).toBe(requests);
      expect(seen).toEqual(status === 'succeeded' ? [seen[0], seen[0]] : []);
      if (answer === found) expect(seen[0]).toEqual({ id: 'x' });
    }
  },
);

onEachStore(
  'E61 over an announcement a probe cleared, the strict pass asks nothing either [T6 T7]',
  async (open) => {
    const outside = new Outside();
    const asked = { probes: 0 };
    const current: { scene: Scene | null } = { scene: null };
    const run: Run = (context) =>
      context.effect(
        outside.effect({
          recovery: 'reconcile',
          perform: async () => {
            outside.requests += 1;
            if (outside.requests === 1) {
              current.scene?.process.kill();
              return new Promise(() => undefined);
            }
            return 'sent';
          },
          probe: async () => {
            asked.probes += 1;
            return { outcome: 'did_not_happen' };
          },
        }),
      );
    const scene = new Scene(await open(), agentOf(run));
    current.scene = scene;
    expect(await scene.deliver()).toBe('died');
    await scene.world.recover();
    scene.restart();
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded', result: 'sent' });
    const kinds = (await scene.kinds()).filter((kind) => /^E/.test(kind));
    expect(kinds).toEqual(['ES(a1)', 'ER(did_not_happen)', 'ED']);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
    expect([asked.probes, outside.requests]).toEqual([1, 2]);
  },
);

onEachStore(
  'E72 BO-4 a strict pass over half a minute of recorded waits does not wait [T7]',
  async (open) => {
    const outside = new Outside();
    const run: Run = (context) =>
      context.effect(
        outside.effect({
          retry: { maxAttempts: 4, initialMs: 20_000, multiplier: 1, maxMs: 20_000 },
          perform: async () => {
            outside.requests += 1;
            if (outside.requests < 4) throw new EffectNotAppliedError('refused');
            return 'ok';
          },
        }),
      );
    const scene = new Scene(await open(), agentOf(run), { turnTimeoutMs: 600_000 });
    await scene.conclude();
    const waits = (await scene.journal()).flatMap((body) =>
      body.kind === 'EffectStarted' ? [body.backoffMs] : [],
    );
    expect(waits.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThanOrEqual(30_000);
    const { clock } = scene.world;
    const before = [clock.now(), clock.untilNext()];
    // Nobody turns the clock here: a pass that slept would never answer.
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
    expect([clock.now(), clock.untilNext()]).toEqual(before);
    expect(outside.requests).toBe(4);
  },
);
