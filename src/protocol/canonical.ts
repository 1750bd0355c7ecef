// The one encoder whose bytes are stored and hashed: RFC 8785 JSON under a versioned, tagged codec.
//
// Plain JSON values encode to plain RFC 8785 JSON. A value JSON would change (BigInt, Date, Map, Set,
// bytes, undefined, NaN, infinities, minus zero) is tagged `{"$ts": [tag, ...]}` and comes back equal;
// what cannot come back equal is refused with its path before anything acts. Bytes come back as Uint8Array.
import canonicalize from 'canonicalize';
import { base64url, fromBase64url, sha256 } from './digest.ts';
import { TurnstoneError } from './errors.ts';
import { limits } from './limits.ts';

/** Recorded with each admission; a journal of another version is unverifiable, never divergent (EK-6). */
export const canonicalVersion = 1;

const tagKey = '$ts';

/** A value that storage would change: names its path, what was expected and what came. */
export class CodecError extends TurnstoneError {
  override readonly name = 'CodecError';
  constructor(path: string, got: string) {
    const expected = 'a value that comes back equal from storage';
    super(
      'value_not_storable',
      `${path === '' ? 'value' : path}: expected ${expected}, got ${got}`,
      {
        retry: 'never',
        details: { path, expected, got },
      },
    );
  }
}

/** Canonical text of a value; throws CodecError when it would not come back equal. */
export function encode(value: unknown): string {
  // `toJson` leaves nothing that JSON would leave out, so there always is a text.
  return canonicalize(toJson(value, '', 0, new Set())) as string;
}

/** The value of a canonical text. */
export function decode(text: string): unknown {
  return fromJson(JSON.parse(text));
}

/** SHA-256 of a value's canonical text, base64url. */
export function digestOf(value: unknown): string {
  return base64url(sha256(encode(value)));
}

function toJson(value: unknown, path: string, depth: number, above: Set<object>): unknown {
  if (depth > limits.valueDepth)
    throw new CodecError(path, `nesting deeper than ${limits.valueDepth}`);
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) throw new CodecError(path, 'a text with a lone surrogate');
      return value;
    case 'boolean':
      return value;
    case 'number':
      return numberToJson(value);
    case 'bigint':
      return { [tagKey]: ['bigint', value.toString()] };
    case 'undefined':
      return { [tagKey]: ['undefined'] };
    case 'object':
      return value === null ? null : objectToJson(value, path, depth, above);
    default:
      throw new CodecError(path, `a ${typeof value}`);
  }
}

function numberToJson(value: number): unknown {
  if (Number.isFinite(value) && !Object.is(value, -0)) return value;
  return { [tagKey]: ['number', Object.is(value, -0) ? '-0' : String(value)] };
}

function objectToJson(value: object, path: string, depth: number, above: Set<object>): unknown {
  if (above.has(value)) throw new CodecError(path, 'a cycle');
  above.add(value);
  try {
    return compositeToJson(value, path, depth, above);
  } catch (error) {
    if (error instanceof CodecError) throw error;
    throw new CodecError(path, 'a value that throws when it is read');
  } finally {
    above.delete(value);
  }
}

function compositeToJson(value: object, path: string, depth: number, above: Set<object>): unknown {
  const inner = (item: unknown, at: string): unknown => toJson(item, at, depth + 1, above);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (Array.isArray(value)) return arrayToJson(value, path, prototype, inner);
  if (prototype === Object.prototype || prototype === null) return recordToJson(value, path, inner);
  if (value instanceof Date && prototype === Date.prototype) {
    const instant = value.getTime();
    if (Number.isNaN(instant)) throw new CodecError(path, 'an invalid Date');
    return { [tagKey]: ['date', value.toISOString()] };
  }
  if (value instanceof Map && prototype === Map.prototype) {
    const entries = [...value].map(([key, item], index) => [
      inner(key, `${path}.key(${index})`),
      inner(item, `${path}.get(${index})`),
    ]);
    return { [tagKey]: ['map', entries] };
  }
  if (value instanceof Set && prototype === Set.prototype) {
    return {
      [tagKey]: ['set', [...value].map((item, index) => inner(item, `${path}.item(${index})`))],
    };
  }
  if (
    value instanceof Uint8Array &&
    (prototype === Uint8Array.prototype || Buffer.isBuffer(value))
  ) {
    return { [tagKey]: ['bytes', base64url(value)] };
  }
  throw new CodecError(path, `an instance of ${className(value)}`);
}

function arrayToJson(
  value: readonly unknown[],
  path: string,
  prototype: unknown,
  inner: (item: unknown, at: string) => unknown,
): unknown {
  if (prototype !== Array.prototype) throw new CodecError(path, 'a subclass of Array');
  if (Reflect.ownKeys(value).length !== value.length + 1) {
    throw new CodecError(path, 'an array with holes or extra members');
  }
  return value.map((item, index) => inner(item, `${path}[${index}]`));
}

function recordToJson(
  value: object,
  path: string,
  inner: (item: unknown, at: string) => unknown,
): unknown {
  const members: [string, unknown][] = [];
  for (const key of Reflect.ownKeys(value)) {
    const at = path === '' ? String(key) : `${path}.${String(key)}`;
    if (typeof key === 'symbol') throw new CodecError(at, 'a symbol key');
    if (!key.isWellFormed()) throw new CodecError(path, 'a key with a lone surrogate');
    const descriptor = Object.getOwnPropertyDescriptor(value, key);
    if (descriptor === undefined || !('value' in descriptor))
      throw new CodecError(at, 'an accessor');
    if (descriptor.enumerable !== true) throw new CodecError(at, 'a hidden member');
    if (key === 'toJSON' && typeof descriptor.value === 'function') {
      throw new CodecError(at, 'an object with toJSON');
    }
    members.push([key, inner(descriptor.value, at)]);
  }
  if (members.some(([key]) => key === tagKey)) {
    return { [tagKey]: ['object', members.sort(([left], [right]) => (left < right ? -1 : 1))] };
  }
  const out: Record<string, unknown> = Object.create(null);
  for (const [key, item] of members) out[key] = item;
  return out;
}

function className(value: object): string {
  const made: unknown = value.constructor;
  return typeof made === 'function' && made.name !== '' ? made.name : 'a class';
}

function fromJson(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(fromJson);
  if (typeof value !== 'object' || value === null) return value;
  if (Object.hasOwn(value, tagKey)) return untag(Reflect.get(value, tagKey));
  return fromMembers(Object.entries(value));
}

function fromMembers(members: Iterable<[string, unknown]>): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const [key, item] of members) {
    Object.defineProperty(out, key, {
      value: fromJson(item),
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return out;
}

function untag(tagged: unknown): unknown {
  if (!Array.isArray(tagged)) throw unknownTag(tagged);
  const [tag, data] = tagged;
  switch (tag) {
    case 'bigint':
      return BigInt(data);
    case 'undefined':
      return undefined;
    case 'number':
      return Number(data);
    case 'date':
      return new Date(data);
    case 'bytes':
      return new Uint8Array(fromBase64url(data));
    case 'map':
      return new Map(
        data.map(([key, item]: [unknown, unknown]) => [fromJson(key), fromJson(item)]),
      );
    case 'set':
      return new Set(data.map(fromJson));
    case 'object':
      return fromMembers(data);
    default:
      throw unknownTag(tag);
  }
}

function unknownTag(tag: unknown): TurnstoneError {
  return new TurnstoneError(
    'record_skew',
    `stored value: expected a known tag, got ${JSON.stringify(tag)}`,
    {
      retry: 'never',
      details: { got: JSON.stringify(tag) ?? 'undefined' },
    },
  );
}
