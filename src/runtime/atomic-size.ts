// What the atomic members of a group weigh in its one transaction, judged as each is registered (E329).
//   T11  the limits of a transaction are met before anything of the group runs, with the limit named.
import { encode } from '../protocol/canonical.ts';
import { limits } from '../protocol/limits.ts';
import type { AtomicEffect } from './turn-context.ts';

/** Bytes of an announcement and its record without the names in them. */
const recordPairBytes = 900;

export interface Overweight {
  readonly expected: string;
  readonly got: string;
}

export class AtomicLoad {
  #entries = 0;
  #records = 0;

  /** Counts one member, or answers the limit it would pass and counts nothing. */
  add(
    effect: AtomicEffect,
    entries: readonly unknown[],
    place: { readonly step: string; readonly group: string },
  ): Overweight | null {
    const sizes = entries.map(entryBytes);
    const largest = Math.max(...sizes);
    if (largest > limits.itemBytes)
      return over('bytes an entry', 'itemBytes', limits.itemBytes, largest);
    const records = this.#records + recordBytes(effect, place);
    if (records > limits.batchBytes)
      return over('bytes of records in a group', 'batchBytes', limits.batchBytes, records);
    const all = this.#entries + sizes.reduce((sum, bytes) => sum + bytes, 0);
    const most = limits.transactionBytes - limits.batchBytes;
    if (all > most) return over('bytes in a group', 'transactionBytes less its records', most, all);
    this.#records = records;
    this.#entries = all;
    return null;
  }
}

function over(what: string, limit: string, most: number, got: number): Overweight {
  return { expected: `at most ${most} ${what} (${limit})`, got: `${got}` };
}

/** Bytes of any entry as it travels: text in UTF-8, bytes as they are, names counted. */
function entryBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (value instanceof Uint8Array) return value.byteLength;
  if (typeof value !== 'object' || value === null) return 8;
  return Object.entries(value).reduce(
    (sum, [name, member]) => sum + Buffer.byteLength(name) + entryBytes(member) + 1,
    3,
  );
}

/** Bytes a member's two records add to the position; arguments over the inline limit stand elsewhere. */
function recordBytes(
  { kind, args }: AtomicEffect,
  { step, group }: { readonly step: string; readonly group: string },
): number {
  const names = Buffer.byteLength(kind) + Buffer.byteLength(group) + 2 * Buffer.byteLength(step);
  const beside = Math.min(Buffer.byteLength(encode(args)), limits.inlinePayloadBytes);
  return recordPairBytes + names + beside;
}
