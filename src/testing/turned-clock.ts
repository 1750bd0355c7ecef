// A clock turned by hand: nothing passes until a test says so.

import type { Clock } from '../ports/clock.ts';
import type { EpochMs } from '../protocol/ids.ts';

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly fire: () => void;
}

/** Wall and monotonic time move together by `advance`; `skew` moves wall time alone. */
export class TurnedClock implements Clock {
  #elapsed = 0;
  #skew = 0;
  #order = 0;
  readonly #origin: number;
  readonly #timers = new Set<Timer>();

  constructor(origin = Date.UTC(2026, 0, 1)) {
    this.#origin = origin;
  }

  now(): EpochMs {
    return (this.#origin + this.#elapsed + this.#skew) as EpochMs;
  }

  monotonicMs(): number {
    return this.#elapsed;
  }

  timer(ms: number, fire: () => void): () => void {
    this.#order += 1;
    const timer = { at: this.#elapsed + ms, order: this.#order, fire };
    this.#timers.add(timer);
    return () => {
      this.#timers.delete(timer);
    };
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      const cancel = this.timer(ms, () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      });
      const onAbort = (): void => {
        cancel();
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** Moves wall time against monotonic time, as another host's clock would stand. */
  skew(ms: number): void {
    this.#skew += ms;
  }

  /** Milliseconds until the next timer, or null when none is set. */
  untilNext(): number | null {
    const next = this.#next(Number.POSITIVE_INFINITY);
    return next === undefined ? null : next.at - this.#elapsed;
  }

  /** Moves time and fires what came due, in order. */
  advance(ms: number): void {
    const target = this.#elapsed + ms;
    for (;;) {
      const next = this.#next(target);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#elapsed = Math.max(this.#elapsed, next.at);
      next.fire();
    }
    this.#elapsed = target;
  }

  #next(until: number): Timer | undefined {
    let found: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.at > until) continue;
      const sooner =
        found === undefined ||
        timer.at < found.at ||
        (timer.at === found.at && timer.order < found.order);
      if (sooner) found = timer;
    }
    return found;
  }
}
