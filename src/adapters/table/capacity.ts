// Sizes and capacity units by the published rules (page 04, 1.1), computed from requests, never asked of
// an endpoint: emulators answer flat figures.
//   T11 every size limit is tested here, before a request leaves, with the limit named.
import { TurnstoneError } from '../../protocol/errors.ts';
import { limits } from '../../protocol/limits.ts';
import type { Attr, Item, ItemKey, WriteOp } from './driver.ts';

const kilobyte = 1024;

/** Bytes of text as stored: UTF-8, a lone surrogate counts as its replacement. */
export function utf8Bytes(text: string): number {
  return Buffer.byteLength(text, 'utf8');
}

/** Bytes of one value: numbers by significant digits, one byte for a flag or null, three and one each for a list or map. */
export function attrBytes(value: Attr): number {
  if (typeof value === 'string') return utf8Bytes(value);
  if (typeof value === 'number') return numberBytes(value);
  if (typeof value === 'boolean' || value === null) return 1;
  if (value instanceof Uint8Array) return value.byteLength;
  if (isList(value)) return value.reduce<number>((sum, element) => sum + 1 + attrBytes(element), 3);
  return Object.entries(value).reduce(
    (sum, [name, member]) => sum + 1 + utf8Bytes(name) + attrBytes(member),
    3,
  );
}

/** Bytes of an item with its key, names counted; 0 for no item. */
export function itemBytes(key: ItemKey, item: Item | null): number {
  if (item === null) return 0;
  return keyBytes(key) + attrsBytes(item);
}

/** Write units of one action on the larger of the images before and after; at least one kilobyte. */
export function writeUnits(largerBytes: number, transactional: boolean): number {
  return Math.max(1, Math.ceil(largerBytes / kilobyte)) * (transactional ? 2 : 1);
}

/** Read units of one consistent read; an absent item costs as much as a small one. */
export function readUnits(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / (4 * kilobyte)));
}

/**
 * Bytes a request is charged for, from the request alone: a put by its item, an update by the members
 * it sets, a check or delete by its key. The image before, where an engine knows it, is the caller's to add.
 */
export function requestBytes(op: WriteOp): number {
  switch (op.kind) {
    case 'put':
      return itemBytes(op.key, op.item);
    case 'update':
      return (
        keyBytes(op.key) +
        attrsBytes(op.change.set ?? {}) +
        attrsBytes(op.change.append ?? {}) +
        attrsBytes(op.change.add ?? {})
      );
    case 'delete':
    case 'check':
      return keyBytes(op.key);
  }
}

/** Write units of a whole request, from the request alone; what is lent is not counted. */
export function requestUnits(ops: readonly WriteOp[], lent = 0): number {
  return ops.reduce((sum, op) => sum + writeUnits(requestBytes(op), ops.length + lent > 1), 0);
}

/** Refuses an item over `limits.itemBytes` by name, before it is sent. */
export function assertItemFits(key: ItemKey, bytes: number): void {
  if (bytes <= limits.itemBytes) return;
  throw tooLarge('itemBytes', limits.itemBytes, bytes, key.sk);
}

/** Refuses a request over the item, transaction-count or transaction-size limit, before it is sent. */
export function assertRequestFits(ops: readonly WriteOp[], lent = 0): void {
  for (const op of ops) assertItemFits(op.key, requestBytes(op));
  const count = ops.length + lent;
  if (count < 2) return;
  if (count > limits.transactionItems) {
    throw tooLarge('transactionItems', limits.transactionItems, count, 'transaction');
  }
  const bytes = ops.reduce((sum, op) => sum + requestBytes(op), 0);
  if (bytes > limits.transactionBytes) {
    throw tooLarge('transactionBytes', limits.transactionBytes, bytes, 'transaction');
  }
}

function keyBytes(key: ItemKey): number {
  return 'pk'.length + utf8Bytes(key.pk) + 'sk'.length + utf8Bytes(key.sk);
}

function attrsBytes(item: Item): number {
  return Object.entries(item).reduce(
    (sum, [name, value]) => sum + utf8Bytes(name) + attrBytes(value),
    0,
  );
}

/** One byte and one more for each two significant digits, plus one for a sign. */
function numberBytes(value: number): number {
  const digits = String(Math.abs(value)).replace(/^0+|0+$/g, '');
  return Math.ceil(digits.length / 2) + 1 + (value < 0 ? 1 : 0);
}

function isList(value: Attr): value is readonly Attr[] {
  return Array.isArray(value);
}

function tooLarge(limit: string, most: number, got: number, what: string): TurnstoneError {
  return new TurnstoneError(
    'record_too_large',
    `${what}: expected at most ${most} (${limit}), got ${got}`,
    { retry: 'never', details: { limit, max: most, size: got } },
  );
}
