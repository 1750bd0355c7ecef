// The part of the store port that keeps receipts: one row for each business key of a thread.
//
// A row points at the dispatch that uses its key; what came of it is the journal's word, so there is one truth.
//   T2, T5  a row is taken before its dispatch is announced, by one conditional write (K-35).
import type { EpochMs, TenantId, TurnId } from '../protocol/ids.ts';
import type { Site } from '../protocol/record.ts';
import type { SealedPayload, ThreadRef, Unknown } from './store.ts';

export interface ReceiptRow {
  /** Names thread and key; URL-safe. */
  readonly id: string;
  readonly thread: ThreadRef;
  readonly effect: string;
  /** Keyed digest of the arguments, under the row's scope (decision 13). */
  readonly argsDigest: string;
  readonly scope: string;
  /** Sealed business key. */
  readonly payload: SealedPayload;
  /** The dispatch that holds the key. */
  readonly turn: TurnId;
  readonly site: Site;
  /** A person's word on a key whose turn was written off: its journal takes no more (CH-5). */
  readonly asserted?: {
    readonly outcome: 'landed' | 'did_not_happen';
    readonly by: string;
    readonly at: EpochMs;
    /** Sealed output and note. */
    readonly payload: SealedPayload;
  };
  readonly createdAt: EpochMs;
  readonly updatedAt: EpochMs;
}

export type Reserved =
  | { readonly kind: 'done' }
  | { readonly kind: 'lost'; readonly receipt: ReceiptRow | null }
  | Unknown;

export interface ReceiptStore {
  /** Id of the receipt of one (kind, key) in a thread. */
  receiptId(thread: ThreadRef, kind: string, key: string): Promise<string>;
  /** A receipt by its id; null when it is not this tenant's. */
  receipt(tenant: TenantId, id: string): Promise<ReceiptRow | null>;
  /** Every receipt of a thread. */
  receipts(thread: ThreadRef): Promise<readonly ReceiptRow[]>;
  /** Takes a key, or adds a person's word: absent, or as it was seen. */
  reserve(row: ReceiptRow, seen: ReceiptRow | null): Promise<Reserved>;
}
