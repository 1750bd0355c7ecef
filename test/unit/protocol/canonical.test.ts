import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CodecError, decode, digestOf, encode } from '../../../src/protocol/canonical.ts';

const leaf = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.double(),
  fc.bigInt(),
  fc.boolean(),
  fc.constant(null),
  fc.constant(undefined),
  fc.date({ noInvalidDate: true }),
  fc.uint8Array(),
);
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    leaf,
    fc.array(tie('value')),
    fc.dictionary(
      fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('$ts', '__proto__', 'constructor')),
      tie('value'),
    ),
    fc.array(fc.tuple(leaf, tie('value'))).map((entries) => new Map(entries)),
    fc.array(leaf).map((items) => new Set(items)),
  ),
}));

test('whatever is stored comes back equal [T7]', () => {
  fc.assert(
    fc.property(value, (given) => {
      expect(isDeepStrictEqual(decode(encode(given)), plain(given))).toBe(true);
    }),
    { numRuns: 2_000 },
  );
});

/** Objects come back with the standard prototype, bytes as Uint8Array. */
function plain(given: unknown): unknown {
  if (given instanceof Uint8Array) return new Uint8Array(given);
  if (Array.isArray(given)) return given.map(plain);
  if (given instanceof Map)
    return new Map([...given].map(([key, item]) => [plain(key), plain(item)]));
  if (given instanceof Set) return new Set([...given].map(plain));
  if (typeof given !== 'object' || given === null || given instanceof Date) return given;
  const out = {};
  for (const [key, item] of Object.entries(given)) {
    Object.defineProperty(out, key, {
      value: plain(item),
      enumerable: true,
      writable: true,
      configurable: true,
    });
  }
  return out;
}

test('E309 the bytes do not depend on the order of members [T7]', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), leaf), (given) => {
      const reversed = Object.fromEntries(Object.entries(given).reverse());
      expect(encode(reversed)).toBe(encode(given));
    }),
  );
});

test('plain JSON is plain RFC 8785 JSON', () => {
  expect(encode({ b: [1, 1e21, 'é\n'], a: { z: true, y: null } })).toBe(
    '{"a":{"y":null,"z":true},"b":[1,1e+21,"é\\n"]}',
  );
  expect(digestOf({ b: 1, a: [1n, new Date(0), undefined, new Uint8Array([1])] })).toBe(
    'qOtBaT5P8qFhsTpjqBs5wCnz7zlbhpx9eQlaYfDkusU',
  );
});

class Money {
  readonly cents = 1;
}
const cycle: Record<string, unknown> = {};
cycle.self = cycle;
const sparse = [1];
sparse[2] = 3;

test.each([
  ['a function', { pay: () => 1 }, 'pay'],
  ['a symbol', { pay: Symbol('x') }, 'pay'],
  ['a cycle', cycle, 'self'],
  ['a class instance', { price: new Money() }, 'price'],
  ['a lone surrogate', { name: '\ud800' }, 'name'],
  ['a lone surrogate in a key', { '\ud800': 1 }, ''],
  ['an invalid Date', { at: new Date(Number.NaN) }, 'at'],
  ['a sparse array', { list: sparse }, 'list'],
  ['an object with toJSON', { x: { toJSON: () => 1 } }, 'x.toJSON'],
  ['a getter', Object.defineProperty({}, 'x', { get: () => 1, enumerable: true }), 'x'],
  [
    'a throwing proxy',
    {
      x: new Proxy(
        {},
        {
          ownKeys: () => {
            throw new Error('no');
          },
        },
      ),
    },
    'x',
  ],
])('%s is refused by name and path, never silently changed', (_name, given, path) => {
  const refused = (): string => encode(given);
  expect(refused).toThrow(CodecError);
  expect(refused).toThrow(path === '' ? /expected a value/ : path);
});
