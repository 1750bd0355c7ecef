// Acts under kills: turns stage acts and wait for what came of them, while the one process that relays and performs
// is killed with SIGKILL again and again; then every input is sent once more in full. The provider's ledger and the
// journals must agree on every act; how many landed out of their thread's order is counted (none may without kills).
//   npm run soak:intents -- --turns 200 [--kills 20] [--seed 1] [--report reports/soak-intents.md]
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Behaviour } from '../src/testing/provider-server.ts';
import { providerServer } from '../src/testing/provider-server.ts';
import { callApi, startServer } from './local-server.ts';

const recoveries = ['idempotent', 'reconcile', 'operator'] as const;
const timeoutMs = 400;
const turnsPerThread = 2;
/** Looks at a turn, a tenth of a second apart, before it counts as stuck. */
const endedTriesMax = 600;
const columns = ['acts', 'completed', 'refused', 'uncertain', 'landed', 'lost', 'doubled'] as const;
type Row = Record<(typeof columns)[number], number>;

export interface IntentSoak {
  readonly rows: ReadonlyMap<string, Row>;
  readonly acts: number;
  /** Requests the redelivery of every input caused. */
  readonly again: number;
  /** Acts of one thread that landed before an earlier one. */
  readonly overtaken: number;
  readonly faults: readonly string[];
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Runs it; what is wrong is in `faults`. */
export async function soakIntents(of: {
  readonly turns: number;
  readonly kills: number;
  readonly seed: number;
}): Promise<IntentSoak> {
  let state = of.seed >>> 0;
  const random = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const behaviours: readonly (() => Behaviour)[] = [
    () => ({ status: 409, applies: false }),
    () => ({ status: 429, applies: false }),
    () => ({ status: 500, applies: random() < 0.5 }),
    () => ({ reset: true, applies: random() < 0.5 }),
    // A getter: the wait begins when the request comes, not when it was planned.
    () => ({
      get holdAfter() {
        return pause(3 * timeoutMs);
      },
    }),
  ];
  const data = mkdtempSync(join(tmpdir(), 'turnstone-soak-intents-'));
  const provider = await providerServer();
  provider.dedup('/idempotent');
  for (const recovery of recoveries) {
    for (let n = 0; n < of.turns * 2; n += 1) {
      const odd = random() < 0.3;
      const make = behaviours[Math.floor(random() * behaviours.length)];
      provider.next(`/${recovery}`, odd && make !== undefined ? make() : {});
    }
  }
  const act = (recovery: string) => ({
    act: {
      kind: recovery,
      request: { method: 'POST', url: `\${vars.world}/${recovery}` },
      recovery,
      probe: { method: 'GET', url: '${vars.world}/probe/${idempotencyKey}' },
      timeoutMs,
      retry: { maxAttempts: 4, initialMs: 20, maxMs: 100 },
    },
    as: recovery,
  });
  const plan = (n: number) => {
    const order = recoveries.map((_, at) => recoveries[(at + n) % 3] ?? 'operator');
    const hear = order.map((recovery) => ({
      wait: { event: 'act.result', correlation: `\${${recovery}}` },
      as: `${recovery}-result`,
    }));
    return {
      vars: { world: provider.url },
      steps: [{ id: 'send', do: [...order.map(act), ...hear] }],
      reply: Object.fromEntries(order.map((name) => [name, `\${${name}-result.status}`])),
    };
  };

  let server = await startServer(data);
  const path = (n: number): string => `/v1/threads/soak-${Math.floor(n / turnsPerThread)}/turns`;
  const deliver = async (n: number): Promise<Record<string, unknown>> => {
    for (;;) {
      const answer = await callApi(server.url, 'POST', path(n), {
        body: { turnId: `t${n}`, agent: 'plan', input: plan(n) },
        headers: { prefer: 'respond-async' },
      }).catch(() => null);
      if (answer?.status === 202 || answer?.status === 200) return answer.body;
      await pause(50);
    }
  };
  const queue = Array.from({ length: of.turns }, (_, n) => n);
  const lanes = Array.from({ length: 10 }, async () => {
    for (let n = queue.shift(); n !== undefined; n = queue.shift()) await deliver(n);
  });
  for (let kill = 0; kill < of.kills; kill += 1) {
    await pause(200 + random() * 800);
    await server.kill('SIGKILL');
    server = await startServer(data);
  }
  await Promise.all(lanes);

  const ended = async (n: number): Promise<Record<string, unknown>> => {
    for (let tries = 0; ; tries += 1) {
      const answer = await callApi(server.url, 'GET', `${path(n)}/t${n}`).catch(() => null);
      const { status } = answer?.body ?? {};
      if (answer?.status === 200 && status !== 'running' && status !== 'suspended')
        return answer.body;
      if (tries === endedTriesMax) return { status: `still ${String(status)}` };
      await pause(100);
    }
  };
  const results: Record<string, unknown>[] = [];
  for (let n = 0; n < of.turns; n += 1) results.push(await ended(n));
  const asked = provider.ledger.length;
  const faults: string[] = [];
  for (let n = 0; n < of.turns; n += 1) {
    if ((await deliver(n)).replayed !== true) faults.push(`turn ${n}: sent again, not replayed`);
  }
  await pause(3_000);
  const again = provider.ledger.length - asked;
  if (again > 0) faults.push(`${again} requests after every input was sent again`);

  const landed = new Map<string, number[]>();
  for (const [at, entry] of provider.ledger.entries()) {
    if (entry.landed) landed.set(entry.key, [...(landed.get(entry.key) ?? []), at]);
  }
  const rows = new Map<string, Row>();
  const staged = new Map<string, { thread: string; at: string; seq: number }>();
  for (const [n, turn] of results.entries()) {
    const { body } = await callApi(server.url, 'GET', `${path(n)}/t${n}/journal`);
    if (body.verified !== true) faults.push(`turn ${n}: the chain does not verify`);
    const acts = (body.records as Record<string, unknown>[]).filter(
      (record) => record.kind === 'ActStaged',
    );
    if (acts.length !== 3 || turn.status !== 'succeeded')
      faults.push(`turn ${n}: ${String(turn.status)} with ${acts.length} acts`);
    for (const record of acts) {
      const recovery = String(record.effectKind);
      const id = String(record.intent);
      staged.set(id, { thread: path(n), at: String(record.at), seq: Number(record.seq) });
      const status = String(Reflect.get(Object(turn.result), recovery));
      const times = landed.get(id)?.length ?? 0;
      const row = rows.get(recovery) ?? blank();
      row.acts += 1;
      if (status === 'completed' || status === 'refused' || status === 'uncertain')
        row[status] += 1;
      if (times > 0) row.landed += 1;
      if (times > 1) row.doubled += 1;
      const wrong =
        status === 'uncertain' ? false : (status === 'completed') !== times > 0 || status === '';
      if (wrong) row.lost += 1;
      if (wrong || times > 1)
        faults.push(`turn ${n}, ${recovery}: told ${status}, landed ${times}`);
      rows.set(recovery, row);
    }
  }
  for (const key of landed.keys())
    if (!staged.has(key)) faults.push(`landed under ${key}, which no journal holds`);
  const overtaken = overtakings([...staged], landed);
  // The embedded queue dies with its process, and the sweep sends again by age: only without kills is order promised.
  if (overtaken > 0 && of.kills === 0)
    faults.push(`${overtaken} acts landed before an earlier one of their thread`);
  await server.kill('SIGKILL');
  await provider.close();
  rmSync(data, { recursive: true, force: true });
  return { rows, acts: staged.size, again, overtaken, faults };
}

function blank(): Row {
  return { acts: 0, completed: 0, refused: 0, uncertain: 0, landed: 0, lost: 0, doubled: 0 };
}

/** Acts that first landed before one of their thread that was staged earlier. */
function overtakings(
  staged: readonly [string, { thread: string; at: string; seq: number }][],
  landed: ReadonlyMap<string, readonly number[]>,
): number {
  const inOrder = staged.toSorted(([, one], [, other]) =>
    one.at === other.at ? one.seq - other.seq : one.at < other.at ? -1 : 1,
  );
  const last = new Map<string, number>();
  let count = 0;
  for (const [id, { thread }] of inOrder) {
    const first = landed.get(id)?.[0];
    if (first === undefined) continue;
    const before = last.get(thread) ?? -1;
    if (first < before) count += 1;
    last.set(thread, Math.max(first, before));
  }
  return count;
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      turns: { type: 'string', default: '200' },
      kills: { type: 'string', default: '20' },
      seed: { type: 'string', default: '1' },
      report: { type: 'string' },
    },
  });
  const of = {
    turns: Number(values.turns),
    kills: Number(values.kills),
    seed: Number(values.seed),
  };
  const { rows, acts, again, overtaken, faults } = await soakIntents(of);
  const threads = Math.ceil(of.turns / turnsPerThread);
  const lines = [
    `${acts} acts of ${of.turns} turns in ${threads} threads, ${of.kills} SIGKILLs, seed ${of.seed}`,
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
      : `They disagree:\n${faults.slice(0, 20).join('\n')}`,
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
  if (values.report !== undefined) {
    const head =
      '# Acts under kills\n\nMade by `npm run soak:intents`: see `scripts/soak-intents.ts`.\n\n';
    writeFileSync(values.report, `${head}${lines.join('\n')}\n`);
  }
  process.exitCode = faults.length === 0 ? 0 : 1;
}
