// The table driver on node:sqlite: conditions are read and decided inside one synchronous transaction.
//
// Owns: conditional writes, the unique announcement index, waiting for other processes. Does not own:
// files and pragmas (sqlite-file.ts) or what items mean.
//   T1   all operations of a write commit together.
//   T5   an effect key is announced once in its turn: a unique index beside the caller's view.
//   T11  the limits of the grown-up store are enforced by the same names.
// Busy comes only at BEGIN, hence is never "unknown"; a failed COMMIT is sent again and decided by its witness.
import type { LentEntry, SqlEntry } from '../../ports/lent.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import {
  assertItemFits,
  assertRequestFits,
  itemBytes,
  readUnits,
  requestBytes,
  writeUnits,
} from '../table/capacity.ts';
import type {
  Item,
  ItemKey,
  OnRequest,
  Range,
  Refusal,
  RetryTools,
  Row,
  TableDriver,
  WriteOp,
  WriteOutcome,
} from '../table/driver.ts';
import { changed, holds } from '../table/evaluate.ts';
import { backOff } from '../table/table-context.ts';
import { itemFromBytes, itemToBytes } from './item-bytes.ts';
import { CommitError, isBusy, resultCode, type SqliteFile } from './sqlite-file.ts';

const busyRoundsMax = 300;
const commitRoundsMax = 3;

interface Applied {
  readonly refused: readonly Refusal[];
  readonly units: number;
}

export class SqliteDriver implements TableDriver {
  readonly lender = 'sqlite';
  readonly #file: SqliteFile;
  readonly #retry: RetryTools;
  readonly #onRequest: OnRequest | undefined;

  constructor(file: SqliteFile, retry: RetryTools, onRequest?: OnRequest) {
    this.#file = file;
    this.#retry = retry;
    this.#onRequest = onRequest;
  }

  async batchGet(keys: readonly ItemKey[]): Promise<readonly (Item | null)[]> {
    const items = await this.#whenFree(() =>
      this.#file.snapshot(() => keys.map((key) => this.#get(key))),
    );
    const units = keys.reduce(
      (sum, key, at) => sum + readUnits(itemBytes(key, items[at] ?? null)),
      0,
    );
    this.#onRequest?.({ op: 'batchGet', writes: 0, units });
    return items;
  }

  async query(range: Range): Promise<readonly Row[]> {
    const [from, to] = range.between ?? ['', '\u{10ffff}'];
    const sql = `SELECT sk, body FROM ${this.#file.name(range.table)}
      WHERE pk = ? AND sk >= ? AND sk <= ?
      ORDER BY sk ${range.last === undefined ? 'ASC' : 'DESC'} LIMIT ?`;
    const most = range.last ?? -1;
    const found = await this.#whenFree(() =>
      this.#file.statement(sql).all(range.pk, from, to, most),
    );
    const rows = found.map((row) => ({ sk: String(row.sk), item: itemOf(row.body) }));
    const bytes = rows.reduce(
      (sum, row) => sum + itemBytes({ table: range.table, pk: range.pk, sk: row.sk }, row.item),
      0,
    );
    this.#onRequest?.({ op: 'query', writes: 0, units: readUnits(bytes) });
    return rows;
  }

  async write(ops: readonly WriteOp[], lent: readonly LentEntry[] = []): Promise<WriteOutcome> {
    assertRequestFits(ops, lent.length);
    for (let round = 1; ; round += 1) {
      try {
        const applied = await this.#whenFree(() => this.#transact(ops, lent));
        return applied.refused.length === 0
          ? { kind: 'done' }
          : { kind: 'lost', refused: applied.refused };
      } catch (error) {
        if (!(error instanceof CommitError)) throw error;
        if (round === commitRoundsMax) return { kind: 'unknown', cause: error };
        await backOff(this.#retry, round, 20, 500);
      }
    }
  }

  async close(): Promise<void> {
    this.#file.close();
  }

  #transact(ops: readonly WriteOp[], lent: readonly LentEntry[]): Applied {
    const applied = this.#file.transaction(
      () => this.#decide(ops, lent),
      (result) => result.refused.length === 0,
    );
    const [first] = ops;
    if (first !== undefined) {
      const op = ops.length + lent.length > 1 ? 'transact' : first.kind;
      this.#onRequest?.({ op, writes: ops.length, units: applied.units });
    }
    return applied;
  }

  /** Every condition first, on what stands before the write; then every change. */
  #decide(ops: readonly WriteOp[], lent: readonly LentEntry[]): Applied {
    const standing = ops.map((op) => this.#get(op.key));
    const refused: Refusal[] = [];
    for (const [index, op] of ops.entries()) {
      const item = standing[index] ?? null;
      if (!holds(op.when, item)) refused.push({ op: index, item });
    }
    let units = 0;
    const transactional = ops.length + lent.length > 1;
    for (const [index, op] of ops.entries()) {
      const before = standing[index] ?? null;
      const after = imageAfter(op, before);
      const bytes = Math.max(itemBytes(op.key, before), itemBytes(op.key, after), requestBytes(op));
      units += writeUnits(bytes, transactional);
      if (refused.length > 0 || op.kind === 'check') continue;
      assertItemFits(op.key, itemBytes(op.key, after));
      const announced = this.#apply(op, after);
      if (announced !== undefined) refused.push({ op: index, item: null, announced });
    }
    for (const [index, entry] of lent.entries()) {
      if (refused.length > 0) break;
      const detail = this.#lend(entry as SqlEntry);
      if (detail === null) continue;
      refused.push({ op: ops.length + index, item: null, detail: `entry ${index}: ${detail}` });
    }
    return { refused, units };
  }

  /** Runs a lent statement; answers why the whole must not stand, or null. Nothing but a lock is thrown. */
  #lend({ sql, params = [], changes = 1 }: SqlEntry): string | null {
    try {
      const got = Number(this.#file.lentStatement(sql).run(...params).changes);
      return got === changes ? null : `expected ${changes} changed rows, got ${got}`;
    } catch (error) {
      if (isBusy(error)) throw error;
      return error instanceof Error ? error.message : String(error);
    }
  }

  /** Stores the image after; answers an effect key that was announced before. */
  #apply(op: WriteOp, after: Item | null): string | undefined {
    const { table, pk, sk } = op.key;
    const name = this.#file.name(table);
    if (after === null) {
      this.#file.statement(`DELETE FROM ${name} WHERE pk = ? AND sk = ?`).run(pk, sk);
      return undefined;
    }
    this.#file
      .statement(
        `INSERT INTO ${name} (pk, sk, body) VALUES (?, ?, ?)
         ON CONFLICT DO UPDATE SET body = excluded.body`,
      )
      .run(pk, sk, itemToBytes(after));
    if (op.kind !== 'put' || op.announced === undefined) return undefined;
    const insert = this.#file.statement(
      'INSERT INTO main.announced (scope, effect) VALUES (?, ?) ON CONFLICT DO NOTHING',
    );
    for (const key of op.announced.keys) {
      if (insert.run(op.announced.scope, key).changes === 0) return key;
    }
    return undefined;
  }

  #get(key: ItemKey): Item | null {
    const sql = `SELECT body FROM ${this.#file.name(key.table)} WHERE pk = ? AND sk = ?`;
    const row = this.#file.statement(sql).get(key.pk, key.sk);
    return row === undefined ? null : itemOf(row.body);
  }

  /** Repeats while another connection holds the lock, leaving the event loop free between tries. */
  async #whenFree<T>(attempt: () => T): Promise<T> {
    for (let round = 1; ; round += 1) {
      try {
        return attempt();
      } catch (error) {
        if (error instanceof CommitError) throw error;
        if (!isBusy(error) || round === busyRoundsMax) throw unavailable(error);
        await backOff(this.#retry, Math.min(round, 5), 4, 60);
      }
    }
  }
}

function imageAfter(op: WriteOp, before: Item | null): Item | null {
  switch (op.kind) {
    case 'put':
      return op.item;
    case 'update':
      return changed(before, op.change);
    case 'delete':
      return null;
    case 'check':
      return before;
  }
}

function itemOf(body: unknown): Item {
  if (!(body instanceof Uint8Array)) {
    throw new TurnstoneError('record_skew', 'a stored row has no body', { retry: 'never' });
  }
  return itemFromBytes(body);
}

/** An SQLite error before COMMIT: nothing was written. Other errors pass as they are. */
function unavailable(error: unknown): unknown {
  const code = resultCode(error);
  if (code === null) return error;
  return new TurnstoneError('store_unavailable', `the store file answered SQLite code ${code}`, {
    retry: 'now',
    details: { sqlite: code },
    cause: error,
  });
}
