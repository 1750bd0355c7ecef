// What agent code says and hears of memory: facts, selections, removals, releases.
import type { SearchPair } from '../ports/embedder.ts';
import type { Sensitivity, Trust } from '../protocol/labels.ts';

/** A fact about the turn's subject; its trust and origin come from where it was made, never from the caller. */
export interface Remember {
  readonly id: string;
  /** Must be the turn's subject; default that. */
  readonly subject?: string;
  readonly purpose: string;
  /** JSON-like, or a labelled value: the fact then carries its label, else that of all this turn has seen (ME-3). */
  readonly content: unknown;
  readonly expiresInMs?: number;
  /** Milliseconds it may stay unread before a sweep takes it; a recall with `refreshAccess` opens them again. */
  readonly accessWindowMs?: number;
  /** Recalled facts it was made from: it is forgotten with them when one is forgotten in cascade. */
  readonly derivedFrom?: readonly RecalledItem[];
}

export interface Recall {
  readonly subject?: string;
  readonly purpose: string;
  /** Default 20. */
  readonly limit?: number;
  /** Opens the access windows of what is found again. */
  readonly refreshAccess?: boolean;
}

/** What a release makes of a label. */
export interface Release {
  readonly trust?: Trust;
  readonly sensitivity?: Sensitivity;
  /** Why it may be; at most `limits.noteBytes`. */
  readonly reason: string;
}

/** A search by meaning among what a recall of this purpose would see. */
export interface Search {
  readonly purpose: string;
  readonly text: string;
  /** Default 20. */
  readonly limit?: number;
  /** What `pairSearch` made. */
  readonly using: SearchPair;
}

export interface FoundItem extends RecalledItem {
  /** Higher is nearer. */
  readonly score: number;
}

export interface Forget {
  readonly id: string;
  /** Also removes every version that was derived from it, however far. Default false. */
  readonly cascade?: boolean;
}

export interface Removed {
  /** Ids that are gone whole, and versions in all. */
  readonly items: number;
  readonly versions: number;
}

export interface Swept extends Removed {
  /** Milliseconds of the epoch; what had lapsed by then went. */
  readonly cutoff: number;
}

export interface RecalledItem {
  readonly id: string;
  readonly version: number;
  readonly purpose: string;
  readonly content: unknown;
  readonly trust: Trust;
  readonly sensitivity: Sensitivity;
  /** Where it came from. */
  readonly sources: readonly string[];
  /** Keyed digest of everything the version holds; empty for a fact this turn staged. */
  readonly commitment: string;
  /** ISO 8601. */
  readonly at: string;
}
