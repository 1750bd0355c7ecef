// Effect groups (groups.md without atomic members, policy and labels; the group part of sagas, cancel, budgets).
import { expect } from 'vitest';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { cancelTurn } from '../../src/runtime/cancel-turn.ts';
import { assertFact, reopenTurn, resumeByPerson } from '../../src/runtime/person-acts.ts';
import type { Effect, EffectGroup, TurnContext } from '../../src/runtime/turn-context.ts';
import { EffectFailure } from '../../src/runtime/turn-context.ts';
import type { OpenStore } from '../stores.ts';
import { onEachStore } from '../stores.ts';
import type { Run } from './scene.ts';
import { agentOf, Scene } from './scene.ts';

type Ending = 'refused' | 'doubt' | 'landed';

class World {
  readonly calls: string[] = [];
  readonly fails = new Map<string, Ending>();

  effect(kind: string, options: Partial<Effect<unknown>> = {}): Effect<unknown> {
    return {
      kind,
      args: { kind },
      recovery: 'operator',
      retry: { maxAttempts: 1 },
      perform: async () => {
        this.calls.push(kind);
        const ending = this.fails.get(kind);
        if (ending === 'refused') throw new EffectNotAppliedError('no');
        if (ending === 'doubt') throw new Error('hang up');
        if (ending === 'landed') {
          const facts = { code: 'unusable', disposition: 'landed' as const, permanent: true };
          throw new EffectFailure('unusable answer', facts);
        }
        return `${kind}!`;
      },
      ...options,
    };
  }

  hold(group: EffectGroup, kind: string): Promise<unknown> {
    return group.reversible(this.effect(kind), 'stock', (output) =>
      this.effect(`un${kind}`, { args: { output } }),
    );
  }

  look(group: EffectGroup): Promise<unknown> {
    return group.read(this.effect('look', { mutates: false, recovery: 'retry' }), 'stock');
  }
}

const inStep =
  (body: (step: TurnContext) => Promise<unknown>): Run =>
  (context) =>
    context.step('s', {}, body);

const sceneOf = async (open: OpenStore, run: Run): Promise<Scene> =>
  new Scene(await open(), agentOf(run));

const endings = async (scene: Scene): Promise<readonly string[]> =>
  (await scene.kinds()).filter((kind) => kind.startsWith('G'));

onEachStore(
  'E152 reserve, look, notify: the deferred member goes only past the frontier, then committed [T9]',
  async (open) => {
    const world = new World();
    const before: string[] = [];
    const scene = await sceneOf(
      open,
      inStep(async (step) => {
        const group = step.openGroup('checkout', ['stock']);
        await world.hold(group, 'r1');
        await world.look(group);
        group.deferred(world.effect('mail'), 'stock');
        before.push(...world.calls);
        return group.commit([{ name: 'enough', holds: true }]);
      }),
    );
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded', result: ['mail!'] });
    expect(before).toEqual(['r1', 'look']);
    expect(world.calls).toEqual(['r1', 'look', 'mail']);
    expect(await endings(scene)).toEqual(['GroupOpened', 'GS(committed)']);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'E153 E154 E161 a false invariant takes everything back newest first, names itself, and sends nothing [T9]',
  async (open) => {
    const world = new World();
    const scene = await sceneOf(
      open,
      inStep(async (step) => {
        const group = step.openGroup('checkout', ['stock']);
        for (const kind of ['r1', 'r2', 'r3']) await world.hold(group, kind);
        group.deferred(world.effect('mail'), 'stock');
        await group.commit([
          { name: 'fine', holds: true },
          { name: 'in stock', holds: false },
          { name: 'paid', holds: false },
        ]);
      }),
    );
    expect(await scene.conclude()).toMatchObject({
      status: 'failed',
      error: { code: 'group_aborted', message: expect.stringContaining('in stock'), step: 's' },
    });
    expect(world.calls).toEqual(['r1', 'r2', 'r3', 'unr3', 'unr2', 'unr1']);
    expect(await endings(scene)).toEqual(['GroupOpened', 'GS(aborted)']);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'E156 E157 E158 no resources, nesting, a foreign resource, a mutating read, a mutation beside: refused; a name may return [T9 T11]',
  async (open) => {
    const world = new World();
    const scene = await sceneOf(
      open,
      inStep(async (step) => {
        const codes: string[] = [];
        const refused = async (work: () => unknown): Promise<void> => {
          const error = await Promise.resolve()
            .then(work)
            .then(
              () => null,
              (thrown: unknown) => thrown,
            );
          codes.push((error as { code?: string } | null)?.code ?? 'passed');
        };
        await refused(() => step.openGroup('g', []));
        const group = step.openGroup('g', ['stock']);
        await refused(() => step.openGroup('other', ['stock']));
        await refused(() => group.reversible(world.effect('x'), 'money', () => world.effect('y')));
        await refused(() => group.read(world.effect('x'), 'stock'));
        await refused(() => step.effect(world.effect('beside')));
        await refused(() =>
          step.effect(world.effect('peek', { mutates: false, recovery: 'retry' })),
        );
        await group.commit();
        await step.openGroup('g', ['stock']).commit();
        return codes;
      }),
    );
    const bad = 'invalid_effect';
    expect((await scene.conclude()).result).toEqual([bad, bad, bad, bad, bad, 'passed']);
    expect(world.calls).toEqual(['peek']);
    expect(await endings(scene)).toEqual([
      'GroupOpened',
      'GS(committed)',
      'GroupOpened',
      'GS(committed)',
    ]);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'E166 E168 E169 E170 E188 what each failing member leaves standing [T6 T9]',
  async (open) => {
    const cases: readonly [
      string,
      Readonly<Record<string, Ending>>,
      string,
      string,
      readonly string[],
    ][] = [
      ['r2 refused', { r2: 'refused' }, 'failed', 'GS(aborted)', ['unr1']],
      ['r2 in doubt', { r2: 'doubt' }, 'quarantined', 'GS(quarantined)', []],
      ['r2 landed badly', { r2: 'landed' }, 'quarantined', 'GS(quarantined)', []],
      ['a read fails', { look: 'doubt' }, 'failed', 'GS(aborted)', ['unr2', 'unr1']],
      ['d1 refused', { d1: 'refused' }, 'failed', 'GS(aborted)', ['unr2', 'unr1']],
      ['d2 refused after d1', { d2: 'refused' }, 'quarantined', 'GS(quarantined)', []],
      ['d1 landed badly', { d1: 'landed' }, 'quarantined', 'GS(quarantined)', []],
      ['d1 in doubt', { d1: 'doubt' }, 'quarantined', 'GS(quarantined)', []],
      [
        'a reversal fails',
        { d1: 'refused', unr2: 'refused' },
        'quarantined',
        'GS(quarantined)',
        ['unr2'],
      ],
    ];
    for (const [name, fails, status, ending, reversed] of cases) {
      const world = new World();
      for (const [kind, how] of Object.entries(fails)) world.fails.set(kind, how);
      const scene = await sceneOf(
        open,
        inStep(async (step) => {
          const group = step.openGroup('checkout', ['stock']);
          await world.hold(group, 'r1');
          await world.hold(group, 'r2');
          await world.look(group);
          for (const kind of ['d1', 'd2']) group.deferred(world.effect(kind), 'stock');
          return group.commit();
        }),
      );
      expect((await scene.conclude()).status, name).toBe(status);
      expect(await endings(scene), name).toEqual(['GroupOpened', ending]);
      expect(
        world.calls.filter((call) => call.startsWith('un')),
        name,
      ).toEqual(reversed);
      expect(await scene.strict(), name).toMatchObject({ verdict: 'verified', outcome: status });
    }
  },
);

onEachStore(
  'E180 a step that throws or returns with its group open: taken back, its own reason kept, or failed loudly [T9]',
  async (open) => {
    for (const [throws, code] of [
      [true, 'agent_failed'],
      [false, 'group_left_open'],
    ] as const) {
      const world = new World();
      const scene = await sceneOf(
        open,
        inStep(async (step) => {
          await world.hold(step.openGroup('g', ['stock']), 'r1');
          if (throws) throw new Error('its own reason');
          return 'fine';
        }),
      );
      expect(await scene.conclude()).toMatchObject({ status: 'failed', error: { code } });
      expect(world.calls).toEqual(['r1', 'unr1']);
      expect(await endings(scene)).toEqual(['GroupOpened', 'GS(aborted)']);
      expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
    }
  },
);

onEachStore(
  'E180 GR-9 a group left open outside any step, or in an undo, is taken back and fails loudly: no ending stands over it [T9]',
  async (open) => {
    const world = new World();
    const outside = await sceneOf(open, async (context) => {
      await world.hold(context.openGroup('g', ['stock']), 'r1');
      return 'fine';
    });
    expect(await outside.conclude()).toMatchObject({
      status: 'failed',
      error: { code: 'group_left_open' },
    });
    expect(world.calls).toEqual(['r1', 'unr1']);
    expect(await endings(outside)).toEqual(['GroupOpened', 'GS(aborted)']);
    expect(await outside.strict()).toMatchObject({ verdict: 'verified', outcome: 'failed' });
    for (const throws of [true, false]) {
      const undoing = new World();
      const scene = await sceneOf(open, async (context) => {
        const undo = async (back: TurnContext): Promise<void> => {
          await undoing.hold(back.openGroup('g', ['stock']), 'r1');
          if (throws) throw new Error('the undo broke');
        };
        await context.step('a', { compensation: 'compensatable', undo }, (step) =>
          step.effect(undoing.effect('a')),
        );
        throw new Error('then it broke');
      });
      expect(await scene.conclude()).toMatchObject({
        status: 'quarantined',
        error: { code: 'undo_failed', step: 'a' },
      });
      expect(undoing.calls).toEqual(['a', 'r1', 'unr1']);
      expect(await endings(scene)).toEqual(['GroupOpened', 'GS(aborted)']);
      expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'quarantined' });
    }
  },
);

async function approve(scene: Scene): Promise<void> {
  const { runtime } = scene.world.start();
  const { tenant } = scene.ref();
  const { items } = await listApprovals(runtime, tenant, {
    status: 'pending',
    limit: 9,
    cursor: null,
  });
  for (const { id, digest } of items) {
    await answerApproval(runtime, tenant, id, { decision: 'approve', digest, note: null }, 'bob');
  }
  await scene.inbox();
}

/** Holds, asks inside the open group, then commits or takes back. */
const asking = (world: World, commits: boolean): Run =>
  inStep(async (step) => {
    const group = step.openGroup('g', ['stock']);
    await world.hold(group, 'r1');
    await step.approval({ action: 'go' });
    group.deferred(world.effect('mail'), 'stock');
    if (commits) return group.commit();
    return group.abort('changed our mind');
  });

onEachStore(
  'E181 a group that waits is rebuilt from the journal: one opening, no call twice, one ending [T7 T9]',
  async (open) => {
    for (const commits of [true, false]) {
      const world = new World();
      const scene = await sceneOf(open, asking(world, commits));
      await scene.suspend();
      expect(await endings(scene)).toEqual(['GroupOpened']);
      await approve(scene);
      expect(await scene.view()).toMatchObject({ status: 'succeeded' });
      expect(world.calls).toEqual(commits ? ['r1', 'mail'] : ['r1', 'unr1']);
      expect(await endings(scene)).toEqual([
        'GroupOpened',
        `GS(${commits ? 'committed' : 'aborted'})`,
      ]);
      expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
    }
  },
);

onEachStore(
  'E205 a stop, or a failing sibling, of a step that waits inside its open group: taken back first, mail never sent [T8 T9]',
  async (open) => {
    for (const how of ['stop', 'sibling'] as const) {
      const world = new World();
      const scene = await sceneOf(open, async (context) => {
        await context.step(
          'a',
          {
            compensation: 'compensatable',
            undo: (undo) => undo.effect(world.effect('undo-a', { recovery: 'idempotent' })),
          },
          (step) => step.effect(world.effect('a', { recovery: 'idempotent' })),
        );
        const held = Promise.withResolvers<void>();
        await Promise.all([
          context.step('g', {}, async (step) => {
            const group = step.openGroup('g', ['stock']);
            await world.hold(group, 'r1');
            group.deferred(world.effect('mail'), 'stock');
            held.resolve();
            await step.approval({ action: 'go' });
            await group.commit();
          }),
          context.step('b', {}, async () => {
            await held.promise;
            if (how === 'sibling') throw new Error('b broke');
          }),
        ]);
      });
      if (how === 'stop') {
        await scene.suspend();
        await cancelTurn(scene.world.start().runtime, scene.ref(), 'stop', 'olga');
        await scene.inbox();
      } else await scene.conclude();
      expect(await scene.view()).toMatchObject({ status: how === 'stop' ? 'cancelled' : 'failed' });
      expect(world.calls).toEqual(['a', 'r1', 'unr1', 'undo-a']);
      expect(await endings(scene)).toEqual(['GroupOpened', 'GS(aborted)']);
      if (how === 'sibling') {
        expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'failed' });
      }
    }
  },
);

onEachStore(
  'E150 E185 an aborted group is no evidence; a committed one is not reversed, its step is undone [T8 T9]',
  async (open) => {
    for (const [ends, declared, undone, status] of [
      ['abort', undefined, ['undo-a'], 'failed'],
      ['abort', 'compensatable', ['undo-a'], 'failed'],
      ['commit', 'compensatable', ['undo-g', 'undo-a'], 'failed'],
      ['commit', undefined, [], 'quarantined'],
    ] as const) {
      const world = new World();
      const undo = (kind: string) => (undoing: TurnContext) =>
        undoing.effect(world.effect(`undo-${kind}`, { recovery: 'idempotent' }));
      const scene = await sceneOf(open, async (context) => {
        await context.step('a', { compensation: 'compensatable', undo: undo('a') }, (step) =>
          step.effect(world.effect('a', { recovery: 'idempotent' })),
        );
        const options = declared === undefined ? {} : { compensation: declared };
        await context.step('g', { ...options, undo: undo('g') }, async (step) => {
          const group = step.openGroup('g', ['stock']);
          await world.hold(group, 'r1');
          if (ends === 'abort') await group.abort();
          else await group.commit();
        });
        await context.step('c', {}, async () => {
          throw new Error('c broke');
        });
      });
      expect((await scene.conclude()).status).toBe(status);
      expect(world.calls.filter((call) => call.startsWith('undo'))).toEqual(undone);
      expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: status });
    }
  },
);

onEachStore(
  'E189 a deferred member in doubt, answered as landed: reopening commits the group and says so after the quarantine [T6 T9]',
  async (open) => {
    const world = new World();
    world.fails.set('mail', 'doubt');
    const scene = await sceneOf(
      open,
      inStep(async (step) => {
        const group = step.openGroup('g', ['stock']);
        await world.hold(group, 'r1');
        group.deferred(world.effect('mail'), 'stock');
        return group.commit().catch(() => 'swallowed');
      }),
    );
    const turn = await scene.conclude();
    expect(turn).toMatchObject({ status: 'quarantined' });
    const { runtime } = scene.world.start();
    const fact = { outcome: 'landed', output: 'sent', note: 'seen' } as const;
    await assertFact(runtime, scene.ref(), turn.undecided[0]?.effectKey ?? '', fact, 'olga');
    expect(await reopenTurn(runtime, scene.ref(), 'answered', 'olga', {})).toMatchObject({
      turn: { status: 'succeeded', result: ['sent'] },
    });
    expect(world.calls).toEqual(['r1', 'mail']);
    expect(await endings(scene)).toEqual(['GroupOpened', 'GS(quarantined)', 'GS(committed)']);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'E96 E97 a ceiling inside a group takes it back beyond the ceiling; the exemption ends there, and a raise cannot help [T9 T11]',
  async (open) => {
    const world = new World();
    const scene = await sceneOf(
      open,
      inStep(async (step) => {
        const group = step.openGroup('g', ['stock']);
        await world.hold(group, 'r1');
        await world.hold(group, 'r2');
        await group.commit();
      }),
    );
    expect(await scene.conclude('t1', { budget: { effects: 1 } })).toMatchObject({
      status: 'exhausted',
      spend: { attempts: 2 },
    });
    expect(world.calls).toEqual(['r1', 'unr1']);
    const { runtime } = scene.world.start();
    const more = { reason: 'more', budget: { effects: 9 } };
    expect(await resumeByPerson(runtime, scene.ref(), more, 'olga', {})).toMatchObject({
      turn: { status: 'exhausted' },
    });
    await cancelTurn(runtime, scene.ref(), 'stop', 'olga');
    expect(await scene.view()).toMatchObject({ status: 'cancelled' });
    expect(world.calls).toEqual(['r1', 'unr1']);
    const caught = new World();
    const after = await sceneOf(
      open,
      inStep(async (step) => {
        const group = step.openGroup('g', ['stock']);
        await caught.hold(group, 'r1');
        await caught.hold(group, 'r2').catch(() => group.abort());
        await step.effect(caught.effect('plain'));
      }),
    );
    expect(await after.conclude('t1', { budget: { effects: 1 } })).toMatchObject({
      status: 'exhausted',
    });
    expect(caught.calls).toEqual(['r1', 'unr1']);
  },
);

onEachStore(
  'T9 dying at any call: every group ends, what stands in the world matches its word [T6 T9]',
  async (open) => {
    for (const commits of [true, false]) {
      for (let call = 1; call < 24; call += 1) {
        const world = new World();
        const landed = new Set<string>();
        const keyed = (kind: string): Effect<unknown> =>
          world.effect(kind, {
            recovery: 'idempotent',
            perform: async () => {
              landed.add(kind);
              return kind;
            },
          });
        const scene = await sceneOf(
          open,
          inStep(async (step) => {
            const group = step.openGroup('g', ['stock']);
            for (const kind of ['r1', 'r2']) {
              await group.reversible(keyed(kind), 'stock', () => keyed(`un${kind}`));
            }
            group.deferred(keyed('mail'), 'stock');
            await group.commit([{ name: 'commits', holds: commits }]);
          }),
        );
        scene.restart({ call, kind: call % 2 === 0 ? 'doneButUnheard' : 'lostBefore' });
        await scene.deliver();
        await scene.world.recover();
        scene.restart();
        expect((await scene.conclude()).status).toBe(commits ? 'succeeded' : 'failed');
        expect([...landed].sort()).toEqual(
          commits ? ['mail', 'r1', 'r2'] : ['r1', 'r2', 'unr1', 'unr2'],
        );
        expect(await endings(scene)).toEqual([
          'GroupOpened',
          `GS(${commits ? 'committed' : 'aborted'})`,
        ]);
        expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
      }
    }
  },
);
