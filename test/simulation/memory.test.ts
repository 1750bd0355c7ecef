// Governed memory, cases and erasure (memory.md and erasure.md without labels, derivation, forgetting and search).
import { expect } from 'vitest';
import type { TurnStore } from '../../src/ports/store.ts';
import { TurnstoneError } from '../../src/protocol/errors.ts';
import { subjectId } from '../../src/protocol/ids.ts';
import { readCase } from '../../src/runtime/cases.ts';
import { abandonTurn } from '../../src/runtime/person-acts.ts';
import { readJournal } from '../../src/runtime/read-turn.ts';
import {
  eraseSubject,
  erasureOf,
  holdSubject,
  memoriesOf,
  readmitSubject,
  releaseSubject,
} from '../../src/runtime/subjects.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import type { OpenStore } from '../stores.ts';
import { onEachStore } from '../stores.ts';
import type { Run } from './scene.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const ann = subjectId('subject', 'ann-smith');
const bob = subjectId('subject', 'bob-jones');
const about = (subject = ann) => ({ subject });

const person = (scene: Scene, subject = ann) => ({ tenant: scene.ref().tenant, subject });

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    (value) => value,
    (thrown: unknown) => thrown,
  );
  return error instanceof TurnstoneError ? error.code : JSON.stringify(error);
}

async function sceneOf(open: OpenStore, run: Run): Promise<Scene> {
  return new Scene(await open(), agentOf(run));
}

/** Remembers the turn's input under one id, or recalls when there is none. */
const notebook: Run = async (context, input) => {
  const { say } = (input ?? {}) as { say?: unknown };
  if (say !== undefined) {
    await context.remember({ id: 'diet', purpose: 'care', content: say });
    return 'noted';
  }
  return (await context.recall({ purpose: 'care' })).map(({ content, version }) => [
    content,
    version,
  ]);
};

onEachStore(
  'E242 E245 E248 E249 facts are versions that supersede; a recall records its selection and reads the same ever after [T1 T7]',
  async (open) => {
    const scene = await sceneOf(open, notebook);
    await scene.conclude('t1', { ...about(), input: { say: 'vegan' } });
    await scene.conclude('t2', { ...about(), input: { say: 'vegetarian' } });
    const recalled = await scene.conclude('t3', { ...about(), input: {} });
    expect(recalled.result).toEqual([['vegetarian', 2]]);
    await scene.conclude('t4', { ...about(), input: { say: 'eats all' } });
    expect(await scene.strict('t3')).toMatchObject({ verdict: 'verified' });
    expect(await scene.strict('t1')).toMatchObject({ verdict: 'verified' });
    const { runtime } = scene.world.start();
    expect(await memoriesOf(runtime, person(scene), 'care')).toMatchObject([
      { id: 'diet', content: 'eats all', version: 3, trust: 'untrusted' },
    ]);
    expect(await memoriesOf(runtime, person(scene, bob), null)).toEqual([]);
    const page = await readJournal(runtime, scene.ref('t3'), { after: 0, limit: 100 });
    const selection = page?.records.find((record) => record.body.kind === 'EffectDone')?.payload;
    expect(selection).toMatchObject({ items: [{ version: 2, commitment: expect.any(String) }] });
    expect(JSON.stringify(selection)).not.toContain('vegetarian');
    expect(
      await scene.conclude('t5', { ...about(bob), input: { say: 'steals the id' } }),
    ).toMatchObject({ status: 'failed', error: { code: 'foreign_subject' } });
  },
);

onEachStore(
  'ME-4 T1 a failing turn remembers nothing; a turn reads what it staged; two of one id are two versions',
  async (open) => {
    const scene = await sceneOf(open, async (context, input) => {
      await context.remember({ id: 'a', purpose: 'care', content: 'one' });
      const before = await context.recall({ purpose: 'care' });
      await context.remember({ id: 'a', purpose: 'care', content: 'two' });
      if ((input as { fail?: boolean }).fail === true) throw new Error('no');
      return before.map(({ content }) => content);
    });
    await scene.conclude('t1', { ...about(), input: { fail: true } });
    const { runtime } = scene.world.start();
    expect(await memoriesOf(runtime, person(scene), null)).toEqual([]);
    expect((await scene.conclude('t2', { ...about(), input: {} })).result).toEqual(['one']);
    expect(await memoriesOf(runtime, person(scene), null)).toMatchObject([
      { content: 'two', version: 2 },
    ]);
  },
);

onEachStore(
  'E244 two threads write one id at once: two successive versions, exactly one current [T1]',
  async (open) => {
    const scene = await sceneOf(open, notebook);
    const deliver = (thread: string) => {
      const process = scene.world.start();
      const request = { ...scene.request('t1', about()), ref: scene.ref('t1', thread) };
      return import('../../src/runtime/with-turn.ts').then(({ withTurn }) =>
        scene.world.settle(
          process,
          withTurn(process.runtime, { ...request, input: { say: thread } }),
        ),
      );
    };
    await Promise.all(['x', 'y', 'z'].map(deliver));
    const [item, ...rest] = await memoriesOf(scene.world.start().runtime, person(scene), null);
    expect(rest).toEqual([]);
    expect(item).toMatchObject({ version: 3 });
  },
);

onEachStore(
  'E262 ME-8 a fact is seen until its expiry, not at it; newest first within a purpose',
  async (open) => {
    const scene = await sceneOf(open, async (context, input) => {
      const { say } = input as { say?: string };
      if (say !== undefined) {
        await context.remember({ id: say, purpose: 'care', content: say, expiresInMs: 60_000 });
        return null;
      }
      return (await context.recall({ purpose: 'care' })).map(({ id }) => id);
    });
    await scene.conclude('t1', { ...about(), input: { say: 'old' } });
    scene.world.clock.advance(30_000);
    await scene.conclude('t2', { ...about(), input: { say: 'new' } });
    expect((await scene.conclude('t3', { ...about(), input: {} })).result).toEqual(['new', 'old']);
    scene.world.clock.advance(30_000);
    expect((await scene.conclude('t4', { ...about(), input: {} })).result).toEqual(['new']);
    expect(await scene.strict('t3')).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'E252 ME-10 a version that was altered in place quarantines the turn that selected it [T13]',
  async (open) => {
    const store = await open();
    const outside = new Outside();
    const tampered = new Proxy(store, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name);
        if (name !== 'memoryVersions' || typeof member !== 'function') {
          return typeof member === 'function' ? member.bind(target) : member;
        }
        return async (...given: unknown[]) => {
          const rows = await Reflect.apply(member, target, given);
          if (outside.requests === 0) return rows;
          return rows.map((row: object) => ({ ...row, trusted: true }));
        };
      },
    }) as TurnStore;
    const scene = await sceneOf(async () => tampered, notebook);
    await scene.conclude('t1', { ...about(), input: { say: 'vegan' } });
    outside.requests = 1;
    expect(await scene.conclude('t2', { ...about(), input: {} })).toMatchObject({
      status: 'quarantined',
      error: { code: 'memory_tampered' },
    });
  },
);

onEachStore(
  'E278 E285 E288 ruling 20 an erased person: nothing opens, chains verify, ids stay used, others are untouched [T12 T13]',
  async (open) => {
    const scene = await sceneOf(open, async (context, input) => {
      const { say } = (input ?? {}) as { say?: string };
      if (say !== undefined) {
        for (let n = 0; n < 25; n += 1) {
          await context.remember({ id: `${context.turn}-${n}`, purpose: 'care', content: say });
        }
        context.state.append('log', say);
        return say;
      }
      return [context.state.get('log') ?? null, (await context.recall({ purpose: 'care' })).length];
    });
    await scene.conclude('t1', { ...about(), input: { say: 'secret of ann' } });
    await scene.conclude('t2', { ...about(bob), input: { say: 'secret of bob' } });
    const { runtime } = scene.world.start();
    const erased = await eraseSubject(runtime, person(scene), 'dora');
    expect(erased).toMatchObject({ state: 'complete', items: 25, versions: 25, by: 'dora' });
    expect(await eraseSubject(runtime, person(scene), 'other')).toEqual(erased);
    expect(await erasureOf(runtime, person(scene))).toEqual(erased);
    expect(await scene.view('t1')).toMatchObject({ status: 'succeeded', erased: true });
    expect((await scene.view('t1')).result).toBeUndefined();
    expect(await scene.conclude('t1', { ...about(), input: { say: 'anything' } })).toMatchObject({
      erased: true,
      replayed: true,
    });
    expect(await codeOf(scene.deliver('t3', { ...about(), input: {} }))).toBe('subject_erased');
    const page = await readJournal(runtime, scene.ref('t1'), { after: 0, limit: 1_000 });
    expect(page?.verified).toBe(true);
    expect(JSON.stringify(page)).not.toContain('secret');
    expect(await scene.strict('t1')).toMatchObject({ verdict: 'cannot_replay', reason: 'erased' });
    expect(await scene.conclude('t4', { ...about(bob), input: {} })).toMatchObject({
      result: [['secret of bob'], 20],
    });
    const { generation } = await readmitSubject(runtime, person(scene));
    expect(generation).toBe(2);
    expect(await scene.conclude('t5', { ...about(), input: {} })).toMatchObject({
      status: 'succeeded',
      result: [['secret of bob'], 0],
    });
    expect(await scene.view('t1')).toMatchObject({ erased: true });
    expect(await codeOf(scene.conclude('t1', { ...about(), input: { say: 'again' } }))).toContain(
      '"erased":true',
    );
  },
);

onEachStore(
  'E280 a hold refuses the erasure whole; after it the erasure is refused to nobody; a hold on an erased person is refused [T12]',
  async (open) => {
    const scene = await sceneOf(open, notebook);
    await scene.conclude('t1', { ...about(), input: { say: 'vegan' } });
    const { runtime } = scene.world.start();
    await holdSubject(runtime, person(scene), 'litigation', 'dora');
    expect(await codeOf(eraseSubject(runtime, person(scene), 'dora'))).toBe('legal_hold');
    expect(await memoriesOf(runtime, person(scene), null)).toHaveLength(1);
    await releaseSubject(runtime, person(scene));
    const races = await Promise.all([
      codeOf(eraseSubject(runtime, person(scene), 'dora')),
      codeOf(holdSubject(runtime, person(scene), 'late', 'dora')),
    ]);
    const erased =
      (
        await scene.world.store.key(
          scene.ref().tenant,
          await scene.world.store.subjectScope(scene.ref().tenant, ann),
        )
      )?.state === 'erased';
    expect(races).toEqual(
      erased
        ? [expect.stringContaining('complete'), expect.any(String)]
        : ['legal_hold', expect.any(String)],
    );
    expect(await memoriesOf(runtime, person(scene), null)).toHaveLength(erased ? 0 : 1);
    if (erased) expect(races[1]).toBe('subject_erased');
  },
);

onEachStore(
  'E281 E282 dying at any call of an erasure: either nothing is gone, or nothing can be read and a repeat finishes [T12]',
  async (open) => {
    for (let call = 1; call < 12; call += 1) {
      const scene = await sceneOf(open, notebook);
      await scene.conclude('t1', { ...about(), input: { say: 'vegan' } });
      const kind = call % 2 === 0 ? 'doneButUnheard' : 'lostBefore';
      const process = scene.world.start({ call, kind });
      await scene.world.settle(process, eraseSubject(process.runtime, person(scene), 'dora'));
      const { runtime } = scene.world.start();
      const readable = (await memoriesOf(runtime, person(scene), null)).length;
      const view = await scene.view('t1');
      expect(view.erased === true, `call ${call} ${process.fired}`).toBe(readable === 0);
      const before = await erasureOf(runtime, person(scene));
      const after = await eraseSubject(runtime, person(scene), 'eva');
      expect(after).toMatchObject({ state: 'complete' });
      if (before !== null) expect(after.id).toBe(before.id);
      expect(
        await scene.world.store.memories(
          await scene.world.store.subjectScope(scene.ref().tenant, ann),
        ),
      ).toEqual([]);
    }
  },
);

onEachStore(
  'F39 erased while a turn runs: it fails closed and says why, its thread goes on; a mutation that stands is left to a person [T12]',
  async (open) => {
    for (const mutates of [false, true]) {
      const outside = new Outside();
      const gate = Promise.withResolvers<void>();
      const scene = await sceneOf(open, async (context: TurnContext) => {
        if (context.turn !== 't1') return 'fine';
        await context.effect(
          outside.effect({
            mutates,
            recovery: mutates ? 'idempotent' : 'retry',
            perform: async () => {
              outside.requests += 1;
              await gate.promise;
              return 'private';
            },
          }),
        );
        await context.remember({ id: 'late', purpose: 'care', content: 'never' });
        return 'done';
      });
      const pass = scene.deliver('t1', about());
      while (outside.requests === 0) await new Promise(setImmediate);
      const { runtime } = scene.world.start();
      await eraseSubject(runtime, person(scene), 'dora');
      gate.resolve();
      await pass.catch(() => null);
      await scene.world.recover();
      const status = mutates ? 'quarantined' : 'failed';
      expect(await scene.view('t1')).toMatchObject({ status, erased: true });
      expect(
        await scene.world.store.memories(
          await scene.world.store.subjectScope(scene.ref().tenant, ann),
        ),
      ).toEqual([]);
      const page = await readJournal(runtime, scene.ref('t1'), { after: 0, limit: 100 });
      expect(page?.verified).toBe(true);
      expect(page?.records.at(-1)?.body).toMatchObject({ code: 'subject_erased' });
      expect(await scene.conclude('t2', about(bob))).toMatchObject({ status: 'succeeded' });
      if (!mutates) continue;
      expect(
        await abandonTurn(runtime, scene.ref('t1'), 'nothing can be read', 'olga'),
      ).toMatchObject({
        turn: { status: 'abandoned' },
      });
    }
  },
);

onEachStore(
  'ruling 19 a turn without a subject cannot remember, nor about somebody else',
  async (open) => {
    const scene = await sceneOf(open, (context) =>
      context.remember({ id: 'a', subject: 'bob-jones', purpose: 'p', content: 1 }),
    );
    expect(await scene.conclude('t1')).toMatchObject({ error: { code: 'subject_required' } });
    expect(await scene.conclude('t2', about())).toMatchObject({
      error: { code: 'foreign_subject' },
    });
  },
);

onEachStore(
  'E232 E233 E234 E238 E240 a case: one of two writers at a version lands, a repeat finds its own write, no closing over a deadline',
  async (open) => {
    const scene = await sceneOf(open, async (context, input) => {
      const { change } = input as { change: Parameters<TurnContext['case']>[0] };
      return context.case(change);
    });
    const change = (turn: string, fields: object) =>
      scene.conclude(turn, { input: { change: { id: 'claim-1', ...fields } } });
    expect((await change('t1', { state: { step: 1 } })).result).toEqual({
      version: 1,
      status: 'open',
    });
    expect((await change('t2', { state: { step: 2 }, expectedVersion: 1 })).result).toMatchObject({
      version: 2,
    });
    expect(await change('t3', { state: { step: 9 }, expectedVersion: 1 })).toMatchObject({
      status: 'failed',
      error: { code: 'case_conflict' },
    });
    await change('t4', { deadline: { name: 'reply', inMs: 60_000 } });
    await change('t5', { deadline: { name: 'reply', inMs: 1 } });
    expect(await change('t6', { status: 'closed' })).toMatchObject({
      status: 'failed',
      error: { code: 'case_open_obligation' },
    });
    const { runtime } = scene.world.start();
    const { tenant } = scene.ref();
    const view = await readCase(runtime, tenant, 'claim-1');
    expect(view).toMatchObject({ status: 'open', state: { step: 2 }, version: 4 });
    expect(view.deadlines).toMatchObject([{ name: 'reply', state: 'open' }]);
    await change('t7', { met: 'reply', status: 'closed' });
    await change('t8', { status: 'reopened' });
    const before = await readCase(runtime, tenant, 'claim-1');
    expect(await scene.strict('t7')).toMatchObject({ verdict: 'verified' });
    expect(await readCase(runtime, tenant, 'claim-1')).toEqual(before);
    for (let call = 1; call < 9; call += 1) {
      const kind = call % 2 === 0 ? 'doneButUnheard' : 'lostBefore';
      const id = `crash-${call}`;
      scene.restart({ call, kind });
      const input = { change: { id, state: call } };
      await scene.deliver(id, { input });
      await scene.world.recover();
      scene.restart();
      await scene.conclude(id, { input });
      expect(await readCase(runtime, tenant, id), `call ${call}`).toMatchObject({ version: 1 });
    }
  },
);

onEachStore(
  'E236 CS-3 dying at any call of a transition: the deadline is met once, and its record says what stood before [T6 T7]',
  async (open) => {
    for (let call = 1; call < 9; call += 1) {
      const scene = await sceneOf(open, async (context, input) => {
        const { change } = input as { change: Parameters<TurnContext['case']>[0] };
        return context.case({ ...change, id: 'claim-1' });
      });
      await scene.conclude('t1', {
        input: { change: { deadline: { name: 'reply', inMs: 60_000 } } },
      });
      scene.restart({ call, kind: call % 2 === 0 ? 'doneButUnheard' : 'lostBefore' });
      const input = { change: { met: 'reply' } };
      await scene.deliver('t2', { input });
      await scene.world.recover();
      scene.restart();
      expect((await scene.conclude('t2', { input })).result).toEqual({
        version: 2,
        status: 'open',
      });
      const { runtime } = scene.world.start();
      const page = await readJournal(runtime, scene.ref('t2'), { after: 0, limit: 100 });
      const done = page?.records.filter(({ body }) => body.kind === 'EffectDone') ?? [];
      expect(done.map(({ payload }) => payload)).toEqual([
        { version: 2, status: 'open', from: 'open' },
      ]);
      const view = await readCase(runtime, scene.ref().tenant, 'claim-1');
      expect(view).toMatchObject({ version: 2, deadlines: [{ name: 'reply', state: 'met' }] });
    }
  },
);
