// A migration keeps each subject's share apart, so that an erasure takes along what was made of it (T12, B16).
import { expect, test } from 'vitest';
import type { FoldedState, StateChange } from '../../../src/protocol/checkpoint.ts';
import {
  emptyState,
  foldShares,
  foldState,
  sharesOf,
  valuesOf,
} from '../../../src/protocol/checkpoint.ts';
import { migrateState } from '../../../src/protocol/migration.ts';

const set = (key: string, value: unknown): StateChange => ({ op: 'set', key, value });
const shared = (): FoldedState => {
  let state = foldState(emptyState, 's1', [
    set('who', 'ann'),
    { op: 'append', key: 'list', value: 1 },
    { op: 'add', key: 'n', by: 2 },
  ]);
  state = foldState(state, 's2', [
    { op: 'append', key: 'list', value: 3 },
    { op: 'add', key: 'n', by: 4 },
  ]);
  return state;
};

test('T12 a step sees one share at a time, frozen, and what it makes stays in that share', () => {
  const seen: unknown[] = [];
  const next = migrateState(
    shared(),
    (values) => {
      seen.push({ ...values });
      expect(Object.isFrozen(values)).toBe(true);
      return { ...values, items: values.list, list: undefined };
    },
    't0',
  );
  expect(seen).toEqual([
    { who: 'ann', list: [1], n: 2 },
    { list: [3], n: 4 },
  ]);
  expect(valuesOf(next)).toEqual({ who: 'ann', n: 6, items: [1, 3] });
  const shares = new Map(sharesOf(next));
  shares.delete('s1');
  expect(valuesOf(foldShares(shares))).toEqual({ n: 4, items: [3] });
});

test('B16 of one share every value is set, so that a list is a list again and a number may be any', () => {
  const one = foldState(emptyState, 's1', [{ op: 'append', key: 'list', value: 1 }]);
  const next = migrateState(one, () => ({ list: [7, 8], n: 9, text: 'x', empty: [] }), 't0');
  expect(valuesOf(next)).toEqual({ list: [7, 8], n: 9, text: 'x', empty: [] });
  expect([...sharesOf(next).keys()]).toEqual(['s1']);
  const changes = (sharesOf(next).get('s1') ?? []).map(({ change }) => change);
  expect(changes).toEqual([set('list', [7, 8]), set('n', 9), set('text', 'x'), set('empty', [])]);
});

test("B16 of other values the last share's stands", () => {
  const next = migrateState(shared(), (values) => ({ from: values.who ?? 'nobody' }), 't0');
  expect(valuesOf(next)).toEqual({ from: 'nobody' });
});

test("what a step makes out of nothing is the turn's own", () => {
  const next = migrateState(emptyState, (values) => ({ ...values, n: 1, list: [2] }), 't0');
  expect([...sharesOf(next)]).toEqual([
    [
      't0',
      [
        { order: 0, change: set('n', 1) },
        { order: 1, change: set('list', [2]) },
      ],
    ],
  ]);
});
