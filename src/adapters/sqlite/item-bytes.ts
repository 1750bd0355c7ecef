// The stored form of an item in a SQLite row: JSON of its attributes, then the bytes it refers to.
//   [JSON length, 4 bytes little endian][JSON][bytes ...]; bytes stand in the JSON as {"$": [from, length]}.
import { TurnstoneError } from '../../protocol/errors.ts';
import type { Attr, Item } from '../table/driver.ts';

const prefix = 4;

export function itemToBytes(item: Item): Uint8Array {
  const blobs: Uint8Array[] = [];
  let offset = 0;
  const strip = (value: Attr): unknown => {
    if (value instanceof Uint8Array) {
      const place = { $: [offset, value.byteLength] };
      blobs.push(value);
      offset += value.byteLength;
      return place;
    }
    if (Array.isArray(value)) return value.map(strip);
    if (typeof value === 'object' && value !== null) {
      return Object.fromEntries(
        Object.entries(value).map(([name, member]) => [name, strip(member)]),
      );
    }
    return value;
  };
  const json = Buffer.from(JSON.stringify(strip(item)), 'utf8');
  const head = Buffer.alloc(prefix);
  head.writeUInt32LE(json.byteLength);
  return Buffer.concat([head, json, ...blobs]);
}

/** Throws `record_skew` when the bytes are not an item. */
export function itemFromBytes(bytes: Uint8Array): Item {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const from = prefix + buffer.readUInt32LE(0);
  const parsed: unknown = JSON.parse(buffer.toString('utf8', prefix, from));
  const item: Record<string, Attr> = {};
  for (const [name, value] of members(parsed)) item[name] = restore(value, bytes.subarray(from));
  return item;
}

function restore(value: unknown, blobs: Uint8Array): Attr {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
    return value;
  }
  if (value === null) return null;
  if (Array.isArray(value)) return value.map((element) => restore(element, blobs));
  const entries = members(value);
  const [first] = entries;
  if (first !== undefined && first[0] === '$' && Array.isArray(first[1])) {
    const [from, length] = first[1];
    if (typeof from !== 'number' || typeof length !== 'number') throw unreadable();
    return blobs.subarray(from, from + length);
  }
  return Object.fromEntries(entries.map(([name, member]) => [name, restore(member, blobs)]));
}

function members(value: unknown): [string, unknown][] {
  if (typeof value !== 'object' || value === null) throw unreadable();
  return Object.entries(value);
}

function unreadable(): TurnstoneError {
  return new TurnstoneError('record_skew', 'a stored row is not an item', { retry: 'never' });
}
