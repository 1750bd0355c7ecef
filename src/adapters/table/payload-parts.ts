// Large sealed payloads: cut into parts under keys of their own, put before the write that names them (B4).
//   T5  plain puts of content-addressed bytes: putting them twice changes nothing.
//   T13 what comes back is checked against its digest.

import type { PartSet } from '../../ports/store.ts';
import { base64url, sha256 } from '../../protocol/digest.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import type { TenantId } from '../../protocol/ids.ts';
import { limits } from '../../protocol/limits.ts';
import { ItemReader } from './item-reader.ts';
import { partKey } from './layout.ts';
import { inTurns, missing, putPlain } from './reads.ts';
import type { TableContext } from './table-context.ts';

const putsAtOnce = 4;

/** Stores all parts; throws `record_too_large` for a part over `limits.partBytes`. */
export async function putParts(table: TableContext, tenant: TenantId, set: PartSet): Promise<void> {
  for (const part of set.parts) {
    if (part.byteLength > limits.partBytes) throw tooLarge(part.byteLength);
  }
  const hash = await table.names.part(tenant, set.digest);
  await inTurns(set.parts, putsAtOnce, async (bytes, index) => {
    await putPlain(table, {
      kind: 'put',
      key: partKey(hash, index),
      item: { b: bytes, n: set.parts.length },
      when: [],
    });
  });
}

/** All bytes in order; `payload_missing` when one is gone, `payload_unreadable` when the digest differs. */
export async function getParts(
  table: TableContext,
  tenant: TenantId,
  ref: { readonly digest: string; readonly count: number },
): Promise<Uint8Array> {
  const hash = await table.names.part(tenant, ref.digest);
  const keys = Array.from({ length: ref.count }, (_, index) => partKey(hash, index));
  const items = await table.driver.batchGet(keys);
  const parts = items.map((item, index) => {
    if (item === null) throw missing(`part ${index} of ${ref.digest}`);
    return new ItemReader('PART', item).bytes('b');
  });
  const whole = Buffer.concat(parts);
  const found = base64url(sha256(whole));
  if (found !== ref.digest) {
    throw new TurnstoneError('payload_unreadable', `parts of ${ref.digest} have digest ${found}`, {
      retry: 'never',
      details: { expected: ref.digest, got: found },
    });
  }
  return whole;
}

/** Removes the parts of a payload that nothing names any more. */
export async function dropParts(
  table: TableContext,
  tenant: TenantId,
  ref: { readonly digest: string; readonly count: number },
): Promise<void> {
  const hash = await table.names.part(tenant, ref.digest);
  const places = Array.from({ length: ref.count }, (_, index) => partKey(hash, index));
  await inTurns(places, putsAtOnce, (key) => putPlain(table, { kind: 'delete', key, when: [] }));
}

function tooLarge(size: number): TurnstoneError {
  return new TurnstoneError(
    'record_too_large',
    `part: expected at most ${limits.partBytes} bytes (partBytes), got ${size}`,
    { retry: 'never', details: { limit: 'partBytes', max: limits.partBytes, size } },
  );
}
