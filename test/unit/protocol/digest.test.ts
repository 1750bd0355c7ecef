// The framing under every key, hash and jitter: frozen, and two lists of parts never share their bytes.
import { createHash, createHmac } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Part } from '../../../src/protocol/digest.ts';
import {
  base64url,
  framed,
  fromBase64url,
  hashParts,
  hmacParts,
  sha256,
} from '../../../src/protocol/digest.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

test('parts are framed as type, 64-bit length and bytes (ruling 9) [T7]', () => {
  expect(hex(framed('d', ['é', 258, Uint8Array.of(7, 8, 9)]))).toBe(
    [
      '01' + '0000000000000001' + '64',
      '01' + '0000000000000002' + 'c3a9',
      '02' + '0000000000000008' + '0000000000000102',
      '03' + '0000000000000003' + '070809',
    ].join(''),
  );
  expect(hex(framed('', []))).toBe('010000000000000000');
  expect(hex(framed('', [-1]))).toBe('010000000000000000' + '020000000000000008ffffffffffffffff');
});

test('a hash is SHA-256 or HMAC-SHA256 of the frame', () => {
  const parts: readonly Part[] = ['a', 1];
  const frame = framed('d', parts);
  expect(hex(sha256('é'))).toBe(createHash('sha256').update('é', 'utf8').digest('hex'));
  expect(hex(hashParts('d', parts))).toBe(createHash('sha256').update(frame).digest('hex'));
  const secret = Uint8Array.of(1, 2, 3);
  expect(hex(hmacParts(secret, 'd', parts))).toBe(
    createHmac('sha256', secret).update(frame).digest('hex'),
  );
});

const part: fc.Arbitrary<Part> = fc.oneof(
  fc.string({ maxLength: 6 }),
  fc.maxSafeInteger(),
  fc.uint8Array({ maxLength: 6 }),
);

test('E26 two lists of parts share their bytes only when they are equal [T7]', () => {
  const drawn = fc.array(part, { maxLength: 4 });
  fc.assert(
    fc.property(drawn, drawn, fc.string(), fc.string(), (left, right, a, b) => {
      const well = (parts: readonly Part[]): readonly Part[] =>
        parts.map((one) => (typeof one === 'string' ? one.toWellFormed() : one));
      const plain = (domain: string, parts: readonly Part[]): string =>
        JSON.stringify([
          domain.toWellFormed(),
          well(parts).map((one) => (one instanceof Uint8Array ? [...one] : one)),
        ]);
      const same = plain(a, left) === plain(b, right);
      expect(hex(framed(a, left)) === hex(framed(b, right))).toBe(same);
    }),
  );
});

test('base64url is read back, of a view into other bytes too', () => {
  expect(base64url(Uint8Array.of(1, 2, 250, 251, 252).subarray(1, 4))).toBe('Avr7');
  expect(base64url(Uint8Array.of(255, 254))).toBe('__4');
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      expect(new Uint8Array(fromBase64url(base64url(bytes)))).toEqual(bytes);
    }),
  );
});
