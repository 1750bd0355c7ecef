// `npm run bench:agents`: the same agent of five tools on three runtimes, killed with SIGKILL at every call; then what
// a turn of ten steps asks of its store. Counts and ratios; bare times mean nothing elsewhere.
//   npm run bench:agents [-- --report reports/agents.md]
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { Contender, Figures } from './agents/kill.ts';
import { contenders, killEverywhere } from './agents/kill.ts';
import { overheadRatio, requestsPerTurn, steps } from './agents/requests.ts';

const { values } = parseArgs({ options: { report: { type: 'string' } } });

const titles: Readonly<Record<Contender, string>> = {
  'ai-sdk-alone': 'AI SDK alone',
  langgraph: 'LangGraph, its own SQLite saver',
  turnstone: 'Turnstone, AI SDK, SQLite',
};

const columns: readonly (readonly [string, (figures: Figures) => string | number])[] = [
  ['kills', ({ kills }) => kills],
  ['acts done twice', ({ actsTwice }) => actsTwice],
  ['acts missing', ({ actsMissing }) => actsMissing],
  ['answers lost', ({ answersLost }) => answersLost],
  ['tokens paid twice', ({ tokensTwice }) => tokensTwice],
  ['tokens in flight, paid again', ({ tokensInFlight }) => tokensInFlight],
  ['no answer', ({ unanswered }) => unanswered],
  ['calls made : needed', ({ landed, needed }) => (landed / needed).toFixed(2)],
];

function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string[] {
  const all = [head, ...rows].map((cells) => cells.map(String));
  const widths = head.map((_, at) => Math.max(...all.map((cells) => cells[at]?.length ?? 0)));
  const padded = all.map((cells) =>
    cells.map((cell, at) =>
      at === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[at] ?? 0),
    ),
  );
  const rule = widths.map((width, at) =>
    at === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`,
  );
  const [top = [], ...below] = padded;
  return [top, rule, ...below].map((cells) => `| ${cells.join(' | ')} |`);
}

const killed: (string | number)[][] = [];
for (const contender of contenders) {
  const figures = await killEverywhere(contender);
  killed.push([titles[contender], ...columns.map(([, of]) => of(figures))]);
  process.stderr.write(`${titles[contender]}: ${figures.kills} kills\n`);
}
const asked = await requestsPerTurn();
const ratio = await overheadRatio(60);

const lines = [
  'Five completions and five tools (a search; reserve and charge, whose provider recognises the key it is sent; ship and',
  'mail, which can only be asked about). SIGKILL when a call arrives at its provider, and again when it has landed and its',
  'answer is on the way; then the process is started again, once. Every tool sends the key its runtime gives it; Turnstone',
  'asks where it is told how. A completion on its way at the kill is counted apart: no client can save it.',
  '',
  ...table(['runtime', ...columns.map(([name]) => name)], killed),
  '',
  `Requests of a turn of ${steps} steps:`,
  '',
  ...table(
    ['runtime', 'reads', 'writes', 'requests a step'],
    asked.map(({ name, reads, writes }) => [
      name,
      reads,
      writes,
      ((reads + writes) / steps).toFixed(1),
    ]),
  ),
  '',
  `A turn of ${steps} steps, Turnstone : LangGraph, each on a file of the same SQLite, synchronous: ${ratio.toFixed(2)} x`,
];
process.stdout.write(`${lines.join('\n')}\n`);
if (values.report !== undefined) {
  const head =
    '# Agents\n\nMade by `npm run bench:agents`; `bench/agents` holds the contenders.\n\n';
  writeFileSync(values.report, `${head}${lines.join('\n')}\n`);
}
