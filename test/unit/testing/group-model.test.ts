// Goal: the rules of effect groups keep their laws in every reachable state, and each rule is needed.
// Method: an exhaustive search over turns with one group (src/testing/group-model.ts); then the same with one rule
// changed at a time, which a law must catch. `npm run model:groups` prints every state count and every way.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { groupModel } from '../../../src/testing/group-model.ts';
import { groupMutants } from '../../../src/testing/group-mutants.ts';
import type { Script } from '../../../src/testing/group-program.ts';
import { groupScripts } from '../../../src/testing/group-scripts.ts';
import { checkModel, comesToRest } from '../../../src/testing/model-checker.ts';

function scriptOf(name: string): Script {
  const script = groupScripts.find((one) => one.name === name);
  if (script === undefined) throw new Error(`no script is called "${name}"`);
  return script;
}

test.each(groupScripts)('T9 the model of a group holds in every state: $name', (script) => {
  const { states, moves, resting, broken } = checkModel(groupModel(script));
  process.stdout.write(`${script.name}: ${states} states, ${moves} moves, ${resting} at rest\n`);
  expect(broken).toBeNull();
  expect(states).toBeGreaterThan(500);
  expect(resting).toBeGreaterThan(20);
});

test.each(groupMutants)('T9 a law catches the loss of: $rule', ({ script, change, breaks }) => {
  const { broken } = checkModel(groupModel(scriptOf(script), change));
  expect(broken).toMatchObject({ law: breaks });
  expect(broken?.trace.length).toBeGreaterThan(0);
});

/** Laws that others see first: each alone, against a mutant that breaks it. */
const alone: readonly (readonly [string, string, string])[] = [
  [
    'an unsettled group never commits',
    'GR-8 a commit waits for the members on their way',
    'members nobody waits for',
  ],
];

test.each(alone)('T9 alone, the law "%s" catches the loss of: %s', (law, rule, name) => {
  const change = groupMutants.find((mutant) => mutant.rule === rule)?.change;
  if (change === undefined) throw new Error(`no mutant is called "${rule}"`);
  const model = groupModel(scriptOf(name), change);
  const check = model.laws[law];
  if (check === undefined) throw new Error(`no law is called "${law}"`);
  const { broken } = checkModel({
    start: model.start,
    laws: { [law]: check },
    moves: (state) => model.moves(state),
    key: (state) => model.key(state),
    atRest: (state) => model.atRest(state),
  });
  expect(broken).toMatchObject({ law });
});

/** Tests of the code that show the same claim: file and the words its title begins with. */
const shown: Readonly<Record<string, readonly [file: string, title: string]>> = {
  'a gated member acts only past the frontier': ['groups', 'E152 '],
  'an aborted group leaves nothing': ['groups', 'E153 E154 E161 '],
  'a committed group stands whole': ['groups', 'T9 dying at any call'],
  'an unsettled group never commits': ['groups-on-their-way', 'GR-6 '],
  'nothing is taken back after an irreversible member left': ['groups', 'E166 E168 E169 '],
  'nothing happens twice': ['atomic', 'E178 E332 '],
  'nothing lands unannounced': ['effects', 'E3 an announcement'],
  'what landed last is taken back first': ['groups', 'E153 E154 E161 '],
  'nothing is undone around a doubt': ['sagas', 'E133 '],
  'a group has one opening and one ending': ['groups', 'E181 '],
  'an ending says what stands': ['groups', 'E166 E168 E169 '],
  'a stop keeps new calls from starting': ['cancel', 'CA-1 CA-2 '],
  'code and journal never part': ['groups', 'T9 dying at any call'],
  'a stop that was recorded is honoured': ['cancel', 'a stop recorded during the last call'],
  [comesToRest]: ['chaos', 'turns of every kind'],
};

test('every law of the model is broken by a mutant, and shown of the code by a test', () => {
  const laws = [...Object.keys(groupModel(scriptOf('a stop')).laws), comesToRest].sort();
  expect(Object.keys(shown).sort()).toEqual(laws);
  const broken = new Set([
    ...groupMutants.map(({ breaks }) => breaks),
    ...alone.map(([law]) => law),
  ]);
  expect([...broken].sort()).toEqual(laws);
  const missing = Object.values(shown).filter(([file, title]) => {
    const text = readFileSync(`test/simulation/${file}.test.ts`, 'utf8');
    return !text.includes(`'${title}`) && !text.includes(`\`${title}`);
  });
  expect(missing).toEqual([]);
});
