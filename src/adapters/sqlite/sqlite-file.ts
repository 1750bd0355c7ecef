// One SQLite database with its key file attached: pragmas, schema, cached statements, transactions.
//
//   T1   a transaction is one synchronous function under BEGIN IMMEDIATE: nothing can join it (page 09, 6).
//   T12  key rows live in a file of their own, so that a copy of the data carries no keys; deleted rows
//        are overwritten (secure_delete).
// Durability: WAL with synchronous=FULL, one sync for each commit. Several processes may share the files on
// a local disk; a file that cannot be put into WAL mode (a network share) is refused.
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { constants, DatabaseSync, type StatementSync } from 'node:sqlite';
import { TurnstoneError } from '../../protocol/errors.ts';
import type { Table } from '../table/driver.ts';

/** Where the rows are: files, or memory of this process. */
export type SqlitePlace =
  | { readonly kind: 'memory' }
  | { readonly kind: 'files'; readonly data: string; readonly keys: string };

/** Bumped with a migration. */
const schemaVersion = 1;
/** Blocks the event loop at most this long when another process holds the lock. */
const busyBlockMs = 20;
const openBlockMs = 5_000;

const tables: Readonly<Record<Table, string>> = {
  DATA: 'main.data',
  WORK: 'main.work',
  LEDGER: 'main.ledger',
  KEYS: 'keyfile.keys',
};

const ownTables = new Set(['data', 'work', 'ledger', 'keys', 'announced']);
const rowActions = new Set([
  constants.SQLITE_INSERT,
  constants.SQLITE_UPDATE,
  constants.SQLITE_DELETE,
  constants.SQLITE_READ,
]);
const freeActions = new Set([
  constants.SQLITE_SELECT,
  constants.SQLITE_FUNCTION,
  constants.SQLITE_RECURSIVE,
]);

/** Rows of tables that are not this store's, in the data file; nothing that changes a schema or a transaction. */
function mayLend(action: number, name: string | null, schema: string | null): boolean {
  if (freeActions.has(action)) return true;
  if (!rowActions.has(action) || name === null) return false;
  return schema === 'main' && !ownTables.has(name.toLowerCase()) && !name.startsWith('sqlite_');
}

export class SqliteFile {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  readonly #lent = new Map<string, StatementSync>();
  #dataVersion: number;

  constructor(place: SqlitePlace) {
    if (place.kind === 'files') {
      mkdirSync(dirname(place.data), { recursive: true });
      mkdirSync(dirname(place.keys), { recursive: true, mode: 0o700 });
    }
    this.#db = new DatabaseSync(place.kind === 'files' ? place.data : ':memory:', {
      timeout: openBlockMs,
    });
    try {
      this.#configure(place);
      this.#createTables();
      this.#db.exec(`PRAGMA busy_timeout = ${busyBlockMs}`);
      this.#dataVersion = this.#readDataVersion();
    } catch (error) {
      this.#db.close();
      throw error;
    }
  }

  /** SQL name of a table. */
  name(table: Table): string {
    return tables[table];
  }

  /** A prepared statement, cached by its text. */
  statement(sql: string): StatementSync {
    const cached = this.#statements.get(sql);
    if (cached !== undefined) return cached;
    const prepared = this.#db.prepare(sql);
    this.#statements.set(sql, prepared);
    return prepared;
  }

  /**
   * A statement of somebody else on tables of their own in the data file: it may change and read rows there, and
   * nothing else. Throws SQLite's error otherwise.
   */
  lentStatement(sql: string): StatementSync {
    const cached = this.#lent.get(sql);
    if (cached !== undefined) return cached;
    this.#db.setAuthorizer((action, name, _detail, schema) =>
      mayLend(action, name, schema) ? constants.SQLITE_OK : constants.SQLITE_DENY,
    );
    try {
      const prepared = this.#db.prepare(sql);
      this.#lent.set(sql, prepared);
      return prepared;
    } finally {
      this.#db.setAuthorizer(null);
    }
  }

  /** Runs a script that makes somebody else's tables, each statement on its own. */
  define(script: string): void {
    this.#db.exec(script);
  }

  /** Runs `work` on one snapshot of all tables. */
  snapshot<T>(work: () => T): T {
    return this.#within('BEGIN', work, () => true);
  }

  /** Runs `work` as the only writer; its changes stay only when `keep` says so. */
  transaction<T>(work: () => T, keep: (result: T) => boolean): T {
    return this.#within('BEGIN IMMEDIATE', work, keep);
  }

  /** True when another connection committed since the last call. */
  changed(): boolean {
    const version = this.#readDataVersion();
    const moved = version !== this.#dataVersion;
    this.#dataVersion = version;
    return moved;
  }

  /** Writes the logs of both files back and empties them; false when a reader prevents it. */
  emptyLogs(): boolean {
    return ['main', 'keyfile'].every((schema) => {
      const row = this.#db.prepare(`PRAGMA ${schema}.wal_checkpoint(TRUNCATE)`).get();
      return row?.busy === 0;
    });
  }

  close(): void {
    this.#statements.clear();
    this.#lent.clear();
    if (this.#db.isOpen) this.#db.close();
  }

  #within<T>(begin: string, work: () => T, keep: (result: T) => boolean): T {
    this.#db.exec(begin);
    try {
      const result = work();
      if (!keep(result)) {
        this.#db.exec('ROLLBACK');
        return result;
      }
      this.#commit();
      return result;
    } finally {
      if (this.#db.isOpen && this.#db.isTransaction) this.#db.exec('ROLLBACK');
    }
  }

  #commit(): void {
    try {
      this.#db.exec('COMMIT');
    } catch (error) {
      throw new CommitError(error);
    }
  }

  #configure(place: SqlitePlace): void {
    this.#db
      .prepare('ATTACH DATABASE ? AS keyfile')
      .run(place.kind === 'files' ? place.keys : ':memory:');
    for (const schema of ['main', 'keyfile']) {
      if (place.kind === 'files') this.#useWal(schema);
      this.#db.exec(`PRAGMA ${schema}.synchronous = FULL`);
      this.#db.exec(`PRAGMA ${schema}.secure_delete = ON`);
    }
  }

  #useWal(schema: string): void {
    const row = this.#db.prepare(`PRAGMA ${schema}.journal_mode = WAL`).get();
    const mode = row?.journal_mode;
    if (mode === 'wal') return;
    throw new TurnstoneError(
      'store_rejected',
      `${schema}: expected a local disk that allows WAL mode, got journal mode ${String(mode)}`,
      { retry: 'never', details: { schema, mode: String(mode) } },
    );
  }

  #createTables(): void {
    this.transaction(
      () => {
        for (const name of Object.values(tables)) {
          this.#db.exec(
            `CREATE TABLE IF NOT EXISTS ${name} (pk TEXT NOT NULL, sk TEXT NOT NULL,
             body BLOB NOT NULL, PRIMARY KEY (pk, sk)) STRICT, WITHOUT ROWID`,
          );
        }
        this.#db.exec(
          `CREATE TABLE IF NOT EXISTS main.announced (scope TEXT NOT NULL, effect TEXT NOT NULL,
           PRIMARY KEY (scope, effect)) STRICT, WITHOUT ROWID`,
        );
        this.#checkVersion();
      },
      () => true,
    );
  }

  #checkVersion(): void {
    const found = this.#db.prepare('PRAGMA main.user_version').get()?.user_version;
    if (found === 0) this.#db.exec(`PRAGMA main.user_version = ${schemaVersion}`);
    else if (found !== schemaVersion) {
      throw new TurnstoneError(
        'schema_from_future',
        `data file: expected schema ${schemaVersion}, got ${String(found)}`,
        { retry: 'never', details: { expected: schemaVersion, got: String(found) } },
      );
    }
  }

  #readDataVersion(): number {
    const version = this.statement('PRAGMA main.data_version').get()?.data_version;
    return typeof version === 'number' ? version : 0;
  }
}

/** A COMMIT that failed: whether it took effect is not known. */
export class CommitError extends Error {
  override readonly name = 'CommitError';
  constructor(cause: unknown) {
    super('the commit of a transaction failed', { cause });
  }
}

const sqliteBusy = 5;
const sqliteLocked = 6;

/** True for an error that says another connection holds the lock: nothing was written. */
export function isBusy(error: unknown): boolean {
  const code = resultCode(error);
  return code === sqliteBusy || code === sqliteLocked;
}

/** The primary result code of an SQLite error, null for any other value. */
export function resultCode(error: unknown): number | null {
  if (!(error instanceof Error) || !('errcode' in error)) return null;
  return typeof error.errcode === 'number' ? error.errcode & 0xff : null;
}
