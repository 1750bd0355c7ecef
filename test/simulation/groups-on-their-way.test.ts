// Groups whose members run side by side or were not awaited: nothing ends while one of them is on its way.
import { expect } from 'vitest';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import type { Effect, EffectGroup, TurnContext } from '../../src/runtime/turn-context.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';

type Ending = 'lands' | 'refused' | 'doubt';

class Shop {
  readonly calls: string[] = [];
  readonly ends: Readonly<Record<string, Ending>>;

  constructor(ends: Readonly<Record<string, Ending>> = {}) {
    this.ends = ends;
  }

  effect(kind: string, before: () => Promise<void> = async () => undefined): Effect<unknown> {
    return {
      kind,
      args: { kind },
      recovery: 'operator',
      retry: { maxAttempts: 1 },
      perform: async () => {
        await before();
        this.calls.push(kind);
        if (this.ends[kind] === 'refused') throw new EffectNotAppliedError('no');
        if (this.ends[kind] === 'doubt') throw new Error('hang up');
        return `${kind}!`;
      },
    };
  }

  hold(group: EffectGroup, kind: string, before?: () => Promise<void>): Promise<unknown> {
    return group.reversible(this.effect(kind, before), 'stock', () => this.effect(`un${kind}`));
  }
}

async function run(
  scene: Scene,
): Promise<{ readonly status: string; readonly endings: readonly string[] }> {
  const { status } = await scene.conclude();
  expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: status });
  const endings = (await scene.kinds()).filter((kind) => kind.startsWith('GS'));
  return { status, endings };
}

const inGroup = (body: (group: EffectGroup, step: TurnContext) => Promise<unknown>) =>
  agentOf((context) => context.step('s', {}, (step) => body(step.openGroup('g', ['stock']), step)));

onEachStore(
  'GR-8 a member fails while another is on its way: the group waits for it and takes it back too [T9]',
  async (open) => {
    for (const ends of ['lands', 'doubt'] as const) {
      const shop = new Shop({ r1: 'refused', r2: ends });
      const scene = new Scene(
        await open(),
        inGroup(async (group) => {
          const failed = Promise.withResolvers<void>();
          const r1 = shop.hold(group, 'r1');
          // The other call answers only once the code has heard of the failure.
          const r2 = shop.hold(group, 'r2', () => failed.promise);
          await Promise.all([r1, r2]).finally(failed.resolve);
        }),
      );
      const expected =
        ends === 'lands'
          ? { status: 'failed', endings: ['GS(aborted)'] }
          : { status: 'quarantined', endings: ['GS(quarantined)'] };
      expect(await run(scene)).toEqual(expected);
      expect(shop.calls).toEqual(ends === 'lands' ? ['r1', 'r2', 'unr2'] : ['r1', 'r2']);
    }
  },
);

onEachStore(
  'GR-6 a commit waits for the members on their way, and judges them before anything deferred leaves [T9]',
  async (open) => {
    for (const [ends, status, ending, calls] of [
      ['lands', 'succeeded', 'GS(committed)', ['r1', 'mail']],
      ['refused', 'failed', 'GS(aborted)', ['r1']],
      ['doubt', 'quarantined', 'GS(quarantined)', ['r1']],
    ] as const) {
      const shop = new Shop({ r1: ends });
      const scene = new Scene(
        await open(),
        inGroup(async (group) => {
          group.deferred(shop.effect('mail'), 'stock');
          const [, committed] = await Promise.allSettled([shop.hold(group, 'r1'), group.commit()]);
          if (committed.status === 'rejected') throw committed.reason;
        }),
      );
      expect(await run(scene)).toEqual({ status, endings: [ending] });
      expect(shop.calls).toEqual(calls);
    }
  },
);

onEachStore(
  'GR-5 taking back waits for the member on its way; nothing joins a group that is ending [T9]',
  async (open) => {
    const shop = new Shop();
    const late: unknown[] = [];
    const scene = new Scene(
      await open(),
      inGroup(async (group) => {
        const r1 = shop.hold(group, 'r1');
        const aborted = group.abort();
        late.push(await shop.hold(group, 'r2').catch((error: unknown) => String(error)));
        late.push(await group.commit().catch((error: unknown) => String(error)));
        await Promise.all([r1, aborted]);
      }),
    );
    expect(await run(scene)).toEqual({ status: 'succeeded', endings: ['GS(aborted)'] });
    expect(shop.calls).toEqual(['r1', 'unr1']);
    const refused = expect.stringContaining('expected an open group, got one that is ending');
    // The live pass, then the strict one.
    expect(late).toEqual([refused, refused, refused, refused]);
  },
);

onEachStore(
  'GR-14 a landed member whose undo cannot be built: quarantined, never aborted over what stands [T9]',
  async (open) => {
    const shop = new Shop();
    const scene = new Scene(
      await open(),
      inGroup(async (group) => {
        await shop.hold(group, 'r1');
        await group.reversible(shop.effect('r2'), 'stock', () => {
          throw new Error('no such hold');
        });
      }),
    );
    expect(await run(scene)).toEqual({ status: 'quarantined', endings: ['GS(quarantined)'] });
    expect(shop.calls).toEqual(['r1', 'r2']);
  },
);
