// What an engine must do for the table store: conditional items and one kind of transaction.
//
// Owns: the vocabulary between the write paths (this folder) and an engine (sqlite, dynamodb). Does not
// own: what any item means (layout.ts) or who won a race (the write paths read the refused items).
//   T1  `write` with several operations takes effect as a whole or not at all.
//   T4  a refusal carries the item that stands there, so a lost acknowledgement can be told from a lost race.

import type { Lender, LentEntry } from '../../ports/lent.ts';

/** The four tables of page 09, section 1. */
export type Table = 'DATA' | 'WORK' | 'KEYS' | 'LEDGER';

/** One attribute value. Numbers are safe integers. */
export type Attr =
  | string
  | number
  | boolean
  | null
  | Uint8Array
  | readonly Attr[]
  | { readonly [name: string]: Attr };

/** The attributes of an item, without its key. */
export type Item = Readonly<Record<string, Attr>>;

/** Where an item lives. */
export interface ItemKey {
  readonly table: Table;
  readonly pk: string;
  readonly sk: string;
}

/** One condition on the item that stands at an operation's key; an operation's clauses are a conjunction. */
export type Clause =
  | { readonly is: 'no item' | 'item' }
  | { readonly attr: string; readonly is: 'absent' | 'present' }
  | {
      readonly attr: string;
      readonly is: 'eq' | 'lt' | 'le' | 'gt' | 'ge';
      readonly value: string | number | boolean;
    };

/** Keys an engine with unique indices must refuse to store twice within one scope [T5]. */
export interface Announced {
  readonly scope: string;
  readonly keys: readonly string[];
}

/** Changes of an update: an absent item is created, as far as its clauses allow that. */
export interface Change {
  readonly set?: Item;
  readonly remove?: readonly string[];
  /** Adds to a number; an absent one counts as 0. */
  readonly add?: Readonly<Record<string, number>>;
  /** Appends to a list; an absent one counts as empty. */
  readonly append?: Readonly<Record<string, readonly Attr[]>>;
}

export type WriteOp =
  | {
      readonly kind: 'put';
      readonly key: ItemKey;
      readonly item: Item;
      readonly when: readonly Clause[];
      readonly announced?: Announced;
    }
  | {
      readonly kind: 'update';
      readonly key: ItemKey;
      readonly change: Change;
      readonly when: readonly Clause[];
    }
  | { readonly kind: 'delete' | 'check'; readonly key: ItemKey; readonly when: readonly Clause[] };

/** One operation that was refused: its index, the item that stands there, a key announced before. */
export interface Refusal {
  readonly op: number;
  readonly item: Item | null;
  readonly announced?: string;
  /** Why a lent entry was refused. */
  readonly detail?: string;
}

/** `unknown` only after the same bytes were sent again up to a bound (page 09, rule 3). */
export type WriteOutcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'lost'; readonly refused: readonly Refusal[] }
  | { readonly kind: 'unknown'; readonly cause: unknown };

/** A partition, or the part of it between two sort keys, both inclusive. */
export interface Range {
  readonly table: Table;
  readonly pk: string;
  readonly between?: readonly [from: string, to: string];
  /** Only the last rows, at most that many, in descending order. */
  readonly last?: number;
}

export interface Row {
  readonly sk: string;
  readonly item: Item;
}

/** One request to an engine, as sent; resends are requests of their own. */
export interface RequestInfo {
  readonly op: 'batchGet' | 'query' | 'put' | 'update' | 'delete' | 'check' | 'transact';
  /** Actions that write or check; 0 for a read. */
  readonly writes: number;
  /** Write units of a write, read units of a read (capacity.ts). */
  readonly units: number;
}

export type OnRequest = (info: RequestInfo) => void;

export interface TableDriver {
  /** Whose form of entry `write` takes beside its operations; null for none. */
  readonly lender: Lender;
  /** All keys in one consistent round, side by side tables; an absent item is null. */
  batchGet(keys: readonly ItemKey[]): Promise<readonly (Item | null)[]>;
  /** Every row of a range, consistent, all pages, ascending; with `last`, the end of it, descending. */
  query(range: Range): Promise<readonly Row[]>;
  /**
   * One operation as a single conditional write, several as one transaction, never the same key twice.
   * Lent entries share the transaction; one that is refused is a refusal past the last operation.
   * Throws `record_too_large` naming the limit before anything is sent.
   */
  write(ops: readonly WriteOp[], lent?: readonly LentEntry[]): Promise<WriteOutcome>;
  close(): Promise<void>;
}

/** What an engine needs from its host to wait and to spread retries. */
export interface RetryTools {
  /** Resolves after `ms` milliseconds. */
  readonly sleep: (ms: number) => Promise<void>;
  /** A number in [0, 1). */
  readonly random: () => number;
}
