// Reads attributes of a stored item into typed values; what does not fit is named, never guessed.
//   T13  an item that cannot be read throws `record_skew` with item kind, attribute, expected and found.
import { TurnstoneError } from '../../protocol/errors.ts';
import type { Attr, Item } from './driver.ts';

export class ItemReader {
  readonly #what: string;
  readonly #item: Item;

  constructor(what: string, item: Item) {
    this.#what = what;
    this.#item = item;
  }

  has(name: string): boolean {
    return this.#item[name] !== undefined;
  }

  text(name: string): string {
    return asText(this.#at(name), this.#item[name]);
  }

  textOrNull(name: string): string | null {
    return this.has(name) ? this.text(name) : null;
  }

  /** A safe integer; an absent one is 0. */
  count(name: string): number {
    return this.has(name) ? asCount(this.#at(name), this.#item[name]) : 0;
  }

  countOrNull(name: string): number | null {
    return this.has(name) ? this.count(name) : null;
  }

  bytes(name: string): Uint8Array {
    return asBytes(this.#at(name), this.#item[name]);
  }

  bytesOrNull(name: string): Uint8Array | null {
    return this.has(name) ? this.bytes(name) : null;
  }

  /** A list; an absent one is empty. */
  list(name: string): readonly Attr[] {
    return this.has(name) ? asList(this.#at(name), this.#item[name]) : [];
  }

  value(name: string): Attr | undefined {
    return this.#item[name];
  }

  #at(name: string): string {
    return `${this.#what}.${name}`;
  }
}

export function asText(where: string, value: Attr | undefined): string {
  if (typeof value !== 'string') throw skew(where, 'text', value);
  return value;
}

export function asCount(where: string, value: Attr | undefined): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) {
    throw skew(where, 'an integer', value);
  }
  return value;
}

export function asBytes(where: string, value: Attr | undefined): Uint8Array {
  if (!(value instanceof Uint8Array)) throw skew(where, 'bytes', value);
  return value;
}

export function asList(where: string, value: Attr | undefined): readonly Attr[] {
  if (!Array.isArray(value)) throw skew(where, 'a list', value);
  return value;
}

/** The error for an attribute this version cannot read. */
export function skew(where: string, expected: string, value: Attr | undefined): TurnstoneError {
  const got = value === undefined ? 'nothing' : value === null ? 'null' : typeof value;
  return new TurnstoneError('record_skew', `stored ${where}: expected ${expected}, got ${got}`, {
    retry: 'never',
    details: { where, expected, got },
  });
}
