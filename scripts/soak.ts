// A hostile afternoon: many turns against a provider that refuses, hangs, resets, applies and hangs or answers
// garbage, with the server killed in between; then the provider's ledger and the journals must agree on every effect.
//   npm run soak -- --turns 1000 [--kills 20] [--seed 1] [--report reports/soak.md]
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { idempotencyKey } from '../src/protocol/keys.ts';
import type { Behaviour } from '../src/testing/provider-server.ts';
import { providerServer } from '../src/testing/provider-server.ts';
import { callApi, startServer } from './local-server.ts';

const { values } = parseArgs({
  options: {
    turns: { type: 'string', default: '200' },
    kills: { type: 'string', default: '10' },
    seed: { type: 'string', default: '1' },
    report: { type: 'string' },
  },
});
const turns = Number(values.turns);
const kills = Number(values.kills);
let state = Number(values.seed) >>> 0;
const random = (): number => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
};
const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const recoveries = ['idempotent', 'reconcile', 'operator'] as const;
const timeoutMs = 400;
const behaviours: Readonly<Record<string, () => Behaviour>> = {
  fine: () => ({}),
  refuses: () => ({ status: 409, applies: false }),
  'is busy': () => ({ status: 429, applies: false }),
  fails: () => ({ status: 500, applies: random() < 0.5 }),
  resets: () => ({ reset: true, applies: random() < 0.5 }),
  // Getters: the wait begins when the request comes, not when it was planned.
  hangs: () => ({
    applies: false,
    get holdBefore() {
      return pause(3 * timeoutMs);
    },
  }),
  'applies and hangs': () => ({
    get holdAfter() {
      return pause(3 * timeoutMs);
    },
  }),
  'answers garbage': () => ({ body: '{"id":', headers: { 'content-type': 'application/json' } }),
};

const data = mkdtempSync(join(tmpdir(), 'turnstone-soak-'));
const provider = await providerServer();
for (const recovery of recoveries) {
  const path = `/${recovery}`;
  if (recovery === 'idempotent') provider.dedup(path);
  for (let n = 0; n < turns * 2; n += 1) {
    const name = random() < 0.5 ? 'fine' : pick(Object.keys(behaviours));
    provider.next(path, behaviours[name]?.() ?? {});
  }
}

const plan = (n: number) => {
  const order = recoveries.map((_, at) => recoveries[(at + n) % recoveries.length] ?? 'idempotent');
  return {
    vars: { world: provider.url },
    steps: order.map((recovery) => ({
      id: recovery,
      do: [
        {
          effect: {
            kind: recovery,
            request: { method: 'POST', url: `\${vars.world}/${recovery}` },
            recovery,
            probe: { method: 'GET', url: '${vars.world}/probe/${idempotencyKey}' },
            timeoutMs,
            retry: { maxAttempts: 4, initialMs: 20, maxMs: 100 },
          },
        },
      ],
    })),
  };
};

let server = await startServer(data);
const thread = (n: number): string => `/v1/threads/soak-${n}/turns`;

async function deliver(n: number): Promise<void> {
  for (;;) {
    const answer = await callApi(server.url, 'POST', thread(n), {
      body: { turnId: 't1', agent: 'plan', input: plan(n) },
      headers: { prefer: 'respond-async' },
    }).catch(() => null);
    if (answer?.status === 202 || answer?.status === 200) return;
    await pause(50);
  }
}

const queue = Array.from({ length: turns }, (_, n) => n);
const lanes = Array.from({ length: 20 }, async () => {
  for (let n = queue.shift(); n !== undefined; n = queue.shift()) await deliver(n);
});
let restarting: Promise<void> = Promise.resolve();
for (let kill = 0; kill < kills; kill += 1) {
  await pause(200 + random() * 800);
  restarting = server.kill('SIGKILL').then(async () => {
    server = await startServer(data);
  });
  await restarting;
}
await Promise.all(lanes);

async function ended(n: number): Promise<Record<string, unknown>> {
  for (;;) {
    const answer = await callApi(server.url, 'GET', `${thread(n)}/t1`).catch(() => null);
    if (answer?.status === 200 && answer.body.status !== 'running') return answer.body;
    await pause(100);
  }
}

type Row = Record<
  'effects' | 'done' | 'failed' | 'inDoubt' | 'landed' | 'lost' | 'doubled',
  number
>;
const table = new Map<string, Row>();
const statuses = new Map<string, number>();
const landed = new Map<string, number>();
const faults: string[] = [];

const undecided = new Map<number, ReadonlySet<string>>();
for (let n = 0; n < turns; n += 1) {
  const turn = await ended(n);
  const open = turn.undecided as readonly { step: string }[];
  undecided.set(n, new Set(open.map(({ step }) => step)));
  statuses.set(String(turn.status), (statuses.get(String(turn.status)) ?? 0) + 1);
}
for (const entry of provider.ledger) {
  if (entry.landed) landed.set(entry.key, (landed.get(entry.key) ?? 0) + 1);
}
for (let n = 0; n < turns; n += 1) {
  const { body } = await callApi(server.url, 'GET', `${thread(n)}/t1/journal`);
  if (body.verified !== true) faults.push(`turn ${n}: the chain does not verify`);
  const records = body.records as Record<string, unknown>[];
  for (const recovery of recoveries) {
    const own = records.filter((record) => record.step === recovery);
    if (!own.some((record) => record.kind === 'EffectStarted')) continue;
    const key = idempotencyKey({
      tenant: 'acme',
      thread: `soak-${n}`,
      turnId: 't1',
      step: recovery,
      phase: 'forward',
      ordinal: 0,
    });
    const times = landed.get(key) ?? 0;
    const last = own.findLast((record) => String(record.kind).startsWith('Effect'));
    const doubt = undecided.get(n)?.has(recovery) === true;
    const done = last?.kind === 'EffectDone' || last?.disposition === 'landed';
    const row = table.get(recovery) ?? {
      effects: 0,
      done: 0,
      failed: 0,
      inDoubt: 0,
      landed: 0,
      lost: 0,
      doubled: 0,
    };
    row.effects += 1;
    row.landed += times > 0 ? 1 : 0;
    if (doubt) row.inDoubt += 1;
    else if (done) row.done += 1;
    else row.failed += 1;
    if (times > 1) row.doubled += 1;
    const wrong = !doubt && done !== times > 0;
    if (wrong) row.lost += 1;
    if (wrong || times > 1)
      faults.push(`turn ${n}, ${recovery}: journal ${done ? 'done' : 'not done'}, landed ${times}`);
    table.set(recovery, row);
  }
}
await server.kill('SIGKILL');
await provider.close();
rmSync(data, { recursive: true, force: true });

const columns = ['effects', 'done', 'failed', 'inDoubt', 'landed', 'lost', 'doubled'] as const;
const lines = [
  `${turns} turns, ${kills} SIGKILLs, seed ${values.seed}: ${[...statuses].map(([name, count]) => `${count} ${name}`).join(', ')}`,
  '',
  `| recovery | ${columns.join(' | ')} |`,
  `| --- | ${columns.map(() => '---:').join(' | ')} |`,
  ...[...table].map(
    ([name, row]) => `| ${name} | ${columns.map((column) => row[column]).join(' | ')} |`,
  ),
  '',
  faults.length === 0
    ? 'The ledger of the provider and the journals agree on every effect.'
    : `They disagree:\n${faults.slice(0, 20).join('\n')}`,
];
process.stdout.write(`${lines.join('\n')}\n`);
if (values.report !== undefined) {
  const head =
    '# Soak\n\nMade by `npm run soak`: see `scripts/soak.ts` for what the provider does.\n\n';
  writeFileSync(values.report, `${head}${lines.join('\n')}\n`);
}
process.exitCode = faults.length === 0 ? 0 : 1;
