// One contender, killed with SIGKILL at one call, started again until it answers, and counted at the provider.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Instant, Kill, Seen } from './provider.ts';
import { provide } from './provider.ts';
import { acts, answerText, callCount, stageOf, tokensPerCompletion } from './script.ts';

export const contenders = ['ai-sdk-alone', 'langgraph', 'turnstone'] as const;
export type Contender = (typeof contenders)[number];

export interface Figures {
  /** Processes killed. */
  readonly kills: number;
  /** Acts that took effect more than once. */
  readonly actsTwice: number;
  /** Acts that never took effect though the answer came. */
  readonly actsMissing: number;
  /** Answers, of model or tool, that had been heard before the kill and had to be asked for again. */
  readonly answersLost: number;
  /** Tokens of completions that had been answered before the kill and were generated again. */
  readonly tokensTwice: number;
  /** Tokens of the completion that was on its way when the process died: no client can save them. */
  readonly tokensInFlight: number;
  /** Runs that gave no answer even when started again. */
  readonly unanswered: number;
  /** Calls that happened at the provider. */
  readonly landed: number;
  /** Calls that would have happened without a kill. */
  readonly needed: number;
}

const none: Figures = {
  kills: 0,
  actsTwice: 0,
  actsMissing: 0,
  answersLost: 0,
  tokensTwice: 0,
  tokensInFlight: 0,
  unanswered: 0,
  landed: 0,
  needed: 0,
};

/** Kills at every given call and adds up. */
export async function killEverywhere(
  contender: Contender,
  instants: readonly Instant[] = ['arrived', 'landed'],
  calls: readonly number[] = Array.from({ length: callCount }, (_, index) => index + 1),
): Promise<Figures> {
  let sum = none;
  for (const call of calls) {
    for (const instant of instants) sum = added(sum, await killOnce(contender, { call, instant }));
  }
  return sum;
}

/** Runs, kills, runs again, counts. */
export async function killOnce(contender: Contender, fault: Kill): Promise<Figures> {
  const data = mkdtempSync(join(tmpdir(), `turnstone-agents-`));
  let victim: Child | null = null;
  const provider = await provide(fault, async () => {
    victim?.kill();
    await victim?.ended;
  });
  try {
    victim = run(contender, [data, provider.url, '0']);
    const first = await victim.ended;
    if (provider.hit === null)
      throw new Error(`${contender}: call ${fault.call} was never made: ${first.said}`);
    const second = await run(contender, [data, provider.url, '600000']).ended;
    if (second.code !== 0) process.stderr.write(`${contender}: ${second.said}\n`);
    return counted(provider.seen, provider.hit, second.answer === answerText);
  } finally {
    await provider.close();
    rmSync(data, { recursive: true, force: true });
  }
}

function counted(seen: readonly Seen[], hit: Seen, answered: boolean): Figures {
  const at = stageOf(hit.path);
  const landed = seen.filter((each) => each.landed);
  // What stands before the killed call in the script was heard: that call was made from it.
  const lost = seen.filter((each) => each.again && stageOf(each.path) < at);
  const models = (calls: readonly Seen[]) => calls.filter(({ path }) => path.startsWith('/model/'));
  const times = (path: string) => landed.filter((each) => each.path === path).length;
  const counts = acts.map((tool) => times(`/tool/${tool}`));
  const inFlight = hit.path.startsWith('/model/') && hit.landed ? times(hit.path) - 1 : 0;
  return {
    kills: 1,
    actsTwice: counts.filter((count) => count > 1).length,
    actsMissing: answered ? counts.filter((count) => count === 0).length : 0,
    answersLost: lost.length,
    tokensTwice: models(lost).filter((each) => each.landed).length * tokensPerCompletion,
    tokensInFlight: inFlight * tokensPerCompletion,
    unanswered: answered ? 0 : 1,
    landed: landed.length,
    needed: callCount,
  };
}

function added(left: Figures, right: Figures): Figures {
  const names = Object.keys(none) as (keyof Figures)[];
  return Object.fromEntries(
    names.map((name) => [name, left[name] + right[name]]),
  ) as unknown as Figures;
}

interface Child {
  readonly ended: Promise<{ readonly code: number | null; answer: string; said: string }>;
  kill(): void;
}

function run(contender: Contender, args: readonly string[]): Child {
  const entry = fileURLToPath(new URL(`${contender}.ts`, import.meta.url));
  const child = spawn(process.execPath, [entry, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const heard = { answer: '', said: '' };
  child.stdout.on('data', (chunk) => {
    heard.answer += chunk;
  });
  child.stderr.on('data', (chunk) => {
    heard.said = `${heard.said}${chunk}`.slice(-4_000);
  });
  return {
    ended: new Promise((resolve) => child.once('close', (code) => resolve({ code, ...heard }))),
    kill: () => child.kill('SIGKILL'),
  };
}
