// Work rows: how accepted, stranded, waking and unsent work is found and cleared (page 09, rule 6).
//
//   B13  fields are changed one by one under the row's version, which never repeats, also when the row was
//        deleted and made again; a row is deleted only when nothing is left.
// A row that was read before is remembered as a hint, so that clearing it needs no second read; the
// condition decides, and a refusal brings the row that stands there.

import type {
  Acceptance,
  Accepted,
  Cleared,
  OutboxEntry,
  ThreadRef,
  TurnRef,
  WorkRow,
} from '../../ports/store.ts';
import type { EpochMs } from '../../protocol/ids.ts';
import type { Change, Clause, Item, ItemKey } from './driver.ts';
import { headKey, workKey, workPartition } from './layout.ts';
import { entryOut } from './payload-codec.ts';
import { backOff, sameAttr, type TableContext } from './table-context.ts';
import { headIn } from './turn-codec.ts';
import {
  acceptanceOut,
  isSpent,
  type SeenWork,
  versionOf,
  workIn,
  workNames,
} from './work-codec.ts';

const rewriteRoundsMax = 12;
const hintsMax = 1_000;

/** What `noteTry` may change. */
export interface TryChange {
  readonly wakeAt?: EpochMs | null;
  readonly tries?: number;
  readonly parkedReason?: string | null;
  readonly clearAccepted?: boolean;
  /** Changes nothing of a row that another write changed since. */
  readonly ifVersion?: string;
}

interface Rewrite {
  readonly set: Item;
  readonly remove: readonly string[];
  readonly after: WorkRow;
}

export class WorkRows {
  readonly #table: TableContext;
  readonly #hints = new Map<string, SeenWork>();

  constructor(table: TableContext) {
    this.#table = table;
  }

  /** Stores an accepted delivery and its inbox entry in one write; the acceptance itself is the witness. */
  async accept(
    ref: TurnRef,
    acceptance: Acceptance,
    entry: OutboxEntry,
    now: EpochMs,
  ): Promise<Accepted> {
    const place = await this.#table.names.turn(ref);
    const stored = acceptanceOut(acceptance);
    const outcome = await this.#table.driver.write([
      {
        kind: 'update',
        key: workKey(place, this.#table.shards),
        change: {
          set: {
            ...workNames(ref),
            ac: stored,
            ua: now,
            q: versionOf(entry.id, acceptance.at, stored),
          },
          append: { en: [entryOut(entry)] },
        },
        when: [{ attr: 'ac', is: 'absent' }],
      },
    ]);
    if (outcome.kind !== 'lost') return outcome;
    const item = outcome.refused[0]?.item ?? null;
    if (item !== null && sameAttr(item.ac, stored)) return { kind: 'done' };
    return { kind: 'lost', work: item === null ? null : workIn(item).row };
  }

  /** Work rows of one thread, lowest sequence first. */
  async ofThread(ref: ThreadRef): Promise<readonly WorkRow[]> {
    const thread = await this.#table.names.thread(ref);
    const rows = await this.#table.driver.query({
      table: 'WORK',
      pk: workPartition(thread, this.#table.shards),
      between: [`${thread}:`, `${thread}:\u007f`],
    });
    const seen = rows.map((row) => this.#remember(row.sk, row.item));
    return seen.sort((left, right) => left.sequence - right.sequence);
  }

  /**
   * Rows that need somebody at `now`, most overdue first: a run past its lease, a wake that is due, entries
   * unsent for `unsentMs`, an acceptance nobody claimed for as long.
   */
  async due(
    now: EpochMs,
    options: { readonly unsentMs: number; readonly limit: number },
  ): Promise<readonly WorkRow[]> {
    const shards = Array.from({ length: this.#table.shards }, (_, shard) => shard);
    const pages = await Promise.all(
      shards.map((shard) => this.#table.driver.query({ table: 'WORK', pk: `w${shard}` })),
    );
    const rows = pages.flat().map((row) => this.#remember(row.sk, row.item));
    const due = rows
      .map((row) => ({ row, since: dueSince(row, options.unsentMs) }))
      .filter((entry) => entry.since <= now)
      .sort((left, right) => left.since - right.since)
      .map((entry) => entry.row);
    const lapsed = await this.#withoutLiveLease(due, now, options.unsentMs);
    return lapsed.slice(0, options.limit);
  }

  /** Removes the named entries; the row goes with the last thing on it. A row that is gone is done. */
  async markSent(
    ref: TurnRef,
    entryIds: readonly string[],
    now: EpochMs,
    looked: number | null,
  ): Promise<Cleared> {
    const sent = new Set(entryIds);
    const cleared = await this.#rewrite(ref, (row) => {
      const entries = row.entries.filter((entry) => !sent.has(entry.id));
      const done = row.lookOwed !== null && row.lookOwed === looked;
      const after = { ...row, entries, updatedAt: now, lookOwed: done ? null : row.lookOwed };
      const remove = done ? ['lk'] : [];
      if (entries.length === 0) return { set: { ua: now }, remove: ['en', ...remove], after };
      return { set: { en: entries.map(entryOut), ua: now }, remove, after };
    });
    const gone = cleared.kind === 'lost' && cleared.work === null;
    return gone ? { kind: 'done' } : cleared;
  }

  /** Changes the delivery bookkeeping of a row that exists. */
  async noteTry(ref: TurnRef, change: TryChange, now: EpochMs): Promise<Cleared> {
    return this.#rewrite(ref, (row) => {
      if (change.ifVersion !== undefined && change.ifVersion !== row.version) return null;
      const set: Record<string, string | number> = { ua: now };
      const remove: string[] = [];
      put(set, remove, 'wk', change.wakeAt);
      put(set, remove, 'pr', change.parkedReason);
      put(set, remove, 'tr', change.tries);
      if (change.clearAccepted === true) remove.push('ac');
      const after: WorkRow = {
        ...row,
        accepted: change.clearAccepted === true ? null : row.accepted,
        wakeAt: change.wakeAt === undefined ? row.wakeAt : change.wakeAt,
        parkedReason: change.parkedReason === undefined ? row.parkedReason : change.parkedReason,
        tries: change.tries ?? row.tries,
        updatedAt: now,
      };
      return { set, remove, after };
    });
  }

  async #rewrite(ref: TurnRef, decide: (row: WorkRow) => Rewrite | null): Promise<Cleared> {
    const key = workKey(await this.#table.names.turn(ref), this.#table.shards);
    let seen = this.#hints.get(key.sk) ?? (await this.#read(key));
    for (let round = 1; round <= rewriteRoundsMax; round += 1) {
      if (seen === null) return { kind: 'lost', work: null };
      const rewrite = decide(seen.row);
      if (rewrite === null) return { kind: 'lost', work: seen.row };
      const { set, remove, after } = rewrite;
      const version = versionOf(seen.version, 0, [Object.entries(set).flat(), remove]);
      const when: Clause[] = [{ attr: 'q', is: 'eq', value: seen.version }];
      const change: Change = { set: { ...set, q: version }, remove };
      this.#hints.delete(key.sk);
      const outcome = await this.#table.driver.write([
        isSpent(after) ? { kind: 'delete', key, when } : { kind: 'update', key, change, when },
      ]);
      if (outcome.kind === 'done' && !isSpent(after))
        this.#hint(key.sk, { row: { ...after, version }, version });
      if (outcome.kind !== 'lost') return outcome;
      const item = outcome.refused[0]?.item ?? null;
      seen = item === null ? null : workIn(item);
      if (seen?.version === version) return { kind: 'done' };
      if (seen !== null) await backOff(this.#table.retry, round, 5, 100);
    }
    return { kind: 'lost', work: seen?.row ?? null };
  }

  async #read(key: ItemKey): Promise<SeenWork | null> {
    const [item] = await this.#table.driver.batchGet([key]);
    return item === null || item === undefined ? null : workIn(item);
  }

  #remember(sk: string, item: Item): WorkRow {
    const seen = workIn(item);
    this.#hint(sk, seen);
    return seen.row;
  }

  #hint(sk: string, seen: SeenWork): void {
    this.#hints.delete(sk);
    this.#hints.set(sk, seen);
    if (this.#hints.size > hintsMax) {
      const oldest = this.#hints.keys().next();
      if (oldest.done !== true) this.#hints.delete(oldest.value);
    }
  }

  /** A renewal moves the head alone, so a row's run due is only a hint: the head decides who is stranded. */
  async #withoutLiveLease(
    rows: readonly WorkRow[],
    now: EpochMs,
    unsentMs: number,
  ): Promise<readonly WorkRow[]> {
    const running = rows.filter((row) => row.runDueAt !== null);
    if (running.length === 0) return rows;
    const keys = await Promise.all(
      running.map(async (row) => headKey(await this.#table.names.thread(row.ref))),
    );
    const unique = [...new Map(keys.map((key) => [key.pk, key])).values()];
    const items = await this.#table.driver.batchGet(unique);
    const heads = new Map(unique.map((key, at) => [key.pk, items[at] ?? null]));
    const live = new Set<WorkRow>();
    for (const [at, row] of running.entries()) {
      const item = heads.get(keys[at]?.pk ?? '') ?? null;
      const open = item === null ? null : headIn(item).open;
      if (open?.turn === row.ref.turn && open.leaseUntil > now) live.add(row);
    }
    return rows.filter((row) => !live.has(row) || dueSince(row, unsentMs, 'live') <= now);
  }
}

/** The instant from which a row needs somebody; infinite for one that is parked or at rest. */
function dueSince(row: WorkRow, unsentMs: number, run: 'live' | 'as stored' = 'as stored'): number {
  if (row.parkedReason !== null) return Number.POSITIVE_INFINITY;
  const instants: number[] = [];
  if (row.runDueAt !== null && run === 'as stored') instants.push(row.runDueAt);
  if (row.wakeAt !== null) instants.push(row.wakeAt);
  const unclaimed = row.accepted !== null && row.runDueAt === null && row.wakeAt === null;
  if (row.entries.length > 0 || unclaimed || row.lookOwed !== null)
    instants.push(row.updatedAt + unsentMs);
  return Math.min(Number.POSITIVE_INFINITY, ...instants);
}

function put(
  set: Record<string, string | number>,
  remove: string[],
  name: string,
  value: string | number | null | undefined,
): void {
  if (value === undefined) return;
  if (value === null) remove.push(name);
  else set[name] = value;
}
