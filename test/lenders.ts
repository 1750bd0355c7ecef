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
  /** Name of the table. */
  readonly table: string;
  /** Adds a row; refused when its id is taken. */
  post(id: string, amount: number): AtomicEntries;
  /** An entry the store always refuses. */
  refused(): AtomicEntries;
  /** Ids and amounts that stand, by id. */
  rows(): Promise<readonly string[]>;
}

/** The table beside the store: its name (with an end of its own on DynamoDB) and the column of a row's amount. */
export interface LentTable {
  readonly name: string;
  readonly column: string;
  readonly ownTables: string;
}

const postings: LentTable = {
  name: 'postings',
  column: 'amount',
  ownTables: 'CREATE TABLE postings (id TEXT PRIMARY KEY, amount INTEGER NOT NULL) STRICT',
};

function sqliteLending({ name, column, ownTables }: LentTable): Lending {
  const store = openSqliteStore({ path: ':memory:', ...tools, ownTables });
  return {
    store,
    table: name,
    post: (id, amount) => ({
      sqlite: [{ sql: `INSERT INTO ${name} (id, ${column}) VALUES (?, ?)`, params: [id, amount] }],
    }),
    refused: () => ({
      sqlite: [{ sql: `INSERT INTO ${name} (id, ${column}) VALUES (?, NULL)`, params: ['row'] }],
    }),
    rows: async () =>
      store
        .ownRows(`SELECT id, ${column} FROM ${name} ORDER BY id`)
        .map((row) => Object.values(row).join(':')),
  };
}

async function dynamoLending(url: string, { name, column }: LentTable): Promise<Lending> {
  const client = new DynamoDBClient({
    endpoint: url,
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
  const TableName = `${name}-${randomUUID().slice(0, 8)}`;
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
    table: TableName,
    post: (id, amount) => ({
      dynamodb: [
        {
          Put: {
            TableName,
            Item: { id: { S: id }, [column]: { N: `${amount}` } },
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
      return Items.map((item) => `${item.id?.S}:${item[column]?.N}`).sort();
    },
  };
}

/** Runs a test on SQLite and on the local AWS's DynamoDB, each with a user's table beside. */
export function onEachLender(
  title: string,
  body: (open: () => Promise<Lending>) => Promise<void>,
  table: LentTable = postings,
): void {
  test(`${title} (sqlite)`, () => body(async () => sqliteLending(table)));
  const endpoint = inject('dynamodb').ministack;
  if ('url' in endpoint) {
    test(`${title} (dynamodb)`, () => body(() => dynamoLending(endpoint.url, table)));
  } else skipLoudly(`${title} (dynamodb): no emulator: ${endpoint.unavailable}`, () => undefined);
}
