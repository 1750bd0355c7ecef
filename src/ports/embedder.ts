// Search by meaning: what turns text into vectors, and what ranks remembered facts by them.
//   ME-23 the two are wired as a pair (`pairSearch`); callers never state a vector space.

/** Turns text into a vector of one space. */
export interface Embedder {
  /** Names model and space of a query's vector; another revision is another space. */
  readonly revision: string;
  embed(text: string, signal: AbortSignal): Promise<readonly number[]>;
}

/** A fact as an index may rank it: a current version of the turn's subject and purpose. */
export interface Candidate {
  /** Hashed id. */
  readonly key: string;
  readonly version: number;
  /** Keyed digest of everything the version holds. */
  readonly commitment: string;
  readonly content: unknown;
}

/** What an index answers: a version it names, with its score; higher is nearer. */
export interface Hit {
  readonly key: string;
  readonly version: number;
  readonly commitment: string;
  readonly score: number;
}

export interface IndexQuery {
  readonly vector: readonly number[];
  readonly purpose: string;
  /** Most hits wanted. */
  readonly limit: number;
  /** What a recall would see now; an index of its own need not ask. */
  candidates(): Promise<readonly Candidate[]>;
  readonly signal: AbortSignal;
}

export interface MemoryIndex {
  /** Revision of the query vectors it takes. */
  readonly queryRevision: string;
  /** Names the state of the index that answered; recorded with the answer. */
  rank(query: IndexQuery): Promise<{ readonly snapshot: string; readonly hits: readonly Hit[] }>;
}

/** An embedder and an index of one space. */
export interface SearchPair {
  readonly embedder: Embedder;
  readonly index: MemoryIndex;
}
