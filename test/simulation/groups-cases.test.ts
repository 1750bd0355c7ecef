// Cases of groups.md that need a scene of their own: probes, gates beside an open group, what follows an ending.
import { expect } from 'vitest';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import { subjectId } from '../../src/protocol/ids.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { readJournal } from '../../src/runtime/read-turn.ts';
import type {
  Effect,
  EffectGroup,
  ProbeAnswer,
  TurnContext,
} from '../../src/runtime/turn-context.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';

class Shop {
  readonly calls: string[] = [];
  readonly probes: string[] = [];
  readonly refuses = new Set<string>();
  /** Calls nobody answers, with what a probe says of them. */
  readonly silent = new Map<string, ProbeAnswer>();
  /** Arguments of each call. */
  readonly args = new Map<string, unknown>();

  effect(kind: string, options: Partial<Effect<unknown>> = {}): Effect<unknown> {
    const { args = { kind } } = options;
    return {
      kind,
      args,
      recovery: 'reconcile',
      retry: { maxAttempts: 1 },
      perform: async () => {
        this.calls.push(kind);
        this.args.set(kind, args);
        if (this.refuses.has(kind)) throw new EffectNotAppliedError(`${kind} is refused`);
        if (this.silent.has(kind)) throw new Error('hang up');
        return `${kind}!`;
      },
      probe: async () => {
        this.probes.push(kind);
        return this.silent.get(kind) ?? { outcome: 'inconclusive' };
      },
      ...options,
    };
  }

  hold(group: EffectGroup, kind: string): Promise<unknown> {
    return group.reversible(this.effect(kind), 'stock', (output) =>
      this.effect(`un${kind}`, { args: { output } }),
    );
  }

  /** A step that makes one call and is taken back by `undo-<name>`. */
  step(
    context: TurnContext,
    name: string,
    body: (step: TurnContext) => Promise<unknown> = (step) => step.effect(this.effect(name)),
  ): Promise<unknown> {
    const undo = (back: TurnContext) => back.effect(this.effect(`undo-${name}`));
    return context.step(name, { compensation: 'compensatable', undo }, body);
  }
}

const endings = async (scene: Scene): Promise<readonly string[]> =>
  (await scene.kinds()).filter((kind) => kind.startsWith('G'));

const fails = async (): Promise<never> => {
  throw new Error('c broke');
};

/** The turn verifies, and another resume would find nothing to do. */
async function settled(scene: Scene, outcome: string): Promise<void> {
  expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome });
  const before = await scene.kinds();
  await scene.world.recover();
  expect(await scene.kinds()).toEqual(before);
}

onEachStore(
  'E158 GR-4 beside an open group: a call, a case, a deadline, a fact and a touch are refused before anything is sent; a read passes [T9]',
  async (open) => {
    const shop = new Shop();
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.step('s', {}, async (step) => {
          const group = step.openGroup('g', ['stock']);
          const fact = { id: 'f', subject: 'ann', purpose: 'care', content: 'x' };
          const works: readonly (() => Promise<unknown>)[] = [
            () => step.effect(shop.effect('beside')),
            () => step.case({ id: 'matter', status: 'open' }),
            () => step.case({ id: 'matter', deadline: { name: 'reply', inMs: 1_000 } }),
            () => step.case({ id: 'matter', met: 'reply' }),
            () => step.remember(fact),
            () => step.recall({ subject: 'ann', purpose: 'care', refreshAccess: true }),
            () => step.effect(shop.effect('look', { mutates: false, recovery: 'retry' })),
          ];
          const heard: string[] = [];
          for (const work of works) {
            const answer = await work().catch((error: unknown) => error);
            heard.push(answer instanceof Error ? answer.message : String(answer));
          }
          await group.commit();
          return heard;
        }),
      ),
    );
    const turn = await scene.conclude('t1', { subject: subjectId('subject', 'ann') });
    const beside = 'expected nothing that mutates beside the open group "g"';
    const refused = expect.stringContaining(beside);
    expect(turn.result).toEqual([...Array.from({ length: 6 }, () => refused), 'look!']);
    expect(shop.calls).toEqual(['look']);
    const started = (await scene.journal()).flatMap((body) =>
      body.kind === 'EffectStarted' && body.mutates ? [body.effect] : [],
    );
    expect(started).toEqual([]);
    expect(await endings(scene)).toEqual(['GroupOpened', 'GS(committed)']);
    await settled(scene, 'succeeded');
  },
);

onEachStore(
  "E162 a member that did not happen takes the group back, and the turn fails with that member's own error [T9]",
  async (open) => {
    const shop = new Shop();
    shop.refuses.add('r2');
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.step('s', {}, async (step) => {
          const group = step.openGroup('g', ['stock']);
          for (const kind of ['r1', 'r2']) await shop.hold(group, kind);
        }),
      ),
    );
    expect(await scene.conclude()).toMatchObject({
      status: 'failed',
      error: { message: 'r2 is refused', step: 's' },
    });
    expect(shop.calls).toEqual(['r1', 'r2', 'unr1']);
    expect(await endings(scene)).toEqual(['GroupOpened', 'GS(aborted)']);
    await settled(scene, 'failed');
  },
);

onEachStore(
  'E164 GR-8 a member in doubt that its probe finds landed counts as landed, and is taken back too [T6 T9]',
  async (open) => {
    const shop = new Shop();
    shop.silent.set('r2', { outcome: 'landed', output: 'hold-2' });
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.step('s', {}, async (step) => {
          const group = step.openGroup('g', ['stock']);
          for (const kind of ['r1', 'r2']) await shop.hold(group, kind);
          await group.abort('changed our mind');
        }),
      ),
    );
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
    expect(shop.calls).toEqual(['r1', 'r2', 'unr2', 'unr1']);
    expect(shop.probes).toEqual(['r2']);
    expect(shop.args.get('unr2')).toEqual({ output: 'hold-2' });
    expect((await scene.kinds()).filter((kind) => /^(E|GS)/.test(kind))).toEqual([
      'ES(a1)',
      'ED',
      'ES(a1)',
      'EF(in_doubt)',
      'ER(landed)',
      'ES(a1)',
      'ED',
      'ES(a1)',
      'ED',
      'GS(aborted)',
    ]);
    await settled(scene, 'succeeded');
  },
);

onEachStore(
  'E165 GR-8 a member in doubt that its probe finds never happened, attempts spent: only what landed is taken back [T6 T9]',
  async (open) => {
    const shop = new Shop();
    shop.silent.set('r2', { outcome: 'did_not_happen' });
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.step('s', {}, async (step) => {
          const group = step.openGroup('g', ['stock']);
          for (const kind of ['r1', 'r2']) await shop.hold(group, kind).catch(() => null);
          await group.abort('one is missing');
        }),
      ),
    );
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
    expect(shop.calls).toEqual(['r1', 'r2', 'unr1']);
    expect(shop.probes).toEqual(['r2']);
    expect(await scene.kinds()).toContain('ER(did_not_happen)');
    expect(await endings(scene)).toEqual(['GroupOpened', 'GS(aborted)']);
    await settled(scene, 'succeeded');
  },
);

onEachStore(
  'E169 E170 GR-8 once a deferred member may be out it is sent once, nothing is reversed, the group is quarantined [T9]',
  async (open) => {
    for (const silent of ['d1', null]) {
      const shop = new Shop();
      if (silent !== null) shop.silent.set(silent, { outcome: 'inconclusive' });
      else shop.refuses.add('d2');
      const scene = new Scene(
        await open(),
        agentOf((context) =>
          context.step('s', {}, async (step) => {
            const group = step.openGroup('g', ['stock']);
            await shop.hold(group, 'r1');
            for (const kind of ['d1', 'd2']) group.deferred(shop.effect(kind), 'stock');
            await group.commit();
          }),
        ),
      );
      expect(await scene.conclude()).toMatchObject({ status: 'quarantined' });
      expect(shop.calls).toEqual(silent === null ? ['r1', 'd1', 'd2'] : ['r1', 'd1']);
      expect(await endings(scene)).toEqual(['GroupOpened', 'GS(quarantined)']);
      await settled(scene, 'quarantined');
    }
  },
);

onEachStore(
  'E182 GR-14 a group that waits and is then taken back: the reversal is built from the recorded hold, and performed once [T7 T9]',
  async (open) => {
    const shop = new Shop();
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.step('s', {}, async (step) => {
          const group = step.openGroup('g', ['stock']);
          const hold = shop.effect('hold', {
            perform: async () => {
              shop.calls.push('hold');
              return { id: `hold-${shop.calls.length}` };
            },
          });
          await group.reversible(hold, 'stock', (output) =>
            shop.effect('release', { args: output }),
          );
          const { decision } = await step.approval({ action: 'go' });
          if (decision !== 'approved') await group.abort(decision);
          return decision;
        }),
      ),
    );
    await scene.suspend();
    expect(await endings(scene)).toEqual(['GroupOpened']);
    const { runtime } = scene.world.start();
    const { tenant } = scene.ref();
    const query = { status: 'pending' as const, limit: 9, cursor: null };
    const [item] = (await listApprovals(runtime, tenant, query)).items;
    const { id = '', digest = '' } = item ?? {};
    await answerApproval(runtime, tenant, id, { decision: 'deny', digest, note: null }, 'bob');
    await scene.inbox();
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'denied' });
    expect(shop.calls).toEqual(['hold', 'release']);
    expect(shop.args.get('release')).toEqual({ id: 'hold-1' });
    const page = await readJournal(runtime, scene.ref(), { after: 0, limit: 100 });
    const recorded = page?.records.find(({ body }) => body.kind === 'EffectDone')?.payload;
    expect(recorded).toEqual({ id: 'hold-1' });
    expect(await endings(scene)).toEqual(['GroupOpened', 'GS(aborted)']);
    await settled(scene, 'succeeded');
  },
);

onEachStore(
  'E184 GR-7 after a commit there is no group: a later failure of its step reverses nothing, the unwind of others runs its undo [T8 T9]',
  async (open) => {
    for (const others of [true, false]) {
      const shop = new Shop();
      shop.refuses.add('later');
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          if (others) await shop.step(context, 'a');
          await shop.step(context, 's', async (step) => {
            const group = step.openGroup('g', ['stock']);
            await shop.hold(group, 'r1');
            await group.commit();
            await step.effect(shop.effect('later'));
          });
        }),
      );
      expect(await scene.conclude()).toMatchObject({
        status: 'failed',
        error: { message: 'later is refused', step: 's' },
      });
      // SA-6, SA-7: the failing step alone opens nothing; once another's work does, it is undone first.
      expect(shop.calls).toEqual(
        others ? ['a', 'r1', 'later', 'undo-s', 'undo-a'] : ['r1', 'later'],
      );
      expect(await endings(scene)).toEqual(['GroupOpened', 'GS(committed)']);
      await settled(scene, 'failed');
    }
  },
);

onEachStore(
  'E186 GR-11 an undeclared step whose group was taken back fails: no quarantine for it, the earlier step is undone [T8 T9]',
  async (open) => {
    const shop = new Shop();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await shop.step(context, 'a');
        await context.step('s', {}, async (step) => {
          const group = step.openGroup('g', ['stock']);
          await shop.hold(group, 'r1');
          await group.commit([{ name: 'paid', holds: false }]);
        });
      }),
    );
    expect(await scene.conclude()).toMatchObject({
      status: 'failed',
      error: { code: 'group_aborted', step: 's' },
    });
    expect(shop.calls).toEqual(['a', 'r1', 'unr1', 'undo-a']);
    const kinds = await scene.kinds();
    expect(kinds.filter((kind) => kind.startsWith('SC'))).toEqual(['SC(a,ok)']);
    await settled(scene, 'failed');
  },
);

onEachStore(
  'E121 E150 SA-3 a step that caught the abort of its group and completed has nothing to undo, declared or not [T8 T9]',
  async (open) => {
    for (const declared of [{}, { compensation: 'compensatable' }] as const) {
      const shop = new Shop();
      shop.refuses.add('r2');
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          await shop.step(context, 'a');
          const undo = (back: TurnContext) => back.effect(shop.effect('undo-s'));
          await context.step('s', { ...declared, undo }, async (step) => {
            const group = step.openGroup('g', ['stock']);
            await shop.hold(group, 'r1');
            await shop.hold(group, 'r2').catch(() => null);
            await group.commit().catch(() => null);
          });
          await context.step('c', {}, fails);
        }),
      );
      expect(await scene.conclude()).toMatchObject({
        status: 'failed',
        error: { message: 'c broke' },
      });
      expect(shop.calls).toEqual(['a', 'r1', 'r2', 'unr1', 'undo-a']);
      await settled(scene, 'failed');
    }
  },
);
