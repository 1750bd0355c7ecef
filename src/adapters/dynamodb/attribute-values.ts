// Items of the table store to and from the SDK's attribute values.
import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { TurnstoneError } from '../../protocol/errors.ts';
import type { Attr, Item, ItemKey } from '../table/driver.ts';

export type AttributeMap = Record<string, AttributeValue>;

export function toAttribute(value: Attr): AttributeValue {
  if (typeof value === 'string') return { S: value };
  if (typeof value === 'number') return { N: String(value) };
  if (typeof value === 'boolean') return { BOOL: value };
  if (value === null) return { NULL: true };
  if (value instanceof Uint8Array) return { B: value };
  if (isList(value)) return { L: value.map(toAttribute) };
  return { M: toAttributes(value) };
}

export function toAttributes(item: Item): AttributeMap {
  return Object.fromEntries(
    Object.entries(item).map(([name, value]) => [name, toAttribute(value)]),
  );
}

export function toKey(key: Pick<ItemKey, 'pk' | 'sk'>): AttributeMap {
  return { pk: { S: key.pk }, sk: { S: key.sk } };
}

/** The attributes of a returned item, without its key. */
export function fromAttributes(map: AttributeMap): Item {
  const item: Record<string, Attr> = {};
  for (const [name, value] of Object.entries(map)) {
    if (name !== 'pk' && name !== 'sk') item[name] = fromAttribute(value);
  }
  return item;
}

/** The key of a returned item. */
export function keyOf(map: AttributeMap): { readonly pk: string; readonly sk: string } {
  const { pk, sk } = map;
  if (pk?.S === undefined || sk?.S === undefined) throw foreign('an item without a key');
  return { pk: pk.S, sk: sk.S };
}

function fromAttribute(value: AttributeValue): Attr {
  if (value.S !== undefined) return value.S;
  if (value.N !== undefined) return Number(value.N);
  if (value.BOOL !== undefined) return value.BOOL;
  if (value.NULL !== undefined) return null;
  if (value.B !== undefined) return value.B;
  if (value.L !== undefined) return value.L.map(fromAttribute);
  if (value.M !== undefined) {
    return Object.fromEntries(
      Object.entries(value.M).map(([name, member]) => [name, fromAttribute(member)]),
    );
  }
  throw foreign('an attribute of an unknown type');
}

function isList(value: Attr): value is readonly Attr[] {
  return Array.isArray(value);
}

function foreign(what: string): TurnstoneError {
  return new TurnstoneError('record_skew', `the table returned ${what}`, { retry: 'never' });
}
