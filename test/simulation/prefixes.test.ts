// Every prefix of a rich journal is a place where a process may have died: a fresh one goes on from each.
// Goal: wherever history ends, the turn ends as the undisturbed one, with the same things standing in the world, and
// no pass ever meets the store's refusal of a second announcement. Method: the records of one whole run are written
// one by one into an empty store, whose turn then lapses and is recovered.
import { expect } from 'vitest';
import type { TurnStore } from '../../src/ports/store.ts';
import { TurnstoneError } from '../../src/protocol/errors.ts';
import type { EpochMs } from '../../src/protocol/ids.ts';
import type { StoredRecord } from '../../src/protocol/record.ts';
import { decodeBody } from '../../src/protocol/record-codec.ts';
import { readJournal, readTurn } from '../../src/runtime/read-turn.ts';
import type {
  Effect,
  EffectCall,
  ProbeAnswer,
  StepOptions,
} from '../../src/runtime/turn-context.ts';
import { EffectFailure } from '../../src/runtime/turn-context.ts';
import { verifyTurn } from '../../src/runtime/verify-turn.ts';
import { World } from '../../src/testing/world.ts';
import { onEachStore } from '../stores.ts';
import type { Run } from './scene.ts';
import { agentOf, Scene } from './scene.ts';

/** A provider that recognises keys: what stands in it, and which announcement led to which key. */
class Provider {
  landed = new Set<string>();
  readonly keyOf = new Map<string, string>();
  requests = 0;

  effect(
    kind: string,
    options: Partial<Effect<unknown>> = {},
    first: ((call: EffectCall) => void) | null = null,
  ): Effect<unknown> {
    return {
      kind,
      args: { kind },
      recovery: 'idempotent',
      perform: async (call) => {
        this.requests += 1;
        const name = `${kind}:${call.idempotencyKey}`;
        this.keyOf.set(call.effectKey, name);
        if (kind === 'refused')
          throw new EffectFailure('no', {
            code: 'refused',
            disposition: 'did_not_happen',
            permanent: true,
          });
        if (kind === 'hold' && call.attempt === 1)
          throw new EffectFailure('busy', { code: 'busy', disposition: 'did_not_happen' });
        this.landed.add(name);
        first?.(call);
        return { kind };
      },
      probe: async (call): Promise<ProbeAnswer> =>
        this.landed.has(`${kind}:${call.idempotencyKey}`)
          ? { outcome: 'landed', output: { kind } }
          : { outcome: 'did_not_happen' },
      ...options,
    };
  }
}

/** A retry, a probe, a call nobody can be asked about, a group, a timer, a failed step and two undos. */
const rich =
  (world: () => Provider): Run =>
  async (context) => {
    const effect = (...given: Parameters<Provider['effect']>) => world().effect(...given);
    const undone = (kind: string): StepOptions => ({
      compensation: 'compensatable',
      undo: (undo) => undo.effect(effect(kind)),
    });
    await context.step('hold', undone('release'), (step) => step.effect(effect('hold')));
    await context.step('pay', undone('refund'), async (step) => {
      const cut = (): never => {
        throw new Error('socket hang up');
      };
      await step.effect(effect('charge', { recovery: 'reconcile' }, cut));
      return step.effect(effect('invoice', { recovery: 'operator' }));
    });
    await context.step('ship', { compensation: 'unnecessary' }, async (step) => {
      const group = step.openGroup('parcel', ['stock']);
      await group.reversible(effect('pick'), 'stock', () => effect('unpick'));
      group.deferred(effect('label'), 'stock');
      await group.commit([{ name: 'packed', holds: true }]);
    });
    context.note('packed');
    await context.sleep(20_000);
    await context.step('bill', {}, (step) =>
      step.effect(effect('refused', { recovery: 'reconcile' })),
    );
  };

/** Notes every second announcement that a store refused, whether it was answered or thrown. */
function watched(store: TurnStore, refusals: string[]): TurnStore {
  return new Proxy(store, {
    get(target, name, receiver) {
      const member: unknown = Reflect.get(target, name, receiver);
      if (typeof member !== 'function') return member;
      return async (...given: unknown[]) => {
        try {
          const answer: unknown = await Reflect.apply(member, target, given);
          if ((answer as { reason?: string } | null)?.reason === 'already_announced')
            refusals.push(String(name));
          return answer;
        } catch (error) {
          if (error instanceof TurnstoneError && error.code === 'already_announced')
            refusals.push(String(name));
          throw error;
        }
      };
    },
  });
}

/** Writes records, one a position, as a process that died after the last of them; its lease lapses. */
async function writePrefix(
  store: TurnStore,
  whole: Scene,
  records: readonly StoredRecord[],
): Promise<void> {
  const ref = whole.ref();
  const [admission] = records.map((record) => decodeBody(record.body));
  if (admission?.kind !== 'RunAdmitted') throw new Error('a prefix begins with the admission');
  const key = await whole.world.store.key(ref.tenant, admission.scope);
  if (key === null) throw new Error('the scope has no key');
  await store.createKey(ref.tenant, key);
  const now = whole.world.clock.now();
  const writer = { token: 'x'.repeat(22), owner: 'dead', epoch: 1, cancelsSeen: 0 };
  const announced = new Set<string>();
  for (const [index, record] of records.entries()) {
    const body = decodeBody(record.body);
    const announces = body.kind === 'EffectStarted' && body.wait === undefined ? [body.key] : [];
    const batch = { index, records: [record], announces };
    const outcome =
      index === 0
        ? await store.claim({
            ref,
            agent: whole.agent.name,
            seen: null,
            writer,
            batch,
            leaseUntil: (now + 10_000) as EpochMs,
            now,
          })
        : await store.append({ ref, writer, batch, announced, now });
    expect(outcome).toEqual({ kind: 'done' });
    for (const one of announces) announced.add(one);
  }
}

onEachStore(
  'E18 EP-4 RG-4 from every prefix of a rich journal a fresh process reaches the same end and the same world, and announces nothing twice [T5 T6 T7 T8]',
  async (open) => {
    const state = { provider: new Provider() };
    const agent = agentOf(rich(() => state.provider));
    const whole = new Scene(await open(), agent);
    await whole.suspend();
    await whole.passTime(21_000);
    expect(await whole.view()).toMatchObject({ status: 'failed', error: { code: 'refused' } });
    const kinds = await whole.kinds();
    for (const wanted of [
      'EF(did_not_happen)',
      'ER(landed)',
      'GS(committed)',
      'RunSuspended',
      'SC(pay,ok)',
      'SC(hold,ok)',
    ])
      expect(kinds).toContain(wanted);
    const positions = await whole.world.store.journal(whole.ref());
    const records = positions.flatMap((position) => position.records);
    const { landed: standing, keyOf } = state.provider;
    expect([...standing].map((name) => name.split(':')[0])).toEqual([
      'hold',
      'charge',
      'invoice',
      'pick',
      'label',
      'refund',
      'release',
    ]);
    for (let count = 1; count < records.length; count += 1) {
      const prefix = records.slice(0, count);
      const bodies = prefix.map((record) => decodeBody(record.body));
      const last = bodies.at(-1);
      const orphan = last?.kind === 'EffectStarted' && last.wait === undefined ? last : null;
      for (const arrived of orphan === null ? [true] : [true, false]) {
        const at = `prefix ${count}: ${kinds.slice(0, count).at(-1)}, its call ${arrived ? 'landed' : 'never left'}`;
        const calls = bodies.flatMap((body) => (body.kind === 'EffectStarted' ? [body.key] : []));
        state.provider = new Provider();
        for (const key of calls) {
          const name = keyOf.get(key) ?? '';
          if (standing.has(name) && (arrived || key !== orphan?.key))
            state.provider.landed.add(name);
        }
        const before = new Set(state.provider.landed);
        const refusals: string[] = [];
        const store = watched(await open(), refusals);
        await writePrefix(store, whole, prefix);
        const { clock, vault } = whole.world;
        const world = new World({ store, agents: [agent], clock, vault });
        await world.recover();
        clock.advance(21_000);
        await world.recover();
        const { runtime } = world.start();
        const unanswerable = orphan?.recovery === 'operator';
        const turn = await readTurn(runtime, whole.ref());
        expect(turn?.status, at).toBe(unanswerable ? 'quarantined' : 'failed');
        expect(state.provider.landed, at).toEqual(unanswerable ? before : standing);
        expect(refusals, at).toEqual([]);
        const page = await readJournal(runtime, whole.ref(), { after: 0, limit: 1_000 });
        expect(page?.verified, at).toBe(true);
        const started = (page?.records ?? []).flatMap(({ body }) =>
          body.kind === 'EffectStarted' ? [body.key] : [],
        );
        expect(new Set(started).size, at).toBe(started.length);
        const once = (page?.records ?? []).flatMap(({ body }) =>
          body.kind === 'StepStarted' ||
          body.kind === 'StepCompensated' ||
          body.kind === 'GroupOpened'
            ? [JSON.stringify([body.kind, body.step])]
            : [],
        );
        expect(new Set(once).size, at).toBe(once.length);
        const asked = state.provider.requests;
        expect(await verifyTurn(runtime, whole.ref()), at).toMatchObject({
          verdict: 'verified',
          outcome: turn?.status,
        });
        expect(state.provider.requests, at).toBe(asked);
        await store.close();
      }
    }
  },
);
