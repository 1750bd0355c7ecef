// The table driver on DynamoDB.
//
// Owns: sending, sending again, paging. Does not own: what a refusal means to a turn (the write paths) or
// how the client reaches the service (endpoint, credentials, time-outs are the client's).
//   T1  several operations are one TransactWriteItems.
//   T4  conflicts, throttling, expired signatures and unheard replies are sent again, the same bytes, bounded
//       and jittered; only conditions that failed alone are a loss (failures.ts). The SDK's own retries may
//       run inside: their answer is read the same way, by the witness in the returned item.
//   T11 sizes are refused by name before a request leaves.
import {
  BatchGetItemCommand,
  type BatchGetItemCommandInput,
  type DynamoDBClient,
  QueryCommand,
  TransactWriteItemsCommand,
} from '@aws-sdk/client-dynamodb';
import type { LentEntry } from '../../ports/lent.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import { assertRequestFits, itemBytes, readUnits, requestUnits } from '../table/capacity.ts';
import type {
  Item,
  ItemKey,
  OnRequest,
  Range,
  Refusal,
  RetryTools,
  Row,
  Table,
  TableDriver,
  WriteOp,
  WriteOutcome,
} from '../table/driver.ts';
import { backOff } from '../table/table-context.ts';
import { type AttributeMap, fromAttributes, keyOf, toKey } from './attribute-values.ts';
import { Expressions } from './expressions.ts';
import { type Failure, failureOf, type Reason } from './failures.ts';
import { type TableNames, type WriteCommand, writeCommand } from './requests.ts';

const roundsMax = 8;
const batchKeysMax = 100;
const waits = {
  conflict: { firstMs: 10, mostMs: 400 },
  throttled: { firstMs: 50, mostMs: 2_000 },
  unheard: { firstMs: 25, mostMs: 1_000 },
} as const;

type Page = NonNullable<BatchGetItemCommandInput['RequestItems']>;

export class DynamoDriver implements TableDriver {
  readonly lender = 'dynamodb';
  readonly #client: DynamoDBClient;
  readonly #tables: TableNames;
  readonly #retry: RetryTools;
  readonly #onRequest: OnRequest | undefined;

  constructor(
    client: DynamoDBClient,
    tables: TableNames,
    retry: RetryTools,
    onRequest?: OnRequest,
  ) {
    this.#client = client;
    this.#tables = tables;
    this.#retry = retry;
    this.#onRequest = onRequest;
  }

  async batchGet(keys: readonly ItemKey[]): Promise<readonly (Item | null)[]> {
    const pages: ItemKey[][] = [];
    for (let from = 0; from < keys.length; from += batchKeysMax) {
      pages.push(keys.slice(from, from + batchKeysMax));
    }
    const found = await Promise.all(pages.map((page) => this.#batchPage(page)));
    return found.flat();
  }

  async query(range: Range): Promise<readonly Row[]> {
    const expressions = new Expressions();
    const condition = expressions.range(range.pk, range.between);
    const rows: Row[] = [];
    let after: AttributeMap | undefined;
    do {
      const command = new QueryCommand({
        TableName: this.#tables[range.table],
        ConsistentRead: true,
        KeyConditionExpression: condition,
        ...expressions.aliases(),
        ...(range.last === undefined
          ? {}
          : { ScanIndexForward: false, Limit: range.last - rows.length }),
        ...(after === undefined ? {} : { ExclusiveStartKey: after }),
      });
      const page = await this.#reading(() => this.#client.send(command));
      const found = (page.Items ?? []).map((map) => ({
        sk: keyOf(map).sk,
        item: fromAttributes(map),
      }));
      this.#onRequest?.({ op: 'query', writes: 0, units: readUnits(bytesOf(range, found)) });
      rows.push(...found);
      after = page.LastEvaluatedKey;
    } while (after !== undefined && rows.length < (range.last ?? Number.POSITIVE_INFINITY));
    return rows;
  }

  async write(ops: readonly WriteOp[], lent: readonly LentEntry[] = []): Promise<WriteOutcome> {
    assertRequestFits(ops, lent.length);
    const command = writeCommand(this.#tables, ops, lent);
    const units = requestUnits(ops, lent.length);
    let unheard = false;
    let cause: unknown;
    for (let round = 1; round <= roundsMax; round += 1) {
      const failure = await this.#attempt(command, ops, units);
      if (failure === null) return { kind: 'done' };
      cause = failure.error;
      if (failure.kind === 'refused') {
        return { kind: 'lost', refused: await this.#refusals(ops, failure.reasons) };
      }
      if (failure.kind === 'rejected') {
        if (unheard) return { kind: 'unknown', cause };
        // With entries of somebody else in it, a wrong request is refused as theirs: nothing of it was written.
        if (lent.length > 0) return { kind: 'lost', refused: [refusedEntry(ops.length, cause)] };
        throw rejected(failure, cause);
      }
      unheard ||= failure.kind === 'unheard';
      const { firstMs, mostMs } = waits[failure.kind];
      if (round < roundsMax) await backOff(this.#retry, round, firstMs, mostMs);
    }
    return { kind: 'unknown', cause };
  }

  async close(): Promise<void> {
    this.#client.destroy();
  }

  async #attempt(
    command: WriteCommand,
    ops: readonly WriteOp[],
    units: number,
  ): Promise<(Failure & { readonly error: unknown }) | null> {
    const [first] = ops;
    const alone = command instanceof TransactWriteItemsCommand ? undefined : first;
    this.#onRequest?.({ op: alone?.kind ?? 'transact', writes: ops.length, units });
    try {
      await this.#send(command);
      return null;
    } catch (error) {
      return { ...failureOf(error), error };
    }
  }

  /** The client's overloads take one command class each. */
  #send(command: WriteCommand): Promise<unknown> {
    const client: { send(command: WriteCommand): Promise<unknown> } = this.#client;
    return client.send(command);
  }

  /** The items that refused; one that an endpoint did not return is read. */
  async #refusals(ops: readonly WriteOp[], reasons: readonly Reason[]): Promise<Refusal[]> {
    return Promise.all(
      reasons.map(async ({ op, item }) => {
        if (item !== undefined && op < ops.length) return { op, item: fromAttributes(item) };
        if (op >= ops.length)
          return { op, item: null, detail: `entry ${op - ops.length}: its condition failed` };
        const key = ops[op]?.key;
        const [found] = key === undefined ? [] : await this.batchGet([key]);
        return { op, item: found ?? null };
      }),
    );
  }

  async #batchPage(keys: readonly ItemKey[]): Promise<(Item | null)[]> {
    const found = new Map<string, Item>();
    let pending: Page | undefined = this.#page(keys);
    for (let round = 1; pending !== undefined; round += 1) {
      const command: BatchGetItemCommand = new BatchGetItemCommand({ RequestItems: pending });
      const answer = await this.#reading(() => this.#client.send(command));
      let units = 0;
      for (const [table, items] of Object.entries(answer.Responses ?? {})) {
        for (const map of items) {
          const item = fromAttributes(map);
          const { pk, sk } = keyOf(map);
          found.set(address(table, pk, sk), item);
          units += readUnits(itemBytes({ table: 'DATA', pk, sk }, item));
        }
      }
      pending = rest(answer.UnprocessedKeys);
      if (pending === undefined) units += keys.length - found.size;
      this.#onRequest?.({ op: 'batchGet', writes: 0, units });
      if (pending === undefined) break;
      if (round === roundsMax) throw unavailable('keys stay unprocessed', undefined);
      await backOff(this.#retry, round, waits.throttled.firstMs, waits.throttled.mostMs);
    }
    return keys.map((key) => {
      return found.get(address(this.#tables[key.table], key.pk, key.sk)) ?? null;
    });
  }

  #page(keys: readonly ItemKey[]): Page {
    const page: Page = {};
    for (const key of keys) {
      const table = this.#tables[key.table];
      page[table] ??= { Keys: [], ConsistentRead: true };
      const entry = page[table];
      entry.Keys?.push(toKey(key));
    }
    return page;
  }

  async #reading<T>(read: () => Promise<T>): Promise<T> {
    for (let round = 1; ; round += 1) {
      try {
        return await read();
      } catch (error) {
        const failure = failureOf(error);
        if (failure.kind === 'rejected' || failure.kind === 'refused') {
          throw rejected({ kind: 'rejected', tooLarge: false, validation: false }, error);
        }
        if (round === roundsMax) throw unavailable('a read has no answer', error);
        const { firstMs, mostMs } = waits[failure.kind];
        await backOff(this.#retry, round, firstMs, mostMs);
      }
    }
  }
}

function refusedEntry(op: number, cause: unknown): Refusal {
  const detail = cause instanceof Error ? `${cause.name}: ${cause.message}` : 'no reason given';
  return { op, item: null, detail };
}

function address(table: string, pk: string, sk: string): string {
  return `${table}\n${pk}\n${sk}`;
}

function rest(pending: Page | undefined): Page | undefined {
  return pending === undefined || Object.keys(pending).length === 0 ? undefined : pending;
}

function bytesOf(range: { table: Table; pk: string }, rows: readonly Row[]): number {
  return rows.reduce(
    (sum, row) => sum + itemBytes({ table: range.table, pk: range.pk, sk: row.sk }, row.item),
    0,
  );
}

function rejected(failure: Failure & { kind: 'rejected' }, cause: unknown): TurnstoneError {
  const text = cause instanceof Error ? `${cause.name}: ${cause.message}` : 'no reason given';
  if (failure.tooLarge) {
    return new TurnstoneError('record_too_large', `the table refused a size: ${text}`, {
      retry: 'never',
      details: { limit: 'itemBytes' },
      cause,
    });
  }
  if (failure.validation) {
    return new TurnstoneError('store_rejected', `the table rejected a request: ${text}`, {
      retry: 'never',
      cause,
    });
  }
  return unavailable(text, cause);
}

function unavailable(what: string, cause: unknown): TurnstoneError {
  return new TurnstoneError('store_unavailable', `the table cannot be used: ${what}`, {
    retry: 'now',
    cause,
  });
}
