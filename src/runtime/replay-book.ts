// The replay cache as one pass uses it: looked into before a completion is bought, written after its turn's commit.
//
// Owns: keys, what is staged, equal calls on their way. Does not own: bounds (protocol/replay-cache.ts) or the record
// of a hit (effect-announce.ts).
//   B-21  what a pass adds waits for its suspension or success: a turn that fails leaves nothing behind.
//   T7    only a live call is looked up; on later passes its record is read like any other.
//   T12   keys are keyed under the turn's scope: no other subject and no later generation finds an entry.

import type { TurnRef } from '../ports/store.ts';
import { encode } from '../protocol/canonical.ts';
import { describeError, TurnstoneError } from '../protocol/errors.ts';
import type { RecordBody, RecordOf } from '../protocol/record.ts';
import type { AnswerPlace, CachedAnswer } from '../protocol/replay-cache.ts';
import {
  cachedAnswer,
  findAnswer,
  keepAnswer,
  replayKeyText,
  useAnswer,
} from '../protocol/replay-cache.ts';
import type { Dispatch } from './dispatch.ts';
import type { History } from './history.ts';
import { historyOf, openRecord } from './history.ts';
import { payloadOf } from './journal-writer.ts';
import type { PassSetup } from './pass-setup.ts';

/** An answer that is served again. */
export interface CacheHit {
  readonly record: RecordOf<'EffectDone'>;
  readonly turn: string;
  readonly text: string;
}

type Change = (entries: readonly CachedAnswer[]) => readonly CachedAnswer[];

/** What an entry may point at in vain: its journal is gone, broken, or sealed under a key that is. */
const lostCodes: ReadonlySet<string> = new Set([
  'journal_corrupt',
  'payload_missing',
  'payload_unreadable',
  'record_skew',
]);

const utf8 = new TextEncoder();
/** Characters of a key: 132 bits. */
const keyCharacters = 22;

export class ReplayBook {
  readonly #setup: PassSetup;
  /** What was recorded up to here was staged by the suspension there. */
  readonly #since: number;
  readonly #keys = new WeakMap<Dispatch, string>();
  readonly #expected = new WeakMap<Dispatch, string>();
  readonly #flights = new Map<string, PromiseWithResolvers<void>>();
  readonly #journals = new Map<string, Promise<History>>();
  /** Texts of answers this pass bought. */
  readonly #bought = new Map<number, { record: RecordOf<'EffectDone'>; text: string }>();
  #stored: readonly CachedAnswer[] | null = null;
  #entries: readonly CachedAnswer[] = [];
  #changes: Change[] = [];
  #staged = false;
  #loading: Promise<void> | null = null;

  constructor(setup: PassSetup) {
    this.#setup = setup;
    const rest = setup.history.records.findLast(({ body }) => body.kind === 'RunSuspended');
    this.#since = rest?.body.seq ?? 0;
  }

  /**
   * The answer an equal call was given before, or null. An equal call on its way is waited for; after a null this
   * one is on its way until it is settled.
   */
  async find(dispatch: Dispatch): Promise<CacheHit | null> {
    const key = this.#keyOf(dispatch);
    if (key === null) return null;
    for (let flight = this.#flights.get(key); flight; flight = this.#flights.get(key)) {
      await flight.promise;
    }
    this.#takesOff(dispatch, key);
    await this.#load();
    const found = findAnswer(this.#entries, key, this.#setup.runtime.clock.now());
    if (found === null) return null;
    if ('turn' in found.held) return this.#read(found.held);
    this.#expected.set(dispatch, found.held.digest);
    return null;
  }

  /** Lets equal calls go on by themselves: the one they wait for will not end in this pass. */
  letGo(): void {
    for (const flight of this.#flights.values()) flight.resolve();
    this.#flights.clear();
  }

  /** Stages what a dispatch came to, as its record says. */
  keep(dispatch: Dispatch, body: RecordBody, text: () => string): void {
    const key = this.#keyOf(dispatch);
    if (key === null || this.#setup.writer === null) return;
    if (body.kind === 'AnswerCached') return this.#stage(body.seq, (all) => useAnswer(all, key));
    if (body.kind !== 'EffectDone') return;
    const answer = text();
    const place = { turn: this.#setup.ref.turn, seq: body.seq };
    const digest = (): string => this.#mac('answer', answer);
    const entry = cachedAnswer({
      key,
      at: body.at,
      answerBytes: Buffer.byteLength(answer),
      place,
      digest,
    });
    if (body.seq > this.#setup.history.head.seq && 'turn' in entry.held) {
      this.#bought.set(body.seq, { record: body, text: answer });
    }
    this.#compare(dispatch, body, digest);
    this.#stage(body.seq, (all) => keepAnswer(all, entry, this.#setup.runtime.clock.now()));
  }

  /** Writes what was staged, after the commit that makes it count. A cache that cannot be written is only smaller. */
  async commit(): Promise<void> {
    if (!this.#staged) return;
    const { runtime, ref } = this.#setup;
    try {
      await this.#load();
      if (this.#entries === this.#stored) return;
      await runtime.store.putCachedAnswers(ref, this.#entries);
    } catch (error) {
      const reason = describeError(error).message;
      runtime.telemetry.emit('model.cache_lost', { ...namesOf(ref), reason });
    }
  }

  /** Null for a dispatch that is not cached: an undo, a member of a group, a turn of an erased subject. */
  #keyOf(dispatch: Dispatch): string | null {
    const { declared, site } = dispatch;
    const { sealer, ref, revision } = this.#setup;
    if (declared.cache === null || declared.group !== null) return null;
    if (site.phase !== 'forward' || sealer.blind === true) return null;
    const known = this.#keys.get(dispatch);
    if (known !== undefined) return known;
    const text = replayKeyText(declared.cache, ref.thread, revision);
    const key = this.#mac('key', text).slice(0, keyCharacters);
    this.#keys.set(dispatch, key);
    return key;
  }

  #mac(what: 'key' | 'answer', text: string): string {
    return this.#setup.sealer.mac(`turnstone.replay.${what}.1`, utf8.encode(text));
  }

  #takesOff(dispatch: Dispatch, key: string): void {
    const flight = Promise.withResolvers<void>();
    this.#flights.set(key, flight);
    const lands = (): void => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
      flight.resolve();
    };
    const { settle } = dispatch;
    dispatch.settle = {
      resolve: (value) => {
        lands();
        settle.resolve(value);
      },
      reject: (error) => {
        lands();
        settle.reject(error);
      },
    };
  }

  #stage(seq: number, change: Change): void {
    if (seq <= this.#since) return;
    this.#staged = true;
    if (this.#stored === null) this.#changes.push(change);
    else this.#apply(change);
  }

  #apply(change: Change): void {
    this.#entries = change(this.#entries);
    const held = new Set(this.#entries.map((entry) => ('turn' in entry.held ? entry.held.seq : 0)));
    for (const seq of this.#bought.keys()) if (!held.has(seq)) this.#bought.delete(seq);
  }

  #load(): Promise<void> {
    this.#loading ??= this.#loaded();
    return this.#loading;
  }

  async #loaded(): Promise<void> {
    const { store } = this.#setup.runtime;
    this.#stored = (await this.#unlessLost(() => store.cachedAnswers(this.#setup.ref))) ?? [];
    this.#entries = this.#stored;
    for (const change of this.#changes) this.#apply(change);
    this.#changes = [];
  }

  async #read({ turn, seq }: AnswerPlace): Promise<CacheHit | null> {
    const { history, ref, runtime, sealer } = this.#setup;
    const bought = turn === ref.turn ? this.#bought.get(seq) : undefined;
    if (bought !== undefined) return { ...bought, turn };
    return this.#unlessLost(async () => {
      const holder = { ...ref, turn };
      const journal = turn === ref.turn ? history : await this.#journal(holder);
      const stored = journal.records[seq - 1];
      if (stored?.body.kind !== 'EffectDone') return null;
      const output = await openRecord(runtime.store, sealer, holder, stored);
      return output === undefined ? null : { record: stored.body, turn, text: encode(output) };
    });
  }

  #journal(ref: TurnRef): Promise<History> {
    const known = this.#journals.get(ref.turn);
    if (known !== undefined) return known;
    const read = this.#setup.runtime.store.journal(ref).then(historyOf);
    this.#journals.set(ref.turn, read);
    return read;
  }

  /** Null for what cannot be read any more: the answer is then bought again. */
  async #unlessLost<T>(read: () => Promise<T>): Promise<T | null> {
    const { runtime, ref } = this.#setup;
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof TurnstoneError) || !lostCodes.has(error.code)) throw error;
      runtime.telemetry.emit('model.cache_unreadable', { ...namesOf(ref), reason: error.code });
      return null;
    }
  }

  /** B-20: of a large answer only the digest was kept; another one in its place is said. */
  #compare(dispatch: Dispatch, body: RecordOf<'EffectDone'>, digest: () => string): void {
    const { writer, runtime, ref } = this.#setup;
    const expected = this.#expected.get(dispatch);
    if (expected === undefined || expected === digest()) return;
    runtime.telemetry.emit('model.diverged', { ...namesOf(ref), effectKey: body.key });
    const text = `model.diverged: ${body.key} was answered otherwise before`;
    writer?.ride({ kind: 'Note', step: body.site.step, author: 'system' }, payloadOf({ text }));
  }
}

function namesOf({ thread, turn }: TurnRef): {
  readonly threadId: string;
  readonly turnId: string;
} {
  return { threadId: thread, turnId: turn };
}
