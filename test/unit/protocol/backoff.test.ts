import fc from 'fast-check';
import { expect, test } from 'vitest';
import { backoffMs, parseRetryPolicy } from '../../../src/protocol/backoff.ts';
import { TurnstoneError } from '../../../src/protocol/errors.ts';

const policy = { maxAttempts: 3, initialMs: 100, multiplier: 2, maxMs: 10_000 };

test('E68 the same turn, key and attempt wait the same; another turn waits otherwise; each within half to whole', () => {
  const of = { policy, turn: 'acme\norder-7\nt1', key: 'k' };
  expect([1, 2, 3, 4, 9].map((attempt) => backoffMs({ ...of, attempt }))).toEqual([
    0, 53, 165, 331, 9762,
  ]);
  expect(backoffMs({ ...of, attempt: 2 })).toBe(backoffMs({ ...of, attempt: 2 }));
  const many = new Set(
    Array.from({ length: 50 }, (_, n) => backoffMs({ ...of, turn: `t${n}`, attempt: 4 })),
  );
  expect(many.size).toBeGreaterThan(20);
  fc.assert(
    fc.property(fc.string(), fc.integer({ min: 2, max: 8 }), (turn, attempt) => {
      const whole = Math.min(10_000, 100 * 2 ** (attempt - 2));
      const wait = backoffMs({ ...of, turn, attempt });
      expect(wait).toBeGreaterThanOrEqual(whole / 2);
      expect(wait).toBeLessThanOrEqual(whole);
    }),
  );
  expect(backoffMs({ ...of, policy: parseRetryPolicy({ initialMs: 0 }), attempt: 5 })).toBe(0);
});

test('E69 a thousand turns that fail at once spread over the whole range', () => {
  const buckets = new Map<number, number>();
  for (let n = 0; n < 1000; n += 1) {
    const wait = backoffMs({
      policy: parseRetryPolicy({ initialMs: 10_000 }),
      turn: `turn-${n}`,
      key: 'k',
      attempt: 2,
    });
    const bucket = Math.min(19, Math.floor((wait - 5_000) / 250));
    buckets.set(bucket, (buckets.get(bucket) ?? 0) + 1);
  }
  expect(Math.max(...buckets.values())).toBeLessThanOrEqual(100);
});

test('E70 an absurd attempt number answers at once and stays under the ceiling', () => {
  for (const multiplier of [1, 2]) {
    const wait = backoffMs({
      policy: parseRetryPolicy({ multiplier }),
      turn: 't',
      key: 'k',
      attempt: 2 ** 32,
    });
    expect(wait).toBeLessThanOrEqual(10_000);
  }
});

test('a window the peer names replaces the wait and is capped at a minute (BO-3)', () => {
  expect(backoffMs({ policy, turn: 't', key: 'k', attempt: 2, adviceMs: 3_000 })).toBe(3_000);
  expect(backoffMs({ policy, turn: 't', key: 'k', attempt: 2, adviceMs: 600_000 })).toBe(60_000);
});

test('BO-3 only a window above nothing counts, whole milliseconds of it, and none before the first attempt', () => {
  const wait = (adviceMs: number, attempt = 2) =>
    backoffMs({ policy, turn: 't', key: 'k', attempt, adviceMs });
  const computed = backoffMs({ policy, turn: 't', key: 'k', attempt: 2 });
  expect([wait(2.9), wait(1), wait(0), wait(-5)]).toEqual([2, 1, computed, computed]);
  expect(wait(5_000, 1)).toBe(0);
});

test('BO-1 the wait grows by the multiplier from the first, and stops at the longest', () => {
  const turns = Array.from({ length: 200 }, (_, n) => `t${n}`);
  const range = (given: Partial<typeof policy>, attempt: number): readonly [number, number] => {
    const waits = turns.map((turn) =>
      backoffMs({ policy: { ...policy, ...given }, turn, key: 'k', attempt }),
    );
    return [Math.min(...waits), Math.max(...waits)];
  };
  const within = ([least, most]: readonly [number, number], whole: number): void => {
    expect(least).toBeGreaterThanOrEqual(whole / 2);
    expect(most).toBeLessThanOrEqual(whole);
    expect(most).toBeGreaterThan(whole * 0.9);
  };
  within(range({ multiplier: 3 }, 2), 100);
  within(range({ multiplier: 3 }, 4), 900);
  within(range({ multiplier: 3 }, 9), 10_000);
  within(range({ multiplier: 1 }, 9), 100);
  within(range({ multiplier: 1, initialMs: 20_000 }, 9), 10_000);
  expect(range({ initialMs: 0 }, 2 ** 32)).toEqual([0, 0]);
  expect(range({ maxMs: 0 }, 3)).toEqual([0, 0]);
});

test('ruling 26 a policy is completed with 3 attempts, 100 ms, twice as long each time, at most 10 s', () => {
  expect(parseRetryPolicy({})).toEqual(policy);
  const own = { maxAttempts: 1_000, initialMs: 0, multiplier: 1, maxMs: 0 };
  expect(parseRetryPolicy(own)).toEqual(own);
  const most = { maxAttempts: 1, initialMs: 2 ** 53 - 1, multiplier: 1_000, maxMs: 2 ** 53 - 1 };
  expect(parseRetryPolicy(most)).toEqual(most);
});

test.each([
  [{ maxAttempts: 0 }, 'maxAttempts', 'an integer from 1 to 1000', '0'],
  [{ maxAttempts: 1_001 }, 'maxAttempts', 'an integer from 1 to 1000', '1001'],
  [{ multiplier: 1.5 }, 'multiplier', 'an integer from 1 to 1000', '1.5'],
  [{ multiplier: 0 }, 'multiplier', 'an integer from 1 to 1000', '0'],
  [{ multiplier: 1_001 }, 'multiplier', 'an integer from 1 to 1000', '1001'],
  [{ initialMs: -1 }, 'initialMs', 'an integer from 0 to 9007199254740991', '-1'],
  [{ maxMs: Number.NaN }, 'maxMs', 'an integer from 0 to 9007199254740991', 'NaN'],
])('a policy out of range is refused naming the field: %j', (given, name, expected, got) => {
  const field = `retry.${name}`;
  let refusal: unknown;
  try {
    parseRetryPolicy(given);
  } catch (error) {
    refusal = error;
  }
  expect(refusal).toBeInstanceOf(TurnstoneError);
  expect(refusal).toMatchObject({
    code: 'invalid_effect',
    message: `${field}: expected ${expected}, got ${got}`,
    retry: 'never',
    details: { field, expected, got },
  });
});
