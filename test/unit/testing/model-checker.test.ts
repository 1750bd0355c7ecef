// The checker finds what it is for: the shortest way to a broken law, and states that never come to rest.
import { expect, test } from 'vitest';
import type { Model } from '../../../src/testing/model-checker.ts';
import { checkModel, comesToRest } from '../../../src/testing/model-checker.ts';

/** Counts up by one or two to `top`, where it rests; `trap` is a number it does not leave by itself. */
function counting(
  top: number,
  forbidden: number | null,
  trap: number | null = null,
): Model<number> {
  return {
    start: 0,
    key: String,
    atRest: (state) => state === top,
    moves: (state) =>
      [1, 2]
        .filter((by) => state + by <= top)
        .map((by) => ({ name: `+${by}`, state: state + by, outside: state === trap })),
    laws: { 'no forbidden number': (state) => (state === forbidden ? `it is ${state}` : null) },
  };
}

test('every state and every move is visited once', () => {
  const checked = checkModel(counting(5, null));
  expect(checked).toEqual({ states: 6, moves: 9, depth: 3, resting: 1, broken: null });
});

test('a broken law is told with the shortest way to it', () => {
  expect(checkModel(counting(9, 4)).broken).toEqual({
    law: 'no forbidden number',
    why: 'it is 4',
    trace: ['+2', '+2'],
  });
});

test('a state that only others can move on from is found', () => {
  const { broken } = checkModel(counting(3, null, 2));
  expect(broken).toMatchObject({ law: comesToRest, trace: ['+2'] });
});

test('a model over its limit is no answer', () => {
  expect(() => checkModel(counting(50, null), 20)).toThrow('more than 20 states');
});
