// Business keys and their receipts (receipts.md; T21, T33 belong to capabilities).
import { expect } from 'vitest';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import { assertFact, reopenTurn } from '../../src/runtime/person-acts.ts';
import { listReceipts } from '../../src/runtime/receipts.ts';
import type { Effect, TurnContext } from '../../src/runtime/turn-context.ts';
import type { OpenStore } from '../stores.ts';
import { onEachStore } from '../stores.ts';
import type { Run } from './scene.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const keyed = (outside: Outside, options: Partial<Effect<unknown>> = {}) =>
  outside.effect({ key: '42', retry: { maxAttempts: 1 }, ...options });

const ledger = (scene: Scene) =>
  listReceipts(scene.world.start().runtime, scene.ref().tenant, {
    thread: scene.ref().thread,
    status: null,
  });

async function sceneOf(open: OpenStore, run: Run): Promise<Scene> {
  return new Scene(await open(), agentOf(run));
}

onEachStore(
  'T20 T30 the same key under two kinds is two calls and two receipts; no join of names collides [T2]',
  async (open) => {
    const outside = new Outside();
    const scene = await sceneOf(open, async (context) => {
      await context.effect(keyed(outside, { kind: 'a', key: 'b:c' }));
      await context.effect(keyed(outside, { kind: 'a:b', key: 'c' }));
    });
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
    expect(outside.requests).toBe(2);
    expect(new Set(outside.keys).size).toBe(2);
    const receipts = await ledger(scene);
    expect(receipts.toSorted((left, right) => (left.kind < right.kind ? -1 : 1))).toMatchObject([
      { kind: 'a', key: 'b:c', status: 'completed', turnId: 't1' },
      { kind: 'a:b', key: 'c', status: 'completed' },
    ]);
  },
);

onEachStore('T22 a blank key is refused before anything is stored [T11]', async (open) => {
  const outside = new Outside();
  const scene = await sceneOf(open, (context) => context.effect(keyed(outside, { key: '  ' })));
  expect(await scene.conclude()).toMatchObject({
    status: 'failed',
    error: { code: 'invalid_effect', message: expect.stringContaining('effect.key') },
  });
  expect(await ledger(scene)).toEqual([]);
  expect(outside.requests).toBe(0);
});

onEachStore(
  'T38 K-24 a key that was used answers its first value in a thousand later uses; one call, one receipt [T2 T7]',
  async (open) => {
    const outside = new Outside();
    const scene = await sceneOf(open, async (context) => {
      const values = [];
      for (let n = 0; n < (context.turn === 't2' ? 1_000 : 1); n += 1) {
        values.push(await context.effect(keyed(outside)));
      }
      return values.at(-1);
    });
    expect((await scene.conclude('t1')).result).toEqual({ id: 1 });
    expect((await scene.conclude('t2')).result).toEqual({ id: 1 });
    expect((await scene.conclude('t3')).result).toEqual({ id: 1 });
    expect(outside.requests).toBe(1);
    expect(await ledger(scene)).toMatchObject([{ turnId: 't1', status: 'completed' }]);
    expect(await scene.strict('t2')).toMatchObject({ verdict: 'verified' });
    expect(await scene.strict('t3')).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'T28 the same key with other arguments is refused, and the first value is not given for it [T2]',
  async (open) => {
    const outside = new Outside();
    const scene = await sceneOf(open, (context) =>
      context.effect(keyed(outside, { args: { amount: context.turn === 't1' ? 10 : 20 } })),
    );
    await scene.conclude('t1');
    expect(await scene.conclude('t2')).toMatchObject({
      status: 'failed',
      error: { code: 'effect_arguments_changed' },
    });
    expect(outside.requests).toBe(1);
    expect(await scene.strict('t2')).toMatchObject({ verdict: 'verified', outcome: 'failed' });
  },
);

onEachStore(
  'T29 two uses at once in one turn are one call, and both get the value [T2]',
  async (open) => {
    const outside = new Outside();
    const gate = Promise.withResolvers<void>();
    const scene = await sceneOf(open, (context) =>
      Promise.all(
        [1, 2].map(() =>
          context.effect(
            keyed(outside, {
              perform: async () => {
                outside.requests += 1;
                await gate.promise;
                return 'one';
              },
            }),
          ),
        ),
      ),
    );
    const pass = scene.deliver();
    while (outside.requests === 0) await new Promise(setImmediate);
    expect(await ledger(scene)).toMatchObject([{ status: 'prepared' }]);
    gate.resolve();
    expect(await pass).toMatchObject({ turn: { result: ['one', 'one'] } });
    expect(outside.requests).toBe(1);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'T24 K-32 a certificate that nothing was applied frees the key: another turn runs it under the same receipt [T6]',
  async (open) => {
    const outside = new Outside();
    let refuses = true;
    const scene = await sceneOf(open, (context) =>
      context.effect(
        keyed(outside, {
          perform: async (call) => {
            outside.requests += 1;
            outside.keys.push(call.idempotencyKey);
            if (refuses) throw new EffectNotAppliedError('closed');
            return 'applied';
          },
        }),
      ),
    );
    await scene.conclude('t1');
    const [before] = await ledger(scene);
    expect(before).toMatchObject({ status: 'failed' });
    refuses = false;
    scene.world.clock.advance(1_000);
    expect(await scene.conclude('t2')).toMatchObject({ status: 'succeeded', result: 'applied' });
    const [after] = await ledger(scene);
    expect(after).toMatchObject({
      receiptId: before?.receiptId,
      createdAt: before?.createdAt,
      status: 'completed',
      turnId: 't2',
    });
    expect(outside.requests).toBe(2);
    expect(new Set(outside.keys).size).toBe(1);
  },
);

onEachStore(
  'T25 T26 dying at any call: a key in doubt is never called again, a completed one is replayed [T5 T6]',
  async (open) => {
    for (let call = 1; call < 14; call += 1) {
      const outside = new Outside();
      const scene = await sceneOf(open, async (context) => {
        const value = await context.effect(keyed(outside));
        await context.effect(outside.effect({ kind: 'read', mutates: false }));
        return value;
      });
      const process = scene.restart({
        call,
        kind: call % 2 === 0 ? 'doneButUnheard' : 'lostBefore',
      });
      await scene.deliver();
      await scene.world.recover();
      scene.restart();
      const turn = await scene.conclude();
      const at = `call ${call} ${process.fired}`;
      const charges = (await scene.journal()).filter(
        (body) => body.kind === 'EffectStarted' && body.effect === 'charge',
      );
      expect(charges, at).toHaveLength(1);
      const [receipt] = await ledger(scene);
      expect(receipt?.status, at).toBe(turn.status === 'succeeded' ? 'completed' : 'uncertain');
      const sent = outside.requests;
      expect(await scene.conclude('t2'), at).toMatchObject({ status: turn.status });
      const keys = outside.keys.filter((key) => key === outside.keys[0]);
      expect(keys.length, at).toBeLessThanOrEqual(1);
      expect(outside.requests).toBeGreaterThanOrEqual(sent);
    }
  },
);

onEachStore(
  'T32 T34 T36 K-36 a key in doubt quarantines whoever asks, names its receipt, and one answer settles both [T6 T13]',
  async (open) => {
    for (const outcome of ['landed', 'did_not_happen'] as const) {
      const outside = new Outside();
      let broken = true;
      const scene = await sceneOf(open, async (context: TurnContext) => {
        const value = await context
          .effect(
            keyed(outside, {
              perform: async () => {
                outside.requests += 1;
                if (broken) throw new Error('hang up');
                return 'sent';
              },
            }),
          )
          .catch(() => 'swallowed');
        return value;
      });
      expect(await scene.conclude('t1')).toMatchObject({ status: 'quarantined', revision: 0 });
      const [receipt] = await ledger(scene);
      expect(receipt).toMatchObject({ status: 'uncertain', turnId: 't1' });
      const listed = await listReceipts(scene.process.runtime, scene.ref().tenant, {
        thread: null,
        status: 'uncertain',
      });
      expect(listed).toHaveLength(1);
      expect(await scene.conclude('t2')).toMatchObject({
        status: 'quarantined',
        error: { message: expect.stringContaining(receipt?.receiptId ?? '?') },
      });
      expect(outside.requests).toBe(1);
      broken = false;
      const { runtime } = scene.process;
      const fact =
        outcome === 'landed'
          ? { outcome, output: 'seen', note: 'in the ledger' }
          : { outcome, note: 'no trace' };
      await assertFact(runtime, scene.ref('t1'), receipt?.effectKey ?? '', fact, 'olga');
      expect(await ledger(scene)).toMatchObject([
        { status: outcome === 'landed' ? 'completed' : 'failed' },
      ]);
      const reopened = await scene.world.settle(
        scene.process,
        reopenTurn(runtime, scene.ref('t2'), 'answered', 'olga', {}),
      );
      expect(reopened).toMatchObject({
        turn: { status: 'succeeded', result: outcome === 'landed' ? 'seen' : 'sent' },
      });
      expect(outside.requests).toBe(outcome === 'landed' ? 1 : 2);
      expect(await scene.strict('t2')).toMatchObject({ verdict: 'verified' });
      const asserted = (await scene.journal('t1')).find((body) => body.kind === 'EffectReconciled');
      expect(asserted).toMatchObject({ assertedBy: 'olga' });
    }
  },
);

onEachStore(
  'T37 a landed value that cannot be kept is never asked for again [T5 T6]',
  async (open) => {
    const outside = new Outside();
    const scene = await sceneOf(open, (context) =>
      context.effect(
        keyed(outside, {
          perform: async () => {
            outside.requests += 1;
            return () => 'a function';
          },
        }),
      ),
    );
    expect(await scene.conclude('t1')).toMatchObject({
      status: 'failed',
      error: { code: 'output_not_storable' },
    });
    expect(await scene.conclude('t2')).toMatchObject({
      status: 'failed',
      error: { code: 'effect_landed_before' },
    });
    expect(outside.requests).toBe(1);
  },
);
