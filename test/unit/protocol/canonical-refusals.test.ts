// Goal: the stored form of each type, byte by byte, and each refusal by its path and what came.
import { expect, test } from 'vitest';
import { CodecError, decode, encode } from '../../../src/protocol/canonical.ts';
import { TurnstoneError } from '../../../src/protocol/errors.ts';

test.each<[unknown, string]>([
  [undefined, '{"$ts":["undefined"]}'],
  [null, 'null'],
  [12n, '{"$ts":["bigint","12"]}'],
  [-0, '{"$ts":["number","-0"]}'],
  [0, '0'],
  [Number.NaN, '{"$ts":["number","NaN"]}'],
  [Number.POSITIVE_INFINITY, '{"$ts":["number","Infinity"]}'],
  [Number.NEGATIVE_INFINITY, '{"$ts":["number","-Infinity"]}'],
  [new Date(5), '{"$ts":["date","1970-01-01T00:00:00.005Z"]}'],
  [new Map<unknown, unknown>([[1n, []]]), '{"$ts":["map",[[{"$ts":["bigint","1"]},[]]]]}'],
  [new Set([2, 1]), '{"$ts":["set",[2,1]]}'],
  [new Uint8Array([1, 255]), '{"$ts":["bytes","Af8"]}'],
  [{ b: 1, $ts: 2, a: 3 }, '{"$ts":["object",[["$ts",2],["a",3],["b",1]]]}'],
  [{ $ts: ['date', 'x'] }, '{"$ts":["object",[["$ts",["date","x"]]]]}'],
  [Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
])('T7 %o is stored as %s and read back [T7]', (value, text) => {
  expect(encode(value)).toBe(text);
  expect(decode(text)).toEqual(value);
  expect(Object.is(decode(encode(-0)), -0)).toBe(true);
});

test('a Buffer is stored as bytes; what is shared but no cycle is stored twice', () => {
  expect(encode(Buffer.from([1, 255]))).toBe('{"$ts":["bytes","Af8"]}');
  const shared = { a: 1 };
  expect(encode([shared, shared])).toBe('[{"a":1},{"a":1}]');
});

test('members that were read back are ordinary ones, whatever their names', () => {
  const read = decode('{"__proto__":1,"a":2}') as Record<string, unknown>;
  expect(Object.getOwnPropertyDescriptor(read, '__proto__')).toEqual({
    value: 1,
    enumerable: true,
    configurable: true,
    writable: true,
  });
  expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
});

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let n = 0; n < depth; n += 1) value = [value];
  return value;
}

test('256 levels are stored, one more is refused (04)', () => {
  expect(encode(nested(256))).toHaveLength(513);
  expect(() => encode(nested(257))).toThrow('nesting deeper than 256');
  let members: unknown = 1;
  for (let n = 0; n < 257; n += 1) members = new Map([[1, new Set([members])]]);
  expect(() => encode(members)).toThrow('nesting deeper than 256');
});

class Extended<T> extends Array<T> {}
class Moment extends Date {}
class Table extends Map<unknown, unknown> {}
class Pile extends Set<unknown> {}
class Bytes extends Uint8Array {}
class Money {}
const nameless = new (class {})();
const headless = Object.create({ constructor: 1 });
const labelled = Object.assign([1], { label: 'x' });
const hidden = Object.defineProperty({}, 'pin', { value: 1, enumerable: false });
const getter = Object.defineProperty({}, 'x', { get: () => 1, enumerable: true });
const marked = { [Symbol('mark')]: 1 };
const cycle: unknown[] = [];
cycle.push(cycle);
const round = { self: new Map<unknown, unknown>() };
round.self.set('again', round);
const throwing = new Proxy(
  {},
  {
    ownKeys: () => {
      throw new Error('a secret');
    },
  },
);

test.each<[string, unknown, string, string]>([
  ['a function', { pay: () => 1 }, 'pay', 'a function'],
  ['a symbol', [Symbol('x')], '[0]', 'a symbol'],
  ['a symbol alone', Symbol('x'), '', 'a symbol'],
  ['a cycle', cycle, '[0]', 'a cycle'],
  ['a cycle through a map', round, 'self.get(0)', 'a cycle'],
  ['a subclass of Array', { a: Extended.from([1]) }, 'a', 'a subclass of Array'],
  ['a labelled array', labelled, '', 'an array with holes or extra members'],
  ['a hole', [Array(2)], '[0]', 'an array with holes or extra members'],
  ['a subclass of Date', { at: new Moment(0) }, 'at', 'an instance of Moment'],
  ['a subclass of Map', new Table(), '', 'an instance of Table'],
  ['a subclass of Set', new Pile(), '', 'an instance of Pile'],
  ['a subclass of Uint8Array', new Bytes(1), '', 'an instance of Bytes'],
  ['another typed array', new Uint16Array(1), '', 'an instance of Uint16Array'],
  ['a class', { in: { price: new Money() } }, 'in.price', 'an instance of Money'],
  ['a nameless class', nameless, '', 'an instance of a class'],
  ['a class without a constructor', headless, '', 'an instance of a class'],
  ['an invalid Date', { at: new Date(Number.NaN) }, 'at', 'an invalid Date'],
  ['a symbol key', { a: marked }, 'a.Symbol(mark)', 'a symbol key'],
  ['a hidden member', hidden, 'pin', 'a hidden member'],
  ['an accessor', { a: getter }, 'a.x', 'an accessor'],
  ['toJSON', { a: { toJSON: () => 1 } }, 'a.toJSON', 'an object with toJSON'],
  ['a text', { name: '\ud800' }, 'name', 'a text with a lone surrogate'],
  ['a key', { a: { '\ud800': 1 } }, 'a', 'a key with a lone surrogate'],
  ['what throws', { x: throwing }, 'x', 'a value that throws when it is read'],
  ['a key of a map', new Map([[() => 1, 1]]), '.key(0)', 'a function'],
  ['an item of a set', { s: new Set([1, () => 1]) }, 's.item(1)', 'a function'],
])('%s is refused by its path, with what came', (_, value, path, got) => {
  const expected = 'a value that comes back equal from storage';
  let refusal: unknown;
  try {
    encode(value);
  } catch (error) {
    refusal = error;
  }
  expect(refusal).toBeInstanceOf(CodecError);
  expect(refusal).toMatchObject({
    name: 'CodecError',
    code: 'value_not_storable',
    message: `${path === '' ? 'value' : path}: expected ${expected}, got ${got}`,
    retry: 'never',
    details: { path, expected, got },
  });
});

test('a member that is called toJSON and is no function is stored', () => {
  expect(encode({ toJSON: 'x' })).toBe('{"toJSON":"x"}');
});

test.each([
  ['{"$ts":["money",1]}', '"money"'],
  ['{"a":[{"$ts":"date"}]}', '"date"'],
  ['{"$ts":[]}', 'undefined'],
  ['{"$ts":null}', 'null'],
])('T13 a tag of a newer build is skew: %s', (text, got) => {
  expect(() => decode(text)).toThrow(TurnstoneError);
  expect(() => decode(text)).toThrow(`stored value: expected a known tag, got ${got}`);
  try {
    decode(text);
  } catch (error) {
    expect(error).toMatchObject({ code: 'record_skew', retry: 'never', details: { got } });
  }
});
