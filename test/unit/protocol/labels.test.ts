// Goal: labels join like a lattice, are read back as written, and arguments are bound by path (ME-3, ME-17, 13.3).
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Label, Sensitivity } from '../../../src/protocol/labels.ts';
import {
  constant,
  joinLabels,
  labelText,
  parseLabel,
  sensitivities,
  undeclared,
  within,
} from '../../../src/protocol/labels.ts';
import { bindArguments, Labelled, underMark } from '../../../src/runtime/labelled.ts';

const label: fc.Arbitrary<Label> = fc.record({
  trust: fc.constantFrom('trusted' as const, 'untrusted' as const),
  sensitivity: fc.constantFrom(...sensitivities),
  sources: fc
    .uniqueArray(fc.string({ minLength: 1, maxLength: 12, unit: 'grapheme' }), { maxLength: 6 })
    .map((names) => names.sort()),
});

test('ME-17 a join is commutative, associative, idempotent, and never better than a part', () => {
  fc.assert(
    fc.property(label, label, label, (a, b, c) => {
      expect(joinLabels([a, b])).toEqual(joinLabels([b, a]));
      expect(joinLabels([joinLabels([a, b]), c])).toEqual(joinLabels([a, joinLabels([b, c])]));
      expect(joinLabels([a, a])).toEqual(a);
      expect(joinLabels([a, constant])).toEqual(a);
      const joined = joinLabels([a, b]);
      if (a.trust === 'untrusted') expect(joined.trust).toBe('untrusted');
      for (const ceiling of sensitivities) {
        if (!within(a, ceiling)) expect(within(joined, ceiling)).toBe(false);
      }
      for (const source of a.sources) expect(joined.sources).toContain(source);
    }),
  );
});

test('a label is read back as it was written; anything else is no label', () => {
  fc.assert(
    fc.property(label, (one) => {
      expect(parseLabel(labelText(one))).toEqual(one);
    }),
  );
  for (const text of ['', 'trusted', 'Trusted public', 'trusted secret x'])
    expect(parseLabel(text), text).toBeNull();
  const many = Array.from({ length: 80 }, (_, n) => undeclared(`s${n}`));
  const { sources } = joinLabels(many);
  expect(sources).toHaveLength(50);
  expect(sources.at(-1)).toBe('more');
});

const good: Label = { trust: 'trusted', sensitivity: 'public', sources: ['desk'] };
const bad: Label = { trust: 'untrusted', sensitivity: 'confidential', sources: ['mail'] };

test('T11 sinks name the argument they refuse, by path, and let the same value in under a better label', () => {
  const args = { to: new Labelled('ann', bad), lines: [{ sum: new Labelled(3, good) }], text: 'x' };
  const bind = (mark: Label, sink: Parameters<typeof bindArguments>[3][number]) =>
    bindArguments('pay', args, mark, [sink]);
  const plain = { to: 'ann', lines: [{ sum: 3 }], text: 'x' };
  expect(bind(good, {})).toEqual(plain);
  expect(bind(good, { trusted: ['lines.0.sum', 'text'] })).toEqual(plain);
  expect(bind(bad, { trusted: ['lines'] })).toEqual(plain);
  const refusals: readonly [Label, Parameters<typeof bind>[1], string][] = [
    [good, { trusted: ['to'] }, 'args.to: expected a trusted value'],
    [good, { trusted: true }, 'args.to: expected a trusted value'],
    [bad, { trusted: ['text'] }, 'args.text: expected a trusted value'],
    [good, { ceiling: 'internal' }, 'args.to: expected at most "internal"'],
    [bad, { ceiling: 'public' }, 'args.to: expected at most "public"'],
  ];
  for (const [mark, sink, why] of refusals) expect(() => bind(mark, sink), why).toThrow(why);
  expect(bind(good, { ceiling: 'confidential' })).toEqual(plain);
});

test('a wrapped value keeps its label through arithmetic and is not storable by accident', () => {
  const sum = Labelled.join(
    [new Labelled(2, good), new Labelled(3, bad)],
    (a, b) => Number(a) + Number(b),
  );
  expect(Labelled.valueOf(sum.map((value) => value * 2))).toBe(10);
  expect(sum.map(String).label).toEqual({
    trust: 'untrusted',
    sensitivity: 'confidential' satisfies Sensitivity,
    sources: ['desk', 'mail'],
  });
  expect(() => JSON.stringify({ sum })).toThrow('not storable');
});

test('ME-11 T11 a wrapper around what must be trusted is refused like the value in it', () => {
  const body = { to: 'eve', sum: 1 };
  const sink = { trusted: ['body.to'] };
  for (const args of [new Labelled({ body }, bad), { body: new Labelled(body, bad) }]) {
    expect(() => bindArguments('pay', args, good, [sink])).toThrow('expected a trusted value');
    expect(bindArguments('pay', args, good, [])).toEqual({ body });
  }
  expect(bindArguments('pay', new Labelled({ body }, good), bad, [sink])).toEqual({ body });
  expect(() => bindArguments('pay', underMark({ body }, bad), good, [sink])).toThrow(
    'args.body.to',
  );
  const mixed = { body: { to: new Labelled('ann', good), sum: 1 } };
  expect(bindArguments('pay', underMark(mixed, bad), good, [sink])).toEqual({
    body: { to: 'ann', sum: 1 },
  });
});

test("ME-3 what nobody declared is untrusted and internal; a constant is anybody's", () => {
  expect(undeclared('mail')).toEqual({
    trust: 'untrusted',
    sensitivity: 'internal',
    sources: ['mail'],
  });
  expect(constant).toEqual({ trust: 'trusted', sensitivity: 'public', sources: [] });
  expect(joinLabels([])).toEqual(constant);
  expect(sensitivities).toEqual(['public', 'internal', 'confidential', 'restricted']);
  expect(labelText({ trust: 'trusted', sensitivity: 'public', sources: ['a b', 'c'] })).toBe(
    'trusted public a%20b c',
  );
});

test('fifty sources are all named; the fifty-first makes the rest one word', () => {
  const sources = (count: number) =>
    joinLabels(Array.from({ length: count }, (_, n) => undeclared(`s${n}`))).sources;
  expect(sources(50)).not.toContain('more');
  expect(sources(50)).toHaveLength(50);
  const names = Array.from({ length: 51 }, (_, n) => `s${n}`).sort();
  expect(sources(51)).toEqual([...names.slice(0, 49), 'more']);
});
