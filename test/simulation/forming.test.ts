// Compaction, formation, search by meaning and imports (memory.md N; page 01, 13.5 and 13.6).
import { expect, test } from 'vitest';
import { checkPlan } from '../../src/agent/plan/check-plan.ts';
import { compact, formedId, formMemories } from '../../src/memory/compact.ts';
import { cosine, exactIndex } from '../../src/memory/exact-index.ts';
import { importMemory } from '../../src/memory/import-memory.ts';
import type { Embedder, MemoryIndex, SearchPair } from '../../src/ports/embedder.ts';
import { TurnstoneError } from '../../src/protocol/errors.ts';
import { subjectId } from '../../src/protocol/ids.ts';
import type { Sensitivity } from '../../src/protocol/labels.ts';
import { forgetMemory } from '../../src/runtime/forget.ts';
import { pairSearch } from '../../src/runtime/semantic.ts';
import { eraseSubject, memoriesOf, readmitSubject } from '../../src/runtime/subjects.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import type { OpenStore } from '../stores.ts';
import { onEachStore } from '../stores.ts';
import type { Run } from './scene.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const ann = subjectId('subject', 'ann-smith');
const bob = subjectId('subject', 'bob-jones');
const about = { subject: ann };
const person = (scene: Scene, subject = ann) => ({ tenant: scene.ref().tenant, subject });

async function sceneOf(open: OpenStore, run: Run): Promise<Scene> {
  const inputLabel = { trust: 'trusted', sensitivity: 'public' } as const;
  return new Scene(await open(), agentOf(run, { inputLabel }));
}

const vouched = (id: string, content: unknown, sensitivity: Sensitivity = 'public') => ({
  id,
  purpose: 'care',
  content,
  trust: 'trusted' as const,
  sensitivity,
  sources: ['crm'],
});

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    (value) => value,
    (thrown: unknown) => thrown,
  );
  return error instanceof TurnstoneError ? error.code : JSON.stringify(error);
}

onEachStore(
  'E277 E288 ME-26 import tooling writes a trusted fact outside any turn, over the versions of its person, never over a used id',
  async (open) => {
    const scene = await sceneOf(open, async (context: TurnContext) => {
      expect(Object.keys(context)).not.toContain('importMemory');
      return (await context.recall({ purpose: 'care' })).map(({ id, trust, version }) => [
        id,
        trust,
        version,
      ]);
    });
    const { runtime } = scene.world.start();
    expect(await importMemory(runtime, person(scene), vouched('vip', true))).toEqual({
      version: 1,
    });
    expect(await importMemory(runtime, person(scene), vouched('vip', false))).toEqual({
      version: 2,
    });
    expect((await scene.conclude('t1', about)).result).toEqual([['vip', 'trusted', 2]]);
    const to = (subject: typeof ann, id: string) =>
      codeOf(importMemory(runtime, person(scene, subject), vouched(id, 1)));
    expect(await to(bob, 'vip')).toBe('foreign_subject');
    await forgetMemory(runtime, person(scene), 'vip');
    expect(await to(ann, 'vip')).toBe('memory_id_reserved');
    await importMemory(runtime, person(scene), vouched('old', 1));
    await eraseSubject(runtime, person(scene), 'dora');
    expect(await to(ann, 'new')).toBe('subject_erased');
    await readmitSubject(runtime, person(scene));
    expect(await to(ann, 'old')).toBe('memory_id_reserved');
    expect(await to(ann, 'new')).toBe('{"version":1}');
  },
);

onEachStore(
  'E264 ME-16 ME-17 ME-18 a summary carries the join of what went in and names it; a ceiling refuses before the model is asked',
  async (open) => {
    const outside = new Outside();
    const scene = await sceneOf(open, async (context, input) => {
      const { note, ceiling } = input as { note?: string; ceiling?: Sensitivity };
      if (note !== undefined) {
        const said = await context.labelled(
          outside.effect({ kind: 'mail.read', mutates: false, perform: async () => note }),
        );
        await context.remember({ id: 'mail', purpose: 'care', content: said });
        return null;
      }
      return compact(context, {
        id: 'summary',
        purpose: 'care',
        instruction: 'in one line',
        ...(ceiling === undefined ? {} : { maxSensitivity: ceiling }),
        summarise: ({ contents }) =>
          outside.effect({
            kind: 'model.summarise',
            args: { contents },
            mutates: false,
            label: { trust: 'trusted', sensitivity: 'public', source: 'model:fake' },
            perform: async () => contents.join('; '),
          }),
      });
    });
    const { runtime } = scene.world.start();
    await importMemory(runtime, person(scene), vouched('vip', 'is a vip'));
    await scene.conclude('t1', { ...about, input: { note: 'likes tea' } });
    const before = outside.requests;
    expect(await scene.conclude('t2', { ...about, input: {} })).toMatchObject({
      status: 'failed',
      error: { code: 'label_refused' },
    });
    expect(outside.requests).toBe(before);
    expect(await scene.conclude('t3', { ...about, input: { ceiling: 'internal' } })).toMatchObject({
      status: 'succeeded',
      result: 2,
    });
    const items = await memoriesOf(runtime, person(scene), null);
    expect(items.map(({ id }) => id).sort()).toEqual(['mail', 'summary', 'vip']);
    expect(items.find(({ id }) => id === 'summary')).toMatchObject({
      trust: 'untrusted',
      sensitivity: 'internal',
      sources: ['crm', 'effect:mail.read', 'model:fake'],
    });
    // What went in takes the summary along when it is forgotten in cascade.
    expect(await forgetMemory(runtime, person(scene), 'mail', { cascade: true })).toEqual({
      items: 2,
      versions: 2,
    });
    expect(await scene.strict('t3')).toMatchObject({ verdict: 'cannot_replay', reason: 'erased' });
  },
);

const seven = ['a', 'b', 'a', 'c', 'd', 'e', 'f'].map((key, at) => ({ key, content: at }));

/** Forms facts from what a model proposes about the input. */
const former =
  (outside: Outside, answer: () => unknown): Run =>
  (context) =>
    formMemories(context, {
      purpose: 'care',
      source: 'what ann said',
      maxItems: 3,
      propose: (source) =>
        outside.effect({
          kind: 'model.propose',
          args: { source },
          mutates: false,
          perform: async () => answer(),
        }),
    });

onEachStore(
  'E265 ME-19 the first distinct keys win; a malformed answer fails the call and nothing is written',
  async (open) => {
    let answer: unknown = seven;
    const scene = await sceneOf(
      open,
      former(new Outside(), () => answer),
    );
    const { runtime } = scene.world.start();
    const kept = async () =>
      (await memoriesOf(runtime, person(scene), null)).map(({ content }) => content).sort();
    for (const bad of ['text', [{ key: 'a' }], [{ key: '', content: 1 }], [null], null]) {
      answer = bad;
      expect(
        await scene.conclude(`bad-${JSON.stringify(bad)}`.replace(/[^a-z-]/g, '.'), about),
      ).toMatchObject({ status: 'failed', error: { code: 'formation_malformed' } });
    }
    expect(await kept()).toEqual([]);
    answer = seven;
    const ids = ['a', 'b', 'c'].map((key) => formedId(ann, 'care', key));
    expect((await scene.conclude('t1', about)).result).toEqual(ids);
    expect(await kept()).toEqual([0, 1, 3]);
    // The same keys form the same facts again: new versions, no twins.
    await scene.conclude('t2', about);
    expect(await kept()).toEqual([0, 1, 3]);
  },
);

onEachStore(
  'E266 dying at any call of a turn that forms facts: each stands once, the model is asked again only where its answer was lost [T1 T7]',
  async (open) => {
    for (let call = 1; call < 12; call += 1) {
      const outside = new Outside();
      const scene = await sceneOf(
        open,
        former(outside, () => seven),
      );
      scene.restart({ call, kind: call % 2 === 0 ? 'doneButUnheard' : 'lostBefore' });
      await scene.deliver('t1', about);
      await scene.world.recover();
      scene.restart();
      expect(await scene.conclude('t1', about)).toMatchObject({ status: 'succeeded' });
      const items = await memoriesOf(scene.world.start().runtime, person(scene), null);
      expect(
        items.map(({ version }) => version),
        `call ${call}`,
      ).toEqual([1, 1, 1]);
      expect(outside.requests).toBeLessThanOrEqual(2);
    }
  },
);

/** Letters as a vector: enough to tell texts apart. */
const letters = (revision = 'letters-1'): Embedder => ({
  revision,
  embed: async (text) =>
    Array.from(
      { length: 26 },
      (_, at) => [...text].filter((one) => one === String.fromCharCode(97 + at)).length,
    ),
});

const searcher =
  (using: SearchPair): Run =>
  async (context, input) => {
    const { nap, limit = 2 } = (input ?? {}) as { nap?: number; limit?: number };
    const found = await context.search({ purpose: 'care', text: 'tea', limit, using });
    if (nap !== undefined) await context.sleep(nap);
    return found.map(({ id, version }) => [id, version]);
  };

async function filled(open: OpenStore, using: SearchPair): Promise<Scene> {
  const scene = await sceneOf(open, searcher(using));
  const { runtime } = scene.world.start();
  for (const content of ['tea', 'eat a teapot', 'rugby', 'zzz']) {
    await importMemory(runtime, person(scene), vouched(content.slice(0, 3), content));
  }
  return scene;
}

onEachStore(
  'E272 ME-20 ME-21 a search records its selection: newer facts change nothing, what is forgotten fails a replay and is screened from a fresh one [T7]',
  async (open) => {
    const pair = pairSearch(letters(), exactIndex(letters('letters-doc'), 'letters-1'));
    const scene = await filled(open, pair);
    expect((await scene.conclude('t1', about)).result).toEqual([
      ['tea', 1],
      ['eat', 1],
    ]);
    const { runtime } = scene.world.start();
    await importMemory(runtime, person(scene), vouched('tea', 'nothing of it'));
    expect(await scene.strict('t1')).toMatchObject({ verdict: 'verified' });
    await scene.suspend('t2', { ...about, input: { nap: 1_000, limit: 1 } });
    await forgetMemory(runtime, person(scene), 'eat');
    await scene.passTime(1_000);
    expect(await scene.view('t2')).toMatchObject({
      status: 'failed',
      error: { code: 'memory_erased' },
    });
    const fresh = await scene.conclude('t3', { ...about, input: { limit: 5 } });
    expect(fresh).toMatchObject({ status: 'succeeded' });
    expect((fresh.result as unknown[][]).map(([id]) => id)).not.toContain('eat');
  },
);

onEachStore(
  'E268 E269 what an index may not answer is refused before it is recorded; a digest that is wrong quarantines [T6]',
  async (open) => {
    const other = {
      hits: [] as { key: string; version: number; commitment: string; score: number }[],
    };
    const liar: MemoryIndex = {
      queryRevision: 'letters-1',
      rank: async ({ candidates }) => {
        const [first] = await candidates();
        if (first === undefined) throw new Error('expected a candidate');
        const { key, version, commitment } = first;
        const honest = { key, version, commitment, score: 1 };
        return { snapshot: 'lies', hits: other.hits.map((hit) => ({ ...honest, ...hit })) };
      },
    };
    const scene = await filled(open, pairSearch(letters(), liar));
    const { runtime } = scene.world.start();
    await importMemory(runtime, person(scene, bob), vouched('secret', 'of bob'));
    await importMemory(runtime, person(scene), { ...vouched('tax', 'of ann'), purpose: 'tax' });
    const keyOf = (id: string) => scene.world.store.memoryKey(scene.ref().tenant, id);
    const lies: readonly [string, object[], string, string][] = [
      ['nan', [{ score: Number.NaN }], 'failed', 'search_malformed'],
      ['many', [{}, {}, {}], 'failed', 'search_malformed'],
      ['bob', [{ key: await keyOf('secret') }], 'failed', 'search_out_of_scope'],
      ['tax', [{ key: await keyOf('tax') }], 'failed', 'search_out_of_scope'],
      ['none', [{ key: 'nobody' }], 'failed', 'search_out_of_scope'],
      ['digest', [{ commitment: 'wrong' }], 'quarantined', 'memory_tampered'],
    ];
    for (const [turn, hits, status, code] of lies) {
      other.hits = hits as typeof other.hits;
      expect(await scene.conclude(turn, about), turn).toMatchObject({ status, error: { code } });
    }
    const done = (await scene.journal('many')).filter(({ kind }) => kind === 'EffectDone');
    expect(done).toHaveLength(1);
  },
);

test('E270 ME-23 an embedder goes only with an index of its queries; the index may embed documents otherwise', () => {
  expect(() => pairSearch(letters('r2'), exactIndex(letters('r1'), 'r1'))).toThrow(
    'takes query vectors of "r1", the embedder makes "r2"',
  );
  const pair = pairSearch(letters('m-query'), exactIndex(letters('m-document'), 'm-query'));
  expect(pair.index.queryRevision).toBe('m-query');
  expect(cosine([1, 0], [0, 1])).toBe(0);
  expect(cosine([2, 0], [5, 0])).toBe(1);
  expect(cosine([0, 0], [1, 1])).toBe(0);
  expect(() => cosine([1], [1, 2])).toThrow('expected 1 numbers, got 2');
});

test('E276 ME-27 a plan that asks for a search by meaning is refused, naming the field', () => {
  const plan = {
    steps: [{ id: 'a', do: [{ recall: { purpose: 'care', text: 'tea' }, as: 'x' }] }],
  };
  expect(() => checkPlan(plan)).toThrow(/recall.*text|text.*recall/);
});
