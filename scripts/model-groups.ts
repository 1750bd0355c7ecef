// The model of effect groups, checked whole, with every mutant over every turn: `npm run model:groups [report.md]`.
import { writeFileSync } from 'node:fs';
import { groupModel } from '../src/testing/group-model.ts';
import { groupMutants } from '../src/testing/group-mutants.ts';
import { groupScripts } from '../src/testing/group-scripts.ts';
import { checkModel } from '../src/testing/model-checker.ts';

const lines: string[] = [];
const say = (line: string): void => {
  lines.push(line);
  process.stdout.write(`${line}\n`);
};

let failed = false;
say('# Effect groups: the model checked whole');
say('');
say(
  'Written by `npm run model:groups reports/group-model.md`. A state is everything durable, everything the living',
);
say(
  'process knows, and the world; every state may die, and every call may come to anything its turn allows.',
);
say('');
say('| turn | states | moves | longest shortest way | states at rest | laws broken |');
say('| --- | --- | --- | --- | --- | --- |');
let states = 0;
for (const script of groupScripts) {
  const checked = checkModel(groupModel(script));
  states += checked.states;
  const { moves, depth, resting, broken } = checked;
  say(
    `| ${script.name} | ${checked.states} | ${moves} | ${depth} | ${resting} | ${broken?.law ?? 'none'} |`,
  );
  if (broken !== null) {
    failed = true;
    process.stderr.write(`${broken.law}: ${broken.why}\n  ${broken.trace.join('\n  ')}\n`);
  }
}
say(`| together | ${states} | | | | |`);
say('');
say(
  'Each rule left out or changed, over every turn; the shortest way to a broken law of the first turn that shows it:',
);
say('');
say('| rule | turns that show it | first law broken | shortest way |');
say('| --- | --- | --- | --- |');
for (const { rule, change } of groupMutants) {
  const caught = groupScripts.flatMap((script) => {
    const { broken } = checkModel(groupModel(script, change));
    return broken === null ? [] : [broken];
  });
  const [first] = caught;
  const shown = first === undefined ? 'NOT CAUGHT' : `${first.law} (${first.why})`;
  failed ||= first === undefined;
  say(`| ${rule} | ${caught.length} | ${shown} | ${first?.trace.join('; ') ?? ''} |`);
}
if (process.argv[2] !== undefined) writeFileSync(process.argv[2], `${lines.join('\n')}\n`);
if (failed) process.exitCode = 1;
