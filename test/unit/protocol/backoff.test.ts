import fc from 'fast-check';
import { expect, test } from 'vitest';
import { backoffMs, parseRetryPolicy } from '../../../src/protocol/backoff.ts';
import { TurnstoneError } from '../../../src/protocol/errors.ts';

const policy = parseRetryPolicy({});

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

test.each([
  [{ maxAttempts: 0 }, 'retry.maxAttempts'],
  [{ multiplier: 1.5 }, 'retry.multiplier'],
  [{ initialMs: -1 }, 'retry.initialMs'],
  [{ maxMs: Number.NaN }, 'retry.maxMs'],
])('a policy out of range is refused naming the field: %j', (given, field) => {
  expect(() => parseRetryPolicy(given)).toThrow(TurnstoneError);
  expect(() => parseRetryPolicy(given)).toThrow(field);
});
