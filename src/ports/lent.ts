// Rows of the caller's own tables that go into the journal's transaction: declared, never called back [T9, GR-13].

/** One SQLite statement on the data file; it must change exactly `changes` rows, else the whole is refused. */
export interface SqlEntry {
  /** One INSERT, UPDATE, DELETE or REPLACE on tables of your own. */
  readonly sql: string;
  readonly params?: readonly (string | number | null | Uint8Array)[];
  /** Default 1. */
  readonly changes?: number;
}

/** What one atomic member writes, for each engine it may run on. */
export interface AtomicEntries {
  /** Entries of TransactWriteItems (`Put`, `Update`, `Delete`, `ConditionCheck`), attribute values in wire form. */
  readonly dynamodb?: readonly object[];
  readonly sqlite?: readonly SqlEntry[];
}

/** Which engine lends its transaction; null for a store that cannot. */
export type Lender = keyof AtomicEntries | null;

/** Entries for one engine, ready to go into a transaction. */
export type LentEntry = object | SqlEntry;
