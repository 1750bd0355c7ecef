// What a caller may ask for, field by field, and sums that never shrink or wrap.
import { expect, test } from 'vitest';
import { addSpend, budgetFields, parseBudget, tallyOf } from '../../../src/protocol/budget.ts';
import type { RecordFacts } from '../../../src/protocol/record.ts';
import { done, failed, journalOf, reconciled, site, started } from './bodies.ts';

test('BU-3 every ceiling takes 1, and zero only for replans, denials and egress', () => {
  const zero = ['replans', 'denials', 'egressBytes'];
  expect([...budgetFields].sort()).toEqual([
    'denials',
    'effects',
    'egressBytes',
    'minorUnits',
    'parallel',
    'replans',
    'steps',
    'tokens',
    'wallClockMs',
  ]);
  for (const field of budgetFields) {
    expect(parseBudget({ [field]: 1 })).toEqual({ [field]: 1 });
    if (zero.includes(field)) expect(parseBudget({ [field]: 0 })).toEqual({ [field]: 0 });
    else expect(() => parseBudget({ [field]: 0 })).toThrow('an integer of at least 1, got 0');
    expect(() => parseBudget({ [field]: -1 })).toThrow(
      `budget.${field}: expected an integer of at least ${zero.includes(field) ? 0 : 1}, got -1`,
    );
  }
  expect(parseBudget({})).toEqual({});
});

test.each([
  [{ tokens: 1.5 }, 'tokens', 'an integer of at least 1', '1.5'],
  [{ tokens: '5' }, 'tokens', 'an integer of at least 1', '"5"'],
  [{ tokens: undefined }, 'tokens', 'an integer of at least 1', 'undefined'],
  [{ denials: null }, 'denials', 'an integer of at least 0', 'null'],
  [{ steps: 2 ** 53 }, 'steps', 'an integer of at least 1', '9007199254740992'],
  [
    { effect: 1 },
    'effect',
    'one of steps, effects, tokens, minorUnits, replans, denials, wallClockMs, parallel, egressBytes',
    'an unknown field',
  ],
])(
  'a budget %j is refused by its field, with what was expected and what came',
  (given, name, expected, got) => {
    let refusal: unknown;
    try {
      parseBudget(given);
    } catch (error) {
      refusal = error;
    }
    expect(refusal).toMatchObject({
      code: 'invalid_request',
      message: `budget.${name}: expected ${expected}, got ${got}`,
      retry: 'never',
      details: { field: `budget.${name}`, expected, got },
    });
  },
);

test('BU-5 a tally counts finished steps and dispatches once, every attempt, and every spend', () => {
  const spend = { tokens: 2, minorUnits: 1 };
  const finished = (step: string): RecordFacts => ({ kind: 'StepFinished', step, outcome: 'ok' });
  const begun: RecordFacts = { kind: 'StepStarted', step: 'later' };
  const facts = [
    begun,
    started(),
    failed({ spend }),
    started({ key: 'k2', attempt: 2 }),
    reconciled({ key: 'k2', spend }),
    done({ key: 'k2', spend }),
    started({ site: site(1), key: 'k3' }),
    started({ site: site(0, 'pay', 'compensating'), key: 'k4' }),
    started({ site: site(0, 'ship'), key: 'k5' }),
    finished('pay'),
    finished('ship'),
    finished('pay'),
  ];
  expect(tallyOf(journalOf(...facts))).toEqual({
    steps: 2,
    effects: 4,
    attempts: 5,
    tokens: 6,
    minorUnits: 3,
  });
  expect(tallyOf([])).toEqual({ steps: 0, effects: 0, attempts: 0, tokens: 0, minorUnits: 0 });
});

test('BU-4 a sum is whole, never smaller for what is added, and stops at the largest integer [T11]', () => {
  const left = { tokens: 5, minorUnits: 7 };
  expect(addSpend(left, { tokens: 2.9, minorUnits: 1 })).toEqual({ tokens: 7, minorUnits: 8 });
  expect(addSpend(left, { tokens: 0.5 })).toEqual(left);
  for (const none of [undefined, Number.NaN, -3, 0]) {
    const right = none === undefined ? {} : { tokens: none, minorUnits: none };
    expect(addSpend(left, right)).toEqual(left);
  }
  const most = Number.MAX_SAFE_INTEGER;
  expect(addSpend(left, { tokens: most, minorUnits: Number.POSITIVE_INFINITY })).toEqual({
    tokens: most,
    minorUnits: most,
  });
});
