// Attacks on what a replay and a takeover may say (T4, T6, T7).
import { expect } from 'vitest';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import type { OpenStore } from '../stores.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

/** Turns of the event loop, for a call that takes long while no time passes. */
async function turns(count: number): Promise<void> {
  for (let tick = 0; tick < count; tick += 1) await new Promise(setImmediate);
}

/** A turn whose first owner dies inside a call that landed, and whose second freezes before it sends it again. */
async function frozenBeforeResend(
  open: OpenStore,
  recovery: 'idempotent' | 'retry' | 'reconcile',
): Promise<{ scene: Scene; outside: Outside }> {
  const outside = new Outside();
  let passes = 0;
  const scene: Scene = new Scene(
    await open(),
    agentOf((context: TurnContext) => {
      passes += 1;
      if (passes === 2) scene.world.clock.advance(20_000);
      return context.effect(
        outside.effect({
          recovery,
          retry: { maxAttempts: 1 },
          perform: () => {
            outside.requests += 1;
            return outside.requests === 1
              ? new Promise(() => undefined)
              : Promise.reject(new Error('busy'));
          },
          probe: async () => ({ outcome: 'inconclusive' }),
        }),
      );
    }),
    { renew: false },
  );
  void withTurn(scene.process.runtime, scene.request());
  while (outside.requests === 0) await new Promise(setImmediate);
  scene.world.clock.advance(11_000);
  scene.restart();
  await scene.deliver();
  await scene.world.recover();
  return { scene, outside };
}

onEachStore(
  'an owner frozen before it sends an orphan again says nothing of the send before it [T6]',
  async (open) => {
    for (const recovery of ['idempotent', 'retry'] as const) {
      const { scene } = await frozenBeforeResend(open, recovery);
      expect(await scene.kinds()).not.toContain('EF(did_not_happen)');
      expect((await scene.view()).status).toBe('quarantined');
    }
  },
);

onEachStore(
  'a stop looked for at a step boundary never changes which call comes first [T7]',
  async (open) => {
    const real = await open();
    const slowLook = new Proxy(real, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name);
        if (typeof member !== 'function') return member;
        if (name !== 'stopOf') return member.bind(target);
        return async (...args: unknown[]) => {
          await Promise.race([first.promise, turns(2_000)]);
          await turns(50);
          return Reflect.apply(member, target, args);
        };
      },
    });
    const first = Promise.withResolvers<void>();
    const outside = new Outside();
    let passes = 0;
    const scene: Scene = new Scene(
      slowLook,
      agentOf(async (context: TurnContext) => {
        passes += 1;
        const dies = passes === 1;
        const call = (kind: string, perform: () => Promise<unknown> = async () => kind) =>
          context.effect(outside.effect({ kind, recovery: 'idempotent', perform }));
        await call('zero', async () => {
          scene.world.clock.advance(2_000);
        });
        await Promise.all([
          call('a', async () => first.resolve()).then(() => call('b')),
          context.step('s', {}, async () => 1).then(() => call('c')),
        ]);
        return call('last', () => {
          outside.requests += 1;
          return dies ? new Promise(() => undefined) : Promise.resolve('end');
        });
      }),
      { renew: false },
    );
    void withTurn(scene.process.runtime, scene.request());
    while (outside.requests === 0) await new Promise(setImmediate);
    scene.world.clock.advance(11_000);
    scene.restart();
    const view = await scene.conclude();
    expect([view.status, view.error]).toEqual(['succeeded', undefined]);
  },
);
