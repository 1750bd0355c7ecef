// Forgetting, derivation, lapsing and holds of what is remembered (memory.md, N; page 01, 13.4).
import { expect } from 'vitest';
import type { TurnStore } from '../../src/ports/store.ts';
import { TurnstoneError } from '../../src/protocol/errors.ts';
import { epochMs, subjectId } from '../../src/protocol/ids.ts';
import {
  forgetMemory,
  holdMemory,
  releaseMemory,
  sweepMemories,
} from '../../src/runtime/forget.ts';
import { eraseSubject, holdSubject, memoriesOf } from '../../src/runtime/subjects.ts';
import type {
  Recall,
  RecalledItem,
  Remember,
  TurnContext,
} from '../../src/runtime/turn-context.ts';
import type { OpenStore } from '../stores.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';

const ann = subjectId('subject', 'ann-smith');
const bob = subjectId('subject', 'bob-jones');
const person = (scene: Scene, subject = ann) => ({ tenant: scene.ref().tenant, subject });

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    (value) => value,
    (thrown: unknown) => thrown,
  );
  return error instanceof TurnstoneError ? error.code : JSON.stringify(error);
}

interface Note {
  readonly id: string;
  readonly content?: unknown;
  /** Ids among what is recalled that it is made from. */
  readonly from?: readonly string[];
  readonly more?: Partial<Remember>;
}

interface Asked {
  readonly notes?: readonly Note[];
  readonly recall?: Partial<Recall>;
  readonly forget?: string;
  readonly sweep?: boolean;
  /** Sleeps between the recall and what follows. */
  readonly nap?: number;
}

/** Remembers, forgets, sweeps and recalls as its input says. */
async function keeper(context: TurnContext, input: unknown): Promise<unknown> {
  const { notes = [], recall, forget, sweep, nap } = input as Asked;
  const needed = notes.some(({ from }) => from !== undefined);
  const known = needed ? await context.recall({ purpose: 'care', limit: 100 }) : [];
  for (const { id, content = id, from = [], more = {} } of notes) {
    const derivedFrom = known.filter((item) => from.includes(item.id));
    if (from.length > derivedFrom.length) continue;
    const made = from.length === 0 ? {} : { derivedFrom };
    await context.remember({ id, purpose: 'care', content, ...made, ...more });
  }
  if (forget !== undefined) return context.forget({ id: forget });
  if (sweep === true) return context.sweepMemories();
  const found = recall === undefined ? [] : await context.recall({ purpose: 'care', ...recall });
  if (nap !== undefined) await context.sleep(nap);
  return found.map(({ id, version, content }) => [id, version, content]);
}

async function sceneOf(open: OpenStore): Promise<Scene> {
  return new Scene(await open(), agentOf(keeper));
}

let turns = 0;

/** A turn about ann that does what is asked and must succeed. */
async function done(scene: Scene, asked: Asked, subject = ann): Promise<unknown> {
  turns += 1;
  scene.world.clock.advance(1);
  const view = await scene.conclude(`n${turns}`, { subject, input: asked });
  expect(view).toMatchObject({ status: 'succeeded' });
  return view.result;
}

const idsOf = async (scene: Scene): Promise<readonly string[]> =>
  (await memoriesOf(scene.world.start().runtime, person(scene), null)).map(({ id }) => id).sort();

/** A, B from A, C from B, and D from nothing. */
async function chain(open: OpenStore): Promise<Scene> {
  const scene = await sceneOf(open);
  await done(scene, { notes: [{ id: 'a' }, { id: 'd' }] });
  await done(scene, { notes: [{ id: 'b', from: ['a'] }] });
  await done(scene, { notes: [{ id: 'c', from: ['b'] }] });
  return scene;
}

onEachStore(
  'E256 E257 forgetting keeps what was derived; a cascade follows the lineage through tombstones [T12]',
  async (open) => {
    const scene = await chain(open);
    const { runtime } = scene.world.start();
    const forget = (id: string, cascade = false) =>
      forgetMemory(runtime, person(scene), id, { cascade });
    expect(await forget('b')).toEqual({ items: 1, versions: 1 });
    expect(await forget('b')).toEqual({ items: 0, versions: 0 });
    expect(await idsOf(scene)).toEqual(['a', 'c', 'd']);
    expect(await forget('a', true)).toEqual({ items: 2, versions: 2 });
    expect(await idsOf(scene)).toEqual(['d']);
    turns += 1;
    const again = { subject: ann, input: { notes: [{ id: 'b' }] } };
    expect(await scene.conclude(`n${turns}`, again)).toMatchObject({
      status: 'failed',
      error: { code: 'memory_id_reserved' },
    });
  },
);

onEachStore(
  'E258 a cascade is by version: what was made again without the source keeps its current version [T12]',
  async (open) => {
    const scene = await sceneOf(open);
    await done(scene, { notes: [{ id: 'a' }, { id: 'd' }] });
    await done(scene, { notes: [{ id: 's', content: 'old', from: ['a', 'd'] }] });
    await done(scene, { notes: [{ id: 's', content: 'new', from: ['d'] }] });
    const { runtime } = scene.world.start();
    const { store } = scene.world;
    const taken = await forgetMemory(runtime, person(scene), 'a', { cascade: true });
    expect(taken).toEqual({ items: 1, versions: 2 });
    expect(await done(scene, { recall: {} })).toEqual([
      ['s', 2, 'new'],
      ['d', 1, 'd'],
    ]);
    const { versions } = await store.memoryLineage(
      await store.subjectScope(scene.ref().tenant, ann),
    );
    expect(versions.map(({ version }) => version).sort()).toEqual([1, 2]);
    // The version that went is remembered as gone: a cascade from the other source still follows it.
    await done(scene, { notes: [{ id: 's', content: 'third' }] });
    await forgetMemory(runtime, person(scene), 'd', { cascade: true });
    expect(await done(scene, { recall: {} })).toEqual([['s', 3, 'third']]);
  },
);

onEachStore(
  'E246 a fact is made only from what stands, as it was recalled, of the same person [T13]',
  async (open) => {
    const taken: RecalledItem[] = [];
    const scene = new Scene(
      await open(),
      agentOf(async (context, input) => {
        const { from } = input as { from?: RecalledItem };
        if (from === undefined) {
          await context.remember({ id: 'a', purpose: 'care', content: 1 });
          return null;
        }
        await context.remember({ id: 'x', purpose: 'care', content: 2, derivedFrom: [from] });
        return null;
      }),
    );
    await scene.conclude('t1', { subject: ann, input: {} });
    const { runtime } = scene.world.start();
    taken.push(...(await memoriesOf(runtime, person(scene), null)));
    const [a] = taken;
    if (a === undefined) throw new Error('expected a fact');
    const refusals: readonly [RecalledItem, typeof ann, string][] = [
      [{ ...a, version: 2 }, ann, 'memory_source_gone'],
      [{ ...a, commitment: 'other' }, ann, 'memory_source_gone'],
      [a, bob, 'memory_source_gone'],
      [{ ...a, version: 0 }, ann, 'invalid_request'],
    ];
    for (const [index, [from, subject, code]] of refusals.entries()) {
      expect(await scene.conclude(`r${index}`, { subject, input: { from } }), code).toMatchObject({
        status: 'failed',
        error: { code },
      });
    }
    expect(await idsOf(scene)).toEqual(['a']);
    await scene.conclude('ok', { subject: ann, input: { from: a } });
    expect(await idsOf(scene)).toEqual(['a', 'x']);
  },
);

onEachStore(
  'E260 a hold on one fact refuses cascade, erasure and forgetting whole, and a sweep goes around it [T12]',
  async (open) => {
    const scene = await chain(open);
    await done(scene, { notes: [{ id: 'e', more: { expiresInMs: 1_000 } }] });
    await done(scene, { notes: [{ id: 'c', from: ['b'], more: { expiresInMs: 1_000 } }] });
    const { runtime } = scene.world.start();
    await holdMemory(runtime, person(scene), 'c', 'dora');
    const refused = [
      () => forgetMemory(runtime, person(scene), 'a', { cascade: true }),
      () => forgetMemory(runtime, person(scene), 'c'),
      () => eraseSubject(runtime, person(scene), 'dora'),
    ];
    for (const act of refused) expect(await codeOf(act())).toBe('legal_hold');
    expect(await idsOf(scene)).toEqual(['a', 'b', 'c', 'd', 'e']);
    scene.world.clock.advance(1_000);
    const swept = await sweepMemories(scene.world.start().runtime, person(scene));
    expect(swept).toMatchObject({ items: 1, versions: 1 });
    expect(await codeOf(holdMemory(runtime, person(scene), 'nobody', 'dora'))).toBe('not_found');
    await releaseMemory(runtime, person(scene), 'c');
    expect(await sweepMemories(scene.world.start().runtime, person(scene))).toMatchObject({
      items: 1,
      versions: 2,
    });
    expect(await forgetMemory(runtime, person(scene), 'a', { cascade: true })).toMatchObject({
      items: 2,
    });
    expect(await eraseSubject(runtime, person(scene), 'dora')).toMatchObject({ state: 'complete' });
  },
);

onEachStore(
  'E261 E262 a sweep in a turn journals its cutoff and count; a death after it is a person’s to answer [T6 T12]',
  async (open) => {
    const scene = await sceneOf(open);
    const lapsing = Array.from({ length: 5 }, (_, n) => ({
      id: `x${n}`,
      more: { expiresInMs: 10_000 },
    }));
    await done(scene, { notes: [...lapsing, { id: 'stays' }] });
    scene.world.clock.advance(10_000);
    const kinds = new Set<string>();
    for (let call = 1; call < 14; call += 1) {
      const turn = `sweep-${call}`;
      scene.restart({ call, kind: 'doneButUnheard' });
      const input = { sweep: true };
      await scene.deliver(turn, { subject: ann, input });
      await scene.world.recover();
      scene.restart();
      const answer = await scene.deliver(turn, { subject: ann, input });
      if (answer === 'died' || answer.kind !== 'concluded') throw new Error('expected an end');
      kinds.add(answer.turn.status);
      if (answer.turn.status === 'succeeded') {
        const { cutoff } = answer.turn.result as { cutoff: number };
        expect(cutoff).toBeGreaterThan(0);
      } else expect(answer.turn.undecided).toHaveLength(1);
    }
    expect([...kinds].sort()).toEqual(['quarantined', 'succeeded']);
    expect(await idsOf(scene)).toEqual(['stays']);
    const { runtime } = scene.world.start();
    expect(await sweepMemories(runtime, person(scene))).toMatchObject({ items: 0 });
  },
);

onEachStore(
  'ME-12 an access window lapses, a recall that refreshes it opens it again, never past the expiry [T12]',
  async (open) => {
    const scene = await sceneOf(open);
    const more = { accessWindowMs: 10_000, expiresInMs: 25_000 };
    await done(scene, { notes: [{ id: 'w', more }] });
    scene.world.clock.advance(6_000);
    expect(await done(scene, { recall: {} })).toHaveLength(1);
    expect(await done(scene, { recall: { refreshAccess: true } })).toHaveLength(1);
    scene.world.clock.advance(9_000);
    expect(await done(scene, { recall: { refreshAccess: true } })).toHaveLength(1);
    scene.world.clock.advance(9_000);
    expect(await done(scene, { recall: { refreshAccess: true } })).toHaveLength(1);
    scene.world.clock.advance(1_000);
    expect(await done(scene, { recall: {} })).toEqual([]);
    expect(await sweepMemories(scene.world.start().runtime, person(scene))).toMatchObject({
      items: 1,
    });
  },
);

onEachStore(
  'E250 ME-10 a selection is read again as it was: superseded and lapsed change nothing, forgetting fails the turn [T7]',
  async (open) => {
    const scene = await sceneOf(open);
    await done(scene, { notes: [{ id: 'a', content: 'first', more: { expiresInMs: 5_000 } }] });
    const asked = { subject: ann, input: { recall: {}, nap: 60_000 } };
    await scene.suspend('waits', asked);
    await scene.suspend('fails', asked);
    await done(scene, { notes: [{ id: 'a', content: 'second' }] });
    await scene.passTime(60_000);
    expect(await scene.view('waits')).toMatchObject({
      status: 'succeeded',
      result: [['a', 1, 'first']],
    });
    await scene.suspend('late', { subject: ann, input: { recall: {}, nap: 60_000 } });
    await forgetMemory(scene.world.start().runtime, person(scene), 'a');
    await scene.passTime(60_000);
    expect(await scene.view('late')).toMatchObject({
      status: 'failed',
      error: { code: 'memory_erased' },
    });
    expect(await scene.strict('waits')).toMatchObject({
      verdict: 'cannot_replay',
      reason: 'erased',
    });
  },
);

onEachStore(
  'E253 E330 a store that cannot be asked while a selection is read is a fault, never an erasure [T7]',
  async (open) => {
    const store = await open();
    let down = false;
    const shaky = new Proxy(store, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name);
        if (typeof member !== 'function') return member;
        if (name !== 'memoryVersions') return member.bind(target);
        return (...given: unknown[]) => {
          if (!down) return Reflect.apply(member, target, given);
          return Promise.reject(
            new TurnstoneError('store_unavailable', 'throttled', { retry: 'now' }),
          );
        };
      },
    }) as TurnStore;
    const scene = await sceneOf(async () => shaky);
    await done(scene, { notes: [{ id: 'a' }] });
    down = true;
    const input = { subject: ann, input: { recall: {} } };
    expect(await codeOf(scene.deliver('t', input))).toBe('store_unavailable');
    expect(await scene.kinds('t')).not.toContain('RC(failed)');
    down = false;
    scene.world.clock.advance(120_000);
    scene.restart();
    expect(await scene.conclude('t', input)).toMatchObject({ result: [['a', 1, 'a']] });
  },
);

onEachStore(
  'E243 dying at any call of a turn that remembers: the fact stands once, in no doubt, with its turn [T1 T12]',
  async (open) => {
    for (let call = 1; call < 14; call += 1) {
      const scene = await sceneOf(open);
      await done(scene, { notes: [{ id: 'a', content: 0 }] });
      const kind = call % 2 === 0 ? 'doneButUnheard' : 'lostBefore';
      scene.restart({ call, kind });
      const input = { subject: ann, input: { notes: [{ id: 'a', content: call }] } };
      await scene.deliver('t', input);
      await scene.world.recover();
      scene.restart();
      expect(await scene.conclude('t', input)).toMatchObject({ status: 'succeeded' });
      const { runtime } = scene.world.start();
      expect(await memoriesOf(runtime, person(scene), null), `call ${call}`).toMatchObject([
        { version: 2, content: call },
      ]);
    }
  },
);

onEachStore(
  'ME-13 a cascade larger than a transaction: dying at any call, nobody sees a part of it, and a repeat ends it [T12]',
  async (open) => {
    let finished = false;
    for (let call = 1; !finished; call += 1) {
      const scene = await sceneOf(open);
      await done(scene, { notes: [{ id: 'a', content: 'x'.repeat(3_000) }, { id: 'stays' }] });
      for (let n = 0; n < 2; n += 1) {
        const notes = Array.from({ length: 25 }, (_, at) => ({ id: `b${n}-${at}`, from: ['a'] }));
        await done(scene, { notes });
      }
      const process = scene.world.start({ call, kind: 'doneButUnheard' });
      await scene.world.settle(
        process,
        forgetMemory(process.runtime, person(scene), 'a', { cascade: true }),
      );
      finished = !process.fired;
      const seen = await idsOf(scene);
      expect([1, 52], `call ${call}`).toContain(seen.length);
      const { runtime } = scene.world.start();
      const { store } = scene.world;
      await forgetMemory(runtime, person(scene), 'a', { cascade: true });
      expect(await idsOf(scene)).toEqual(['stays']);
      const scope = await store.subjectScope(scene.ref().tenant, ann);
      expect((await store.memoryLineage(scope)).versions).toHaveLength(1);
      await done(scene, { notes: [{ id: 'new' }] });
    }
  },
);

onEachStore(
  'ME-13 a cascade racing a derivation: what was derived goes with it, or was refused [T12]',
  async (open) => {
    for (let round = 0; round < 6; round += 1) {
      const scene = await sceneOf(open);
      await done(scene, { notes: [{ id: 'a' }] });
      const { runtime } = scene.world.start();
      const derive = scene.deliver('race', {
        subject: ann,
        input: { notes: [{ id: 'late', from: ['a'] }] },
      });
      for (let turn = 0; turn < round * 4; turn += 1) await new Promise(setImmediate);
      await Promise.all([
        forgetMemory(runtime, person(scene), 'a', { cascade: true }),
        derive.catch(() => null),
      ]);
      expect(await idsOf(scene), `round ${round}`).toEqual([]);
    }
  },
);

/** A store that lets something happen once, right after a verb was answered. */
function after(store: TurnStore, verb: keyof TurnStore, act: () => Promise<unknown>): TurnStore {
  let armed = true;
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      if (name !== verb) return member.bind(target);
      return async (...given: unknown[]) => {
        const read: unknown = await Reflect.apply(member, target, given);
        if (armed) {
          armed = false;
          await act();
        }
        return read;
      };
    },
  });
}

onEachStore(
  'ME-13 what is derived between a cascade’s reading and its writing goes with it [T12]',
  async (open) => {
    const scene = await sceneOf(open);
    await done(scene, { notes: [{ id: 'a' }] });
    const { runtime } = scene.world.start();
    const late = { notes: [{ id: 'late', from: ['a'] }] };
    const store = after(runtime.store, 'memoryLineage', () => done(scene, late));
    await forgetMemory({ ...runtime, store }, person(scene), 'a', { cascade: true });
    expect(await idsOf(scene)).toEqual([]);
  },
);

onEachStore(
  'ME-12 a window that is opened again between a sweep’s reading and its writing is not swept [T12]',
  async (open) => {
    const scene = await sceneOf(open);
    await done(scene, { notes: [{ id: 'w', more: { accessWindowMs: 10_000 } }] });
    const { runtime } = scene.world.start();
    const { tenant } = scene.ref();
    const scope = await runtime.store.subjectScope(tenant, ann);
    const key = await runtime.store.memoryKey(tenant, 'w');
    const later = (ms: number) => epochMs(runtime.clock.now() + ms);
    const store = after(runtime.store, 'memoryLineage', () =>
      runtime.store.touchMemory(scope, { key, version: 1 }, later(60_000)),
    );
    const swept = await sweepMemories({ ...runtime, store }, person(scene), later(30_000));
    expect(swept).toMatchObject({ items: 0, versions: 0 });
    expect(await idsOf(scene)).toEqual(['w']);
  },
);

onEachStore(
  'ME-13 rule 8 a removal that was announced is decided: nobody reads what it takes, nobody writes beside it [T12]',
  async (open) => {
    for (const look of ['recall', 'remember'] as const) {
      const scene = await sceneOf(open);
      await done(scene, { notes: [{ id: 'a' }, { id: 'stays' }] });
      await done(scene, { notes: [{ id: 'b', from: ['a'] }] });
      const { tenant } = scene.ref();
      const { store } = scene.world;
      const scope = await store.subjectScope(tenant, ann);
      const announced = async () => (await store.key(tenant, scope))?.removal !== undefined;
      for (let call = 1; call < 9 && !(await announced()); call += 1) {
        const process = scene.world.start({ call, kind: 'doneButUnheard' });
        const work = forgetMemory(process.runtime, person(scene), 'a', { cascade: true });
        await scene.world.settle(process, work);
      }
      expect(await announced()).toBe(true);
      if (look === 'recall') {
        expect(await done(scene, { recall: {} })).toEqual([['stays', 1, 'stays']]);
      } else {
        turns += 1;
        const again = { subject: ann, input: { notes: [{ id: 'a', content: 'back' }] } };
        expect(await scene.conclude(`n${turns}`, again)).toMatchObject({ status: 'failed' });
      }
      expect(await announced()).toBe(false);
      expect(await idsOf(scene)).toEqual(['stays']);
    }
  },
);

onEachStore(
  'E280 ME-14 a hold, on the person or on one fact, that comes between an erasure’s check and its writing refuses it whole [T12]',
  async (open) => {
    for (const what of ['person', 'fact'] as const) {
      const scene = await sceneOf(open);
      await done(scene, { notes: [{ id: 'a' }] });
      const { runtime } = scene.world.start();
      const hold = () =>
        what === 'person'
          ? holdSubject(runtime, person(scene), 'court', 'olga')
          : holdMemory(runtime, person(scene), 'a', 'olga');
      const store = after(runtime.store, 'memories', hold);
      expect(await codeOf(eraseSubject({ ...runtime, store }, person(scene), 'dora'))).toBe(
        'legal_hold',
      );
      expect(await idsOf(scene)).toEqual(['a']);
    }
  },
);
