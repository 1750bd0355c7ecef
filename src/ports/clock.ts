// Time as the runtime sees it. Wall time is for records and deadlines, monotonic time for the
// check right before an effect is dispatched (page 09, B9).
import type { EpochMs } from '../protocol/ids.ts';

export interface Clock {
  /** Wall clock, milliseconds since the epoch. */
  now(): EpochMs;
  /** Monotonic milliseconds from an arbitrary origin; counts while the process is frozen if the host's does. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it fires first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls back once after `ms`; the returned function cancels it. */
  timer(ms: number, fire: () => void): () => void;
}

/** Randomness for tokens and nonces; never visible to agent code. */
export interface Entropy {
  bytes(count: number): Uint8Array;
}
