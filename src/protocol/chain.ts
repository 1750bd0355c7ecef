// The hash chain of a journal: each record commits to its stored bytes and to the one before it.
//   T13  verification never re-serialises; it names the first bad record (CH-1).
import { base64url, hashParts } from './digest.ts';

/** What the first record links to. */
export const genesisHash: string = base64url(new Uint8Array(32));

/** Hash of a record: its predecessor's hash, its stored body and its sealed payload (ciphertext, ER-7). */
export function recordHash(prev: string, body: string, sealed?: Uint8Array): string {
  return base64url(hashParts('turnstone.record.1', [prev, body, sealed ?? new Uint8Array(0)]));
}

export interface ChainLink {
  readonly seq: number;
  readonly body: string;
  readonly sealed?: Uint8Array;
  readonly prevHash: string;
  readonly hash: string;
}

export type ChainVerdict =
  | { readonly ok: true; readonly seq: number; readonly hash: string }
  | {
      readonly ok: false;
      readonly firstBad: number;
      readonly reason: 'gap' | 'link' | 'hash' | 'truncated' | 'head';
    };

/** Verifies records in order, and against a head kept apart when one is given (tail truncation). */
export function verifyChain(
  links: readonly ChainLink[],
  head?: { readonly seq: number; readonly hash: string },
): ChainVerdict {
  let prev = genesisHash;
  for (const [index, link] of links.entries()) {
    const seq = index + 1;
    if (link.seq !== seq) return { ok: false, firstBad: seq, reason: 'gap' };
    if (link.prevHash !== prev) return { ok: false, firstBad: seq, reason: 'link' };
    if (recordHash(prev, link.body, link.sealed) !== link.hash) {
      return { ok: false, firstBad: seq, reason: 'hash' };
    }
    prev = link.hash;
    if (head !== undefined && head.seq === seq && head.hash !== link.hash) {
      return { ok: false, firstBad: seq, reason: 'head' };
    }
  }
  if (head !== undefined && head.seq > links.length) {
    return { ok: false, firstBad: links.length + 1, reason: 'truncated' };
  }
  return { ok: true, seq: links.length, hash: prev };
}
