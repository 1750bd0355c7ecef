// Stores for tests, opened the way a composition root does.
import { openSqliteStore } from '../src/adapters/sqlite/open-sqlite-store.ts';
import type { SqliteStore } from '../src/adapters/sqlite/open-sqlite-store.ts';
import type { OnRequest } from '../src/adapters/table/driver.ts';

const tools = {
  names: { secret: async () => new Uint8Array(32).fill(7) },
  sleep: (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms)),
  random: Math.random,
};

/** A SQLite store in memory. */
export function memoryStore(onRequest?: OnRequest): SqliteStore {
  return openSqliteStore({ path: ':memory:', ...tools, ...(onRequest === undefined ? {} : { onRequest }) });
}

/** A SQLite store in a file, for several openers. */
export function fileStore(path: string): SqliteStore {
  return openSqliteStore({ path, ...tools });
}
