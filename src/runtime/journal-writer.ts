// The writing end of one turn's journal: records in, positions out, one write in flight.
//
// Owns: sequence numbers, the chain, batching, and what must be durable before what. Does not own:
// what is recorded or when an effect runs.
//   T4  a position that is taken means displaced: the writer dies and every waiter stops.
//   T5  `announce` resolves only after the store acknowledged the announcement.
// Riding records (`ride`) wait for the next write; `urgent` ones start a write at once; announcements
// made in one turn of the event loop share a position. No timer sits between effects (F37).

import type { LentEntry } from '../ports/lent.ts';
import type { Appended, Batch, Claimed, PartSet, Writer } from '../ports/store.ts';
import { encode } from '../protocol/canonical.ts';
import { recordHash } from '../protocol/chain.ts';
import { assertInvariant, TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import type { PayloadPlace, RecordBody, RecordFacts } from '../protocol/record.ts';
import { encodeBody } from '../protocol/record-codec.ts';
import { never } from './never.ts';
import { sealContext, sealText } from './payloads.ts';
import type { Pending, RecordPayload, WriterEnd, WriterMark, WriterStart } from './writer-parts.ts';
import { assertRecordFits, batchBytes, inlineBytes } from './writer-parts.ts';

export const noPayload: RecordPayload = { kind: 'none' };

/** A payload of any storable value; throws CodecError when it is not storable. */
export function payloadOf(value: unknown): RecordPayload {
  return { kind: 'text', text: encode(value) };
}

export class JournalWriter {
  readonly #start: WriterStart;
  readonly #announced: Set<string>;
  readonly #written: RecordBody[] = [];
  #pending: Pending[] = [];
  /** Taken for a write that was refused, or for the transaction that ends the pass. */
  #taken: readonly Pending[] = [];
  #index: number;
  #seq: number;
  #hash: string;
  #held: boolean;
  #flushing: Promise<void> | null = null;
  #scheduled = false;
  #end: WriterEnd | null = null;
  readonly #ended: Promise<WriterEnd>;
  #signalEnd: (end: WriterEnd) => void = () => undefined;

  constructor(start: WriterStart) {
    this.#start = start;
    this.#announced = new Set(start.announced);
    this.#index = start.index;
    this.#seq = start.seq;
    this.#hash = start.hash;
    this.#held = start.claim === null;
    this.#ended = new Promise((resolve) => {
      this.#signalEnd = resolve;
    });
  }

  /** Resolves when this pass may write no more. */
  get ended(): Promise<WriterEnd> {
    return this.#ended;
  }

  get end(): WriterEnd | null {
    return this.#end;
  }

  /** True once a claim or a takeover named this pass in the head. */
  get held(): boolean {
    return this.#held;
  }

  get writer(): Writer {
    return this.#start.writer;
  }

  get busy(): boolean {
    return this.#flushing !== null || this.#scheduled;
  }

  /** Every record this pass added, in order, with those still pending. */
  get added(): readonly RecordBody[] {
    return this.#written;
  }

  /** Records no acknowledged append holds: all that is left of a pass that was displaced. */
  get unwritten(): readonly Pending[] {
    return [...this.#taken, ...this.#pending];
  }

  get announced(): ReadonlySet<string> {
    return this.#announced;
  }

  get head(): { readonly seq: number; readonly hash: string } {
    return { seq: this.#seq, hash: this.#hash };
  }

  /** Adds a record that travels with the next write. Returns it with its sequence number. */
  ride(facts: RecordFacts, payload: RecordPayload): RecordBody {
    return this.#add(facts, payload, { pressing: false, acknowledged: null });
  }

  /** Adds a record and starts writing at once; the next announcement waits for it (ruling 3). */
  urgent(facts: RecordFacts, payload: RecordPayload): RecordBody {
    const body = this.#add(facts, payload, { pressing: true, acknowledged: null });
    this.#flush();
    return body;
  }

  /** Adds an announcement; resolves when it is durable, never when the writer has ended [T5]. */
  announce(
    facts: RecordFacts & { kind: 'EffectStarted' },
    payload: RecordPayload,
  ): { readonly body: RecordBody; readonly durable: Promise<void> } {
    const { promise, resolve } = Promise.withResolvers<void>();
    const body = this.#add(facts, payload, { pressing: true, acknowledged: resolve });
    this.#schedule();
    return { body, durable: promise };
  }

  /** Waits until nothing is in flight; pending records that only ride stay pending. */
  async settled(): Promise<void> {
    while (this.busy) {
      if (this.#scheduled) await new Promise(setImmediate);
      if (this.#flushing !== null) await this.#flushing;
    }
  }

  /** Writes whatever is pending and waits until it is acknowledged or the writer has ended. */
  async force(): Promise<void> {
    while (this.#end === null && (this.#pending.length > 0 || this.busy)) {
      this.#flush();
      await this.settled();
    }
  }

  /**
   * Writes records together with lent entries, as one position (GR-13): all of it stands or none. `refused` leaves
   * nothing of them, and what was pending before stays pending. Never settles when the writer has ended.
   */
  async together(
    records: readonly { readonly facts: RecordFacts; readonly payload: RecordPayload }[],
    lent: readonly LentEntry[],
  ): Promise<
    | { readonly kind: 'done'; readonly bodies: readonly RecordBody[] }
    | { readonly kind: 'refused'; readonly detail: string }
  > {
    await this.settled();
    const beside =
      records.length * 1024 + records.reduce((sum, { payload }) => sum + inlineBytes(payload), 0);
    if (!this.#held || batchBytes(this.#pending) + beside > limits.batchBytes) await this.force();
    if (this.#end !== null) return never();
    const mark = this.mark();
    const bodies = records.map(({ facts, payload }) =>
      this.#add(facts, payload, { pressing: false, acknowledged: null }),
    );
    const taken = this.#pending;
    this.#pending = [];
    const { promise, resolve } = Promise.withResolvers<string | null>();
    this.#flushing = this.#write(taken, lent).then(
      (outcome) => {
        if (outcome.kind !== 'lost' || !('reason' in outcome) || outcome.reason !== 'refused') {
          this.#acknowledge(taken, outcome);
          if (this.#end === null) resolve(null);
          return;
        }
        this.#withdraw(mark, bodies.length);
        resolve(outcome.detail);
      },
      (error: unknown) => this.#fail(error),
    );
    const detail = await promise;
    return detail === null ? { kind: 'done', bodies } : { kind: 'refused', detail };
  }

  /** Takes refused records out; what was added after them is chained anew, in its order and at its instants. */
  #withdraw(mark: WriterMark, count: number): void {
    this.#flushing = null;
    const later = this.#pending;
    this.#written.splice(mark.written);
    this.#pending = [...mark.pending];
    this.#seq = mark.seq;
    this.#hash = mark.hash;
    for (const { body, payload, pressing, acknowledged } of later) {
      this.#add(body, payload, { pressing, acknowledged }, body.at as EpochMs);
    }
    assertInvariant(count > 0, 'T9', 'a refused transaction held records');
    if (this.#pending.some((entry) => entry.pressing)) this.#schedule();
    this.#start.progressed();
  }

  /** Where the writer stands: what is added after it can be taken back while nothing was written. */
  mark(): WriterMark {
    return {
      pending: [...this.#pending],
      seq: this.#seq,
      hash: this.#hash,
      written: this.#written.length,
      index: this.#index,
    };
  }

  /** Takes back what was added since a mark. Throws InvariantError when part of it was written already. */
  rewind(mark: WriterMark): void {
    assertInvariant(
      mark.index === this.#index && this.#flushing === null,
      'T1',
      'nothing was written since the mark',
    );
    this.#pending = [...mark.pending];
    this.#taken = [];
    this.#seq = mark.seq;
    this.#hash = mark.hash;
    this.#written.length = mark.written;
  }

  /** Takes the pending records for the transaction that ends the pass; its parts are put first. */
  async lastBatch(): Promise<Batch> {
    await this.settled();
    while (batchBytes(this.#pending) > limits.batchBytes && this.#end === null) {
      this.#flush();
      await this.settled();
    }
    const last = this.#pending;
    this.#pending = [];
    this.#taken = last;
    await this.#putParts(last);
    return this.#batch(last);
  }

  #add(
    facts: RecordFacts,
    payload: RecordPayload,
    wait: Pick<Pending, 'pressing' | 'acknowledged'>,
    at: EpochMs = this.#start.now(),
  ): RecordBody {
    const seq = this.#seq + 1;
    const { sealed, parts, place } = this.#seal(seq, payload);
    const body: RecordBody = {
      ...facts,
      seq,
      at,
      epoch: this.#start.writer.epoch,
      payload: place,
    };
    const encoded = encodeBody(body);
    assertRecordFits(seq, facts.kind, encoded);
    const hash = recordHash(this.#hash, encoded, sealed);
    this.#seq = seq;
    this.#hash = hash;
    this.#written.push(body);
    this.#pending.push({
      body,
      payload,
      stored: sealed === undefined ? { body: encoded, hash } : { body: encoded, sealed, hash },
      announces: facts.kind === 'EffectStarted' ? facts.key : null,
      bytes: encoded.length + (sealed?.byteLength ?? 0) + 96,
      parts,
      ...wait,
    });
    return body;
  }

  #seal(
    seq: number,
    payload: RecordPayload,
  ): { sealed?: Uint8Array; parts: PartSet | null; place: PayloadPlace } {
    if (this.#start.sealer.blind === true) return { parts: null, place: { kind: 'none' } };
    if (payload.kind !== 'text') return { parts: null, place: payload };
    const context = sealContext(this.#start.ref, 'record', seq);
    const { payload: kept, parts } = sealText(this.#start.sealer, context, payload.text);
    if (kept.kind === 'inline') return { sealed: kept.bytes, parts, place: { kind: 'beside' } };
    return { parts, place: kept };
  }

  #schedule(): void {
    if (this.#scheduled || this.#flushing !== null || this.#end !== null) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#flushing !== null || this.#end !== null || this.#pending.length === 0) return;
    const batch = this.#takeBatch();
    this.#flushing = this.#write(batch).then(
      (outcome) => this.#acknowledge(batch, outcome),
      (error: unknown) => this.#fail(error),
    );
  }

  #takeBatch(): Pending[] {
    let bytes = 0;
    let count = 0;
    for (const entry of this.#pending) {
      if (count > 0 && bytes + entry.bytes > limits.batchBytes) break;
      bytes += entry.bytes;
      count += 1;
    }
    const taken = this.#pending.slice(0, count);
    this.#pending = this.#pending.slice(count);
    return taken;
  }

  async #write(
    taken: readonly Pending[],
    lent: readonly LentEntry[] = [],
  ): Promise<Claimed | Appended> {
    await this.#putParts(taken);
    const batch = this.#batch(taken);
    if (!this.#held && this.#start.claim !== null) return this.#start.claim(batch);
    return this.#start.store.append({
      ref: this.#start.ref,
      writer: this.#start.writer,
      batch,
      announced: this.#announced,
      ...(lent.length === 0 ? {} : { lent }),
      now: this.#start.now(),
    });
  }

  #acknowledge(taken: readonly Pending[], outcome: Claimed | Appended): void {
    this.#flushing = null;
    if (outcome.kind === 'unknown') return this.#fail(outcome.cause);
    if (outcome.kind === 'lost') {
      if ('reason' in outcome && outcome.reason === 'already_announced') {
        return this.#fail(
          new TurnstoneError(
            'already_announced',
            `effect ${outcome.effectKey} was announced before`,
            {
              retry: 'never',
              details: { effectKey: outcome.effectKey },
            },
          ),
        );
      }
      this.#taken = taken;
      return this.#finish({ kind: this.#held ? 'displaced' : 'outrun' });
    }
    this.#held = true;
    this.#index += 1;
    for (const entry of taken) if (entry.announces !== null) this.#announced.add(entry.announces);
    this.#start.progressed();
    for (const entry of taken) entry.acknowledged?.();
    if (this.#pending.some((entry) => entry.pressing)) this.#schedule();
  }

  #fail(cause: unknown): void {
    this.#flushing = null;
    const error =
      cause instanceof TurnstoneError
        ? cause
        : new TurnstoneError('store_unavailable', 'a journal write has no known outcome', {
            retry: 'now',
            details: {},
            cause,
          });
    this.#finish({ kind: 'unavailable', error });
  }

  #finish(end: WriterEnd): void {
    if (this.#end !== null) return;
    this.#end = end;
    this.#signalEnd(end);
  }

  async #putParts(taken: readonly Pending[]): Promise<void> {
    const sets = taken.flatMap((entry) => (entry.parts === null ? [] : [entry.parts]));
    await Promise.all(sets.map((set) => this.#start.store.putParts(this.#start.ref.tenant, set)));
  }

  #batch(taken: readonly Pending[]): Batch {
    return {
      index: this.#index,
      records: taken.map((entry) => entry.stored),
      announces: taken.flatMap((entry) => (entry.announces === null ? [] : [entry.announces])),
    };
  }
}
