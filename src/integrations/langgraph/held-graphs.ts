// Graph checkpoints held in memory for one pass of a turn: what the graph reads and writes before the commit.
//
// Owns: rows of one thread, the newest by when it came (ids are made by clocks that may differ between
// machines), and their form as plain data. Does not own: durability; the turn's commit takes the data along.
//   T1  nothing here is visible to anybody before the turn commits.
//   T7  no call leaves the process or the microtask queue, so replays meet the same order of calls.
import type {
  GraphCheckpoint,
  GraphPlace,
  GraphStore,
  GraphTuple,
  GraphWrites,
} from '../../ports/graphs.ts';
import type { KeyRow, PartSet } from '../../ports/store.ts';
import type { Sealer, Vault } from '../../ports/vault.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import type { ThreadId } from '../../protocol/ids.ts';
import type { SealingStore } from './graph-sealing.ts';

/** One checkpoint with its writes, as plain data. */
export interface HeldTuple {
  readonly checkpoint: GraphCheckpoint;
  readonly writes: readonly GraphWrites[];
}

/** Everything that goes on to the next turn. */
export interface HeldRows {
  readonly tuples: readonly HeldTuple[];
  readonly parts: readonly PartSet[];
}

export class HeldGraphs implements GraphStore {
  readonly #thread: ThreadId;
  /** Namespace, then checkpoint id, in the order they came. */
  readonly #spaces = new Map<string, Map<string, GraphCheckpoint>>();
  readonly #writes = new Map<string, Map<string, GraphWrites>>();
  readonly #parts = new Map<string, PartSet>();

  constructor(thread: ThreadId, rows: HeldRows) {
    this.#thread = thread;
    for (const set of rows.parts) this.#parts.set(set.digest, set);
    for (const { checkpoint, writes } of rows.tuples) {
      this.#space(checkpoint.namespace).set(checkpoint.id, checkpoint);
      for (const row of writes)
        this.#upon(checkpoint.namespace, checkpoint.id).set(keyOf(row), row);
    }
  }

  /** Sealing that seals nothing: the data leaves only inside the turn's own sealed state. */
  readonly sealing: { readonly store: SealingStore; readonly vault: Vault } = {
    store: {
      key: () => Promise.resolve(clear),
      createKey: () => Promise.resolve({ kind: 'done' }),
      scopeOf: () => Promise.resolve(clear.scope),
      putParts: (_tenant, set) => {
        this.#parts.set(set.digest, set);
        return Promise.resolve();
      },
      getParts: (_tenant, { digest }) => {
        const set = this.#parts.get(digest);
        if (set === undefined) return Promise.reject(missing(digest));
        return Promise.resolve(Buffer.concat(set.parts));
      },
    },
    vault: { create: () => Promise.resolve(clear), sealer: () => Promise.resolve(clearSealer) },
  };

  /** The newest checkpoint of each namespace that `keeps`, with the parts they name. */
  newest(keeps: (namespace: string) => boolean): HeldRows {
    const tuples = [...this.#spaces.keys()].filter(keeps).flatMap((namespace) => {
      const newest = [...this.#space(namespace).values()].at(-1);
      return newest === undefined ? [] : [this.#tuple({ ...newest, parent: null })];
    });
    const named = tuples.flatMap(({ checkpoint, writes }) => [
      checkpoint.head,
      checkpoint.metadata,
      ...checkpoint.values.map(({ payload }) => payload),
      ...writes.map(({ payload }) => payload),
    ]);
    const digests = new Set(named.flatMap((one) => (one.kind === 'parts' ? [one.digest] : [])));
    return { tuples, parts: [...this.#parts.values()].filter(({ digest }) => digests.has(digest)) };
  }

  putCheckpoint(_place: GraphPlace, row: GraphCheckpoint): Promise<void> {
    const space = this.#space(row.namespace);
    space.delete(row.id);
    space.set(row.id, row);
    return Promise.resolve();
  }

  putWrites(
    place: GraphPlace,
    checkpoint: string,
    row: GraphWrites,
    once: boolean,
  ): Promise<readonly number[] | null> {
    const upon = this.#upon(place.namespace, checkpoint);
    const standing = once ? upon.get(keyOf(row)) : undefined;
    if (standing === undefined) upon.set(keyOf(row), row);
    return Promise.resolve(standing?.indices ?? null);
  }

  checkpoint(place: GraphPlace, id: string): Promise<GraphCheckpoint | null> {
    return Promise.resolve(this.#of(place).get(id) ?? null);
  }

  tuple(place: GraphPlace, id: string | null): Promise<GraphTuple | null> {
    const space = this.#of(place);
    const row = id === null ? [...space.values()].at(-1) : space.get(id);
    return Promise.resolve(row === undefined ? null : this.#tuple(row));
  }

  async *older(place: GraphPlace, before: string | null): AsyncGenerator<GraphTuple> {
    const rows = [...this.#of(place).values()].reverse();
    const from = before === null ? 0 : rows.findIndex(({ id }) => id === before) + 1;
    for (const row of rows.slice(from)) yield this.#tuple(row);
  }

  threads(): Promise<readonly ThreadId[]> {
    return Promise.resolve(this.#spaces.size === 0 ? [] : [this.#thread]);
  }

  namespaces({ thread }: Omit<GraphPlace, 'namespace'>): Promise<readonly string[]> {
    return Promise.resolve(thread === this.#thread ? [...this.#spaces.keys()].sort() : []);
  }

  drop({ thread }: Omit<GraphPlace, 'namespace'>): Promise<void> {
    if (thread === this.#thread) for (const map of [this.#spaces, this.#writes]) map.clear();
    return Promise.resolve();
  }

  #of({ thread, namespace }: GraphPlace): ReadonlyMap<string, GraphCheckpoint> {
    return (thread === this.#thread ? this.#spaces.get(namespace) : undefined) ?? new Map();
  }

  #space(namespace: string): Map<string, GraphCheckpoint> {
    return entry(this.#spaces, namespace);
  }

  #upon(namespace: string, checkpoint: string): Map<string, GraphWrites> {
    return entry(this.#writes, JSON.stringify([namespace, checkpoint]));
  }

  #tuple(checkpoint: GraphCheckpoint): HeldTuple {
    const writes = this.#upon(checkpoint.namespace, checkpoint.id);
    return { checkpoint, writes: [...writes.values()] };
  }
}

function keyOf({ task, slot }: GraphWrites): string {
  return JSON.stringify([task, slot]);
}

function entry<T>(map: Map<string, Map<string, T>>, name: string): Map<string, T> {
  const known = map.get(name);
  if (known !== undefined) return known;
  const made = new Map<string, T>();
  map.set(name, made);
  return made;
}

const clear: KeyRow = {
  scope: 'held',
  id: 'held',
  generation: 1,
  state: 'live',
  lifecycle: 0,
  wrapped: new Uint8Array(0),
};

const clearSealer: Sealer = {
  scope: clear.scope,
  generation: clear.generation,
  seal: (plain) => plain,
  open: (sealed) => sealed,
  mac: () => '',
};

function missing(digest: string): TurnstoneError {
  return new TurnstoneError('payload_missing', `part set ${digest} is not held`, {
    retry: 'never',
    details: { digest },
  });
}
