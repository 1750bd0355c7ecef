// Hashes over length-prefixed parts, so that no two lists of parts share their bytes.
import { createHash, createHmac } from 'node:crypto';

export type Part = string | number | Uint8Array;

const utf8 = new TextEncoder();

/** SHA-256 of bytes, or of a text's UTF-8. */
export function sha256(value: string | Uint8Array): Uint8Array {
  return createHash('sha256').update(value).digest();
}

/** SHA-256 over a domain and parts; each part is written as type, length and bytes. */
export function hashParts(domain: string, parts: readonly Part[]): Uint8Array {
  return sha256(framed(domain, parts));
}

/** HMAC-SHA256 over the same framing. */
export function hmacParts(secret: Uint8Array, domain: string, parts: readonly Part[]): Uint8Array {
  return createHmac('sha256', secret).update(framed(domain, parts)).digest();
}

/** Frames parts: a type byte (1 text, 2 integer, 3 bytes), a 64-bit big-endian length, the bytes. */
export function framed(domain: string, parts: readonly Part[]): Uint8Array {
  return Buffer.concat([frame(domain), ...parts.map(frame)]);
}

function frame(part: Part): Uint8Array {
  const type = typeof part === 'string' ? 1 : typeof part === 'number' ? 2 : 3;
  const bytes =
    typeof part === 'string' ? utf8.encode(part) : typeof part === 'number' ? integer(part) : part;
  const head = new Uint8Array(9);
  const view = new DataView(head.buffer);
  view.setUint8(0, type);
  view.setBigUint64(1, BigInt(bytes.byteLength));
  return Buffer.concat([head, bytes]);
}

function integer(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigInt64(0, BigInt(value));
  return bytes;
}

/** URL-safe base64 without padding. */
export function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url');
}

export function fromBase64url(text: string): Uint8Array {
  return Buffer.from(text, 'base64url');
}
