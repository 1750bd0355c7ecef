// Siblings that stop together, and announcements a dead process left beside a failure (sagas.md E134 to E138, E149).
import { expect } from 'vitest';
import { planAgent } from '../../src/agent/plan/plan-agent.ts';
import type { HttpCaller, HttpRequest, HttpResult } from '../../src/ports/http-caller.ts';
import { TurnstoneError } from '../../src/protocol/errors.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import {
  abandonTurn,
  assertFact,
  reopenTurn,
  resumeByPerson,
} from '../../src/runtime/person-acts.ts';
import type { Effect, TurnContext } from '../../src/runtime/turn-context.ts';
import { onEachStore } from '../stores.ts';
import type { Run } from './scene.ts';
import { agentOf, Scene } from './scene.ts';

/** A shop over HTTP: it lists what landed and refuses the paths it is told to. */
class Shop implements HttpCaller {
  readonly calls: string[] = [];
  readonly refuses = new Set<string>();

  async call({ url }: HttpRequest): Promise<HttpResult> {
    const path = new URL(url).pathname.slice(1);
    this.calls.push(path);
    if (this.refuses.has(path)) {
      const facts = { disposition: 'did_not_happen', permanent: true, code: 'http_409' } as const;
      return { kind: 'failed', ...facts, message: `${path} is refused` };
    }
    return { kind: 'done', answer: { status: 200, headers: {}, body: { id: path } } };
  }
}

const call = (path: string) => ({
  effect: {
    kind: `shop.${path}`,
    request: { method: 'POST', url: `https://shop.example/${path}` },
    recovery: 'idempotent',
  },
});

/** A step of a plan that is taken back by the call `undo-<id>`. */
const step = (id: string, ...operations: readonly object[]) => ({
  id,
  compensation: 'compensatable',
  do: operations,
  undo: [call(`undo-${id}`)],
});

const planScene = async (open: () => Promise<ConstructorParameters<typeof Scene>[0]>) => {
  const shop = new Shop();
  return { shop, scene: new Scene(await open(), planAgent(shop)) };
};

onEachStore(
  'E134 CC-2 siblings: a refusal by the budget outranks a wait; of two failures the first in ready order is the reason [T8 T11]',
  async (open) => {
    const waits = { steps: [step('a', call('a')), step('b', { sleep: 3_600_000 })] };
    for (const steps of [waits.steps, waits.steps.toReversed()]) {
      const { shop, scene } = await planScene(open);
      const budget = { effects: 1 };
      // The first call takes the only slot, then a is refused while b waits.
      const before = { id: 'first', do: [call('first')] };
      const wave = steps.map((one) => ({ ...one, needs: ['first'] }));
      const turn = await scene.conclude('t1', { input: { steps: [before, ...wave] }, budget });
      expect(turn).toMatchObject({
        status: 'exhausted',
        error: { code: 'budget_exhausted', message: expect.stringContaining('effects') },
      });
      expect(shop.calls).toEqual(['first']);
      const kinds = await scene.kinds();
      expect(kinds.filter((kind) => kind === 'BudgetRefused')).toHaveLength(1);
      expect(kinds).not.toContain('UnwindStarted');
      expect(kinds.at(-1)).toBe('RC(exhausted)');
      expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'exhausted' });
    }
    const { shop, scene } = await planScene(open);
    shop.refuses.add('a').add('b');
    // b fails first on the clock: a makes a call before the one that is refused.
    const steps = [step('a', call('look'), call('a')), step('b', call('b'))];
    const turn = await scene.conclude('t1', { input: { steps } });
    expect(turn).toMatchObject({ status: 'failed', error: { step: 'a', message: 'a is refused' } });
    const failed = (await scene.journal()).flatMap((body) =>
      body.kind === 'EffectFailed' ? [body.site.step] : [],
    );
    expect(failed).toEqual(['b', 'a']);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'failed' });
  },
);

/** Makes calls that may kill their process, once, before or after they landed. */
class World {
  readonly calls: string[] = [];
  readonly probes: string[] = [];
  verdict: 'landed' | 'did_not_happen' | 'inconclusive' = 'inconclusive';
  kills = true;
  kill: () => void = () => undefined;

  effect(kind: string, options: Partial<Effect<unknown>> = {}): Effect<unknown> {
    return {
      kind,
      args: { kind },
      recovery: 'idempotent',
      retry: { maxAttempts: 1 },
      perform: async () => {
        this.calls.push(kind);
        return `${kind}!`;
      },
      ...options,
    };
  }

  /** The process dies with this call on its way. */
  deadly(kind: string, options: Partial<Effect<unknown>> = {}): Effect<unknown> {
    return this.effect(kind, {
      ...options,
      perform: async () => {
        this.calls.push(kind);
        if (this.kills) {
          this.kills = false;
          this.kill();
        }
        return `${kind}!`;
      },
      probe: async () => {
        this.probes.push(kind);
        return this.verdict === 'landed'
          ? { outcome: this.verdict, output: `${kind}!` }
          : { outcome: this.verdict };
      },
    });
  }

  undone(): readonly string[] {
    return this.calls.filter((kind) => kind.startsWith('undo'));
  }

  step(context: TurnContext, name: string, effect = this.effect(name)): Promise<unknown> {
    return context.step(
      name,
      {
        compensation: 'compensatable',
        undo: (undo) => undo.effect(this.effect(`undo-${name}`)),
      },
      (inner) => inner.effect(effect),
    );
  }
}

/** The first pass dies inside the deadly call; the next one meets its announcement. */
async function afterDeath(
  open: () => Promise<ConstructorParameters<typeof Scene>[0]>,
  world: World,
  run: Run,
): Promise<Scene> {
  const scene = new Scene(await open(), agentOf(run));
  const first = scene.process;
  world.kill = () => first.kill();
  expect(await scene.deliver()).toBe('died');
  await scene.passTime(11_000);
  return scene;
}

const fails = async (): Promise<never> => {
  throw new Error('c broke');
};

onEachStore(
  'E136 SA-8 a sibling left an orphan that its probe cannot tell: quarantined, nothing undone; answered, the unwind is walked [T6 T8]',
  async (open) => {
    const world = new World();
    const scene = await afterDeath(open, world, async (context) => {
      await world.step(context, 'a');
      await Promise.all([
        world.step(context, 'b', world.deadly('b', { recovery: 'reconcile' })),
        context.step('c', {}, fails),
      ]);
    });
    expect(await scene.view()).toMatchObject({
      status: 'quarantined',
      undecided: [{ step: 'b', phase: 'forward', kind: 'b', doubt: 'inconclusive' }],
    });
    expect(world.undone()).toEqual([]);
    expect(world.probes).toEqual(['b']);
    const kinds = await scene.kinds();
    expect(kinds).not.toContain('UnwindStarted');
    expect(kinds.filter((kind) => kind.startsWith('ER'))).toEqual(['ER(in_doubt)']);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'quarantined' });
    const [doubt] = (await scene.view()).undecided;
    const { runtime } = scene.world.start();
    const fact = { outcome: 'landed', output: 'b!', note: 'in the ledger' } as const;
    await assertFact(runtime, scene.ref(), doubt?.effectKey ?? '', fact, 'olga');
    await reopenTurn(runtime, scene.ref(), 'answered', 'olga', {});
    expect(await scene.view()).toMatchObject({ status: 'failed', error: { message: 'c broke' } });
    expect(world.calls).toEqual(['a', 'b', 'undo-b', 'undo-a']);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'failed' });
  },
);

// Here no conclusion ever stands over an orphan that can be settled: the pass that fails settles it first, by its
// recovery, and the failed turn stays open all the same.
onEachStore(
  'E137 SA-8 nothing compensatable, a sibling left an orphan: failed and open, the orphan settled by its recovery, never twice [T6 T8]',
  async (open) => {
    for (const recovery of ['idempotent', 'reconcile'] as const) {
      const world = new World();
      world.verdict = 'landed';
      let ill = true;
      const scene = await afterDeath(open, world, async (context) => {
        const orphan = world.deadly('b', { recovery });
        await Promise.all([
          context.step('b', { compensation: 'unnecessary' }, (step) => step.effect(orphan)),
          context.step('c', {}, async () => (ill ? fails() : 'well')),
        ]);
        return 'done';
      });
      expect(await scene.view()).toMatchObject({
        status: 'failed',
        error: { message: 'c broke' },
        undecided: [],
      });
      expect(world.calls).toEqual(recovery === 'idempotent' ? ['b', 'b'] : ['b']);
      expect(world.probes).toEqual(recovery === 'idempotent' ? [] : ['b']);
      const kinds = await scene.kinds();
      expect(kinds.filter((kind) => kind.startsWith('E'))).toEqual([
        'ES(a1)',
        recovery === 'idempotent' ? 'ED' : 'ER(landed)',
      ]);
      expect(kinds).not.toContain('UnwindStarted');
      expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'failed' });
      ill = false;
      const before = world.calls.length;
      const { runtime } = scene.world.start();
      await resumeByPerson(runtime, scene.ref(), { reason: null, budget: null }, 'olga', {});
      expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'done' });
      expect(world.calls).toHaveLength(before);
    }
  },
);

onEachStore(
  'E138 SA-8 QA-9 an orphaned read that only a person may settle: quarantined, never undone, nothing to answer; only abandoning ends it [T6 T8]',
  async (open) => {
    for (const beside of [false, true]) {
      const world = new World();
      const scene = await afterDeath(open, world, async (context) => {
        await world.step(context, 'a');
        const read = world.deadly('look', { mutates: false, recovery: 'operator' });
        await Promise.all([
          context.step('b', {}, (step) => step.effect(read)),
          ...(beside ? [context.step('c', {}, fails)] : []),
        ]);
      });
      const quarantined = { status: 'quarantined', undecided: [] };
      expect(await scene.view(), `beside ${beside}`).toMatchObject(quarantined);
      expect(world.calls).toEqual(['a', 'look']);
      expect(await scene.kinds()).not.toContain('UnwindStarted');
      const { runtime } = scene.world.start();
      await reopenTurn(runtime, scene.ref(), 'try again', 'olga', {});
      expect(await scene.view()).toMatchObject(quarantined);
      await abandonTurn(runtime, scene.ref(), 'written off', 'olga');
      expect(await scene.view()).toMatchObject({ status: 'abandoned' });
      expect(world.calls).toEqual(['a', 'look']);
    }
  },
);

// E149 itself waits with replanning (ruling 17). What stands of its rule: the plan that ran is the journal's.
onEachStore(
  'SA-5 the undo of a step is the one of the plan that ran, whatever is sent under its turn later [T2 T8]',
  async (open) => {
    const { shop, scene } = await planScene(open);
    const pay = step('pay', call('charge'));
    const ask = { id: 'ask', needs: ['pay'], do: [{ approve: { action: { ship: 1 } } }] };
    await scene.suspend('t1', { input: { steps: [pay, ask] } });
    const other = { steps: [{ ...pay, undo: [call('undo-other')] }, ask] };
    const again = await scene.deliver('t1', { input: other }).then(
      () => 'taken',
      (error: unknown) => (error instanceof TurnstoneError ? error.code : 'other'),
    );
    expect(again).toBe('turn_payload_changed');
    const { runtime } = scene.world.start();
    const { tenant } = scene.ref();
    const query = { status: 'pending' as const, limit: 10, cursor: null };
    for (const { id, digest } of (await listApprovals(runtime, tenant, query)).items) {
      const answer = { decision: 'deny' as const, digest, note: null };
      await answerApproval(runtime, tenant, id, answer, 'bob');
    }
    await scene.inbox();
    expect(await scene.view()).toMatchObject({ status: 'failed' });
    expect(shop.calls).toEqual(['charge', 'undo-pay']);
    expect((await scene.kinds()).filter((kind) => kind.startsWith('SC'))).toEqual(['SC(pay,ok)']);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'failed' });
  },
);
