// Unwrapped data keys of this process: few, for a short time, overwritten when they leave.
//   T12  a key is used only for a row that was just read; a row with another id or generation misses.

import type { KeyRow } from '../../ports/subjects.ts';

interface Entry {
  readonly key: Uint8Array;
  readonly until: number;
}

export interface KeyCacheOptions {
  /** Default 100 keys. */
  readonly keysMax?: number;
  /** Default 60000 ms. */
  readonly keptMs?: number;
  /** Monotonic milliseconds. */
  readonly monotonicMs: () => number;
}

export class KeyCache {
  readonly #entries = new Map<string, Entry>();
  readonly #keysMax: number;
  readonly #keptMs: number;
  readonly #monotonicMs: () => number;

  constructor(options: KeyCacheOptions) {
    this.#keysMax = options.keysMax ?? 100;
    this.#keptMs = options.keptMs ?? 60_000;
    this.#monotonicMs = options.monotonicMs;
  }

  /** The key of a row, unwrapping it when it is not held. */
  async get(tenant: string, row: KeyRow, unwrap: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const name = `${tenant}\n${row.scope}\n${row.id}\n${row.generation}`;
    const held = this.#entries.get(name);
    if (held !== undefined && held.until > this.#monotonicMs()) return held.key;
    if (held !== undefined) this.#drop(name, held);
    const key = await unwrap();
    this.#entries.set(name, { key, until: this.#monotonicMs() + this.#keptMs });
    const [oldest] = this.#entries;
    if (this.#entries.size > this.#keysMax && oldest !== undefined) this.#drop(...oldest);
    return key;
  }

  #drop(name: string, entry: Entry): void {
    this.#entries.delete(name);
    // A pass may still hold this buffer: it is overwritten once no pass that began before can use it.
    setTimeout(() => entry.key.fill(0), this.#keptMs).unref();
  }
}
