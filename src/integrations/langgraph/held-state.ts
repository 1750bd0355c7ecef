// A graph's state as the thread's checkpoint holds it: read at the door, then trusted.
import { TurnstoneError } from '../../protocol/errors.ts';
import type { Answers } from './graph-turn.ts';
import type { HeldRows } from './held-graphs.ts';

export interface HeldState {
  readonly version: 1;
  readonly rows: HeldRows;
  /** Calls of tasks that a question keeps open. */
  readonly answers: Answers;
  /** Ids of the open questions. */
  readonly questions: readonly string[];
}

export const emptyHeld: HeldState = {
  version: 1,
  rows: { tuples: [], parts: [] },
  answers: {},
  questions: [],
};

/** Throws `record_skew` for what this version did not write. */
export function heldIn(name: string, value: unknown): HeldState {
  if (isHeld(value)) return value;
  throw new TurnstoneError(
    'record_skew',
    `state.${name}: expected a graph of version 1, got another value`,
    { retry: 'never', details: { name } },
  );
}

/** The runtime's own codec wrote it whole; what may differ is who wrote it. */
function isHeld(value: unknown): value is HeldState {
  if (typeof value !== 'object' || value === null) return false;
  const { version, rows, answers, questions } = value as Partial<Record<string, unknown>>;
  const { tuples, parts } = Object(rows) as Partial<Record<string, unknown>>;
  return (
    version === 1 &&
    Array.isArray(tuples) &&
    Array.isArray(parts) &&
    typeof answers === 'object' &&
    answers !== null &&
    Array.isArray(questions)
  );
}
