// A tenant's ledger: what its turns spent in a period, one row a rest, rolled up beside (page 09, B19).
//
//   T11  a row is written by the transaction that wins its journal position, so it stands once or not at all. A
//        roll-up adds rows to their sum and removes them in one transaction; the sum names the rows it took last,
//        so that a look in the middle of it counts none of them twice, and its version tells one that lost some.

import type { LedgerNote } from '../../ports/ledger.ts';
import { addSpend } from '../../protocol/budget.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import type { TenantId } from '../../protocol/ids.ts';
import { limits } from '../../protocol/limits.ts';
import type { Spend } from '../../protocol/record.ts';
import type { CountedSpend } from '../../protocol/tenant-budget.ts';
import type { Row, WriteOp } from './driver.ts';
import { asText, ItemReader } from './item-reader.ts';
import { rollKey, spendKey, spendPartition, spendSumKey, type TurnPlace } from './layout.ts';
import { backOff, type TableContext } from './table-context.ts';

const zero: Spend = { tokens: 0, minorUnits: 0 };
const lookRoundsMax = 8;
/** Rows of one roll-up: a transaction holds them, their sum and a little more. */
const rowsPerRollUp = 90;

/** The row of a rest, if it spent anything. */
export async function spendOps(
  table: TableContext,
  place: TurnPlace,
  write: {
    readonly ref: { readonly tenant: TenantId };
    readonly batch: { readonly index: number };
    readonly spend?: CountedSpend;
  },
): Promise<readonly WriteOp[]> {
  const { spend, ref, batch } = write;
  if (spend === undefined || (spend.tokens === 0 && spend.minorUnits === 0)) return [];
  const ledger = await table.names.ledger(ref.tenant, spend.period);
  const key = spendKey(ledger, place, batch.index, table.shards);
  return [{ kind: 'put', key, item: { t: spend.tokens, m: spend.minorUnits }, when: [] }];
}

interface Shard {
  readonly index: number;
  readonly version: number;
  readonly sum: Spend;
  /** Rows that are in no sum yet. */
  readonly rows: readonly Row[];
}

/** What the tenant has been charged in a period; a ledger found long is noted for the sweeper. */
export async function spentIn(
  table: TableContext,
  tenant: TenantId,
  period: string,
): Promise<Spend> {
  const ledger = await table.names.ledger(tenant, period);
  for (let round = 1; round <= lookRoundsMax; round += 1) {
    const shards = await Promise.all(indices(table).map((index) => look(table, ledger, index)));
    const after = await table.driver.batchGet(
      shards.map(({ index }) => spendSumKey(ledger, index)),
    );
    const still = shards.every(
      ({ version }, at) => new ItemReader('SUM', after[at] ?? {}).count('q') === version,
    );
    if (!still) {
      await backOff(table.retry, round, 5, 100);
      continue;
    }
    const rows = shards.reduce((count, shard) => count + shard.rows.length, 0);
    if (rows > limits.ledgerRowsMax) await note(table, ledger);
    return shards.reduce(
      (spent, shard) => shard.rows.map(spendIn).reduce(addSpend, addSpend(spent, shard.sum)),
      zero,
    );
  }
  throw unavailable('the ledger changed under every look', undefined);
}

function indices(table: TableContext): readonly number[] {
  return Array.from({ length: table.shards }, (_, index) => index);
}

async function look(table: TableContext, ledger: string, index: number): Promise<Shard> {
  const found = await table.driver.query({ table: 'WORK', pk: spendPartition(ledger, index) });
  const { sk } = spendSumKey(ledger, index);
  const summed = new ItemReader('SUM', found.find((row) => row.sk === sk)?.item ?? {});
  const taken = new Set(summed.list('k').map((name) => asText('SUM.k', name)));
  return {
    index,
    version: summed.count('q'),
    sum: { tokens: summed.count('t'), minorUnits: summed.count('m') },
    rows: found.filter((row) => row.sk !== sk && !taken.has(row.sk)),
  };
}

function spendIn(row: Row): Spend {
  const read = new ItemReader('SPND', row.item);
  return { tokens: read.count('t'), minorUnits: read.count('m') };
}

/** A note nobody heard of is put again by whoever reads the ledger next. */
async function note(table: TableContext, ledger: string): Promise<void> {
  await table.driver.write([
    { kind: 'put', key: rollKey(ledger, table.shards), item: {}, when: [] },
  ]);
}

/** Ledgers found long. */
export async function ledgersToRollUp(
  table: TableContext,
  limit: number,
): Promise<readonly LedgerNote[]> {
  const pages = await Promise.all(
    indices(table).map((index) => table.driver.query({ table: 'WORK', pk: `r${index}` })),
  );
  return pages
    .flat()
    .slice(0, limit)
    .map((row) => ({ ledger: row.sk }));
}

/** Rolls a ledger up; whoever loses a transaction to another leaves that part to it. */
export async function rollUpLedger(table: TableContext, { ledger }: LedgerNote): Promise<number> {
  let taken = 0;
  for (const index of indices(table)) taken += await rollUpShard(table, ledger, index);
  const key = rollKey(ledger, table.shards);
  const dropped = await table.driver.write([{ kind: 'delete', key, when: [] }]);
  if (dropped.kind === 'unknown') throw unavailable('a roll-up is not known', dropped.cause);
  return taken;
}

async function rollUpShard(table: TableContext, ledger: string, index: number): Promise<number> {
  let { version, sum, rows } = await look(table, ledger, index);
  const key = spendSumKey(ledger, index);
  let taken = 0;
  while (rows.length > 0) {
    const some = rows.slice(0, rowsPerRollUp);
    sum = some.map(spendIn).reduce(addSpend, sum);
    const set = { t: sum.tokens, m: sum.minorUnits, q: version + 1, k: some.map((row) => row.sk) };
    const outcome = await table.driver.write([
      {
        kind: 'update',
        key,
        change: { set },
        when: version === 0 ? [{ is: 'no item' }] : [{ attr: 'q', is: 'eq', value: version }],
      },
      ...some.map(({ sk }): WriteOp => {
        return { kind: 'delete', key: { ...key, sk }, when: [{ is: 'item' }] };
      }),
    ]);
    if (outcome.kind === 'unknown') throw unavailable('a roll-up is not known', outcome.cause);
    if (outcome.kind === 'lost') return taken;
    taken += some.length;
    version += 1;
    rows = rows.slice(rowsPerRollUp);
  }
  return taken;
}

function unavailable(message: string, cause: unknown): TurnstoneError {
  return new TurnstoneError('store_unavailable', message, { retry: 'now', cause });
}
