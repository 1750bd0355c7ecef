// Sealing of values for one scope: inline up to a limit, in parts above it.
//   T5   parts are put before the write that names them, never after.
//   T12  nothing leaves here in clear.

import type { PartSet, SealedPayload, TurnRef, TurnStore } from '../ports/store.ts';
import type { SealContext, Sealer } from '../ports/vault.ts';
import { decode, encode } from '../protocol/canonical.ts';
import { base64url, sha256 } from '../protocol/digest.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';

const utf8 = new TextEncoder();
const text = new TextDecoder();

/** A sealed value and the parts that must be stored before anything names it. */
export interface SealedValue {
  readonly payload: SealedPayload;
  readonly parts: PartSet | null;
}

/** Where a payload belongs: `use` and `at` are authenticated with it. */
export function sealContext(ref: TurnRef, use: string, at: number): SealContext {
  return { tenant: ref.tenant, thread: ref.thread, turn: ref.turn, use, at };
}

/** Seals canonical text; above `limits.inlinePayloadBytes` it goes to parts. Throws `payload_too_large`. */
export function sealText(sealer: Sealer, context: SealContext, plain: string): SealedValue {
  return sealBytes(sealer, context, utf8.encode(plain), limits.inlinePayloadBytes);
}

/** Seals bytes; above `inlineBytes` they go to parts. Throws `payload_too_large`. */
export function sealBytes(
  sealer: Sealer,
  context: SealContext,
  bytes: Uint8Array,
  inlineBytes: number,
): SealedValue {
  if (bytes.byteLength > limits.payloadBytesMax) {
    throw new TurnstoneError(
      'payload_too_large',
      `${context.use}: expected at most ${limits.payloadBytesMax} bytes, got ${bytes.byteLength}`,
      { retry: 'never', details: { limit: limits.payloadBytesMax, size: bytes.byteLength } },
    );
  }
  const sealed = sealer.seal(bytes, context);
  if (bytes.byteLength <= inlineBytes) {
    return { payload: { kind: 'inline', bytes: sealed }, parts: null };
  }
  const parts: Uint8Array[] = [];
  for (let from = 0; from < sealed.byteLength; from += limits.partBytes) {
    parts.push(sealed.subarray(from, from + limits.partBytes));
  }
  const digest = base64url(sha256(sealed));
  return {
    payload: { kind: 'parts', digest, count: parts.length, bytes: bytes.byteLength },
    parts: { digest, parts },
  };
}

/** Seals any storable value; throws CodecError before anything acts when it is not storable. */
export function sealValue(sealer: Sealer, context: SealContext, value: unknown): SealedValue {
  return sealText(sealer, context, encode(value));
}

/** Opens a payload, reading parts where it has any. */
export async function openPayload(
  store: TurnStore,
  sealer: Sealer,
  context: SealContext,
  payload: SealedPayload,
): Promise<unknown> {
  return decode(text.decode(await openBytes(store, sealer, context, payload)));
}

/** The bytes of a payload, reading parts where it has any. */
export async function openBytes(
  store: Pick<TurnStore, 'getParts'>,
  sealer: Sealer,
  context: SealContext,
  payload: SealedPayload,
): Promise<Uint8Array> {
  const sealed =
    payload.kind === 'inline' ? payload.bytes : await store.getParts(context.tenant, payload);
  return sealer.open(sealed, context);
}
