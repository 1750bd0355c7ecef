// The store of graph checkpoints: what a LangGraph saver keeps beside the turns, on the same engine.
//
// Owns: which checkpoint is the newest of its namespace, and the writes made upon each. Does not own:
// sealing and the serialised form (integrations/langgraph) or parts of large values (`putParts`).
//   T5   a checkpoint and a task's writes are immutable once stored: storing the same again changes nothing.
//   T12  rows hold sealed bytes; names of threads, namespaces and tasks are hashed in keys.

import type { TenantId, ThreadId } from '../protocol/ids.ts';
import type { SealedPayload } from './store.ts';

/** A thread of a graph, and the namespace of the graph or subgraph in it ('' for the root). */
export interface GraphPlace {
  readonly tenant: TenantId;
  readonly thread: ThreadId;
  readonly namespace: string;
}

/** One checkpoint. Its id sorts by age: a later one is greater. */
export interface GraphCheckpoint {
  readonly namespace: string;
  readonly id: string;
  readonly parent: string | null;
  readonly scope: string;
  /** Sealed: the checkpoint without its large values. */
  readonly head: SealedPayload;
  readonly metadata: SealedPayload;
  /** Large values, in the order `head` names them; a value that did not change is named again, not stored again. */
  readonly values: readonly GraphValue[];
}

/** A large value and the scope it was sealed under. */
export interface GraphValue {
  readonly scope: string;
  readonly payload: SealedPayload;
}

/** Writes of one task upon a checkpoint. */
export interface GraphWrites {
  readonly task: string;
  readonly path: string;
  /** Names these writes among the task's; part of the key. */
  readonly slot: string;
  readonly indices: readonly number[];
  readonly scope: string;
  readonly payload: SealedPayload;
}

export interface GraphTuple {
  readonly checkpoint: GraphCheckpoint;
  readonly writes: readonly GraphWrites[];
}

export interface GraphStore {
  /** Stores a checkpoint; one without a parent also enters its thread and namespace where they are listed. */
  putCheckpoint(place: GraphPlace, row: GraphCheckpoint): Promise<void>;
  /**
   * Stores writes of a task. With `once`, writes that stand under the same slot are left as they are and their
   * indices are answered; null when nothing stood there.
   */
  putWrites(
    place: GraphPlace,
    checkpoint: string,
    row: GraphWrites,
    once: boolean,
  ): Promise<readonly number[] | null>;
  /** The checkpoint alone. */
  checkpoint(place: GraphPlace, id: string): Promise<GraphCheckpoint | null>;
  /** A checkpoint with its writes; the newest of the namespace for null. */
  tuple(place: GraphPlace, id: string | null): Promise<GraphTuple | null>;
  /** Checkpoints older than `before` (null: from the newest), newest first, page by page. */
  older(place: GraphPlace, before: string | null): AsyncIterable<GraphTuple>;
  /** Threads that have a checkpoint. */
  threads(tenant: TenantId): Promise<readonly ThreadId[]>;
  namespaces(thread: Omit<GraphPlace, 'namespace'>): Promise<readonly string[]>;
  /** Removes everything of a thread, parts first; what dies half-way is finished by the next call. */
  drop(thread: Omit<GraphPlace, 'namespace'>): Promise<void>;
}

/** A store that keeps graph checkpoints too. */
export interface GraphHolder {
  readonly graphs: GraphStore;
}
