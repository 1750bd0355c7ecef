// Sealing of a graph's rows: under the tenant's own key, or under that of the person the graph is about.
//   T12  a person's key row is read for every call, so an erasure ends reading at once; what was sealed is noise.
import type { GraphPlace } from '../../ports/graphs.ts';
import type { SealedPayload, TurnStore } from '../../ports/store.ts';
import type { SealContext, Sealer, Vault } from '../../ports/vault.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import type { SubjectId, TurnId } from '../../protocol/ids.ts';
import { scopeTag } from '../../protocol/scopes.ts';
import { Keyring } from '../../runtime/keyring.ts';
import { openBytes, sealBytes } from '../../runtime/payloads.ts';

export type SealingStore = Pick<
  TurnStore,
  'key' | 'createKey' | 'scopeOf' | 'putParts' | 'getParts'
>;

export interface Sealed {
  readonly scope: string;
  readonly payload: SealedPayload;
}

/** Seals and opens for one thread and, where it is about a person, for one call. */
export class GraphSealing {
  readonly #store: SealingStore;
  readonly #keyring: Keyring;
  readonly #place: GraphPlace;
  readonly #subject: SubjectId | null;
  readonly #failed: () => void;
  #writer: Promise<{ readonly scope: string; readonly sealer: Sealer }> | null = null;

  /** `failed` is told when a key could not be had; nothing is asked of this value after that. */
  constructor(
    store: SealingStore,
    keyring: Keyring,
    place: GraphPlace,
    subject: SubjectId | null,
    failed: () => void,
  ) {
    this.#store = store;
    this.#keyring = keyring;
    this.#place = place;
    this.#subject = subject;
    this.#failed = failed;
  }

  /** Seals bytes for `use`; parts, where there are any, are stored when it resolves. */
  async seal(use: string, bytes: Uint8Array, inlineBytes: number): Promise<Sealed> {
    this.#writer ??= this.#open();
    const { scope, sealer } = await this.#keyed(this.#writer);
    const { payload, parts } = sealBytes(sealer, this.#context(use), bytes, inlineBytes);
    if (parts !== null) await this.#store.putParts(this.#place.tenant, parts);
    return { scope, payload };
  }

  /** Throws `subject_erased` when the key is gone. */
  async open(use: string, { scope, payload }: Sealed): Promise<Uint8Array> {
    const sealer = await this.#keyed(this.#keyring.reader(scope));
    if (sealer === null) {
      throw new TurnstoneError('subject_erased', 'the subject of this graph was erased', {
        retry: 'never',
      });
    }
    return openBytes(this.#store, sealer, this.#context(use), payload);
  }

  async #open(): Promise<{ readonly scope: string; readonly sealer: Sealer }> {
    const base = await this.#store.scopeOf(this.#place, this.#subject);
    const row = this.#keyring.row(base) ?? (await this.#store.key(this.#place.tenant, base));
    if (row !== null) this.#keyring.learn(row);
    const scope = scopeTag(base, row?.generation ?? 1);
    return { scope, sealer: await this.#keyring.writer(scope) };
  }

  async #keyed<T>(key: Promise<T>): Promise<T> {
    try {
      return await key;
    } catch (error) {
      this.#failed();
      throw error;
    }
  }

  #context(use: string): SealContext {
    const { tenant, thread, namespace } = this.#place;
    const bound = JSON.stringify(['graph', namespace, use]);
    return { tenant, thread, turn: '' as TurnId | '', use: bound, at: 0 };
  }
}

/** Makes the sealing of calls: a tenant's keys are opened once, a person's for each call. */
export class GraphKeys {
  readonly #store: SealingStore;
  readonly #vault: Vault;
  readonly #subject: SubjectId | null;
  readonly #known = new Map<string, GraphSealing>();

  constructor(store: SealingStore, vault: Vault, subject: SubjectId | null) {
    this.#store = store;
    this.#vault = vault;
    this.#subject = subject;
  }

  of(place: GraphPlace): GraphSealing {
    const name = JSON.stringify([place.thread, place.namespace]);
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const keyring = new Keyring(this.#store, this.#vault, place);
    const forget = () => this.#known.delete(name);
    const made = new GraphSealing(this.#store, keyring, place, this.#subject, forget);
    if (this.#subject === null) remember(this.#known, name, made, knownMax);
    return made;
  }
}

const knownMax = 500;

/** Keeps at most `most` entries, the oldest going first. */
export function remember<T>(map: Map<string, T>, name: string, value: T, most: number): void {
  const [oldest] = map.keys();
  if (map.size >= most && oldest !== undefined) map.delete(oldest);
  map.set(name, value);
}
