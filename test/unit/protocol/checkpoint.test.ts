import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { StateChange } from '../../../src/protocol/checkpoint.ts';
import {
  emptyState,
  foldShares,
  foldState,
  sharesOf,
  valueAt,
  valuesOf,
} from '../../../src/protocol/checkpoint.ts';

const change: fc.Arbitrary<StateChange> = fc.oneof(
  fc.record({
    op: fc.constant('set' as const),
    key: fc.constantFrom('a', 'b'),
    value: fc.integer(),
  }),
  fc.record({ op: fc.constant('delete' as const), key: fc.constantFrom('a', 'b', 'list') }),
  fc.record({ op: fc.constant('append' as const), key: fc.constant('list'), value: fc.integer() }),
  fc.record({
    op: fc.constant('add' as const),
    key: fc.constantFrom('a', 'b'),
    by: fc.integer({ min: -9, max: 9 }),
  }),
);

test('a commit folds over the latest state: two overlapping turns lose nothing [T1]', () => {
  const first = foldState(emptyState, 't1', [
    { op: 'append', key: 'list', value: 1 },
    { op: 'add', key: 'n', by: 2 },
  ]);
  const second = foldState(first, 't2', [
    { op: 'append', key: 'list', value: 2 },
    { op: 'add', key: 'n', by: 3 },
  ]);
  expect(valuesOf(second)).toEqual({ list: [1, 2], n: 5 });
});

test('a snapshot of shares folds back to the same values [T1]', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom('s1', 's2', 't0'), change)), (changes) => {
      let state = emptyState;
      for (const [scope, one] of changes) state = foldState(state, scope, [one]);
      expect(valuesOf(foldShares(sharesOf(state)))).toEqual(valuesOf(state));
    }),
  );
});

test('the share of one subject can go without another losing its own (B16)', () => {
  let state = foldState(emptyState, 's1', [{ op: 'append', key: 'list', value: 'ann' }]);
  state = foldState(state, 's2', [{ op: 'append', key: 'list', value: 'bob' }]);
  const shares = new Map(sharesOf(state));
  shares.delete('s1');
  expect(valueAt(foldShares(shares), 'list')).toEqual(['bob']);
});

test('a mixed use of a key is refused before it is staged', () => {
  const state = foldState(emptyState, 't', [
    { op: 'set', key: 'a', value: 'text' },
    { op: 'add', key: 'a', by: 1 },
  ]);
  expect(() => valueAt(state, 'a')).toThrow('expected a number');
});
