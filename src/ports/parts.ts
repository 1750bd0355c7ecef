// The part of the store port that keeps large sealed payloads: cut into parts, addressed by the digest of the whole.
//   T5   parts are put before the write that names them, and putting them twice changes nothing.
import type { TenantId } from '../protocol/ids.ts';

/** A sealed part set: bytes cut at the safe item size, addressed by the digest of the whole. */
export interface PartSet {
  readonly digest: string;
  readonly parts: readonly Uint8Array[];
}

export interface PartStore {
  /** Content-addressed sealed parts, put before the write that names them. Idempotent. */
  putParts(tenant: TenantId, set: PartSet): Promise<void>;
  /** Removes the parts of a payload that nothing names any more. Idempotent. */
  dropParts(
    tenant: TenantId,
    ref: { readonly digest: string; readonly count: number },
  ): Promise<void>;
  /** All bytes of a part set; throws `payload_missing` naming the digest when a part is gone. */
  getParts(tenant: TenantId, ref: { digest: string; count: number }): Promise<Uint8Array>;
}
