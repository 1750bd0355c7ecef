// Goal: a cascade removes what came from a fact and nothing else. Method: the cases of page 01, 13.4, then reachability
// over random histories, asked version by version.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { DerivedVersion, LineageItem, VersionName } from '../../../src/protocol/lineage.ts';
import { cascading, forgetting } from '../../../src/protocol/lineage.ts';

const from = (...names: readonly string[]): VersionName[] =>
  names.map((name) => ({ key: name.slice(0, 1), version: Number(name.slice(1)) }));
const version = (number: number, ...names: readonly string[]): DerivedVersion => ({
  version: number,
  from: from(...names),
});
const item = (
  key: string,
  versions: readonly DerivedVersion[],
  of: Partial<LineageItem> = {},
): LineageItem => ({ key, current: versions.at(-1)?.version ?? null, versions, gone: [], ...of });
const removed = (key: string, ...versions: readonly DerivedVersion[]) => ({
  key,
  whole: true,
  versions,
});

test('E257 forgetting removes the id alone; a tombstone is not removed again', () => {
  const a = version(1);
  const b = version(1, 'a1');
  expect(forgetting([item('a', [a]), item('b', [b])], 'a')).toEqual([removed('a', a)]);
  expect(forgetting([item('a', [], { gone: [a] }), item('b', [b])], 'a')).toEqual([]);
  expect(forgetting([item('b', [b])], 'a')).toEqual([]);
});

test('E256 a cascade follows lineage through a tombstone', () => {
  const [a, b, c] = [version(1), version(1, 'a1'), version(1, 'b1')];
  const items = [item('c', [c]), item('b', [], { gone: [b] }), item('a', [a])];
  expect(cascading(items, 'a')).toEqual([removed('c', c), removed('a', a)]);
  expect(cascading(items, 'b')).toEqual([removed('c', c)]);
});

test('E258 a version made again without the source stays current; those that absorbed it go', () => {
  const [first, second] = [version(1, 'a1'), version(2, 'x1')];
  const items = [item('a', [version(1)]), item('s', [first, second])];
  expect(cascading(items, 'a')).toEqual([
    removed('a', version(1)),
    { key: 's', whole: false, versions: [first] },
  ]);
  const back = item('s', [second, version(3, 'a1')]);
  expect(cascading([item('a', [version(1)]), back], 'a')).toContainEqual(
    removed('s', ...back.versions),
  );
});

test('ME-13 an old version of the forgotten id counts, gone or not; a namesake version of another does not', () => {
  const a = item('a', [version(2)], { gone: [version(1)] });
  const old = item('b', [version(1, 'a1')]);
  const other = item('c', [version(1, 'd1')]);
  const later = item('e', [version(1, 'a3')]);
  expect(cascading([a, old, other, later], 'a')).toEqual([
    removed('a', version(2)),
    removed('b', version(1, 'a1')),
  ]);
  const gone = item('b', [version(2)], { gone: [version(1, 'a1')] });
  expect(cascading([a, gone], 'a')).toEqual([removed('a', version(2))]);
  expect(cascading([other], 'a')).toEqual([]);
  const unlisted = item('a', [version(1)], { current: 2 });
  expect(cascading([unlisted], 'a')).toEqual([removed('a', version(1))]);
});

const keys = ['a', 'b', 'c', 'd', 'e'];
const drawnVersion = fc.record({
  sources: fc.array(fc.tuple(fc.constantFrom(...keys), fc.integer({ min: 1, max: 3 })), {
    maxLength: 3,
  }),
  stands: fc.boolean(),
});
const drawnItem = fc.record({
  versions: fc.array(drawnVersion, { minLength: 1, maxLength: 3 }),
  tombstone: fc.boolean(),
});

test('ME-13 whatever the history, exactly the versions that can reach the id are removed', () => {
  fc.assert(
    fc.property(fc.array(drawnItem, { maxLength: 5 }), (drawn) => {
      const items = drawn.map(({ versions, tombstone }, index): LineageItem => {
        const all = versions.map(({ sources, stands }, n) => ({
          stands: stands && !tombstone,
          version: n + 1,
          from: sources.map(([key, number]) => ({ key, version: number })),
        }));
        const plain = ({ version: number, from: names }: DerivedVersion): DerivedVersion => ({
          version: number,
          from: names,
        });
        return {
          key: keys[index] ?? '',
          current: tombstone ? null : all.length,
          versions: all.filter((one) => one.stands).map(plain),
          gone: all.filter((one) => !one.stands).map(plain),
        };
      });
      const reaches = (key: string, number: number, seen: readonly string[]): boolean => {
        const name = `${key}.${number}`;
        if (seen.includes(name)) return false;
        const one = items.find((candidate) => candidate.key === key);
        const known = [...(one?.versions ?? []), ...(one?.gone ?? [])].find(
          (candidate) => candidate.version === number,
        );
        if (known === undefined) return false;
        return (
          key === 'a' ||
          known.from.some((source) => reaches(source.key, source.version, [...seen, name]))
        );
      };
      const removals = new Map(cascading(items, 'a').map((removal) => [removal.key, removal]));
      for (const one of items) {
        const removal = removals.get(one.key);
        const hit = one.versions.filter((v) => reaches(one.key, v.version, []));
        if (one.current === null) expect(removal).toBeUndefined();
        else if (one.key === 'a' || reaches(one.key, one.current, [])) {
          expect(removal).toEqual({ key: one.key, whole: true, versions: one.versions });
        } else if (hit.length === 0) expect(removal).toBeUndefined();
        else expect(removal).toEqual({ key: one.key, whole: false, versions: hit });
      }
    }),
    { numRuns: 300 },
  );
});
