// Makes the four tables on an endpoint without a stack: tests and first steps. The stack makes its own.
import {
  CreateTableCommand,
  type DynamoDBClient,
  waitUntilTableExists,
} from '@aws-sdk/client-dynamodb';
import type { TableNames } from './requests.ts';

/** Creates all tables, on demand, keyed by `pk` and `sk`; resolves when they can be used. */
export async function createTables(client: DynamoDBClient, tables: TableNames): Promise<void> {
  await Promise.all(
    Object.values(tables).map(async (TableName) => {
      await client.send(
        new CreateTableCommand({
          TableName,
          BillingMode: 'PAY_PER_REQUEST',
          AttributeDefinitions: [
            { AttributeName: 'pk', AttributeType: 'S' },
            { AttributeName: 'sk', AttributeType: 'S' },
          ],
          KeySchema: [
            { AttributeName: 'pk', KeyType: 'HASH' },
            { AttributeName: 'sk', KeyType: 'RANGE' },
          ],
        }),
      );
      await waitUntilTableExists({ client, maxWaitTime: 60, minDelay: 1 }, { TableName });
    }),
  );
}
