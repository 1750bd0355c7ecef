// Opens the store on DynamoDB: the table store over an injected client.
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { GraphHolder } from '../../ports/graphs.ts';
import type { TurnStore } from '../../ports/store.ts';
import { limits } from '../../protocol/limits.ts';
import type { OnRequest, RetryTools } from '../table/driver.ts';
import { type NameSecrets, Names } from '../table/names.ts';
import { TableStore } from '../table/table-store.ts';
import { DynamoDriver } from './dynamo-driver.ts';
import type { TableNames } from './requests.ts';

export interface DynamoStoreOptions extends RetryTools {
  /** Give it a request time-out; `maxAttempts: 1` leaves all retries to the driver. Closed with the store. */
  readonly client: DynamoDBClient;
  readonly tables: TableNames;
  readonly names: NameSecrets;
  /** Partitions of the work rows, the same for every process of a stack; default `limits.workShards`. */
  readonly shards?: number;
  readonly onRequest?: OnRequest;
}

/** The store on four DynamoDB tables that exist already (create-tables.ts, or the stack). */
export function openDynamoStore(options: DynamoStoreOptions): TurnStore & GraphHolder {
  return new TableStore({
    driver: new DynamoDriver(options.client, options.tables, options, options.onRequest),
    names: new Names(options.names),
    shards: options.shards ?? limits.workShards,
    retry: options,
  });
}
