// Where a soak of acts runs: something that takes turns, and workers of several roles that can be killed each apart.
import type { EpochMs } from '../../src/protocol/ids.ts';
import type { Runtime } from '../../src/runtime/runtime.ts';

export interface Reply {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

export interface Site {
  readonly title: string;
  readonly roles: readonly string[];
  /** One call of the HTTP API; null when it was not heard. */
  call(method: string, path: string, body?: unknown): Promise<Reply | null>;
  /** SIGKILL for a worker of this role, and another in its place; false when none was there. */
  kill(role: string): Promise<boolean>;
  /** Lets a schedule that the site does not keep itself take place. */
  nudge(): Promise<void>;
  /** True when nothing is on its way any more. */
  atRest(): Promise<boolean>;
  stop(): Promise<void>;
}

/** Longest time a call of the API is waited for, milliseconds. */
export const callMs = 30_000;

export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Asks `look` until it says yes; throws after `ms` without it. */
export async function until(what: string, ms: number, look: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + ms;
  while (!(await look())) {
    if (Date.now() > end) throw new Error(`${what} did not happen within ${ms} ms`);
    await pause(200);
  }
}

/** Whether a store owes nobody anything: no run, wake, entry, look or act. */
export async function nothingOwed({ store }: Pick<Runtime, 'store'>): Promise<boolean> {
  const farOff = (Date.now() + 366 * 86_400_000) as EpochMs;
  const owed = await Promise.all([
    store.dueWork(farOff, { unsentMs: 0, limit: 1 }),
    store.owedIntents(farOff, 1),
    store.looks(farOff, 1),
  ]);
  return owed.every((rows) => rows.length === 0);
}

/** Numbers from a seed, 0 to below 1. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
