// The replay cache of one thread: which answers of models may be served again, within fixed bounds (03, B-16 to B-20).
//
// Pure. An entry points at the record that holds the answer, or keeps its digest alone. The list is its order of
// use: the least recently used stands first.
//   T11  64 entries, six hours from the answer, 100 KiB: what is over a bound leaves before anything more enters.
//   T12  an entry holds no content: its key and its digest are keyed, so an erasure takes the dictionary along.
import { encode } from './canonical.ts';
import { TurnstoneError } from './errors.ts';
import type { TurnId } from './ids.ts';
import { limits } from './limits.ts';

/** The members that make two completions the same; which step of the turn asks is none of them (B-16). */
export interface ReplayKey {
  readonly model: string;
  readonly messages: unknown;
  readonly tools: unknown;
  readonly sampling: unknown;
  /** Tells calls apart that are meant to be asked twice; absent counts as 0. */
  readonly sample?: number;
}

export interface CachedAnswer {
  /** Keyed digest of the `ReplayKey` at its thread and revision. */
  readonly key: string;
  /** Instant the answer was recorded; being used does not move it (B-18). */
  readonly at: number;
  /** What it counts against the cache's bytes. */
  readonly bytes: number;
  /** Where the answer stands, or its keyed digest when it is too large to be served again (B-19). */
  readonly held: AnswerPlace | { readonly digest: string };
}

/** A record of a journal of the same thread. */
export interface AnswerPlace {
  readonly turn: TurnId;
  readonly seq: number;
}

/** Canonical text of a key. Throws `invalid_effect` naming the member that is not plain JSON. */
export function replayKeyText(
  { model, messages, tools, sampling, sample = 0 }: ReplayKey,
  thread: string,
  revision: number,
): string {
  const members = { model, messages, tools, sampling };
  if (!Number.isSafeInteger(sample) || sample < 0) {
    throw refused('effect.cache.sample', 'an integer of at least 0', String(sample));
  }
  const plain = plainOf('effect.cache', members) as object;
  return encode({ ...plain, thread, seq: revision, ...(sample === 0 ? {} : { sample }) });
}

/** A value as JSON holds it, absent members left out; NaN and its like throw `invalid_effect` naming the member. */
export function plainOf(field: string, value: unknown): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') {
    if (Number.isFinite(value)) return value;
    throw refused(field, 'a finite number', String(value));
  }
  if (Array.isArray(value)) return value.map((item, index) => plainOf(`${field}.${index}`, item));
  const made: unknown = typeof value === 'object' ? Object.getPrototypeOf(value) : undefined;
  if (made !== Object.prototype && made !== null) throw refused(field, 'plain JSON', typeof value);
  const members = Object.entries(value as object).filter(([, member]) => member !== undefined);
  return Object.fromEntries(
    members.map(([name, item]) => [name, plainOf(`${field}.${name}`, item)]),
  );
}

function refused(field: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError('invalid_effect', `${field}: expected ${expected}, got ${got}`, {
    retry: 'never',
    details: { field, expected, got },
  });
}

/** The entry of an answer; one that does not fit even alone is its digest only, and evicts nobody (B-19). */
export function cachedAnswer(of: {
  readonly key: string;
  readonly at: number;
  readonly answerBytes: number;
  readonly place: AnswerPlace;
  readonly digest: () => string;
}): CachedAnswer {
  const { key, at, place } = of;
  const bytes = of.answerBytes + limits.replayEntryBytes;
  if (bytes <= limits.replayCacheBytes) return { key, at, bytes, held: place };
  return { key, at, bytes: limits.replayEntryBytes, held: { digest: of.digest() } };
}

/** The entry of a key that is still live, or null. */
export function findAnswer(
  entries: readonly CachedAnswer[],
  key: string,
  now: number,
): CachedAnswer | null {
  return entries.find((entry) => entry.key === key && lives(entry, now)) ?? null;
}

/** The entries after one was used: it becomes the most recent and lives no longer for it. */
export function useAnswer(entries: readonly CachedAnswer[], key: string): readonly CachedAnswer[] {
  const used = entries.filter((entry) => entry.key === key);
  return used.length === 0 ? entries : [...entries.filter((entry) => entry.key !== key), ...used];
}

/** The entries after one is kept: expired ones go, then its older self, then the least recently used (B-19). */
export function keepAnswer(
  entries: readonly CachedAnswer[],
  answer: CachedAnswer,
  now: number,
): readonly CachedAnswer[] {
  const live = entries.filter((entry) => lives(entry, now));
  if (live.some((entry) => same(entry, answer))) return live;
  const kept = [...live.filter(({ key }) => key !== answer.key), answer];
  while (kept.length > limits.replayEntriesMax) kept.shift();
  let bytes = kept.reduce((sum, entry) => sum + entry.bytes, 0);
  while (bytes > limits.replayCacheBytes && kept.length > 1) bytes -= kept.shift()?.bytes ?? 0;
  return kept;
}

function lives({ at }: CachedAnswer, now: number): boolean {
  return now - at <= limits.replayCacheMs;
}

function same(left: CachedAnswer, right: CachedAnswer): boolean {
  if (left.key !== right.key || !('turn' in left.held) || !('turn' in right.held)) return false;
  return left.held.turn === right.held.turn && left.held.seq === right.held.seq;
}
