// The tenant's ledger: what turns spend is counted once wherever they die, and a ceiling over all of them pauses.
import { expect } from 'vitest';
import type { TurnStore } from '../../src/ports/store.ts';
import { limits } from '../../src/protocol/limits.ts';
import type { TenantBudget } from '../../src/protocol/tenant-budget.ts';
import { periodOf } from '../../src/protocol/tenant-budget.ts';
import { defineTurnAgent } from '../../src/runtime/agent-definition.ts';
import { assertFact, reopenTurn, resumeByPerson } from '../../src/runtime/person-acts.ts';
import { sweep } from '../../src/runtime/sweep.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import { exploreCrashes } from '../../src/testing/crash-explorer.ts';
import { ScriptedProvider } from '../../src/testing/scripted-provider.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, type Run, Scene } from './scene.ts';

const day = 86_400_000;
const ceiling = (of: Partial<TenantBudget>): { tenantBudget: TenantBudget } => ({
  tenantBudget: { period: 'day', ...of },
});

function spent(scene: Scene, budget: TenantBudget) {
  return scene.world.store.spentIn(scene.ref().tenant, periodOf(budget, scene.world.clock.now()));
}

/** One call that bills tokens. */
const billing =
  (outside: Outside, tokens: number): Run =>
  (context) =>
    context.effect(
      outside.effect({
        recovery: 'idempotent',
        perform: async (call) => {
          outside.requests += 1;
          call.bill({ tokens });
          return 1;
        },
      }),
    );

onEachStore(
  'E98 BU-10 a turn that rests ten times charges its tenant once; its own total is the same on every pass [T11]',
  async (open) => {
    const outside = new Outside();
    const { tenantBudget } = ceiling({ tokens: 1_000 });
    const totals: number[] = [];
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await billing(outside, 100)(context, null);
        for (let n = 0; n < 10; n += 1) await context.sleep(60_000);
        return 'rested';
      }),
      { tenantBudget },
    );
    totals.push((await scene.suspend()).spend.tokens);
    for (let n = 0; n < 10; n += 1) {
      expect(await spent(scene, tenantBudget)).toEqual({ tokens: 100, minorUnits: 0 });
      await scene.passTime(60_000);
      totals.push((await scene.view()).spend.tokens);
    }
    expect(await scene.view()).toMatchObject({ status: 'succeeded', spend: { tokens: 100 } });
    expect(totals).toEqual(totals.map(() => 100));
    expect(await spent(scene, tenantBudget)).toEqual({ tokens: 100, minorUnits: 0 });
    expect(outside.requests).toBe(1);
  },
);

onEachStore(
  'a tenant over its ceiling pauses the turn that asks next, and the next period goes on with the same call [T11]',
  async (open) => {
    const outside = new Outside();
    const { tenantBudget } = ceiling({ tokens: 100 });
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await billing(outside, 60)(context, null);
        return billing(outside, 60)(context, null);
      }),
      { tenantBudget },
    );
    expect(await scene.conclude('t1')).toMatchObject({ status: 'succeeded' });
    // Both calls of t1 were let through: 120 of 100, one operation over.
    expect(await spent(scene, tenantBudget)).toEqual({ tokens: 120, minorUnits: 0 });
    const refused = await scene.conclude('t2');
    expect(refused).toMatchObject({
      status: 'exhausted',
      error: { code: 'budget_exhausted', message: "the tenant's budget is exhausted: tokens" },
      spend: { attempts: 0 },
      revision: 1,
    });
    const before = await scene.kinds('t2');
    expect(before).toEqual(['RunAdmitted', 'RC(exhausted)']);
    const resume = () => {
      const { runtime } = scene.process;
      const work = resumeByPerson(
        runtime,
        scene.ref('t2'),
        { reason: 'again', budget: null },
        'olga',
        {},
      );
      return scene.world.settle(scene.process, work);
    };
    expect(await resume()).toMatchObject({ turn: { status: 'exhausted' } });
    expect(outside.requests).toBe(2);
    scene.world.clock.advance(day);
    expect(await resume()).toMatchObject({ turn: { status: 'succeeded', revision: 2 } });
    expect(await scene.strict('t2')).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
    expect(await spent(scene, tenantBudget)).toEqual({ tokens: 120, minorUnits: 0 });
  },
);

onEachStore(
  'BU-8 a refusal at a live attempt is recorded once, raised again from history and readmitted in its place [T11]',
  async (open) => {
    const outside = new Outside();
    const { tenantBudget } = ceiling({ minorUnits: 10 });
    const pay = (n: number) =>
      outside.effect({ recovery: 'idempotent', args: { n }, cost: { minorUnits: 6 } });
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.effect(pay(1));
        return context.effect(pay(2));
      }),
      { tenantBudget },
    );
    expect(await scene.conclude()).toMatchObject({
      status: 'exhausted',
      error: { message: expect.stringContaining('tenant') },
      spend: { minorUnits: 6 },
    });
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'exhausted' });
    const resume = () => {
      const { runtime } = scene.process;
      const work = resumeByPerson(
        runtime,
        scene.ref(),
        { reason: 'again', budget: null },
        'olga',
        {},
      );
      return scene.world.settle(scene.process, work);
    };
    const before = await scene.kinds();
    expect(await resume()).toMatchObject({ turn: { status: 'exhausted' } });
    expect(await scene.kinds()).toEqual(before);
    expect(outside.requests).toBe(1);
    scene.world.clock.advance(day);
    expect(await resume()).toMatchObject({
      turn: { status: 'succeeded', spend: { minorUnits: 12 } },
    });
    const kinds = await scene.kinds();
    expect(kinds.filter((kind) => kind.startsWith('Budget'))).toEqual([
      'BudgetRefused',
      'BudgetReadmitted',
    ]);
    // The new day is charged what the day before was not.
    expect(await spent(scene, tenantBudget)).toEqual({ tokens: 0, minorUnits: 6 });
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
  },
);

onEachStore(
  'GA-3 an undo passes a tenant over its ceiling, and is billed; parallel calls of one turn are exact [T11]',
  async (open) => {
    const outside = new Outside();
    const { tenantBudget } = ceiling({ minorUnits: 10 });
    const pay = (kind: string, n: number) =>
      outside.effect({ kind, recovery: 'idempotent', args: { n }, cost: { minorUnits: 5 } });
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        const all = Array.from({ length: 4 }, (_, n) =>
          context.step(
            `pay-${n}`,
            {
              compensation: 'compensatable',
              undo: (step) => step.effect(pay('refund', n)),
            },
            (step) => step.effect(pay('charge', n)),
          ),
        );
        const ends = await Promise.allSettled(all);
        if (ends.filter((end) => end.status === 'fulfilled').length !== 2)
          throw new Error('not two');
        throw new Error('take it back');
      }),
      { tenantBudget },
    );
    expect(await scene.conclude()).toMatchObject({ status: 'failed', spend: { minorUnits: 20 } });
    expect(outside.requests).toBe(4);
    expect(await spent(scene, tenantBudget)).toEqual({ tokens: 0, minorUnits: 20 });
  },
);

onEachStore(
  'F41 a doubt keeps its reserve in the ledger; what it came to is not counted a second time [T11]',
  async (open) => {
    const outside = new Outside();
    const { tenantBudget } = ceiling({ minorUnits: 100 });
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.effect(
          outside.effect({
            cost: { minorUnits: 6 },
            perform: async () => {
              scene.process.kill();
              return 1;
            },
          }),
        );
        return context.effect(
          outside.effect({ recovery: 'idempotent', args: 2, cost: { minorUnits: 9 } }),
        );
      }),
      { tenantBudget },
    );
    await scene.deliver();
    await scene.world.recover();
    scene.restart();
    const turn = await scene.view();
    expect(turn).toMatchObject({ status: 'quarantined', spend: { minorUnits: 0 } });
    expect(await spent(scene, tenantBudget)).toEqual({ tokens: 0, minorUnits: 6 });
    const { runtime } = scene.process;
    const fact = { outcome: 'landed' as const, output: 1, note: 'seen at the bank' };
    await assertFact(runtime, scene.ref(), turn.undecided[0]?.effectKey ?? '', fact, 'olga');
    const reopened = reopenTurn(runtime, scene.ref(), 'go on', 'olga', {});
    await scene.world.settle(scene.process, reopened);
    expect(await scene.view()).toMatchObject({ status: 'succeeded', spend: { minorUnits: 9 } });
    expect(await spent(scene, tenantBudget)).toEqual({ tokens: 0, minorUnits: 9 });
  },
);

onEachStore(
  'the sweeper rolls a long ledger up: the same sum before, between and after, also from two sweepers [T11]',
  async (open) => {
    const outside = new Outside();
    const { tenantBudget } = ceiling({ tokens: 1_000_000 });
    const scene = new Scene(await open(), agentOf(billing(outside, 3)), { tenantBudget });
    const turns = limits.ledgerRowsMax + 3;
    for (let n = 0; n < turns; n += 1) await scene.conclude(`t${n}`);
    const total = { tokens: 3 * turns, minorUnits: 0 };
    expect(await scene.world.store.ledgersToRollUp(10)).toHaveLength(1);
    const [note] = await scene.world.store.ledgersToRollUp(10);
    if (note === undefined) throw new Error('no note');
    expect(await spent(scene, tenantBudget)).toEqual(total);
    const { store } = scene.world;
    const [left, right, between] = await Promise.all([
      store.rollUpLedger(note),
      store.rollUpLedger(note),
      spent(scene, tenantBudget),
    ]);
    expect(left + right).toBe(turns);
    expect(between).toEqual(total);
    expect(await spent(scene, tenantBudget)).toEqual(total);
    expect(await store.ledgersToRollUp(10)).toEqual([]);
    await scene.conclude('one-more');
    expect(await spent(scene, tenantBudget)).toEqual({ tokens: total.tokens + 3, minorUnits: 0 });
    // The sweeper does it by itself.
    for (let n = 0; n < turns; n += 1) await scene.conclude(`u${n}`);
    expect(await store.ledgersToRollUp(10)).toHaveLength(1);
    const process = scene.world.start();
    await scene.world.settle(process, sweep(process.runtime));
    expect(await store.ledgersToRollUp(10)).toEqual([]);
    expect(await spent(scene, tenantBudget)).toEqual({
      tokens: 3 * (2 * turns + 1),
      minorUnits: 0,
    });
  },
);

const explored = { period: 'month', minorUnits: 1_000 } as const;

onEachStore(
  'crash explorer: dying at any port call bills the tenant exactly what the journal says, across a rest [T11 BU-10]',
  async (open) => {
    const opened = async (): Promise<TurnStore> => open();
    const ref = new Scene(
      await opened(),
      agentOf(async () => 1),
    ).ref();
    const result = await exploreCrashes<ScriptedProvider>(
      {
        name: 'spends, rests, spends',
        settings: { tenantBudget: explored },
        provider: () => new ScriptedProvider(),
        agents: (provider, current, world) => [
          defineTurnAgent({
            name: 'shop',
            run: async (context: TurnContext) => {
              const pay = (kind: string, minorUnits: number) =>
                context.effect({
                  kind,
                  args: { minorUnits },
                  recovery: 'idempotent',
                  cost: { minorUnits },
                  perform: ({ idempotencyKey, bill }) =>
                    current().provider(kind, async () => {
                      bill({ minorUnits });
                      return provider.call(kind, idempotencyKey, { dedup: true });
                    }),
                });
              await pay('first', 7);
              await context.sleep(world().settings.leaseMs);
              await pay('second', 5);
              return 'done';
            },
          }),
        ],
        request: ([agent]) => {
          if (agent === undefined) throw new Error('a scenario has an agent');
          return { ref, agent, input: 1, subject: null, budget: null, actor: 'ann' };
        },
        acts: [async ({ world }) => world.recover()],
        check: async ({ turn, store, fault }) => {
          expect(turn.status).toBe('succeeded');
          const ledger = await store.spentIn(ref.tenant, periodOf(explored, turn.updatedAt));
          const { tokens, minorUnits } = turn.spend;
          expect(ledger).toEqual({ tokens, minorUnits });
          // A provider called twice in one attempt bills twice: the world did it, the journal says so.
          if (fault?.kind !== 'deliveredTwice') expect(ledger.minorUnits).toBe(12);
        },
      },
      opened,
    );
    expect(result.statuses.succeeded).toBe(result.runs);
    expect(result.runs).toBeGreaterThan(30);
  },
);
