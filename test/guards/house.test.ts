// House rules that no reviewer should have to remember.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { files, sources } from './tree.ts';

const ambient: readonly { pattern: RegExp; instead: string }[] = [
  { pattern: /\bDate\.now\b/, instead: 'a Clock port or `now: EpochMs`' },
  { pattern: /\bnew Date\(\)/, instead: 'a Clock port or `now: EpochMs`' },
  { pattern: /\bMath\.random\b/, instead: 'an Entropy port' },
  { pattern: /\bprocess\.env\b/, instead: 'settings read in a composition root' },
  { pattern: /\bconsole\./, instead: 'the Telemetry port' },
];
const roots = ['src/local/', 'src/adapters/system/'];

test('nothing ambient is read outside composition roots', () => {
  const found = sources('src')
    .filter(({ path }) => !roots.some((root) => path.startsWith(root)))
    .flatMap(({ path, text }) =>
      ambient
        .filter(({ pattern }) => pattern.test(text.replace(/^\s*(?:\/\/|\*).*$/gm, '')))
        .map(({ pattern, instead }) => `${path}: ${pattern.source}; use ${instead}`),
    );
  expect(found).toEqual([]);
});

test('files stay under 420 lines, or say in their head why not', () => {
  const long = sources('src').filter(
    ({ text }) => text.split('\n').length > 420 && !text.slice(0, 600).includes('Long because'),
  );
  expect(long.map(({ path }) => path)).toEqual([]);
});

test('every source file opens with what it is for', () => {
  const bare = sources('src').filter(({ text }) => !/^(?:\/\/|\/\*\*)/.test(text));
  expect(bare.map(({ path }) => path)).toEqual([]);
});

test('no star exports, no any, no leftovers', () => {
  const bad = [/^export \* /m, /\bas any\b/, /\b(?:TODO|FIXME|XXX)\b/, /@ts-ignore/];
  const found = [...sources('src'), ...sources('functions'), ...sources('infra')].flatMap(
    ({ path, text }) =>
      bad.filter((pattern) => pattern.test(text)).map((pattern) => `${path}: ${pattern.source}`),
  );
  expect(found).toEqual([]);
});

test('the lock file names no registry address', () => {
  expect(readFileSync('package-lock.json', 'utf8')).not.toContain('"resolved"');
});

test('no path of a build machine, registry host or tool library is named', () => {
  const own = 'test/guards/house.test.ts';
  const forbidden = [
    ['', 'work', 'main'].join('/'),
    ['', 'work', 'shared'].join('/'),
    ['.lib', 'rary'].join(''),
    ['registry', 'npmjs', 'org'].join('.'),
  ];
  const found = files()
    .filter(({ path }) => path !== own)
    .flatMap(({ path, text }) =>
      forbidden.filter((word) => text.includes(word)).map((word) => `${path}: ${word}`),
    );
  expect(found).toEqual([]);
});

test('no generated bundle, database or credential is tracked', () => {
  const bad = files().filter(({ path }) =>
    /\.(?:sqlite|db|pem|key)$|^cdk\.out\/|^dist\//.test(path),
  );
  expect(bad.map(({ path }) => path)).toEqual([]);
});
