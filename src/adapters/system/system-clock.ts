// The host's clocks and randomness.
import { randomBytes } from 'node:crypto';
import { setTimeout as after } from 'node:timers/promises';
import type { Clock, Entropy } from '../../ports/clock.ts';
import type { EpochMs } from '../../protocol/ids.ts';

export const systemClock: Clock = {
  now: () => Date.now() as EpochMs,
  monotonicMs: () => performance.now(),
  sleep: async (ms, signal) => {
    await after(ms, undefined, signal === undefined ? {} : { signal });
  },
  timer: (ms, fire) => {
    const handle = setTimeout(fire, ms);
    return () => clearTimeout(handle);
  },
};

export const systemEntropy: Entropy = { bytes: (count) => randomBytes(count) };
