// Goal: whatever a turn is made of, and however often its processes die, the world ends as the turn's word says.
// Method: turns drawn from a seed (steps side by side, calls, approvals, naps, acts, groups, undo, a failure somewhere),
// driven by processes that die at random calls, until they rest; then the provider's ledger is read against the ending.
import { expect } from 'vitest';
import type { Recovery } from '../../src/protocol/effect-decision.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { handleInboxBatch } from '../../src/runtime/drive.ts';
import { handleIntentBatch } from '../../src/runtime/effector.ts';
import { sweep } from '../../src/runtime/sweep.ts';
import type { Effect, TurnContext } from '../../src/runtime/turn-context.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import type { Fault, Process } from '../../src/testing/process.ts';
import { ScriptedProvider } from '../../src/testing/scripted-provider.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';

type Op =
  | { readonly kind: 'call'; readonly name: string; readonly recovery: Recovery }
  | { readonly kind: 'approve' | 'sleep' }
  | { readonly kind: 'act'; readonly name: string; readonly waits: boolean }
  | {
      readonly kind: 'group';
      readonly name: string;
      readonly holds: readonly string[];
      readonly deferred: string | null;
      readonly asks: boolean;
      readonly commits: boolean;
    };

interface Step {
  readonly name: string;
  readonly ops: readonly Op[];
  readonly fails: boolean;
}

/** Waves of steps that run side by side. */
type Drawn = readonly (readonly Step[])[];

function draws(seed: number) {
  let state = seed >>> 0;
  const random = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const upTo = (most: number): number => Math.floor(random() * most);
  return { random, upTo };
}

function draw(seed: number): Drawn {
  const { random, upTo } = draws(seed);
  let names = 0;
  const name = (what: string): string => {
    names += 1;
    return `${what}${names}`;
  };
  const op = (): Op => {
    const dice = random();
    if (dice < 0.25) return { kind: 'call', name: name('k'), recovery: 'idempotent' };
    if (dice < 0.45) return { kind: 'call', name: name('q'), recovery: 'reconcile' };
    if (dice < 0.6) return { kind: 'approve' };
    if (dice < 0.7) return { kind: 'sleep' };
    if (dice < 0.82) return { kind: 'act', name: name('act'), waits: random() < 0.5 };
    return {
      kind: 'group',
      name: name('g'),
      holds: Array.from({ length: 1 + upTo(2) }, () => name('h')),
      deferred: random() < 0.6 ? name('d') : null,
      asks: random() < 0.3,
      commits: random() < 0.6,
    };
  };
  const waves = Array.from({ length: 1 + upTo(3) }, () =>
    Array.from({ length: 1 + upTo(2) }, () => ({
      name: name('s'),
      ops: Array.from({ length: 1 + upTo(3) }, op),
      fails: false,
    })),
  );
  if (random() < 0.5) return waves;
  const last = waves.length - 1;
  return waves.map((wave, at) =>
    at === last ? wave.map((step, index) => ({ ...step, fails: index === 0 })) : wave,
  );
}

function agentFor(drawn: Drawn, provider: ScriptedProvider, current: () => Process) {
  const call = (name: string, recovery: Recovery): Effect<unknown> => ({
    kind: name,
    args: { name },
    recovery,
    perform: ({ idempotencyKey }) =>
      current().provider(name, async () =>
        provider.call(name, idempotencyKey, { dedup: recovery === 'idempotent' }),
      ),
    probe: ({ idempotencyKey }) =>
      current().provider(`probe.${name}`, async () => provider.probe(name, idempotencyKey)),
  });
  const keyed = (name: string): Effect<unknown> => call(name, 'idempotent');
  const perform = async (context: TurnContext, op: Op): Promise<void> => {
    switch (op.kind) {
      case 'call':
        await context.effect(call(op.name, op.recovery));
        return;
      case 'approve':
        if ((await context.approval({ action: 'go' })).decision !== 'approved')
          throw new Error('denied');
        return;
      case 'sleep':
        return context.sleep(5_000);
      case 'act': {
        const id = await context.act({ kind: 'post', args: { name: op.name } });
        if (op.waits) await context.event({ type: 'act.result', correlation: id });
        return;
      }
      case 'group': {
        const group = context.openGroup(op.name, ['stock']);
        for (const hold of op.holds) {
          await group.reversible(keyed(hold), 'stock', () => keyed(`un-${hold}`));
        }
        if (op.asks) await context.approval({ action: 'commit?' });
        if (op.deferred !== null) group.deferred(keyed(op.deferred), 'stock');
        if (op.commits) await group.commit();
        else await group.abort();
      }
    }
  };
  return agentOf(
    async (context) => {
      for (const wave of drawn) {
        const ended = await Promise.allSettled(
          wave.map((step) =>
            context.step(
              step.name,
              {
                compensation: 'compensatable',
                undo: (undo) => undo.effect(keyed(`undo-${step.name}`)),
              },
              async (inner) => {
                for (const op of step.ops) await perform(inner, op);
                if (step.fails) throw new Error('as drawn');
              },
            ),
          ),
        );
        const stops = ended.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []));
        const worst = stops.find((stop) => stop?.code !== 'turn_suspended') ?? stops[0];
        if (worst !== undefined) throw worst;
      }
      return 'done';
    },
    {
      acts: {
        post: (args) => ({
          ...call((args as { name: string }).name, 'idempotent'),
        }),
      },
    },
  );
}

async function drive(seed: number, scene: Scene, use: (process: Process) => void): Promise<void> {
  const { random, upTo } = draws(seed * 7919 + 13);
  const start = (calm: boolean): Process => {
    const fault: Fault | null =
      calm || random() < 0.4
        ? null
        : { call: 1 + upTo(20), kind: random() < 0.5 ? 'lostBefore' : 'doneButUnheard' };
    const process = scene.world.start(fault);
    use(process);
    return process;
  };
  const run = async <T>(calm: boolean, work: (process: Process) => Promise<T>): Promise<void> => {
    const process = start(calm);
    await scene.world.settle(
      process,
      work(process).catch(() => null),
    );
    // Whoever did not die goes on to its end; the rest is the next process's.
    process.kill();
  };
  for (let round = 0; round < 120; round += 1) {
    const calm = round > 25;
    await run(calm, (process) => withTurn(process.runtime, scene.request()));
    scene.world.clock.advance(11_000);
    scene.world.queues.inbox.forgetIds();
    scene.world.queues.intents.forgetIds();
    await run(calm, (process) => sweep(process.runtime));
    const inbox = scene.world.queues.inbox.take();
    if (inbox.length > 0) {
      const batch = inbox.map(({ body }, index) => ({ id: `${index}`, body, receives: 1 }));
      await run(calm, (process) => handleInboxBatch(process.runtime, batch, {}));
    }
    const intents = scene.world.queues.intents.take();
    if (intents.length > 0) {
      const batch = intents.map(({ body }, index) => ({ id: `${index}`, body, receives: 1 }));
      await run(calm, (process) => handleIntentBatch(process.runtime, batch, {}));
    }
    await run(calm, async (process) => {
      const { tenant } = scene.ref();
      const page = { status: 'pending' as const, limit: 100, cursor: null };
      for (const { id, digest } of (await listApprovals(process.runtime, tenant, page)).items) {
        const answer = { decision: 'approve' as const, digest, note: null };
        await answerApproval(process.runtime, tenant, id, answer, 'bob').catch(() => null);
      }
    });
    const { status } = await scene.view().catch(() => ({ status: 'unknown' }));
    const owed = await scene.world.store.owedIntents(scene.world.clock.now(), 10);
    const ended = status !== 'running' && status !== 'suspended' && status !== 'unknown';
    if (ended && (owed.length === 0 || round > 60)) return;
  }
  throw new Error('the turn did not come to rest');
}

function check(drawn: Drawn, provider: ScriptedProvider, status: string, at: string): void {
  const failing = drawn.flat().some((step) => step.fails);
  expect(status, at).toBe(failing ? 'failed' : 'succeeded');
  for (const step of drawn.flat()) {
    for (const op of step.ops) {
      if (op.kind === 'call') {
        const landed = provider.landed(op.name);
        expect(landed, `${at} ${op.name}`).toBeLessThanOrEqual(1);
        if (!failing) expect(landed, `${at} ${op.name}`).toBe(1);
      }
      if (op.kind === 'act') {
        expect(provider.landed(op.name), `${at} ${op.name}`).toBeLessThanOrEqual(1);
        if (!failing) expect(provider.landed(op.name), `${at} ${op.name}`).toBe(1);
      }
      if (op.kind === 'group') checkGroup(op, provider, failing, at);
    }
    if (!failing) expect(provider.landed(`undo-${step.name}`), `${at} ${step.name}`).toBe(0);
    else expect(provider.landed(`undo-${step.name}`), `${at} ${step.name}`).toBeLessThanOrEqual(1);
  }
}

function checkGroup(
  op: Extract<Op, { kind: 'group' }>,
  provider: ScriptedProvider,
  failing: boolean,
  at: string,
): void {
  const sent = op.deferred === null ? 0 : provider.landed(op.deferred);
  for (const hold of op.holds) {
    const held = provider.landed(hold);
    const released = provider.landed(`un-${hold}`);
    expect(held, `${at} ${hold}`).toBeLessThanOrEqual(1);
    expect(released, `${at} un-${hold}`).toBeLessThanOrEqual(held);
    if (sent > 0) expect(released, `${at} nothing is taken back once ${op.deferred} left`).toBe(0);
    if (!op.commits) expect(released, `${at} ${op.name} was aborted`).toBe(held);
  }
  if (!op.commits) expect(sent, `${at} ${op.deferred} of an aborted group`).toBe(0);
  if (op.commits && !failing && op.deferred !== null) expect(sent, at).toBe(1);
}

onEachStore(
  'turns of every kind under processes that die again and again end as they say [T1 T5 T6 T7 T8 T9 T10]',
  async (open) => {
    const store = await open();
    const seeds = store.constructor.name.includes('Sqlite') ? Number(process.env.CHAOS ?? 200) : 12;
    await store.close();
    for (let seed = 1; seed <= seeds; seed += 1) {
      const drawn = draw(seed);
      const provider = new ScriptedProvider();
      let process: Process | null = null;
      const scene = new Scene(
        await open(),
        agentFor(drawn, provider, () => process as Process),
      );
      const at = `seed ${seed}`;
      await drive(seed, scene, (next) => {
        process = next;
      }).catch(async (error: unknown) => {
        throw new Error(
          `${at}: ${String(error)} ${JSON.stringify(drawn)} ${(await scene.kinds()).join(' ')}`,
        );
      });
      const view = await scene.view();
      check(
        drawn,
        provider,
        view.status,
        `${at} ${JSON.stringify(drawn)} ${JSON.stringify(view.error)}`,
      );
      expect(await scene.strict(), at).toMatchObject({ verdict: 'verified', outcome: view.status });
      const kinds = await scene.kinds();
      const keys = (await scene.journal()).flatMap((body) =>
        body.kind === 'EffectStarted' ? [body.key] : [],
      );
      expect(new Set(keys).size, at).toBe(keys.length);
      expect(
        kinds.filter((kind) => kind.startsWith('RC')),
        at,
      ).toHaveLength(1);
    }
  },
);
