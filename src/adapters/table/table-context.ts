// What every verb of the table store works with.
import type { Attr, Item, RetryTools, TableDriver } from './driver.ts';
import type { Names } from './names.ts';

export interface TableContext {
  readonly driver: TableDriver;
  readonly names: Names;
  /** Partitions the work rows are spread over. */
  readonly shards: number;
  readonly retry: RetryTools;
}

/** Waits before round `round` (from 1): random up to a doubling bound, so that rivals part ways. */
export function backOff(
  retry: RetryTools,
  round: number,
  firstMs: number,
  mostMs: number,
): Promise<void> {
  const bound = Math.min(mostMs, firstMs * 2 ** Math.min(round - 1, 20));
  return retry.sleep(Math.ceil(bound * (0.5 + retry.random() / 2)));
}

/** Equality of stored values, byte for byte. */
export function sameAttr(left: Attr | undefined, right: Attr | undefined): boolean {
  if (left === right) return true;
  if (left instanceof Uint8Array || right instanceof Uint8Array) {
    return left instanceof Uint8Array && right instanceof Uint8Array && sameBytes(left, right);
  }
  if (Array.isArray(left) || Array.isArray(right)) {
    if (!Array.isArray(left) || !Array.isArray(right)) return false;
    return left.length === right.length && left.every((item, at) => sameAttr(item, right[at]));
  }
  if (!isMap(left) || !isMap(right)) return false;
  const names = Object.keys(left);
  return (
    names.length === Object.keys(right).length &&
    names.every((name) => sameAttr(left[name], right[name]))
  );
}

function sameBytes(left: Uint8Array, right: Uint8Array): boolean {
  return Buffer.compare(left, right) === 0;
}

function isMap(value: Attr | undefined): value is Item {
  return typeof value === 'object' && value !== null;
}
