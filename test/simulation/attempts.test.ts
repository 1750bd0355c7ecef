// Attempts, their waits and their keys where mechanisms meet (sections A to E of effects.md).
import { expect } from 'vitest';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import type { EpochMs } from '../../src/protocol/ids.ts';
import { readAttention } from '../../src/runtime/attention.ts';
import type { Effect } from '../../src/runtime/turn-context.ts';
import { EffectFailure } from '../../src/runtime/turn-context.ts';
import type { TurnRequest } from '../../src/runtime/turn-request.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import { onEachStore } from '../stores.ts';
import type { Run } from './scene.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const keyed = { recovery: 'idempotent' as const };
const effects = async (scene: Scene) => (await scene.kinds()).filter((kind) => /^E/.test(kind));

/** What must hold after any ended turn. */
async function afterwards(
  scene: Scene,
  outside: Outside,
  requests: number,
  sent: Partial<TurnRequest> = {},
): Promise<void> {
  expect(outside.requests).toBe(requests);
  const before = await scene.kinds();
  const { status } = await scene.view();
  expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: status });
  scene.restart();
  await scene.conclude('t1', sent);
  expect(await scene.kinds()).toEqual(before);
  expect(outside.requests).toBe(requests);
}

onEachStore(
  'E20 LE-10 a stop without grace leaves an orphan under its owner, listed only past the lease; the next owner obeys the recovery [T4 T6]',
  async (open) => {
    for (const [recovery, status, requests] of [
      ['operator', 'quarantined', 1],
      ['idempotent', 'succeeded', 2],
    ] as const) {
      const outside = new Outside();
      const gate = { shut: true };
      const scene = new Scene(
        await open(),
        agentOf((context) =>
          context.effect(
            outside.effect({
              recovery,
              perform: async () => {
                outside.requests += 1;
                return gate.shut ? new Promise(() => undefined) : 'sent';
              },
            }),
          ),
        ),
      );
      const { owner } = scene.process.runtime;
      const drain = new AbortController();
      void withTurn(scene.process.runtime, scene.request('t1', { drain: drain.signal }));
      while (outside.requests === 0) await new Promise(setImmediate);
      drain.abort(new Error('SIGTERM'));
      scene.process.kill();
      gate.shut = false;
      const listed = async () =>
        (await readAttention(scene.world.start().runtime, scene.ref().tenant)).items.map(
          ({ condition }) => condition,
        );
      expect(await scene.world.store.head(scene.ref())).toMatchObject({
        open: { turn: 't1', owner },
      });
      expect(await effects(scene)).toEqual(['ES(a1)']);
      expect(await listed()).toEqual([]);
      scene.restart();
      expect(await scene.deliver()).toMatchObject({ kind: 'pending' });
      scene.world.clock.advance(scene.world.settings.leaseMs + 1);
      expect(await listed()).toEqual(['turn.stranded']);
      expect(await scene.world.store.head(scene.ref())).toMatchObject({ open: { owner } });
      await scene.world.recover();
      scene.restart();
      expect(await scene.conclude()).toMatchObject({ status });
      expect(await listed()).toEqual(status === 'quarantined' ? ['turn.quarantined'] : []);
      await afterwards(scene, outside, requests);
    }
  },
);

onEachStore(
  'E36 EK-3 an undo that begins with the very call of its step has a key of its own, is performed, and each phase reads its own record [T7 T8]',
  async (open) => {
    const outside = new Outside();
    const same = (): Effect<unknown> =>
      outside.effect({ ...keyed, kind: 'toggle', args: { on: 1 } });
    const seen: unknown[] = [];
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.step(
          'switch',
          {
            compensation: 'compensatable',
            undo: async (undo) => seen.push(['undo', await undo.effect(same())]),
          },
          async (step) => seen.push(['do', await step.effect(same())]),
        );
        throw new Error('closed');
      }),
    );
    expect(await scene.conclude()).toMatchObject({ status: 'failed' });
    const started = (await scene.journal()).flatMap((body) =>
      body.kind === 'EffectStarted' ? [body] : [],
    );
    expect(started.map(({ site }) => [site.phase, site.ordinal])).toEqual([
      ['forward', 0],
      ['compensating', 0],
    ]);
    expect(new Set(started.map(({ key }) => key)).size).toBe(2);
    expect(new Set(outside.keys).size).toBe(2);
    const live = [
      ['do', { id: 1 }],
      ['undo', { id: 2 }],
    ];
    expect(seen).toEqual(live);
    await afterwards(scene, outside, 2);
    expect(seen).toEqual([...live, ...live]);
  },
);

onEachStore(
  'E47 BU-5 a completion that dies mid-stream twice is billed each time before the next attempt is admitted [T11]',
  async (open) => {
    const dying =
      (outside: Outside): Run =>
      (context) =>
        context.effect(
          outside.effect({
            kind: 'model.complete',
            mutates: false,
            perform: async (call) => {
              outside.requests += 1;
              call.bill({ tokens: 40 });
              if (outside.requests < 3)
                throw new EffectFailure('the stream ended', {
                  code: 'stream_cut',
                  disposition: 'landed',
                });
              return 'text';
            },
          }),
        );
    const outside = new Outside();
    const scene = new Scene(await open(), agentOf(dying(outside)));
    expect(await scene.conclude('t1', { budget: { tokens: 81 } })).toMatchObject({
      status: 'succeeded',
      spend: { attempts: 3, tokens: 120 },
    });
    expect(await effects(scene)).toEqual([
      'ES(a1)',
      'EF(landed)',
      'ES(a2)',
      'EF(landed)',
      'ES(a3)',
      'ED',
    ]);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
    // Both failures count against the ceiling when the third attempt asks.
    const poor = new Outside();
    const tight = new Scene(await open(), agentOf(dying(poor)));
    expect(await tight.conclude('t1', { budget: { tokens: 80 } })).toMatchObject({
      status: 'exhausted',
      spend: { attempts: 2, tokens: 80 },
      error: { message: expect.stringContaining('tokens') },
    });
    expect(poor.requests).toBe(2);
    expect(await tight.strict()).toMatchObject({ verdict: 'verified', outcome: 'exhausted' });
  },
);

onEachStore(
  'E52 RT-3 a refusal that was wrapped in an error of the step’s own is still no doubt: failed, and the sibling is undone [T6 T8]',
  async (open) => {
    const outside = new Outside();
    const undone: string[] = [];
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.step(
          'hold',
          {
            compensation: 'compensatable',
            undo: (undo) => {
              undone.push('hold');
              return undo.effect(outside.effect({ ...keyed, kind: 'release' }));
            },
          },
          (step) => step.effect(outside.effect({ ...keyed, kind: 'hold' })),
        );
        await context.step('pay', {}, async (step) => {
          try {
            await step.effect(
              outside.effect({
                retry: { maxAttempts: 2 },
                perform: async () => {
                  outside.requests += 1;
                  throw new EffectNotAppliedError('refused');
                },
              }),
            );
          } catch (cause) {
            throw new Error('payment is not possible today', { cause });
          }
        });
      }),
    );
    expect(await scene.conclude()).toMatchObject({
      status: 'failed',
      error: { code: 'agent_failed', message: 'payment is not possible today' },
      undecided: [],
    });
    expect(undone).toEqual(['hold']);
    expect((await scene.kinds()).filter((kind) => /^(E|SC)/.test(kind))).toEqual([
      'ES(a1)',
      'ED',
      'ES(a1)',
      'EF(did_not_happen)',
      'ES(a2)',
      'EF(did_not_happen)',
      'ES(a1)',
      'ED',
      'SC(hold,ok)',
    ]);
    await afterwards(scene, outside, 4);
  },
);

onEachStore(
  'E54 OR-2 an orphan at attempt 2 of 3 is sent again under its key, times out, and attempt 3 succeeds: three slots [T6 T11]',
  async (open) => {
    const outside = new Outside();
    const current: { scene: Scene | null } = { scene: null };
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.effect(
          outside.effect({
            ...keyed,
            timeoutMs: 1_000,
            perform: async (call) => {
              outside.requests += 1;
              outside.keys.push(call.effectKey);
              if (outside.requests === 1) throw new EffectNotAppliedError('busy');
              if (outside.requests === 2) current.scene?.process.kill();
              if (outside.requests < 4) return new Promise(() => undefined);
              return 'sent';
            },
          }),
        ),
      ),
    );
    current.scene = scene;
    expect(await scene.deliver('t1', { budget: { effects: 3 } })).toBe('died');
    expect(await effects(scene)).toEqual(['ES(a1)', 'EF(did_not_happen)', 'ES(a2)']);
    await scene.world.recover();
    scene.restart();
    expect(await scene.conclude('t1', { budget: { effects: 3 } })).toMatchObject({
      status: 'succeeded',
      spend: { effects: 1, attempts: 3 },
    });
    expect(await effects(scene)).toEqual([
      'ES(a1)',
      'EF(did_not_happen)',
      'ES(a2)',
      'EF(in_doubt)',
      'ES(a3)',
      'ED',
    ]);
    const [first, second, again, third] = outside.keys;
    expect(again).toBe(second);
    expect(new Set([first, second, third]).size).toBe(3);
    expect(outside.requests).toBe(4);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
  },
);

onEachStore(
  'E64 RE-1 a twin of the same amount landed a moment earlier: a probe by reference says no and the call is sent; one by recency is wrong [T6]',
  async (open) => {
    for (const by of ['reference', 'recency'] as const) {
      const ledger: { reference: string; amount: number }[] = [{ reference: 'twin', amount: 10 }];
      let lost = true;
      const scene = new Scene(
        await open(),
        agentOf((context) =>
          context.effect({
            kind: 'charge',
            args: { amount: 10 },
            recovery: 'reconcile',
            perform: async ({ idempotencyKey }) => {
              if (lost) {
                lost = false;
                throw new Error('socket hang up');
              }
              ledger.push({ reference: idempotencyKey, amount: 10 });
              return 'charged';
            },
            probe: async ({ idempotencyKey }) => {
              const found = ledger.find((charge) =>
                by === 'reference' ? charge.reference === idempotencyKey : charge.amount === 10,
              );
              return found === undefined
                ? { outcome: 'did_not_happen' }
                : { outcome: 'landed', output: found.reference };
            },
          }),
        ),
      );
      // By recency the twin's charge is taken for this one, which is why the probe suite refuses such a probe.
      expect(await scene.conclude()).toMatchObject(
        by === 'reference'
          ? { status: 'succeeded', result: 'charged' }
          : { status: 'succeeded', result: 'twin' },
      );
      expect(ledger).toHaveLength(by === 'reference' ? 2 : 1);
      expect(await effects(scene)).toEqual(
        by === 'reference'
          ? ['ES(a1)', 'EF(in_doubt)', 'ER(did_not_happen)', 'ES(a2)', 'ED']
          : ['ES(a1)', 'EF(in_doubt)', 'ER(landed)'],
      );
    }
  },
);

onEachStore(
  'E73 BO-5 a wait longer than what remains of the host is durable: nobody is held, the same attempt and key follow, no slot more [T4 T11]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.effect(
          outside.effect({
            retry: { maxAttempts: 2, initialMs: 40_000, multiplier: 1, maxMs: 40_000 },
            perform: async (call) => {
              outside.requests += 1;
              outside.keys.push(call.idempotencyKey);
              if (outside.requests === 1) throw new EffectNotAppliedError('busy');
              return 'sent';
            },
          }),
        ),
      ),
    );
    const { clock, store } = scene.world;
    /** A host that bounds every pass to five seconds, as a function does. */
    const bounded = (): { deadlineAt: EpochMs } => ({
      deadlineAt: (clock.now() + 5_000) as EpochMs,
    });
    const at = clock.now();
    expect(await scene.deliver('t1', { budget: { effects: 2 }, ...bounded() })).toMatchObject({
      kind: 'pending',
    });
    expect(clock.now() - at).toBeLessThan(5_000);
    expect(await effects(scene)).toEqual(['ES(a1)', 'EF(did_not_happen)']);
    const [row] = await store.workOf(scene.ref());
    const wait = (row?.wakeAt ?? 0) - at;
    expect(wait).toBeGreaterThanOrEqual(20_000);
    expect(wait).toBeLessThanOrEqual(40_000);
    expect((await store.head(scene.ref()))?.open?.leaseUntil).toBe(0);
    // Before it is due no sweep wakes it; then one pass of such a host is enough.
    await scene.passTime(wait - 1_000, bounded);
    expect(outside.requests).toBe(1);
    await scene.passTime(2_000, bounded);
    expect(await scene.view()).toMatchObject({
      status: 'succeeded',
      spend: { effects: 1, attempts: 2 },
    });
    expect(await effects(scene)).toEqual(['ES(a1)', 'EF(did_not_happen)', 'ES(a2)', 'ED']);
    const second = (await scene.journal()).findLast((body) => body.kind === 'EffectStarted');
    expect(second).toMatchObject({ attempt: 2, backoffMs: wait });
    expect(new Set(outside.keys).size).toBe(1);
    await afterwards(scene, outside, 2, { budget: { effects: 2 } });
  },
);
