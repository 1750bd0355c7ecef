// What a turn that failed half way leaves to its repetition (state.md, T128 and T129 under decision 24).
import { expect } from 'vitest';
import { listReceipts } from '../../src/runtime/receipts.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

onEachStore(
  'T128 A was written, the answer to B was lost: the same turn again replays A and leaves B uncertain, one call each [T6 T7]',
  async (open) => {
    const a = new Outside();
    const b = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        const once = { retry: { maxAttempts: 1 } } as const;
        context.state.add('turns', 1);
        const first = await context.effect(a.effect({ ...once, kind: 'a', key: 'a-7' }));
        await context.effect(
          b.effect({
            ...once,
            kind: 'b',
            key: 'b-7',
            perform: async () => {
              b.requests += 1;
              throw new Error('timed out');
            },
          }),
        );
        return first;
      }),
    );
    const turn = await scene.conclude();
    expect(turn).toMatchObject({ status: 'quarantined', revision: 0 });
    expect(turn.undecided.map(({ kind }) => kind)).toEqual(['b']);
    scene.restart();
    expect(await scene.conclude()).toMatchObject({ status: 'quarantined', replayed: true });
    // Another turn with the same business keys: A is answered from its receipt, B is refused as uncertain.
    expect(await scene.conclude('t2')).toMatchObject({ status: 'quarantined', revision: 0 });
    expect([a.requests, b.requests]).toEqual([1, 1]);
    const { tenant, thread } = scene.ref();
    const receipts = await listReceipts(scene.process.runtime, tenant, { thread, status: null });
    expect(Object.fromEntries(receipts.map(({ kind, status }) => [kind, status]))).toEqual({
      a: 'completed',
      b: 'uncertain',
    });
  },
);

onEachStore(
  'T129 K-40 one of three reads started together fails: the turn ends, and gives its lease back, after the others did [T4 T7]',
  async (open) => {
    const slow = Promise.withResolvers<void>();
    const ended: string[] = [];
    let started = 0;
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        Promise.all(
          ['first', 'second', 'third'].map((kind) =>
            context.effect({
              kind,
              args: null,
              mutates: false,
              retry: { maxAttempts: 1 },
              perform: async () => {
                started += 1;
                if (kind === 'first') throw new Error('no such row');
                await scene.process.provider(kind, () => slow.promise);
                ended.push(kind);
                return kind;
              },
            }),
          ),
        ),
      ),
      { renew: false },
    );
    const pass = scene.deliver();
    const open1 = async () => (await scene.world.store.head(scene.ref()))?.open ?? null;
    while (started < 3) await new Promise(setImmediate);
    expect(await open1()).toMatchObject({ turn: 't1' });
    expect(ended).toEqual([]);
    slow.resolve();
    expect(await pass).toMatchObject({ kind: 'concluded', turn: { status: 'failed' } });
    expect(ended.toSorted()).toEqual(['second', 'third']);
    expect(await open1()).toBe(null);
    const kinds = await scene.kinds();
    expect(kinds.at(-1)).toBe('RC(failed)');
    expect(kinds.filter((kind) => kind === 'ED')).toHaveLength(2);
    const told = scene.world.queues.events.accepted.map(({ body }) => body);
    expect(told).toEqual([]);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);
