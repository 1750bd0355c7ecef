import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ChainLink } from '../../../src/protocol/chain.ts';
import { genesisHash, recordHash, verifyChain } from '../../../src/protocol/chain.ts';

function chainOf(bodies: readonly string[]): ChainLink[] {
  let prevHash = genesisHash;
  return bodies.map((body, index) => {
    const sealed = Uint8Array.of(index);
    const hash = recordHash(prevHash, body, sealed);
    const link = { seq: index + 1, body, sealed, prevHash, hash };
    prevHash = hash;
    return link;
  });
}

const links = chainOf(['a', 'b', 'c', 'd']);
const last = links.at(-1);
const head = { seq: 4, hash: last?.hash ?? '' };

test('record hashes are frozen by vectors [T13]', () => {
  expect(recordHash(genesisHash, '{"k":"Note"}')).toBe(
    'UIQC_7nhMlxQ5fFAxbZjSYtP-NL15RQC4z9HuQKBdLI',
  );
  expect(recordHash(genesisHash, '{"k":"Note"}', Uint8Array.of(1, 2, 3))).toBe(
    'puIhXWnC3MVIM5VqDna0x4N4GfJDGvUQo3f4gcgKkWw',
  );
});

test('an untouched chain verifies, against its head or alone, and empty [T13]', () => {
  expect(verifyChain(links)).toEqual({ ok: true, ...head });
  expect(verifyChain([])).toEqual({ ok: true, seq: 0, hash: genesisHash });
  expect(verifyChain(links, { seq: 2, hash: links[1]?.hash ?? '' })).toEqual({ ok: true, ...head });
  expect(verifyChain(links, head)).toEqual({ ok: true, ...head });
});

test('a flipped byte, a dropped, swapped or spliced record is named [T13]', () => {
  const [a, b, c, d] = links as [ChainLink, ChainLink, ChainLink, ChainLink];
  expect(verifyChain([a, { ...b, body: 'B' }, c, d])).toMatchObject({
    ok: false,
    firstBad: 2,
    reason: 'hash',
  });
  expect(verifyChain([a, { ...b, sealed: Uint8Array.of(9) }, c, d])).toMatchObject({
    ok: false,
    firstBad: 2,
  });
  expect(verifyChain([a, c, d])).toEqual({ ok: false, firstBad: 2, reason: 'gap' });
  expect(verifyChain([a, { ...b, seq: 3 }])).toEqual({ ok: false, firstBad: 2, reason: 'gap' });
  expect(verifyChain([a, c, b, d])).toMatchObject({ ok: false, firstBad: 2 });
  const other = chainOf(['a', 'x'])[1] as ChainLink;
  expect(verifyChain([a, b, { ...other, seq: 3 }, d])).toMatchObject({
    ok: false,
    firstBad: 3,
    reason: 'link',
  });
});

test('a cut tail is detected against the head kept apart [T13]', () => {
  expect(verifyChain(links.slice(0, 3), head)).toEqual({
    ok: false,
    firstBad: 4,
    reason: 'truncated',
  });
  expect(verifyChain(chainOf(['a', 'b', 'c', 'D']), head)).toMatchObject({
    ok: false,
    firstBad: 4,
    reason: 'head',
  });
});

test('any single change of any record is found at that record [T13]', () => {
  fc.assert(
    fc.property(fc.array(fc.string(), { minLength: 1, maxLength: 12 }), fc.nat(), (bodies, at) => {
      const chain = chainOf(bodies);
      const index = at % chain.length;
      const link = chain[index] as ChainLink;
      chain[index] = { ...link, body: `${link.body}!` };
      expect(verifyChain(chain)).toMatchObject({ ok: false, firstBad: index + 1 });
    }),
  );
});
