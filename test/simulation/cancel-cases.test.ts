// Cases of cancel.md that need a scene of their own: what a stop finds, what it refuses, what comes after it.
import { expect } from 'vitest';
import { TurnstoneError } from '../../src/protocol/errors.ts';
import { readAttention } from '../../src/runtime/attention.ts';
import { cancelTurn } from '../../src/runtime/cancel-turn.ts';
import { publishEvent } from '../../src/runtime/events.ts';
import { assertFact, reopenTurn, resumeByPerson } from '../../src/runtime/person-acts.ts';
import { readJournal } from '../../src/runtime/read-turn.ts';
import type { Effect, TurnContext } from '../../src/runtime/turn-context.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';

class World {
  readonly calls: string[] = [];
  readonly silent = new Set<string>();

  effect(kind: string, options: Partial<Effect<unknown>> = {}): Effect<unknown> {
    return {
      kind,
      args: { kind },
      recovery: 'idempotent',
      retry: { maxAttempts: 1 },
      perform: async () => {
        this.calls.push(kind);
        if (this.silent.has(kind)) throw new Error('hang up');
        return `${kind}!`;
      },
      ...options,
    };
  }

  step(
    context: TurnContext,
    name: string,
    body: (step: TurnContext) => Promise<unknown> = (step) => step.effect(this.effect(name)),
  ): Promise<unknown> {
    const undo = (back: TurnContext) => back.effect(this.effect(`undo-${name}`));
    return context.step(name, { compensation: 'compensatable', undo }, body);
  }

  undone(): readonly string[] {
    return this.calls.filter((kind) => kind.startsWith('undo'));
  }
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    (value) => value,
    (thrown: unknown) => thrown,
  );
  return error instanceof TurnstoneError ? error.code : JSON.stringify(error);
}

async function stop(scene: Scene, reason = 'enough'): Promise<void> {
  const { runtime } = scene.world.start();
  expect(await cancelTurn(runtime, scene.ref(), reason, 'olga')).toEqual({ recorded: true });
  await scene.inbox();
}

onEachStore(
  'E198 RP-4 stopping a turn that waits behind a long history: its undos stand on their own slices, nothing diverges [T7 T8]',
  async (open) => {
    const world = new World();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await world.step(context, 'a', async (step) => {
          for (let n = 0; n < 30; n += 1) await step.effect(world.effect('a', { args: { n } }));
        });
        await context.approval({ action: 'go' });
      }),
    );
    await scene.suspend();
    await stop(scene);
    expect(await scene.view()).toMatchObject({ status: 'cancelled' });
    expect(world.calls).toHaveLength(31);
    expect(world.undone()).toEqual(['undo-a']);
    const undo = (await scene.journal()).flatMap((body) =>
      body.kind === 'EffectStarted' && body.site.phase === 'compensating' ? [body.site] : [],
    );
    expect(undo).toEqual([{ step: 'a', phase: 'compensating', ordinal: 0 }]);
    expect(await scene.strict()).toMatchObject({
      verdict: 'cannot_replay',
      reason: 'ended_by_an_act',
    });
  },
);

onEachStore(
  'E200 CA-4 against succeeded: refused; against cancelled: not recorded; unknown, or without a reason: refused before any write [T8]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async (context, input) => {
        if (input === 'wait') await context.approval({ action: 'go' });
        return 'done';
      }),
    );
    await scene.conclude('t1');
    await scene.suspend('t2', { input: 'wait' });
    const { runtime } = scene.process;
    const ask = (turn: string, reason = 'why') =>
      codeOf(cancelTurn(runtime, scene.ref(turn), reason, 'olga'));
    expect(await ask('t1')).toBe('concluded');
    expect(await scene.world.store.stopOf(scene.ref('t1'))).toBeNull();
    for (const blank of ['', ' \n']) expect(await ask('t2', blank)).toBe('invalid_request');
    expect(await scene.world.store.stopOf(scene.ref('t2'))).toBeNull();
    expect(await ask('nobody')).toBe('not_found');
    expect(await scene.world.store.stopOf(scene.ref('nobody'))).toBeNull();
    expect(await scene.view('t2')).toMatchObject({ status: 'suspended' });
    expect(await ask('t2')).toBe('{"recorded":true}');
    await scene.inbox();
    expect(await scene.view('t2')).toMatchObject({ status: 'cancelled' });
    const before = await scene.kinds('t2');
    expect(await ask('t2', 'again')).toBe('{"recorded":false}');
    expect(await scene.kinds('t2')).toEqual(before);
  },
);

onEachStore(
  'E201 CA-4 a stop of a failed turn with landed work, and of an exhausted one, undoes it; cancelled, and sealed [T8]',
  async (open) => {
    for (const status of ['failed', 'exhausted'] as const) {
      const world = new World();
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          await world.step(context, 'a', async (step) => {
            await step.effect(world.effect('a'));
            if (status === 'failed') throw new Error('a broke');
          });
          await world.step(context, 'b');
        }),
      );
      const budget = status === 'failed' ? null : { effects: 1 };
      expect(await scene.conclude('t1', { budget })).toMatchObject({ status });
      expect(world.calls).toEqual(['a']);
      await stop(scene);
      expect(await scene.view()).toMatchObject({ status: 'cancelled' });
      expect(world.calls).toEqual(['a', 'undo-a']);
      const { runtime } = scene.process;
      expect((await readAttention(runtime, scene.ref().tenant)).items).toEqual([]);
      const before = await scene.kinds();
      expect(before.filter((kind) => kind === 'RunCancelled')).toHaveLength(1);
      const more = { reason: null, budget: { effects: 9 } };
      await codeOf(resumeByPerson(runtime, scene.ref(), more, 'olga', {}));
      expect(await scene.kinds()).toEqual(before);
      expect(world.calls).toEqual(['a', 'undo-a']);
    }
  },
);

onEachStore(
  'E202 SA-8 a stop of a turn that waits over a doubt of another step: recorded, quarantined, nothing undone; answered, reopening finishes the stop [T6 T8]',
  async (open) => {
    for (const fact of ['landed', 'did_not_happen'] as const) {
      const world = new World();
      world.silent.add('b');
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          await world.step(context, 'a');
          // The code goes on over the doubt; the runtime does not forget it (decision 6).
          await world
            .step(context, 'b', (step) => step.effect(world.effect('b', { recovery: 'operator' })))
            .catch(() => null);
          await world.step(context, 'd', async (step) => {
            await step.approval({ action: 'go' });
          });
        }),
      );
      await scene.suspend();
      await stop(scene);
      const turn = await scene.view();
      expect(turn).toMatchObject({ status: 'quarantined', undecided: [{ step: 'b' }] });
      expect(world.undone()).toEqual([]);
      const kinds = await scene.kinds();
      expect(kinds.slice(-2)).toEqual(['RunCancelled', 'RC(quarantined)']);
      expect(kinds).not.toContain('UnwindStarted');
      const { runtime } = scene.world.start();
      const key = turn.undecided[0]?.effectKey ?? '';
      const said =
        fact === 'landed'
          ? { outcome: fact, output: 'b!', note: 'in the ledger' }
          : { outcome: fact, note: 'no trace' };
      await assertFact(runtime, scene.ref(), key, said, 'olga');
      await reopenTurn(runtime, scene.ref(), 'answered', 'olga', {});
      expect(await scene.view()).toMatchObject({ status: 'cancelled', undecided: [] });
      expect(world.undone()).toEqual(fact === 'landed' ? ['undo-b', 'undo-a'] : ['undo-a']);
      const after = await scene.kinds();
      expect(after.filter((kind) => kind === 'RunCancelled')).toHaveLength(1);
      expect(after.at(-1)).toBe('RC(cancelled)');
    }
  },
);

onEachStore(
  'E208 CA-6 CA-7 who stopped a turn and why is said once, on the record of the stop; the event it waited for resumes nothing [T8 T13]',
  async (open) => {
    const world = new World();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await world.step(context, 'a');
        await context.event({ type: 'paid', correlation: { order: 7 } });
        await context.effect(world.effect('ship'));
      }),
    );
    await scene.suspend();
    await stop(scene, 'the customer called');
    expect(await scene.view()).toMatchObject({ status: 'cancelled' });
    const { runtime } = scene.world.start();
    const page = await readJournal(runtime, scene.ref(), { after: 0, limit: 100 });
    const of = (kind: string) => page?.records.filter(({ body }) => body.kind === kind) ?? [];
    expect(of('RunCancelled')).toMatchObject([
      { body: { actor: 'olga' }, payload: { reason: 'the customer called' } },
    ]);
    const concluded = of('RunConcluded');
    expect(concluded).toHaveLength(1);
    expect(JSON.stringify(concluded)).not.toMatch(/olga|the customer called/);
    const before = await scene.kinds();
    await publishEvent(runtime, {
      tenant: scene.ref().tenant,
      source: 'shop',
      id: 'e1',
      type: 'paid',
      correlation: { order: 7 },
      data: 1,
    });
    await scene.inbox();
    await scene.passTime(11_000);
    expect(await scene.kinds()).toEqual(before);
    expect(world.calls).toEqual(['a', 'undo-a']);
    expect(await scene.view()).toMatchObject({ status: 'cancelled' });
  },
);
