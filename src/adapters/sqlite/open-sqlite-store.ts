// Opens the embedded store: the table store over node:sqlite.
import type { GraphHolder } from '../../ports/graphs.ts';
import type { TurnStore } from '../../ports/store.ts';
import type { OnRequest, RetryTools } from '../table/driver.ts';
import { type NameSecrets, Names } from '../table/names.ts';
import { TableStore } from '../table/table-store.ts';
import { SqliteDriver } from './sqlite-driver.ts';
import { SqliteFile, type SqlitePlace } from './sqlite-file.ts';

export interface SqliteStoreOptions extends RetryTools {
  /** The data file on a local disk, made when absent; `:memory:` lives and dies with the store. */
  readonly path: string;
  /** File of the key rows; default: the data file's path with `.keys` added. */
  readonly keysPath?: string;
  readonly names: NameSecrets;
  /** Partitions of the work rows, the same for ever; default 1: a file has no hot partition. */
  readonly shards?: number;
  readonly onRequest?: OnRequest;
  /** Makes tables of your own in the data file (`CREATE TABLE IF NOT EXISTS ...`), for atomic members of groups. */
  readonly ownTables?: string;
}

/** The embedded store, with a cheap look whether another process wrote. */
export interface SqliteStore extends TurnStore, GraphHolder {
  /** True when another connection committed since the last call. */
  changed(): boolean;
  /** Rows of your own tables; the statement may read nothing else. */
  ownRows(sql: string, ...params: readonly (string | number)[]): readonly object[];
}

class SqliteTableStore extends TableStore implements SqliteStore {
  readonly #file: SqliteFile;

  constructor(file: SqliteFile, options: SqliteStoreOptions) {
    super({
      driver: new SqliteDriver(file, options, options.onRequest),
      names: new Names(options.names),
      shards: options.shards ?? 1,
      retry: options,
    });
    this.#file = file;
    if (options.ownTables !== undefined) file.define(options.ownTables);
  }

  ownRows(sql: string, ...params: readonly (string | number)[]): readonly object[] {
    return this.#file.lentStatement(sql).all(...params);
  }

  changed(): boolean {
    return this.#file.changed();
  }

  /** An updated key's old bytes stay in the log until it is emptied (page 09, section 6) [T12]. */
  override scrub(): Promise<boolean> {
    return Promise.resolve(this.#file.emptyLogs());
  }
}

/** Opens or makes the store; throws `store_rejected` where WAL is impossible, `schema_from_future` for a newer file. */
export function openSqliteStore(options: SqliteStoreOptions): SqliteStore {
  return new SqliteTableStore(new SqliteFile(placeOf(options)), options);
}

function placeOf(options: SqliteStoreOptions): SqlitePlace {
  if (options.path === ':memory:') return { kind: 'memory' };
  return {
    kind: 'files',
    data: options.path,
    keys: options.keysPath ?? `${options.path}.keys`,
  };
}
