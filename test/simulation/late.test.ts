// Results that come after their turn was taken over or cancelled: evidence, of which nothing follows (F31, B26).
import { expect } from 'vitest';
import { handle } from '../../src/api/handle.ts';
import { journalLines, painter } from '../../src/operator/render.ts';
import { cancelTurn } from '../../src/runtime/cancel-turn.ts';
import { assertFact, reopenTurn } from '../../src/runtime/person-acts.ts';
import { readJournal } from '../../src/runtime/read-turn.ts';
import { EffectFailure } from '../../src/runtime/turn-context.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, type Run, Scene } from './scene.ts';

async function lateOf(scene: Scene) {
  const page = await readJournal(scene.world.start().runtime, scene.ref(), {
    after: 0,
    limit: 1_000,
  });
  return page?.late ?? [];
}

/** An effect whose owner is frozen in the call until others have taken its turn and driven it on. */
class Frozen {
  readonly outside = new Outside();
  scene: Scene | null = null;
  /** What others do meanwhile; timers of a frozen owner do not fire, so its limits are far. */
  meanwhile: () => Promise<void> = async () => this.world.recover();
  #thawed = false;

  get world() {
    if (this.scene === null) throw new Error('no scene');
    return this.scene.world;
  }

  async call(answer: () => unknown): Promise<unknown> {
    this.outside.requests += 1;
    if (!this.#thawed) {
      this.#thawed = true;
      this.world.clock.advance(this.world.settings.leaseMs * 2);
      await this.meanwhile();
    }
    return answer();
  }
}

async function open(
  store: Parameters<Parameters<typeof onEachStore>[1]>[0],
  run: (frozen: Frozen) => Run,
): Promise<{ scene: Scene; frozen: Frozen }> {
  const frozen = new Frozen();
  const scene = new Scene(await store(), agentOf(run(frozen)), {
    renew: false,
    turnTimeoutMs: 3_600_000,
  });
  frozen.scene = scene;
  return { scene, frozen };
}

onEachStore(
  'F31 an owner displaced while its call was on its way leaves the result as evidence: the turn stays quarantined [T4 T6]',
  async (store) => {
    const { scene, frozen } = await open(
      store,
      (held) => (context) =>
        context.effect(
          held.outside.effect({
            timeoutMs: 900_000,
            perform: (call) =>
              held.call(() => {
                call.bill({ minorUnits: 4 });
                return { receipt: 77 };
              }),
          }),
        ),
    );
    const owner = scene.process.runtime.owner;
    const answer = await scene.deliver();
    expect(answer).toMatchObject({ kind: 'concluded', turn: { status: 'quarantined' } });
    const turn = await scene.view();
    const key = turn.undecided[0]?.effectKey ?? '';
    expect(turn).toMatchObject({ status: 'quarantined', spend: { minorUnits: 0 } });
    expect(await lateOf(scene)).toEqual([
      {
        effectKey: key,
        outcome: 'landed',
        code: '',
        spend: { tokens: 0, minorUnits: 4 },
        at: expect.any(Number),
        owner,
        output: { receipt: 77 },
      },
    ]);
    const listed = await handle(
      {
        runtime: scene.world.start().runtime,
        bounds: () => ({}),
        detach: () => undefined,
        pause: async () => undefined,
      },
      {
        method: 'GET',
        path: '/v1/threads/order-7/turns/t1/undecided',
        query: new URLSearchParams(),
        headers: {},
        body: null,
        identity: { tenant: scene.ref().tenant, actor: 'olga', role: 'operator' },
      },
    );
    expect(JSON.parse(listed.body)).toMatchObject({
      items: [{ effectKey: key, late: { outcome: 'landed', output: { receipt: 77 }, owner } }],
    });
    expect(await scene.kinds()).toEqual(['RunAdmitted', 'ES(a1)', 'RC(quarantined)']);
    await scene.world.recover();
    expect(await scene.view()).toMatchObject({ status: 'quarantined' });
    expect(frozen.outside.requests).toBe(1);
    // A person decides by it; the evidence stays.
    const { runtime } = scene.restart();
    const fact = { outcome: 'landed' as const, output: { receipt: 77 }, note: 'heard too late' };
    await assertFact(runtime, scene.ref(), key, fact, 'olga');
    await scene.world.settle(scene.process, reopenTurn(runtime, scene.ref(), 'ok', 'olga', {}));
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: { receipt: 77 } });
    expect(await lateOf(scene)).toHaveLength(1);
    expect(frozen.outside.requests).toBe(1);
  },
);

onEachStore(
  'F31 a turn cancelled while its call was on its way stays cancelled when the result comes [T4 T8]',
  async (store) => {
    const { scene, frozen } = await open(
      store,
      (held) => (context) =>
        context.step('pay', { compensation: 'unnecessary' }, (step) =>
          step.effect(
            held.outside.effect({
              timeoutMs: 900_000,
              recovery: 'reconcile',
              perform: () => held.call(() => ({ receipt: 78 })),
              probe: async () => ({ outcome: 'did_not_happen' }),
            }),
          ),
        ),
    );
    frozen.meanwhile = async () => {
      await cancelTurn(scene.world.start().runtime, scene.ref(), 'enough', 'olga');
      await scene.world.recover();
    };
    await scene.deliver();
    await scene.world.recover();
    const kinds = await scene.kinds();
    expect(kinds.at(-1)).toBe('RC(cancelled)');
    expect(await scene.view()).toMatchObject({ status: 'cancelled' });
    const late = await lateOf(scene);
    expect(late).toMatchObject([{ outcome: 'landed', output: { receipt: 78 } }]);
    const lines = journalLines(
      {
        records: [],
        verified: true,
        late: late.map((row) => ({ ...row, at: '2026-12-07T00:00:00.000Z' })),
      },
      painter(false),
    );
    expect(lines[0]).toMatch(
      /^late 00:00:00.000 landed key=.{8}, heard too late by process-1 .*78/,
    );
  },
);

onEachStore(
  'B26 a sibling that is still on its way when its pass ends leaves its result too; one that tells nothing leaves none [T4]',
  async (store) => {
    const gate = Promise.withResolvers<void>();
    const { scene } = await open(
      store,
      (held) => async (context) =>
        Promise.all([
          context.effect(
            held.outside.effect({
              kind: 'a',
              timeoutMs: 900_000,
              perform: () => held.call(() => 'a'),
            }),
          ),
          context.effect(
            held.outside.effect({
              timeoutMs: 900_000,
              kind: 'b',
              perform: async () => {
                await gate.promise;
                throw new EffectFailure('refused', {
                  disposition: 'did_not_happen',
                  code: 'http_402',
                  permanent: true,
                });
              },
            }),
          ),
          context.effect(
            held.outside.effect({
              timeoutMs: 900_000,
              kind: 'c',
              perform: async () => {
                await gate.promise;
                throw new Error('hung up');
              },
            }),
          ),
        ]),
    );
    const first = scene.process;
    expect(await scene.deliver()).toMatchObject({ turn: { status: 'quarantined' } });
    gate.resolve();
    const kept = (async () => {
      for (;;) {
        const late = await lateOf(scene);
        if (late.length >= 2) return late;
        await new Promise(setImmediate);
      }
    })();
    const late = await scene.world.settle(first, kept);
    expect(late).toHaveLength(2);
    expect(late).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ outcome: 'landed', output: 'a' }),
        expect.objectContaining({
          outcome: 'did_not_happen',
          code: 'http_402',
          output: { message: 'refused' },
        }),
      ]),
    );
    expect(await scene.view()).toMatchObject({ status: 'quarantined' });
    expect((await scene.view()).undecided).toHaveLength(3);
  },
);
