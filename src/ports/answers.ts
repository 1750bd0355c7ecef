// The part of the store port that keeps a thread's replay cache: pointers to answers that stand in its journals.
//   Page 09, B25  derived and written after the commit by a plain put: whoever writes last counts, and losing it
//   costs a completion, nothing else.
//   T12  it holds ids, sizes and keyed digests; what an entry points at is sealed in its journal.
import type { CachedAnswer } from '../protocol/replay-cache.ts';
import type { ThreadRef } from './store.ts';

export interface AnswerStore {
  /** Entries of a thread's cache, least recently used first; consistent. */
  cachedAnswers(thread: ThreadRef): Promise<readonly CachedAnswer[]>;
  /** Puts all entries of a thread's cache in the place of what stands there. */
  putCachedAnswers(thread: ThreadRef, entries: readonly CachedAnswer[]): Promise<void>;
}
