// Waits between attempts: exponential with an integer multiplier, a ceiling and derived jitter.
//   BO-2  jitter comes from a hash of (turn, key, attempt), so every pass computes the same wait.

import { hashParts } from './digest.ts';
import { TurnstoneError } from './errors.ts';
import { limits } from './limits.ts';

export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly initialMs: number;
  readonly multiplier: number;
  readonly maxMs: number;
}

/** Completes and checks a policy; throws `invalid_effect` naming the field. */
export function parseRetryPolicy(given: Partial<RetryPolicy>): RetryPolicy {
  const policy = {
    maxAttempts: given.maxAttempts ?? limits.retryAttempts,
    initialMs: given.initialMs ?? limits.retryInitialMs,
    multiplier: given.multiplier ?? limits.retryMultiplier,
    maxMs: given.maxMs ?? limits.retryMaxMs,
  };
  check('maxAttempts', policy.maxAttempts, 1, limits.retryAttemptsMax);
  check('initialMs', policy.initialMs, 0, Number.MAX_SAFE_INTEGER);
  check('multiplier', policy.multiplier, 1, 1_000);
  check('maxMs', policy.maxMs, 0, Number.MAX_SAFE_INTEGER);
  return policy;
}

function check(field: string, value: number, least: number, most: number): void {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return;
  const expected = `an integer from ${least} to ${most}`;
  throw new TurnstoneError('invalid_effect', `retry.${field}: expected ${expected}, got ${value}`, {
    retry: 'never',
    details: { field: `retry.${field}`, expected, got: String(value) },
  });
}

/** Wait before `attempt` (1-based), milliseconds; 0 for the first. A peer's advice replaces it, capped (BO-3). */
export function backoffMs(of: {
  readonly policy: RetryPolicy;
  readonly turn: string;
  /** Key of the attempt that is waited for. */
  readonly key: string;
  readonly attempt: number;
  readonly adviceMs?: number;
}): number {
  if (of.attempt <= 1) return 0;
  if (of.adviceMs !== undefined && of.adviceMs > 0) {
    return Math.min(Math.floor(of.adviceMs), limits.retryAdviceMaxMs);
  }
  const delayNs = BigInt(delayBefore(of.policy, of.attempt)) * 1_000_000n;
  const half = delayNs / 2n;
  const hash = hashParts('turnstone.jitter.1', [of.turn, of.key, of.attempt]);
  const seed = new DataView(hash.buffer, hash.byteOffset, 8).getBigUint64(0);
  const waitNs = half + (half * seed) / (2n ** 64n - 1n);
  return Number((waitNs + 999_999n) / 1_000_000n);
}

function delayBefore(policy: RetryPolicy, attempt: number): number {
  let delay = policy.initialMs;
  if (policy.multiplier === 1) return Math.min(delay, policy.maxMs);
  for (let n = 2; n < attempt && delay < policy.maxMs && delay > 0; n += 1)
    delay *= policy.multiplier;
  return Math.min(delay, policy.maxMs);
}
