// The sealers of one pass, by scope: read, created on first use, opened once.
//   T12  a scope whose row is erased has no sealer; reading it names the erasure.

import type { Begun, ThreadRef, TurnRef, TurnStore } from '../ports/store.ts';
import type { KeyRow } from '../ports/subjects.ts';
import type { Sealer, Vault } from '../ports/vault.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { TenantId } from '../protocol/ids.ts';
import { splitScope } from '../protocol/scopes.ts';
import type { Runtime } from './runtime.ts';

/** The key rows of a store. */
export type KeyStore = Pick<TurnStore, 'key' | 'createKey'>;

export class Keyring {
  readonly #store: KeyStore;
  readonly #vault: Vault;
  readonly #thread: Pick<ThreadRef, 'tenant'>;
  readonly #sealers = new Map<string, Promise<Sealer | null>>();
  readonly #rows = new Map<string, KeyRow>();

  constructor(store: KeyStore, vault: Vault, thread: Pick<ThreadRef, 'tenant'>) {
    this.#store = store;
    this.#vault = vault;
    this.#thread = thread;
  }

  get tenant(): TenantId {
    return this.#thread.tenant;
  }

  /** The row of a scope as this pass saw or made it. */
  row(scope: string): KeyRow | undefined {
    return this.#rows.get(splitScope(scope).base);
  }

  /** Hands in a row that was read with the pass's own read round. */
  learn(row: KeyRow): void {
    if (!this.#rows.has(row.scope)) this.#rows.set(row.scope, row);
  }

  /** Takes a newer row of the same generation: a hold was placed or lifted meanwhile. */
  relearn(row: KeyRow): void {
    this.#rows.set(row.scope, row);
  }

  /** The sealer of a scope, minting its key when it never had one. Throws `subject_erased`. */
  async writer(scope: string): Promise<Sealer> {
    const { base } = splitScope(scope);
    const known = this.#rows.get(base) ?? (await this.#store.key(this.#thread.tenant, base));
    const row = known ?? (await this.#mint(base));
    this.#rows.set(base, row);
    const sealer = await this.reader(scope);
    if (sealer === null) {
      throw new TurnstoneError('subject_erased', 'the subject was erased', { retry: 'never' });
    }
    return sealer;
  }

  /** The sealer of a scope, or null when its key was destroyed, is of another generation, or never existed. */
  reader(scope: string): Promise<Sealer | null> {
    const standing = this.#sealers.get(scope);
    if (standing !== undefined) return standing;
    const opened = this.#open(scope);
    this.#sealers.set(scope, opened);
    return opened;
  }

  async #open(scope: string): Promise<Sealer | null> {
    const { base, generation } = splitScope(scope);
    const row = this.#rows.get(base) ?? (await this.#store.key(this.#thread.tenant, base));
    if (row === null || row.wrapped === null || row.state === 'erased') return null;
    if (row.generation !== generation) return null;
    this.#rows.set(base, row);
    return this.#vault.sealer(this.#thread.tenant, row);
  }

  async #mint(scope: string): Promise<KeyRow> {
    const row = await this.#vault.create(this.#thread.tenant, scope, 1);
    const made = await this.#store.createKey(this.#thread.tenant, row);
    if (made.kind === 'done') return row;
    if (made.kind === 'lost') return made.key;
    throw new TurnstoneError('store_unavailable', 'the key row of this scope could not be stored', {
      retry: 'now',
      details: { scope },
      cause: made.cause,
    });
  }
}

/** The keyring of a pass, with the row its begin read brought. */
export function keyringOf(runtime: Runtime, ref: TurnRef, begun: Begun): Keyring {
  const keyring = new Keyring(runtime.store, runtime.vault, ref);
  if (begun.key !== null) keyring.learn(begun.key);
  return keyring;
}
