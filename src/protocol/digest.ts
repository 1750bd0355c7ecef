// Hashes over length-prefixed parts, so that no two lists of parts share their bytes.
import { createHash, createHmac } from 'node:crypto';

export type Part = string | number | Uint8Array;

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
  let length = 9 + Buffer.byteLength(domain);
  for (const part of parts) length += 9 + partBytes(part);
  const out = Buffer.allocUnsafe(length);
  let at = writePart(out, 0, domain);
  for (const part of parts) at = writePart(out, at, part);
  return out;
}

function partBytes(part: Part): number {
  if (typeof part === 'string') return Buffer.byteLength(part);
  return typeof part === 'number' ? 8 : part.byteLength;
}

function writePart(out: Buffer, at: number, part: Part): number {
  const bytes = partBytes(part);
  out.writeUInt8(typeof part === 'string' ? 1 : typeof part === 'number' ? 2 : 3, at);
  out.writeBigUInt64BE(BigInt(bytes), at + 1);
  if (typeof part === 'string') out.write(part, at + 9, 'utf8');
  else if (typeof part === 'number') out.writeBigInt64BE(BigInt(part), at + 9);
  else out.set(part, at + 9);
  return at + 9 + bytes;
}

/** URL-safe base64 without padding. */
export function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url');
}

export function fromBase64url(text: string): Uint8Array {
  return Buffer.from(text, 'base64url');
}
