// Acts under kills: turns stage acts and wait for what came of them, while the workers that run turns, perform acts
// and relay are killed with SIGKILL, each apart, again and again; then every input is sent once more in full. The
// provider's ledger and the journals must agree on every act, and acts of a thread land in the order they were staged.
//   npm run soak:intents -- [--on embedded|aws|both] [--intents 10000] [--threads 200] [--kills 200] [--seed 1]
//                           [--report reports/soak-intents.md]
// On the local AWS a twentieth of the intents runs, over 50 threads (ruling 29).
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { embeddedSite } from './intents/embedded-site.ts';
import type { Judgement } from './intents/judge.ts';
import { columns, judge } from './intents/judge.ts';
import type { Load } from './intents/load.ts';
import { deliver, inLanes, oddProvider, pathOf, turnsOf } from './intents/load.ts';
import type { Site } from './intents/site.ts';
import { pause, seeded, until } from './intents/site.ts';

/** A soak in which nothing ends for this long is stuck, milliseconds. */
const stuckMs = 120_000;

export interface IntentSoak extends Judgement {
  readonly title: string;
  readonly load: Load;
  /** SIGKILLs by role. */
  readonly kills: Readonly<Record<string, number>>;
  readonly seed: number;
  /** Requests the redelivery of every input caused. */
  readonly again: number;
  readonly seconds: number;
}

export interface SoakOptions extends Load {
  /** Most kills; fewer when the load is done before. */
  readonly kills: number;
  readonly seed: number;
}

/** Runs it; what is wrong is in `faults`. */
export async function soakIntents(
  options: SoakOptions,
  open: (providerUrl: string) => Promise<Site> = embeddedSite,
): Promise<IntentSoak> {
  const { kills: most, seed, ...load } = options;
  const random = seeded(seed);
  const began = Date.now();
  const provider = await oddProvider(load, random);
  const site = await open(provider.url);
  try {
    const work = run(site, load, provider.url);
    const kills = await killing(site, most, random, work);
    const turns = await work;
    const asked = provider.ledger.length;
    const faults: string[] = [];
    await inLanes(turnsOf(load), 8, async (n) => {
      const { body } = await deliver(site, load, provider.url, n);
      if (body.replayed !== true) faults.push(`turn ${n}: sent again, not replayed`);
    });
    await until('rest after every input was sent again', stuckMs, async () => {
      await site.nudge();
      return site.atRest();
    });
    const again = provider.ledger.length - asked;
    if (again > 0) faults.push(`${again} requests after every input was sent again`);
    const judged = await judge(site, load, turns, provider.ledger);
    const seconds = Math.round((Date.now() - began) / 1000);
    const all = [...faults, ...judged.faults];
    return { ...judged, title: site.title, load, kills, seed, again, seconds, faults: all };
  } finally {
    await site.stop();
    await provider.close();
  }
}

/** Sends every turn and sees each to its end. */
async function run(
  site: Site,
  load: Load,
  world: string,
): Promise<readonly Record<string, unknown>[]> {
  await inLanes(turnsOf(load), 10, async (n) => void (await deliver(site, load, world, n)));
  const results: Record<string, unknown>[] = [];
  let open = Array.from({ length: turnsOf(load) }, (_, n) => n);
  let moved = Date.now();
  while (open.length > 0) {
    const left: number[] = [];
    await inLanes(open.length, 8, async (at) => {
      const n = open[at] ?? 0;
      const answer = await site.call('GET', `${pathOf(load, n)}/t${n}`);
      const status = answer?.body.status;
      if (answer?.status === 200 && status !== 'running' && status !== 'suspended') {
        results[n] = answer.body;
      } else left.push(n);
    });
    if (left.length < open.length) moved = Date.now();
    if (Date.now() - moved > stuckMs) {
      for (const n of left) results[n] = { status: 'stuck' };
      return results;
    }
    open = left.sort((one, other) => one - other);
    await site.nudge();
    await pause(500);
  }
  return results;
}

/** Kills workers of every role in turn, at odd moments, as long as there is work. */
async function killing(
  site: Site,
  most: number,
  random: () => number,
  work: Promise<unknown>,
): Promise<Record<string, number>> {
  const killed: Record<string, number> = {};
  let working = true;
  const ended = work.then(
    () => undefined,
    () => undefined,
  );
  void ended.then(() => {
    working = false;
  });
  for (let kill = 0; kill < most && working; kill += 1) {
    await Promise.race([pause(100 + random() * 900), ended]);
    const role = site.roles[Math.floor(random() * site.roles.length)] ?? '';
    if (working && (await site.kill(role))) killed[role] = (killed[role] ?? 0) + 1;
  }
  return killed;
}

function reportOf(soak: IntentSoak): readonly string[] {
  const { load, kills, seed, again, overtaken, seconds, faults, rows, acts } = soak;
  const by = Object.entries(kills).map(([role, times]) => `${times} of ${role}`);
  return [
    `## ${soak.title}`,
    '',
    `${acts} acts of ${turnsOf(load)} turns in ${load.threads} threads, seed ${seed}, ${seconds} s. SIGKILLs: ${by.join(', ') || 'none'}.`,
    '',
    `| recovery | ${columns.join(' | ')} |`,
    `| --- | ${columns.map(() => '---:').join(' | ')} |`,
    ...[...rows].map(
      ([name, row]) => `| ${name} | ${columns.map((column) => row[column]).join(' | ')} |`,
    ),
    '',
    `Sent again in full: ${again} requests. Landed out of their thread's order: ${overtaken}.`,
    '',
    faults.length === 0
      ? 'The ledger of the provider and the journals agree on every act.'
      : `They disagree:\n\n${faults
          .slice(0, 20)
          .map((fault) => `- ${fault}`)
          .join('\n')}`,
    '',
  ];
}

function loadOf(intents: number, threads: number, timeoutMs: number): Load {
  const actsPerTurn = 5;
  const turnsPerThread = Math.ceil(intents / threads / actsPerTurn);
  return { threads, turnsPerThread, actsPerTurn, timeoutMs };
}

async function command(): Promise<number> {
  const { values } = parseArgs({
    options: {
      on: { type: 'string', default: 'both' },
      intents: { type: 'string', default: '10000' },
      threads: { type: 'string', default: '200' },
      kills: { type: 'string', default: '200' },
      seed: { type: 'string', default: '1' },
      report: { type: 'string' },
    },
  });
  const [intents, threads] = [Number(values.intents), Number(values.threads)];
  const faults = { kills: Number(values.kills), seed: Number(values.seed) };
  const soaks: IntentSoak[] = [];
  if (values.on !== 'aws') {
    soaks.push(await soakIntents({ ...loadOf(intents, threads, 400), ...faults }));
  }
  if (values.on !== 'embedded') {
    const { awsSite } = await import('./intents/aws-site.ts');
    const load = loadOf(Math.ceil(intents / 20), Math.ceil(threads / 4), 1_000);
    soaks.push(await soakIntents({ ...load, ...faults }, awsSite));
  }
  const lines = soaks.flatMap(reportOf);
  process.stdout.write(`${lines.join('\n')}\n`);
  if (values.report !== undefined) {
    const head =
      '# Acts under kills\n\nMade by `npm run soak:intents`: see `scripts/soak-intents.ts`.\n\n';
    writeFileSync(values.report, `${head}${lines.join('\n')}`);
  }
  return soaks.every((soak) => soak.faults.length === 0) ? 0 : 1;
}

if (import.meta.main) process.exitCode = await command();
