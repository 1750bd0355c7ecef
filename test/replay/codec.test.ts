// The record codec only grows: what a release froze (scripts/record-codec.ts) keeps its name, place and type.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { recordMembers, recordVersion } from '../../src/protocol/record-codec.ts';

type Kinds = Readonly<Record<string, readonly (readonly [string, string, string])[]>>;
interface Frozen {
  readonly recordVersion: number;
  readonly kinds: Kinds;
}

const folder = new URL('codec/', import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith('.json'));
const load = (name: string): Frozen => JSON.parse(readFileSync(new URL(name, folder), 'utf8'));

/** Types an older record may lack: a member added later must be one of them. */
const mayLack = new Set(['count', 'flag', 'spend', 'optionalText', 'optionalSpend']);

/** What a later codec does to records that an earlier one wrote. */
function breaks(frozen: Kinds, current: Kinds): readonly string[] {
  const found: string[] = [];
  for (const [kind, members] of Object.entries(frozen)) {
    const today = current[kind];
    if (today === undefined) {
      found.push(`${kind}: gone`);
      continue;
    }
    for (const [name, short, type] of members) {
      const heir = today.find(([other]) => other === name);
      const user = today.find(([, other]) => other === short && short !== '');
      if (heir === undefined) found.push(`${kind}.${name}: gone`);
      else if (heir[1] !== short) found.push(`${kind}.${name}: "${short}" became "${heir[1]}"`);
      else if (heir[2] !== type) found.push(`${kind}.${name}: ${type} became ${heir[2]}`);
      if (user !== undefined && user[0] !== name)
        found.push(`${kind}: "${short}" of ${name} was given to ${user[0]}`);
    }
    for (const [name, , type] of today) {
      const added = !members.some(([other]) => other === name);
      if (added && !mayLack.has(type)) found.push(`${kind}.${name}: added, and not optional`);
    }
  }
  return found;
}

test('T120 there is a frozen codec of this record version', () => {
  expect(files.map((name) => load(name).recordVersion)).toContain(recordVersion);
});

test.each(files)('T121 B-64 the codec only adds to that of %s [T13]', (name) => {
  expect(breaks(load(name).kinds, recordMembers)).toEqual([]);
});

test('T121 a member reused, retyped, renamed, gone, or demanded of old records is found', () => {
  const frozen: Kinds = {
    Note: [
      ['step', 's', 'text'],
      ['author', 'wr', 'text'],
    ],
  };
  const changed: readonly [Kinds, string][] = [
    [{}, 'Note: gone'],
    [{ Note: [['step', 's', 'text']] }, 'Note.author: gone'],
    [
      {
        Note: [
          ['step', 's', 'text'],
          ['writer', 'wr', 'text'],
        ],
      },
      'Note: "wr" of author was given to writer',
    ],
    [
      {
        Note: [
          ['step', 's', 'text'],
          ['author', 'by', 'text'],
        ],
      },
      'Note.author: "wr" became "by"',
    ],
    [
      {
        Note: [
          ['step', 's', 'count'],
          ['author', 'wr', 'text'],
        ],
      },
      'Note.step: text became count',
    ],
    [{ Note: [...(frozen.Note ?? []), ['colour', 'co', 'text']] }, 'Note.colour: added'],
  ];
  for (const [current, what] of changed) expect(breaks(frozen, current).join()).toContain(what);
  const grown: Kinds = { Note: [...(frozen.Note ?? []), ['hue', 'co', 'optionalText']], Dream: [] };
  expect(breaks(frozen, grown)).toEqual([]);
});

test('no two members of a kind share a stored name', () => {
  const common = ['k', 'q', 't', 'e', 'v', 'p'];
  for (const [kind, members] of Object.entries(recordMembers)) {
    const shorts = members.flatMap(([, short, type]) =>
      type === 'site' ? ['s', 'ph', 'o'] : [short],
    );
    const names = [...common, ...shorts];
    expect(new Set(names).size, kind).toBe(names.length);
  }
});
