// Stores for tests, opened the way a composition root does: SQLite always, DynamoDB where an endpoint is.
import { randomUUID } from 'node:crypto';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { inject, test } from 'vitest';
import { createTables } from '../src/adapters/dynamodb/create-tables.ts';
import { openDynamoStore } from '../src/adapters/dynamodb/open-dynamo-store.ts';
import type { SqliteStore } from '../src/adapters/sqlite/open-sqlite-store.ts';
import { openSqliteStore } from '../src/adapters/sqlite/open-sqlite-store.ts';
import type { OnRequest } from '../src/adapters/table/driver.ts';
import type { GraphHolder } from '../src/ports/graphs.ts';
import type { TurnStore } from '../src/ports/store.ts';
import type { SdkFaultPlan } from '../src/testing/sdk-faults.ts';
import { injectSdkFaults } from '../src/testing/sdk-faults.ts';
import './setup/emulators.ts';

export const tools = {
  names: { secret: async () => new Uint8Array(32).fill(7) },
  sleep: (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms)),
  random: Math.random,
};

/** A SQLite store in memory. */
export function memoryStore(onRequest?: OnRequest): SqliteStore {
  return openSqliteStore({
    path: ':memory:',
    ...tools,
    ...(onRequest === undefined ? {} : { onRequest }),
  });
}

/** A SQLite store in a file, for several openers. */
export function fileStore(path: string): SqliteStore {
  return openSqliteStore({ path, ...tools });
}

/** A DynamoDB store on fresh tables of an endpoint. */
export async function dynamoStore(
  url: string,
  onRequest?: OnRequest,
  plan?: SdkFaultPlan,
  options: {
    readonly oneAtATime?: boolean;
    readonly meter?: (client: DynamoDBClient) => void;
  } = {},
): Promise<TurnStore & GraphHolder> {
  const client = new DynamoDBClient({
    endpoint: url,
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    maxAttempts: 1,
  });
  const id = randomUUID().slice(0, 8);
  const tables = {
    DATA: `data-${id}`,
    WORK: `work-${id}`,
    KEYS: `keys-${id}`,
    LEDGER: `ledger-${id}`,
  };
  await createTables(client, tables);
  if (plan !== undefined) injectSdkFaults(client, plan);
  options.meter?.(client);
  if (options.oneAtATime === true) serialise(client);
  return openDynamoStore({
    client,
    tables,
    shards: 2,
    ...tools,
    ...(onRequest === undefined ? {} : { onRequest }),
  });
}

export type OpenStore = (onRequest?: OnRequest) => Promise<TurnStore>;

/** Runs a test on SQLite and on the local AWS's DynamoDB; without an emulator the second is skipped loudly. */
export function onEachStore(title: string, body: (open: OpenStore) => Promise<void>): void {
  test(`${title} (sqlite)`, () => body(async (onRequest) => memoryStore(onRequest)));
  const endpoint = inject('dynamodb').ministack;
  if ('url' in endpoint) {
    test(`${title} (dynamodb)`, () => body((onRequest) => dynamoStore(endpoint.url, onRequest)));
  } else skipLoudly(`${title} (dynamodb): no emulator: ${endpoint.unavailable}`, () => undefined);
}

/** The one place where a test may be skipped: the reason stands in its title, and CI counts it as a failure. */
export function skipLoudly(title: string, body: () => void): void {
  // biome-ignore lint/suspicious/noSkippedTests: an emulator that cannot be had is said, not hidden.
  test.skip(title, body);
}

/**
 * Sends one request at a time. moto handles requests side by side, but undoes a refused transaction by putting
 * back a copy of the whole table, which takes along what others wrote meanwhile.
 */
function serialise(client: DynamoDBClient): void {
  let before: Promise<unknown> = Promise.resolve();
  client.middlewareStack.add(
    (next) => (args) => {
      const sent = before.then(() => next(args));
      before = sent.catch(() => undefined);
      return sent;
    },
    { step: 'initialize', name: 'oneAtATime' },
  );
}
