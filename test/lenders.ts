// Stores that lend their transaction, each with a table of its user: what an atomic member writes, and what stands.
import { randomUUID } from 'node:crypto';
import { CreateTableCommand, DynamoDBClient, ScanCommand } from '@aws-sdk/client-dynamodb';
import { inject, test } from 'vitest';
import { openSqliteStore } from '../src/adapters/sqlite/open-sqlite-store.ts';
import type { AtomicEntries } from '../src/ports/lent.ts';
import type { TurnStore } from '../src/ports/store.ts';
import { dynamoStore, skipLoudly, tools } from './stores.ts';

export interface Lending {
  readonly store: TurnStore;
  /** Adds a row; refused when its id is taken. */
  post(id: string, amount: number): AtomicEntries;
  /** An entry the store always refuses. */
  refused(): AtomicEntries;
  /** Ids and amounts that stand, by id. */
  rows(): Promise<readonly string[]>;
}

function sqliteLending(): Lending {
  const store = openSqliteStore({
    path: ':memory:',
    ...tools,
    ownTables: 'CREATE TABLE postings (id TEXT PRIMARY KEY, amount INTEGER NOT NULL) STRICT',
  });
  return {
    store,
    post: (id, amount) => ({
      sqlite: [{ sql: 'INSERT INTO postings (id, amount) VALUES (?, ?)', params: [id, amount] }],
    }),
    refused: () => ({
      sqlite: [{ sql: 'INSERT INTO postings (id, amount) VALUES (?, NULL)', params: ['row'] }],
    }),
    rows: async () =>
      store
        .ownRows('SELECT id, amount FROM postings ORDER BY id')
        .map((row) => Object.values(row).join(':')),
  };
}

async function dynamoLending(url: string): Promise<Lending> {
  const client = new DynamoDBClient({
    endpoint: url,
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
  const TableName = `postings-${randomUUID().slice(0, 8)}`;
  await client.send(
    new CreateTableCommand({
      TableName,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
      KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
    }),
  );
  return {
    store: await dynamoStore(url),
    post: (id, amount) => ({
      dynamodb: [
        {
          Put: {
            TableName,
            Item: { id: { S: id }, amount: { N: `${amount}` } },
            ConditionExpression: 'attribute_not_exists(id)',
          },
        },
      ],
    }),
    refused: () => ({
      dynamodb: [
        {
          Put: {
            TableName,
            Item: { id: { S: 'row' } },
            ConditionExpression: 'attribute_exists(id)',
          },
        },
      ],
    }),
    rows: async () => {
      const { Items = [] } = await client.send(
        new ScanCommand({ TableName, ConsistentRead: true }),
      );
      return Items.map(({ id, amount }) => `${id?.S}:${amount?.N}`).sort();
    },
  };
}

/** Runs a test on SQLite and on the local AWS's DynamoDB, each with a user's table beside. */
export function onEachLender(
  title: string,
  body: (open: () => Promise<Lending>) => Promise<void>,
): void {
  test(`${title} (sqlite)`, () => body(async () => sqliteLending()));
  const endpoint = inject('dynamodb').ministack;
  if ('url' in endpoint) {
    test(`${title} (dynamodb)`, () => body(() => dynamoLending(endpoint.url)));
  } else skipLoudly(`${title} (dynamodb): no emulator: ${endpoint.unavailable}`, () => undefined);
}
