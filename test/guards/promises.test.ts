// Every promise DESIGN.md claims has a line that enforces it and a test that shows it.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { sources } from './tree.ts';

const design = readFileSync('src/DESIGN.md', 'utf8');
const claimed = [...design.matchAll(/^\| (T\d+) /gm)].map((match) => match[1] ?? '');

test('promises are claimed in the table of DESIGN.md', () => {
  expect(claimed.length).toBeGreaterThanOrEqual(7);
  expect(new Set(claimed).size).toBe(claimed.length);
});

test.each(claimed)('%s is cited by code and by a test title', (label) => {
  const word = new RegExp(`\\b${label}\\b`);
  const code = sources('src').filter(
    ({ path, text }) => !path.startsWith('src/testing/') && word.test(text),
  );
  const tests = sources('test').filter(({ text }) =>
    [...text.matchAll(/\b(?:test|it|onEachStore)(?:\.each\([^)]*\))?\(\s*[`'"]([^`'"]*)/g)].some(
      (match) => word.test(match[1] ?? ''),
    ),
  );
  expect(code.length, `${label} in code`).toBeGreaterThan(0);
  expect(tests.length, `${label} in a test title`).toBeGreaterThan(0);
});
