// Sealing of every stored or queued payload (ruling 22).
//
// Owns: turning plain bytes into sealed bytes under a scope's key and back, and keyed digests.
// Does not own: where key rows live (the store) or who may read.
//   T12  bytes sealed under an erased key cannot be opened: a row without a wrapped key has no sealer.
import type { TenantId, ThreadId, TurnId } from '../protocol/ids.ts';
import type { KeyRow } from './subjects.ts';

/** What a payload is bound to; moved ciphertext fails to open. Every field is authenticated. */
export interface SealContext {
  readonly tenant: TenantId;
  readonly thread: ThreadId;
  readonly turn: TurnId | '';
  /** What the payload is: `record`, `view`, `checkpoint`, `accept`, `entry`. */
  readonly use: string;
  /** Position of the payload among its like: record seq, checkpoint revision. */
  readonly at: number;
}

/** Seals and opens under one data key, loaded once. */
export interface Sealer {
  /** Set on the sealer of an erased subject: nothing is kept under it. */
  readonly blind?: true;
  readonly scope: string;
  readonly generation: number;
  seal(plain: Uint8Array, context: SealContext): Uint8Array;
  /** Throws `payload_unreadable` when the bytes or the context were changed. */
  open(sealed: Uint8Array, context: SealContext): Uint8Array;
  /** Keyed digest (HMAC under the scope's key), base64url (decision 23). */
  mac(domain: string, bytes: Uint8Array): string;
}

export interface Vault {
  /** A fresh wrapped key for a scope; the caller stores the row. Throws `key_service_unavailable`. */
  create(tenant: TenantId, scope: string, generation: number): Promise<KeyRow>;
  /** The sealer of a row read consistently just now. Throws `subject_erased` for a row without a key. */
  sealer(tenant: TenantId, row: KeyRow): Promise<Sealer>;
}
