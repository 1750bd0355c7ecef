// The model of effect groups, checked whole, with every mutant: `npm run model:groups [report.md]`.
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
  'Each rule left out or changed, over a turn that shows it: the law it breaks and the shortest way there:',
);
say('');
say('| rule | turn | states seen | law broken | shortest way |');
say('| --- | --- | --- | --- | --- |');
for (const { rule, change, script: name } of groupMutants) {
  const script = groupScripts.find((one) => one.name === name);
  if (script === undefined) throw new Error(`no turn is called "${name}"`);
  const { broken, states: seen } = checkModel(groupModel(script, change));
  failed ||= broken === null;
  const law = broken === null ? 'NOT CAUGHT' : `${broken.law} (${broken.why})`;
  say(`| ${rule} | ${name} | ${seen} | ${law} | ${broken?.trace.join('; ') ?? ''} |`);
}
if (process.argv[2] !== undefined) writeFileSync(process.argv[2], `${lines.join('\n')}\n`);
if (failed) process.exitCode = 1;
