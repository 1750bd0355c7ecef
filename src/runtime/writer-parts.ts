// What a journal writer is made of: its start, its end, a pending record, a place to come back to.

import type { Batch, Claimed, PartSet, TurnRef, TurnStore, Writer } from '../ports/store.ts';
import type { Sealer } from '../ports/vault.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import type { RecordBody, StoredRecord } from '../protocol/record.ts';

/** Payload of a record: canonical text, or the digest of one that was too large to keep. */
export type RecordPayload =
  | { readonly kind: 'none' }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'lost'; readonly digest: string; readonly bytes: number };

/** A place in a writer to come back to. */
export interface WriterMark {
  readonly pending: readonly Pending[];
  readonly seq: number;
  readonly hash: string;
  readonly written: number;
  readonly index: number;
}

/** Why a writer can write no more. */
export type WriterEnd =
  | { readonly kind: 'displaced' }
  /** The thread was taken before this pass wrote anything: begin again. */
  | { readonly kind: 'outrun' }
  | { readonly kind: 'unavailable'; readonly error: TurnstoneError };

export interface WriterStart {
  readonly store: TurnStore;
  readonly ref: TurnRef;
  readonly sealer: Sealer;
  readonly writer: Writer;
  /** Position, sequence and chain head the journal stands at. */
  readonly index: number;
  readonly seq: number;
  readonly hash: string;
  readonly announced: Iterable<string>;
  now(): EpochMs;
  /** The first write of a pass that holds nothing yet; null when the head already names it. */
  readonly claim: ((batch: Batch) => Promise<Claimed>) | null;
  /** Called after every acknowledged write. */
  progressed(): void;
}

/** A record that is not written yet. */
export interface Pending {
  readonly body: RecordBody;
  readonly payload: RecordPayload;
  readonly stored: StoredRecord;
  readonly announces: string | null;
  readonly bytes: number;
  readonly parts: PartSet | null;
  /** Somebody waits for this record, or a crash before it would cost something. */
  readonly pressing: boolean;
  readonly acknowledged: (() => void) | null;
}

export function batchBytes(pending: readonly Pending[]): number {
  return pending.reduce((sum, entry) => sum + entry.bytes, 0);
}

/** Bytes of a payload that may stand beside its record. */
export function inlineBytes(payload: RecordPayload): number {
  return payload.kind === 'text'
    ? Math.min(Buffer.byteLength(payload.text), limits.inlinePayloadBytes)
    : 0;
}

/** CH-4: a record over the ceiling is refused whole, never cut; payloads have a ceiling of their own. */
export function assertRecordFits(seq: number, kind: string, encoded: string): void {
  const bytes = Buffer.byteLength(encoded);
  if (bytes <= limits.recordBodyBytes) return;
  throw new TurnstoneError(
    'record_too_large',
    `record ${seq} (${kind}): expected at most ${limits.recordBodyBytes} bytes (recordBodyBytes), got ${bytes}`,
    {
      retry: 'never',
      details: { limit: 'recordBodyBytes', max: limits.recordBodyBytes, size: bytes },
    },
  );
}
