// What a soak of acts came to: the provider's ledger against the journals, act by act, thread by thread.
import type { LedgerEntry } from '../../src/testing/provider-server.ts';
import type { Load } from './load.ts';
import { inLanes, pathOf, recoveries, recoveryOf, turnsOf } from './load.ts';
import type { Site } from './site.ts';

export const columns = [
  'acts',
  'completed',
  'refused',
  'uncertain',
  'landed',
  'lost',
  'doubled',
] as const;
export type Row = Record<(typeof columns)[number], number>;

export interface Judgement {
  readonly rows: ReadonlyMap<string, Row>;
  readonly acts: number;
  /** Acts that landed after a later one of their thread had. */
  readonly overtaken: number;
  readonly faults: readonly string[];
}

interface Staged {
  readonly intent: string;
  readonly n: number;
  readonly seq: number;
  readonly at: string;
  readonly recovery: string;
  /** What the turn was told. */
  readonly status: string;
}

export async function judge(
  site: Site,
  load: Load,
  turns: readonly Record<string, unknown>[],
  ledger: readonly LedgerEntry[],
): Promise<Judgement> {
  const faults: string[] = [];
  const staged: Staged[] = [];
  await inLanes(turnsOf(load), 8, async (n) => {
    staged.push(...(await stagedBy(site, load, n, turns[n] ?? {}, faults)));
  });
  const landed = new Map<string, number[]>();
  for (const [at, entry] of ledger.entries()) {
    if (entry.landed) landed.set(entry.key, [...(landed.get(entry.key) ?? []), at]);
  }
  const rows = new Map<string, Row>(recoveries.map((name) => [name, blank()]));
  for (const act of staged) {
    const wrong = count(
      rows.get(act.recovery) ?? blank(),
      act,
      landed.get(act.intent)?.length ?? 0,
    );
    if (wrong !== null) faults.push(wrong);
  }
  const known = new Set(staged.map(({ intent }) => intent));
  for (const key of landed.keys()) {
    if (!known.has(key)) faults.push(`landed under ${key}, which no journal holds`);
  }
  if (known.size !== turnsOf(load) * load.actsPerTurn)
    faults.push(`${known.size} acts were staged`);
  const overtaken = overtakings(staged, landed, load);
  if (overtaken > 0) faults.push(`${overtaken} acts landed after a later one of their thread`);
  return { rows, acts: known.size, overtaken, faults };
}

async function stagedBy(
  site: Site,
  load: Load,
  n: number,
  turn: Record<string, unknown>,
  faults: string[],
): Promise<readonly Staged[]> {
  const answer = await site.call('GET', `${pathOf(load, n)}/t${n}/journal`);
  const { verified, records } = answer?.body ?? {};
  if (verified !== true) faults.push(`turn ${n}: the chain does not verify`);
  const acts = (Array.isArray(records) ? records : []).filter(
    (record: Record<string, unknown>) => record.kind === 'ActStaged',
  );
  if (acts.length !== load.actsPerTurn || turn.status !== 'succeeded') {
    faults.push(`turn ${n}: ${String(turn.status)} with ${acts.length} acts`);
  }
  return acts.map((record: Record<string, unknown>, act) => ({
    intent: String(record.intent),
    n,
    seq: Number(record.seq),
    at: String(record.at),
    recovery: recoveryOf(n, act),
    status: String(Reflect.get(Object(turn.result), `a${act}`)),
  }));
}

/** Counts an act; what it says when the turn was told another thing than the provider saw. */
function count(row: Row, act: Staged, times: number): string | null {
  const { status } = act;
  row.acts += 1;
  const told = status === 'completed' || status === 'refused' || status === 'uncertain';
  if (told) row[status] += 1;
  if (times > 0) row.landed += 1;
  if (times > 1) row.doubled += 1;
  const wrong = !told || (status !== 'uncertain' && (status === 'completed') !== times > 0);
  if (wrong) row.lost += 1;
  return wrong || times > 1
    ? `turn ${act.n}, ${act.recovery}: told ${status}, landed ${times}`
    : null;
}

function blank(): Row {
  return { acts: 0, completed: 0, refused: 0, uncertain: 0, landed: 0, lost: 0, doubled: 0 };
}

/** Acts that first landed after one of their thread that was staged later (B-42). */
function overtakings(
  staged: readonly Staged[],
  landed: ReadonlyMap<string, readonly number[]>,
  load: Load,
): number {
  const inOrder = staged.toSorted((one, other) =>
    one.at === other.at && one.n === other.n
      ? one.seq - other.seq
      : one.at < other.at || (one.at === other.at && one.n < other.n)
        ? -1
        : 1,
  );
  const last = new Map<string, number>();
  let overtaken = 0;
  for (const { intent, n } of inOrder) {
    const first = landed.get(intent)?.[0];
    if (first === undefined) continue;
    const thread = pathOf(load, n);
    const before = last.get(thread) ?? -1;
    if (first < before) overtaken += 1;
    last.set(thread, Math.max(first, before));
  }
  return overtaken;
}
