// The effect protocol at every crash point, keys and determinism (sections A and B of effects.md).
// After each case: the chain verifies, a strict pass gives the same ending with no call, and a second
// delivery adds no record.
import { expect } from 'vitest';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import type { Effect, TurnContext } from '../../src/runtime/turn-context.ts';
import { EffectFailure } from '../../src/runtime/turn-context.ts';
import { verifyTurn } from '../../src/runtime/verify-turn.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import type { FaultKind } from '../../src/testing/process.ts';
import type { OpenStore } from '../stores.ts';
import { onEachStore } from '../stores.ts';
import type { Run } from './scene.ts';
import { agentOf, Outside, Scene } from './scene.ts';

/** Runs a turn whose process dies at the n-th call of a name, then recovers and delivers again. */
async function dieAt(scene: Scene, name: string, kind: FaultKind, nth = 1): Promise<void> {
  const places = (await namesOf(scene)).flatMap((at, index) => (at === name ? [index + 1] : []));
  const call = places[nth - 1] ?? 0;
  if (call === 0) throw new Error(`${name} was not called ${nth} times`);
  scene.restart({ call, kind });
  await scene.deliver();
  scene.process.kill();
  await scene.world.recover();
  scene.restart();
}

const recorded = new WeakMap<Scene, readonly string[]>();

/** The calls of an undisturbed run, learned once on another thread so that nothing of it remains here. */
async function namesOf(scene: Scene): Promise<readonly string[]> {
  const known = recorded.get(scene);
  if (known !== undefined) return known;
  const process = scene.world.start();
  const request = scene.request('rehearsal', { ref: scene.ref('rehearsal', 'rehearsal') });
  await scene.world.settle(process, withTurn(process.runtime, request));
  await scene.world.recover();
  const warm = scene.world.start();
  const second = scene.request('rehearsal-2', { ref: scene.ref('rehearsal-2', 'rehearsal-2') });
  await scene.world.settle(warm, withTurn(warm.runtime, second));
  recorded.set(scene, warm.names);
  return warm.names;
}

/** What must hold after any ended turn. */
async function afterwards(scene: Scene, outside: Outside, requests: number): Promise<void> {
  expect(outside.requests).toBe(requests);
  const before = await scene.kinds();
  const verdict = await scene.world.settle(
    scene.restart(),
    verifyTurn(scene.process.runtime, scene.ref()),
  );
  expect(verdict).toMatchObject({ verdict: 'verified' });
  await scene.conclude();
  expect(await scene.kinds()).toEqual(before);
  expect(outside.requests).toBe(requests);
}

function inStep(effect: (context: TurnContext) => Promise<unknown>): Run {
  return (context) => context.step('pay', {}, effect);
}

/** A scene whose outside forgets what the rehearsal did. */
async function sceneOf(open: OpenStore, outside: Outside, run: Run): Promise<Scene> {
  const scene = new Scene(await open(), agentOf(run));
  await namesOf(scene);
  outside.requests = 0;
  outside.keys.length = 0;
  return scene;
}

onEachStore('E1 one mutating effect and nothing goes wrong [T5]', async (open) => {
  const outside = new Outside();
  const scene = await sceneOf(
    open,
    outside,
    inStep((step) => step.effect(outside.effect())),
  );
  await scene.conclude();
  expect(await scene.kinds()).toEqual([
    'RunAdmitted',
    'StepStarted',
    'ES(a1)',
    'ED',
    'StepFinished',
    'RC(succeeded)',
  ]);
  await afterwards(scene, outside, 1);
});

onEachStore(
  'E2 a refused announcement leaves the world untouched and is no effect failure [T5]',
  async (open) => {
    const outside = new Outside();
    const scene = await sceneOf(
      open,
      outside,
      inStep((step) => step.effect(outside.effect())),
    );
    await dieAt(scene, 'store.claim', 'lostBefore');
    expect(outside.requests).toBe(0);
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
    expect(await scene.kinds()).toEqual([
      'RunAdmitted',
      'StepStarted',
      'ES(a1)',
      'ED',
      'StepFinished',
      'RC(succeeded)',
    ]);
    await afterwards(scene, outside, 1);
  },
);

onEachStore(
  'E3 an announcement that was written unheard is an orphan: operator quarantines, keyed is performed once [T5 T6]',
  async (open) => {
    for (const [recovery, status, requests] of [
      ['operator', 'quarantined', 0],
      ['idempotent', 'succeeded', 1],
    ] as const) {
      const outside = new Outside();
      const scene = await sceneOf(
        open,
        outside,
        inStep((step) => step.effect(outside.effect({ recovery }))),
      );
      await dieAt(scene, 'store.claim', 'doneButUnheard');
      expect(await scene.conclude()).toMatchObject({ status });
      expect((await scene.kinds()).filter((kind) => kind.startsWith('ES'))).toEqual(['ES(a1)']);
      await afterwards(scene, outside, requests);
    }
  },
);

/** An effect through a process that dies at its own call. */
function mortal(
  scene: () => Scene,
  outside: Outside,
  options: Partial<Effect<unknown>> = {},
): Effect<unknown> {
  return outside.effect({
    ...options,
    perform: (call) => {
      const { process } = scene();
      return process.provider('charge', async () => {
        outside.requests += 1;
        outside.keys.push(call.idempotencyKey);
        return { id: 1 };
      });
    },
  });
}

function mortalScene(
  open: OpenStore,
  outside: Outside,
  options: Partial<Effect<unknown>> = {},
): Promise<Scene> {
  const holder: { scene: Scene | null } = { scene: null };
  const current = (): Scene => {
    if (holder.scene === null) throw new Error('no scene yet');
    return holder.scene;
  };
  const run = inStep((step) => step.effect(mortal(current, outside, options)));
  return open().then(async (store) => {
    const scene = new Scene(store, agentOf(run));
    holder.scene = scene;
    const start = scene.world.start.bind(scene.world);
    scene.world.start = (fault = null) => {
      scene.process = start(fault);
      return scene.process;
    };
    await namesOf(scene);
    outside.requests = 0;
    outside.keys.length = 0;
    return scene;
  });
}

onEachStore(
  'E4 killed after the announcement, before the call, recovery retry: only the outcome is added [T6]',
  async (open) => {
    const outside = new Outside();
    const scene = await mortalScene(open, outside, { recovery: 'retry' });
    await dieAt(scene, 'provider.charge', 'lostBefore');
    expect(await scene.kinds()).toEqual([
      'RunAdmitted',
      'StepStarted',
      'ES(a1)',
      'ED',
      'StepFinished',
      'RC(succeeded)',
    ]);
    await afterwards(scene, outside, 1);
  },
);

onEachStore(
  'E5 E101 killed after the call, before the record, operator: quarantined, one request, the doubt named [T6]',
  async (open) => {
    const outside = new Outside();
    const scene = await mortalScene(open, outside);
    await dieAt(scene, 'provider.charge', 'doneButUnheard');
    const turn = await scene.conclude();
    expect(turn).toMatchObject({
      status: 'quarantined',
      undecided: [{ step: 'pay', kind: 'charge', doubt: 'announced', phase: 'forward' }],
    });
    expect(await scene.kinds()).toEqual([
      'RunAdmitted',
      'StepStarted',
      'ES(a1)',
      'RC(quarantined)',
    ]);
    await afterwards(scene, outside, 1);
  },
);

onEachStore(
  'E6 the same with an idempotency key: called again with the same key, one announcement, one attempt [T6]',
  async (open) => {
    const outside = new Outside();
    const scene = await mortalScene(open, outside, { recovery: 'idempotent' });
    await dieAt(scene, 'provider.charge', 'doneButUnheard');
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded', spend: { attempts: 1 } });
    expect(new Set(outside.keys).size).toBe(1);
    expect((await scene.kinds()).filter((kind) => kind === 'ES(a1)' || kind === 'ED')).toEqual([
      'ES(a1)',
      'ED',
    ]);
    await afterwards(scene, outside, 2);
  },
);

onEachStore(
  'E60 E63 the same, reconcilable: the probe is asked and its answer recorded; nothing is sent on "landed" [T6]',
  async (open) => {
    for (const landed of [true, false]) {
      const outside = new Outside();
      const probe = async () =>
        landed
          ? { outcome: 'landed' as const, output: { id: 'found' } }
          : { outcome: 'did_not_happen' as const };
      const scene = await mortalScene(open, outside, { recovery: 'reconcile', probe });
      await dieAt(scene, 'provider.charge', landed ? 'doneButUnheard' : 'lostBefore');
      const turn = await scene.conclude();
      expect(turn).toMatchObject({ status: 'succeeded', result: { id: landed ? 'found' : 1 } });
      const effectKinds = (await scene.kinds()).filter((kind) => /^E/.test(kind));
      expect(effectKinds).toEqual(
        landed ? ['ES(a1)', 'ER(landed)'] : ['ES(a1)', 'ER(did_not_happen)', 'ED'],
      );
      await afterwards(scene, outside, 1);
    }
  },
);

onEachStore(
  'E58 E59 a probe that throws or is not written is inconclusive: asked once, recorded, quarantined [T6]',
  async (open) => {
    for (const probe of [
      async () => {
        throw new Error('probe down');
      },
      undefined,
    ]) {
      const outside = new Outside();
      const scene = await mortalScene(open, outside, {
        recovery: 'reconcile',
        ...(probe === undefined ? {} : { probe }),
      });
      await dieAt(scene, 'provider.charge', 'doneButUnheard');
      expect(await scene.conclude()).toMatchObject({
        status: 'quarantined',
        undecided: [{ doubt: 'inconclusive' }],
      });
      expect((await scene.kinds()).filter((kind) => /^E/.test(kind))).toEqual([
        'ES(a1)',
        'ER(in_doubt)',
      ]);
      await afterwards(scene, outside, 1);
    }
  },
);

onEachStore(
  'E8 an orphan recorded as retry is repeated once though the new build says operator; its failure is judged by the new build [T6]',
  async (open) => {
    const outside = new Outside();
    const scene = await mortalScene(open, outside, { recovery: 'retry' });
    await dieInside(scene);
    const calls = outside.requests;
    const strict = inStep((step) =>
      step.effect(
        outside.effect({
          perform: async () => {
            outside.requests += 1;
            throw new EffectFailure('no answer', { code: 'timeout', disposition: 'in_doubt' });
          },
        }),
      ),
    );
    scene.deploy({ ...agentOf(strict), authority: scene.agent.authority });
    await scene.world.recover();
    expect(await scene.conclude()).toMatchObject({ status: 'quarantined' });
    expect(outside.requests).toBe(calls + 1);
  },
);

/** Leaves an orphan behind: dies inside the call and does not recover. */
async function dieInside(scene: Scene): Promise<void> {
  const names = await namesOf(scene);
  scene.restart({ call: names.indexOf('provider.charge') + 1, kind: 'lostBefore' });
  await scene.deliver();
  scene.process.kill();
}

onEachStore(
  'E9 E12 killed after the outcome was recorded: read back, no second step record [T7]',
  async (open) => {
    const outside = new Outside();
    const scene = await sceneOf(
      open,
      outside,
      inStep((step) => step.effect(outside.effect())),
    );
    await dieAt(scene, 'store.append', 'doneButUnheard');
    expect(await scene.kinds()).toEqual([
      'RunAdmitted',
      'StepStarted',
      'ES(a1)',
      'ED',
      'StepFinished',
      'RC(succeeded)',
    ]);
    await afterwards(scene, outside, 1);
  },
);

onEachStore(
  'E10 killed before the conclusion: a resume adds only that, further ones nothing [T2]',
  async (open) => {
    const outside = new Outside();
    const scene = await sceneOf(
      open,
      outside,
      inStep((step) => step.effect(outside.effect())),
    );
    await dieAt(scene, 'store.conclude', 'lostBefore');
    expect((await scene.kinds()).filter((kind) => kind.startsWith('RC'))).toEqual([
      'RC(succeeded)',
    ]);
    await afterwards(scene, outside, 1);
  },
);

onEachStore(
  'E13 a refusal whose record died with the process leaves an orphan: operator quarantines [T6]',
  async (open) => {
    const outside = new Outside();
    const refuse = outside.effect({
      retry: { maxAttempts: 1 },
      perform: async () => {
        outside.requests += 1;
        throw new EffectNotAppliedError('refused');
      },
    });
    const scene = await sceneOf(
      open,
      outside,
      inStep((step) => step.effect(refuse)),
    );
    await dieAt(scene, 'store.append', 'lostBefore');
    expect(await scene.conclude()).toMatchObject({ status: 'quarantined' });
    await afterwards(scene, outside, 1);
  },
);

onEachStore(
  'E14 E38 killed between a refusal and the next attempt: attempt 2 is announced live under its own key [T6]',
  async (open) => {
    const outside = new Outside();
    const flaky = outside.effect({
      perform: async () => {
        outside.requests += 1;
        if (outside.requests === 1) throw new EffectNotAppliedError('connection refused');
        return 'ok';
      },
    });
    const scene = await sceneOf(
      open,
      outside,
      inStep((step) => step.effect(flaky)),
    );
    const dying = scene.restart({ call: 6, kind: 'lostBefore' });
    await scene.deliver();
    expect(dying.names.slice(-3)).toEqual(['store.claim', 'store.append', 'store.append']);
    await scene.world.recover();
    scene.restart();
    expect(await scene.conclude()).toMatchObject({
      status: 'succeeded',
      spend: { effects: 1, attempts: 2 },
    });
    expect((await scene.kinds()).filter((kind) => /^E/.test(kind))).toEqual([
      'ES(a1)',
      'EF(did_not_happen)',
      'ES(a2)',
      'ED',
    ]);
    await afterwards(scene, outside, 2);
  },
);

onEachStore(
  'E16 an effect that declares nothing quarantines as an orphan; a declared read is performed again [T6]',
  async (open) => {
    for (const [mutates, status, requests] of [
      [undefined, 'quarantined', 1],
      [false, 'succeeded', 2],
    ] as const) {
      const outside = new Outside();
      const scene = await mortalScene(open, outside, mutates === undefined ? {} : { mutates });
      await dieAt(scene, 'provider.charge', 'doneButUnheard');
      expect(await scene.conclude()).toMatchObject({ status });
      await afterwards(scene, outside, requests);
    }
  },
);

onEachStore(
  'E19 a stop during a call lets it finish and hands the lease back: no orphan [T6]',
  async (open) => {
    const outside = new Outside();
    const gate = Promise.withResolvers<void>();
    const run: Run = async (context) => {
      await context.effect(
        outside.effect({
          perform: async () => {
            outside.requests += 1;
            await gate.promise;
            return 1;
          },
        }),
      );
      return context.effect(outside.effect({ kind: 'mail' }));
    };
    const scene = new Scene(await open(), agentOf(run));
    const drain = new AbortController();
    const pass = withTurn(scene.process.runtime, scene.request('t1', { drain: drain.signal }));
    while (outside.requests === 0) await new Promise(setImmediate);
    drain.abort(new Error('SIGTERM'));
    gate.resolve();
    expect(await scene.world.settle(scene.process, pass)).toMatchObject({
      kind: 'pending',
      turn: { status: 'running' },
    });
    expect((await scene.kinds()).filter((kind) => /^E/.test(kind))).toEqual(['ES(a1)', 'ED']);
    expect(scene.world.queues.inbox.accepted).toHaveLength(1);
    scene.restart();
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
    await afterwards(scene, outside, 2);
  },
);

onEachStore(
  'E21 two byte-identical calls are two effects, each replayed with its own answer [T7]',
  async (open) => {
    const outside = new Outside();
    const run: Run = async (context) => [
      await context.effect(outside.effect()),
      await context.effect(outside.effect()),
    ];
    const scene = await sceneOf(open, outside, run);
    expect(await scene.conclude()).toMatchObject({ result: [{ id: 1 }, { id: 2 }] });
    expect(
      new Set(
        (await scene.journal()).flatMap((body) =>
          body.kind === 'EffectStarted' ? [body.key] : [],
        ),
      ).size,
    ).toBe(2);
    await afterwards(scene, outside, 2);
  },
);

onEachStore('E22 a swallowed doubt still quarantines (decision 6) [T6]', async (open) => {
  const outside = new Outside();
  const fail = outside.effect({
    perform: async () => {
      outside.requests += 1;
      throw new Error('socket hang up');
    },
  });
  const scene = new Scene(
    await open(),
    agentOf(async (context) => {
      await context.effect(fail).catch(() => undefined);
      return 'all fine';
    }),
  );
  expect(await scene.conclude()).toMatchObject({
    status: 'quarantined',
    undecided: [{ kind: 'charge', doubt: 'inconclusive' }],
    revision: 0,
  });
  await afterwards(scene, outside, 1);
});

onEachStore(
  'E24 F11 three siblings die inside their calls: one read back, one repeated, one quarantined [T6 T7]',
  async (open) => {
    const outside = new Outside();
    const holder: { scene: Scene | null } = { scene: null };
    const block = { on: true };
    const call = (
      kind: string,
      recovery: 'idempotent' | 'operator',
      hang: boolean,
    ): Effect<unknown> => ({
      kind,
      args: {},
      recovery,
      perform: () =>
        (holder.scene as Scene).process.provider(kind, async () => {
          outside.requests += 1;
          if (hang && block.on) await new Promise(() => undefined);
          return kind;
        }),
    });
    const run: Run = (context) =>
      Promise.all([
        context.step('a', {}, (step) => step.effect(call('a', 'operator', false))),
        context.step('b', {}, (step) => step.effect(call('b', 'idempotent', true))),
        context.step('c', {}, (step) => step.effect(call('c', 'operator', true))),
      ]);
    const scene = new Scene(await open(), agentOf(run));
    holder.scene = scene;
    void withTurn(scene.process.runtime, scene.request());
    while ((await scene.kinds()).filter((kind) => kind === 'ED').length < 1)
      await new Promise(setImmediate);
    scene.process.kill();
    block.on = false;
    scene.world.clock.advance(60_000);
    scene.restart();
    const turn = await scene.conclude();
    expect(turn).toMatchObject({ status: 'quarantined', undecided: [{ step: 'c' }] });
    expect((await scene.kinds()).filter((kind) => kind === 'ED')).toHaveLength(2);
    await afterwards(scene, outside, 4);
  },
);

/** Records a turn, then leaves it open so that another build can resume it. */
async function openThen(
  open: OpenStore,
  before: Run,
  after: Run,
): Promise<{ scene: Scene; outside: Outside }> {
  const outside = new Outside();
  const scene = new Scene(await open(), agentOf(before));
  await namesOf(scene);
  const names = await namesOf(scene);
  scene.restart({ call: names.indexOf('store.conclude') + 1, kind: 'lostBefore' });
  await scene.deliver();
  scene.process.kill();
  scene.deploy({ ...agentOf(after), authority: scene.agent.authority });
  scene.world.clock.advance(60_000);
  return { scene, outside };
}

const quiet = (kind: string, args: unknown): Effect<unknown> => ({
  kind,
  args,
  recovery: 'idempotent',
  perform: async () => kind,
});

onEachStore(
  'E28 a renamed step is a divergence naming step and both keys; nothing is performed [T7]',
  async (open) => {
    const { scene } = await openThen(
      open,
      (context) => context.step('reserve', {}, (step) => step.effect(quiet('a', 1))),
      (context) => context.step('hold', {}, (step) => step.effect(quiet('a', 1))),
    );
    const turn = await scene.conclude();
    expect(turn).toMatchObject({
      status: 'quarantined',
      error: { code: 'divergence', step: 'reserve' },
    });
    expect(turn.error?.message).toContain('the code asks for a (');
  },
);

onEachStore(
  'E29 E296 one argument of the second effect changed: the first is read back, then divergence at the second [T7]',
  async (open) => {
    const run =
      (second: number): Run =>
      async (context) => [
        await context.effect(quiet('a', 1)),
        await context.effect(quiet('b', second)),
      ];
    const { scene } = await openThen(open, run(1), run(2));
    const turn = await scene.conclude();
    expect(turn).toMatchObject({ status: 'quarantined', error: { code: 'divergence' } });
    expect(turn.error?.message).toContain('effect 1: the journal holds b');
    expect(turn.error?.message).toContain('moved: args');
  },
);

onEachStore('E30 two swapped effects are a divergence at the first [T7]', async (open) => {
  const run =
    (kinds: readonly string[]): Run =>
    async (context) => {
      for (const kind of kinds) await context.effect(quiet(kind, 1));
    };
  const { scene } = await openThen(open, run(['a', 'b']), run(['b', 'a']));
  const turn = await scene.conclude();
  expect(turn.error?.message).toContain('effect 0: the journal holds a');
  expect(turn.error?.message).toContain('moved: kind');
});

onEachStore(
  'E32 a dropped last effect is a divergence on resume and in a strict pass (decision 7) [T7]',
  async (open) => {
    const run =
      (kinds: readonly string[]): Run =>
      (context) =>
        context.step('pay', {}, async (step) => {
          for (const kind of kinds) await step.effect(quiet(kind, 1));
        });
    const { scene } = await openThen(open, run(['a', 'b']), run(['a']));
    expect(await scene.conclude()).toMatchObject({
      status: 'quarantined',
      error: { code: 'divergence' },
    });
    const whole = new Scene(await open(), agentOf(run(['a', 'b'])));
    await whole.conclude();
    whole.deploy({ ...agentOf(run(['a'])), authority: whole.agent.authority });
    const verdict = await whole.world.settle(
      whole.process,
      verifyTurn(whole.process.runtime, whole.ref()),
    );
    expect(verdict).toMatchObject({
      verdict: 'diverged',
      step: 'pay',
      ordinal: 1,
      moved: 'missing',
    });
  },
);

onEachStore(
  'E34 E50 E33 another retry policy or limit does not move a strict pass [T7]',
  async (open) => {
    const flaky =
      (outside: Outside, maxAttempts: number): Run =>
      (context) =>
        context.effect(
          outside.effect({
            retry: { maxAttempts },
            perform: async () => {
              outside.requests += 1;
              if (outside.requests < 4) throw new EffectNotAppliedError('refused');
              return 'ok';
            },
          }),
        );
    const outside = new Outside();
    const scene = new Scene(await open(), agentOf(flaky(outside, 4)));
    await scene.conclude();
    scene.deploy({ ...agentOf(flaky(outside, 2)), authority: scene.agent.authority });
    const verdict = await scene.world.settle(
      scene.process,
      verifyTurn(scene.process.runtime, scene.ref()),
    );
    expect(verdict).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
    expect(outside.requests).toBe(4);
  },
);

onEachStore(
  'E37 siblings that interleaved otherwise replay to the same verdict [T7]',
  async (open) => {
    const turns = { first: 'a' };
    const gates = { a: Promise.withResolvers<void>(), b: Promise.withResolvers<void>() };
    const call = (kind: 'a' | 'b'): Effect<unknown> => ({
      kind,
      args: 1,
      mutates: false,
      perform: async () => {
        await gates[kind].promise;
        return kind;
      },
    });
    const run: Run = (context) =>
      Promise.all(
        (['a', 'b'] as const).map((kind) =>
          context.step(kind, {}, async (step) => [
            await step.effect(call(kind)),
            await step.effect(quiet(`${kind}2`, 1)),
          ]),
        ),
      );
    const scene = new Scene(await open(), agentOf(run));
    const pass = withTurn(scene.process.runtime, scene.request());
    gates.b.resolve();
    for (let tick = 0; tick < 200; tick += 1) await new Promise(setImmediate);
    gates.a.resolve();
    const answer = await scene.world.settle(scene.process, pass);
    expect(answer).toMatchObject({
      kind: 'concluded',
      turn: {
        result: [
          ['a', 'a2'],
          ['b', 'b2'],
        ],
      },
    });
    expect(turns.first).toBe('a');
    const verdict = await scene.world.settle(
      scene.process,
      verifyTurn(scene.process.runtime, scene.ref()),
    );
    expect(verdict).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'E40 E41 E42 F15 an error that says nothing is in doubt; keyed repeats with one key and then quarantines; a read fails [T6]',
  async (open) => {
    for (const [options, status, requests] of [
      [{}, 'quarantined', 1],
      [{ recovery: 'idempotent' as const }, 'quarantined', 3],
      [{ mutates: false }, 'failed', 3],
    ] as const) {
      const outside = new Outside();
      const fail = outside.effect({
        ...options,
        perform: async (call) => {
          outside.requests += 1;
          outside.keys.push(call.idempotencyKey);
          throw new Error('socket hang up');
        },
      });
      const scene = new Scene(
        await open(),
        agentOf((context) => context.effect(fail)),
      );
      expect(await scene.conclude()).toMatchObject({ status });
      expect(new Set(outside.keys).size).toBe(1);
      await afterwards(scene, outside, requests);
    }
  },
);

onEachStore(
  'ruling 1: a refusal after a send in doubt leaves the dispatch in doubt [T6]',
  async (open) => {
    const outside = new Outside();
    const fail = outside.effect({
      recovery: 'idempotent',
      perform: async () => {
        outside.requests += 1;
        if (outside.requests === 1) throw new Error('socket hang up');
        throw new EffectFailure('404', {
          code: 'http_404',
          disposition: 'did_not_happen',
          permanent: true,
        });
      },
    });
    const scene = new Scene(
      await open(),
      agentOf((context) => context.effect(fail)),
    );
    expect(await scene.conclude()).toMatchObject({
      status: 'quarantined',
      undecided: [{ kind: 'charge' }],
    });
    await afterwards(scene, outside, 2);
  },
);

onEachStore(
  'ruling 1: a refusal of a repeat under the same key after a crash leaves it in doubt [T6]',
  async (open) => {
    const outside = new Outside();
    const scene = await mortalScene(open, outside, {
      recovery: 'idempotent',
      retry: { maxAttempts: 1 },
    });
    await dieInside(scene);
    outside.requests = 1;
    const refuse = inStep((step) =>
      step.effect(
        outside.effect({
          recovery: 'idempotent',
          retry: { maxAttempts: 1 },
          perform: async () => {
            outside.requests += 1;
            throw new EffectFailure('404', {
              code: 'http_404',
              disposition: 'did_not_happen',
              permanent: true,
            });
          },
        }),
      ),
    );
    scene.deploy({ ...agentOf(refuse), authority: scene.agent.authority });
    await scene.world.recover();
    expect(await scene.conclude()).toMatchObject({ status: 'quarantined' });
    expect((await scene.kinds()).filter((kind) => /^E/.test(kind))).toEqual([
      'ES(a1)',
      'EF(in_doubt)',
    ]);
  },
);

onEachStore(
  'E44 E45 a permanent refusal is one attempt, also for a build that forgets the mark [T7]',
  async (open) => {
    const outside = new Outside();
    const refuse = (permanent: boolean) =>
      outside.effect({
        retry: { maxAttempts: 5 },
        perform: async () => {
          outside.requests += 1;
          throw new EffectFailure('no', {
            code: 'refused',
            disposition: 'did_not_happen',
            permanent,
          });
        },
      });
    const scene = new Scene(
      await open(),
      agentOf((context) => context.effect(refuse(true))),
    );
    expect(await scene.conclude()).toMatchObject({ status: 'failed', error: { code: 'refused' } });
    scene.deploy({
      ...agentOf((context) => context.effect(refuse(false))),
      authority: scene.agent.authority,
    });
    const verdict = await scene.world.settle(
      scene.process,
      verifyTurn(scene.process.runtime, scene.ref()),
    );
    expect(verdict).toMatchObject({ verdict: 'verified', outcome: 'failed' });
    await afterwards(scene, outside, 1);
  },
);

onEachStore(
  'E328 F33 a landed answer over every limit is recorded with its digest and fails visibly; smaller ones are kept in parts [T5]',
  async (open) => {
    const outside = new Outside();
    for (const [size, status] of [
      [100_000, 'succeeded'],
      [399_000, 'succeeded'],
      [401_000, 'succeeded'],
      [5_000_000, 'failed'],
    ] as const) {
      outside.requests = 0;
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          const text = await context.effect(
            outside.effect({
              perform: async () => {
                outside.requests += 1;
                return '😀'.repeat(size / 4);
              },
            }),
          );
          return typeof text === 'string' ? Buffer.byteLength(text) : 0;
        }),
      );
      const turn = await scene.conclude();
      expect(turn).toMatchObject(
        status === 'succeeded'
          ? { status, result: size }
          : { status, error: { code: 'output_too_large' } },
      );
      await afterwards(scene, outside, 1);
    }
  },
);

onEachStore(
  'E302 notes after the last effect are written once however often a pass runs (decision 12)',
  async (open) => {
    const run: Run = async (context) => {
      await context.effect(quiet('a', 1));
      context.note('one');
      await context.effect(quiet('b', 1));
      context.note('two');
    };
    const { scene } = await openThen(open, run, run);
    await scene.conclude();
    expect((await scene.kinds()).filter((kind) => kind === 'Note')).toHaveLength(2);
  },
);

onEachStore('time, randomness and ids are the same on every pass [T7]', async (open) => {
  const seen: unknown[] = [];
  const run: Run = async (context) => {
    await context.effect(quiet('a', 1));
    const drawn = [context.now(), context.random(), context.uuid()];
    seen.push(drawn);
    await context.effect(quiet('b', drawn));
    return drawn;
  };
  const { scene } = await openThen(open, run, run);
  seen.length = 0;
  expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
  await scene.world.settle(scene.process, verifyTurn(scene.process.runtime, scene.ref()));
  expect(seen.length).toBe(2);
  expect(seen[0]).toEqual(seen[1]);
});
