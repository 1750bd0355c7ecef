// The import table of page 00 and ruling 28: every import points down.
import { posix } from 'node:path';
import { expect, test } from 'vitest';
import { sources } from './tree.ts';

const order = [
  'protocol',
  'ports',
  'runtime',
  'memory',
  'agent',
  'operator',
  'integrations',
  'testing',
];

function below(room: string): readonly string[] {
  return order.slice(0, order.indexOf(room) + 1).map((name) => `src/${name}`);
}

const mayImport: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(order.map((room) => [`src/${room}`, below(room)])),
  'src/adapters': ['src/protocol', 'src/ports', 'src/adapters'],
  'src/api': [...below('operator'), 'src/api'],
  'src/local': [...below('integrations'), 'src/adapters', 'src/api', 'src/local'],
  'src/index.ts': [...below('agent')],
  'src/examples': ['src/examples'],
  functions: [...below('integrations'), 'src/adapters', 'src/api', 'functions'],
  infra: ['src/protocol/limits.ts', 'infra'],
};

interface Import {
  readonly from: string;
  readonly to: string;
  readonly typeOnly: boolean;
}

function imports(): readonly Import[] {
  return [...sources('src'), ...sources('functions'), ...sources('infra')].flatMap(
    ({ path, text }) =>
      [...text.matchAll(/^(?:import|export)\s+(type\s)?[^;]*?from\s+'(\.[^']+)'/gms)].map(
        (match) => ({
          from: path,
          to: posix.normalize(posix.join(posix.dirname(path), match[2] ?? '')),
          typeOnly: match[1] !== undefined,
        }),
      ),
  );
}

function room(path: string): string {
  return Object.keys(mayImport).find((name) => path.startsWith(`${name}/`)) ?? path;
}

test('every import points down the table', () => {
  const trespasses = imports().filter(
    ({ from, to }) =>
      !(mayImport[room(from)] ?? []).some(
        (allowed) => to === allowed || to.startsWith(`${allowed}/`),
      ),
  );
  expect(trespasses).toEqual([]);
});

test('no modules import each other in a ring', () => {
  const edges = new Map<string, string[]>();
  for (const { from, to, typeOnly } of imports()) {
    if (!typeOnly) edges.set(from, [...(edges.get(from) ?? []), to]);
  }
  const done = new Set<string>();
  const rings: string[] = [];
  const walk = (path: string, above: readonly string[]): void => {
    if (above.includes(path)) rings.push([...above.slice(above.indexOf(path)), path].join(' -> '));
    if (done.has(path) || above.includes(path)) return;
    for (const next of edges.get(path) ?? []) walk(next, [...above, path]);
    done.add(path);
  };
  for (const path of edges.keys()) walk(path, []);
  expect(rings).toEqual([]);
});

test('the guard read the real tree', () => {
  expect(sources('src').length).toBeGreaterThan(60);
  expect(imports().length).toBeGreaterThan(200);
});
