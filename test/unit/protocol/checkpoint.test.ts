import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { StateChange } from '../../../src/protocol/checkpoint.ts';
import {
  applyChange,
  changesText,
  compactChanges,
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

test('a counter is as long as it has writers, and each share goes alone (B16, T11)', () => {
  let state = foldState(emptyState, 's1', [{ op: 'set', key: 'n', value: 100 }]);
  for (let turn = 0; turn < 1_000; turn += 1) {
    const scope = turn % 3 === 0 ? 's2' : 's3';
    state = foldState(state, scope, [{ op: 'add', key: 'n', by: 1 }]);
  }
  expect(state.get('n')).toHaveLength(3);
  expect(valueAt(state, 'n')).toBe(1_100);
  const left = (gone: string) => {
    const shares = new Map(sharesOf(state));
    shares.delete(gone);
    return valueAt(foldShares(shares), 'n');
  };
  expect([left('s1'), left('s2'), left('s3')]).toEqual([1_000, 766, 434]);
});

test('sums that are not exact stay apart', () => {
  const most = Number.MAX_SAFE_INTEGER;
  for (const [first, second] of [
    [0.1, 1],
    [most, 1],
  ] as const) {
    const changes = [first, second].map((by) => ({ op: 'add' as const, key: 'n', by }));
    expect(foldState(emptyState, 's', changes).get('n')).toHaveLength(2);
    expect(compactChanges(changes)).toEqual(changes);
  }
});

test('what a turn writes is short and folds to the same, whatever was there [T1]', () => {
  const changes = fc.array(change, { maxLength: 12 });
  fc.assert(
    fc.property(changes, changes, (before, turn) => {
      const state = foldState(emptyState, 's1', before);
      const short = compactChanges(turn);
      const [long, compact] = [turn, short].map((one) => foldState(state, 's2', one));
      expect(new Map(compact)).toEqual(new Map(long));
      const adds = new Set(short.filter(({ op }) => op === 'add').map(({ key }) => key));
      expect(short.filter(({ op }) => op === 'add')).toHaveLength(adds.size);
    }),
  );
});

test('T1 set replaces, delete removes, append and add begin at nothing; the state before is untouched [T1]', () => {
  const before = foldState(emptyState, 't', [{ op: 'set', key: 'a', value: 1 }]);
  expect(foldState(before, 't', [])).toBe(before);
  const after = foldState(before, 't', [
    { op: 'set', key: 'a', value: { x: 2 } },
    { op: 'set', key: 'b', value: 3 },
    { op: 'delete', key: 'b' },
    { op: 'append', key: 'list', value: 4 },
    { op: 'add', key: 'n', by: -5 },
  ]);
  expect(valuesOf(after)).toStrictEqual({ a: { x: 2 }, list: [4], n: -5 });
  expect(valuesOf(before)).toEqual({ a: 1 });
  expect(valueAt(after, 'b')).toBeUndefined();
  expect([...(after.get('a') ?? [])]).toHaveLength(1);
});

test.each([
  [{ op: 'append', key: 'a', value: 1 }, 'text', 'a list', 'string'],
  [{ op: 'append', key: 'a', value: 1 }, { length: 1 }, 'a list', 'object'],
  [{ op: 'add', key: 'a', by: 1 }, [1], 'a number', 'object'],
] as const)(
  'a mixed use %j of %j names the key, what was expected and what stands',
  (change, value, expected, got) => {
    let refusal: unknown;
    try {
      applyChange('a', value, change);
    } catch (error) {
      refusal = error;
    }
    expect(refusal).toMatchObject({
      code: 'invalid_request',
      message: `state "a": expected ${expected}, got ${got}`,
      retry: 'never',
      details: { field: 'a', expected, got },
    });
  },
);

test('one change of a value, before it is staged', () => {
  expect(applyChange('a', 'x', { op: 'set', key: 'a', value: 2 })).toBe(2);
  expect(applyChange('a', 'x', { op: 'delete', key: 'a' })).toBeUndefined();
  expect(applyChange('a', [1], { op: 'append', key: 'a', value: 2 })).toEqual([1, 2]);
  expect(applyChange('a', 1, { op: 'add', key: 'a', by: 2 })).toBe(3);
});

test('shares number their changes by place, so that they fold back in order whoever comes first', () => {
  let state = foldState(emptyState, 's2', [{ op: 'append', key: 'list', value: 1 }]);
  state = foldState(state, 's1', [{ op: 'append', key: 'list', value: 2 }]);
  state = foldState(state, 's2', [{ op: 'append', key: 'list', value: 3 }]);
  const shares = sharesOf(state);
  expect([...shares.keys()]).toEqual(['s2', 's1']);
  expect(shares.get('s2')?.map(({ order }) => order)).toEqual([0, 2]);
  const reversed = new Map([...shares].reverse());
  expect(valuesOf(foldShares(reversed))).toEqual({ list: [1, 2, 3] });
  expect(changesText([{ op: 'add', key: 'n', by: 1 }])).toBe('[{"by":1,"key":"n","op":"add"}]');
});
