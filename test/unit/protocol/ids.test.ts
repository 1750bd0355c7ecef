// Identities at the door: what is let in, and what a refusal says.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  agentName,
  epochMs,
  parseEffectKind,
  parseId,
  parseStepName,
  subjectId,
  tenantId,
  threadId,
  toIso,
  turnId,
} from '../../../src/protocol/ids.ts';

const legal = 'ABCXYZabcxyz0123456789._:@-';
const idText = '1 to 256 characters of A-Z a-z 0-9 . _ : - @, not "." or ".."';
const nameText = '1 to 256 printable characters';

function refused(parse: () => unknown, expected: string, got: string): void {
  let refusal: unknown;
  try {
    parse();
  } catch (error) {
    refusal = error;
  }
  expect(refusal).toMatchObject({
    code: 'invalid_request',
    message: `turn: expected ${expected}, got ${got}`,
    retry: 'never',
    details: { field: 'turn', expected, got },
  });
}

test('ruling 10: an id is 1 to 256 legal characters, and neither dot nor two', () => {
  for (const id of [legal, 'a', '...', '.a', 'x'.repeat(256)]) expect(parseId('turn', id)).toBe(id);
  for (const id of ['', '.', '..', 'a b', 'é', 'a/b', 'a\n', ' a', 'a?']) {
    refused(() => parseId('turn', id), idText, JSON.stringify(id));
  }
  refused(() => parseId('turn', 7), idText, 'number');
  refused(() => parseId('turn', null), idText, 'object');
  const shown = `"${'x'.repeat(40)}… (257 characters)"`;
  refused(() => parseId('turn', 'x'.repeat(257)), idText, shown);
  refused(() => parseId('turn', '!'.repeat(40)), idText, JSON.stringify('!'.repeat(40)));
  fc.assert(
    fc.property(fc.string({ minLength: 1, unit: 'binary' }), (id) => {
      const every = [...id].every((one) => /[A-Za-z0-9]/.test(one) || '._:-@'.includes(one));
      const fits = every && id !== '.' && id !== '..' && id.length <= 256;
      if (fits) expect(parseId('turn', id)).toBe(id);
      else expect(() => parseId('turn', id)).toThrow('turn: expected 1 to 256');
    }),
  );
});

test('every kind of id is checked alike', () => {
  for (const parse of [tenantId, threadId, turnId, agentName, subjectId]) {
    expect(parse('turn', 'a-1')).toBe('a-1');
    refused(() => parse('turn', '..'), idText, '".."');
  }
});

test('a step name or an effect kind is 1 to 256 printable characters', () => {
  for (const parse of [parseStepName, parseEffectKind]) {
    for (const name of ['a', 'Zwei Schritte, é ✓', '😀', 'x'.repeat(256)]) {
      expect(parse('turn', name)).toBe(name);
    }
    for (const name of ['', 'a\nb', '\u0000', 'a\ud800', '\u007f']) {
      refused(() => parse('turn', name), nameText, JSON.stringify(name));
    }
    refused(() => parse('turn', undefined), nameText, 'undefined');
    refused(
      () => parse('turn', 'y'.repeat(257)),
      nameText,
      `"${'y'.repeat(40)}… (257 characters)"`,
    );
  }
});

test('an instant is a whole number of milliseconds from 0, and ISO 8601 UTC outside (ruling 24)', () => {
  for (const instant of [0, 1, Number.MAX_SAFE_INTEGER]) expect(epochMs(instant)).toBe(instant);
  for (const instant of [-1, 0.5, Number.NaN, 2 ** 53]) {
    expect(() => epochMs(instant)).toThrow(
      `instant: expected milliseconds since the epoch, got ${instant}`,
    );
  }
  expect(toIso(0)).toBe('1970-01-01T00:00:00.000Z');
});
