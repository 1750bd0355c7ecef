// The calculator against the figures page 04 took from the real service: sizes, units, transactions, reads.
import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { expect, test } from 'vitest';
import { itemBytes } from '../../../src/adapters/table/capacity.ts';
import { limits } from '../../../src/protocol/limits.ts';
import { itemSize, requestCost } from '../../../src/testing/capacity-meter.ts';

const kilobytes = 1024;

/** An item of exactly so many bytes, key and names counted. */
function item(bytes: number): Record<string, AttributeValue> {
  const bare = { pk: { S: 'p' }, sk: { S: 's' }, v: { S: '' } };
  return { ...bare, v: { S: 'x'.repeat(bytes - itemSize(bare)) } };
}

const key = { pk: { S: 'p' }, sk: { S: 's' } };
const put = (bytes: number) => ({ Put: { TableName: 't', Item: item(bytes) } });
const check = { ConditionCheck: { TableName: 't', Key: key } };
const update = {
  Update: {
    TableName: 't',
    Key: key,
    UpdateExpression: 'SET #a = :a',
    ExpressionAttributeNames: { '#a': 'flag' },
    ExpressionAttributeValues: { ':a': { BOOL: true } },
  },
};
const transaction = (...TransactItems: object[]) => ({
  command: 'TransactWriteItemsCommand',
  input: { TransactItems },
});

test('page 04, 1.1: a put costs a unit a started kilobyte', () => {
  const units = (bytes: number) =>
    requestCost({ command: 'PutItemCommand', input: { TableName: 't', Item: item(bytes) } })
      .writeUnits;
  expect([11, 1024, 1025, 4096, 409_600].map(units)).toEqual([1, 1, 2, 4, 400]);
});

test('page 04, 6.1: a transaction of a 10.5 KB item costs 22 units, one action of a kilobyte 2', () => {
  expect(requestCost(transaction(put(10.5 * kilobytes))).writeUnits).toBe(22);
  expect(requestCost(transaction(put(1024))).writeUnits).toBe(2);
});

test('page 04, 1.7: commit of layout B: head 2, turn 8, marker 2, key check 2: 14 units', () => {
  const commit = transaction(update, put(4 * kilobytes), put(200), check);
  expect(requestCost(commit)).toEqual({ writes: 1, reads: 0, writeUnits: 14, readUnits: 0 });
});

test('page 04, 1.6: a check beside a put costs 4 units, a put into a slot 1', () => {
  expect(requestCost(transaction(check, put(900))).writeUnits).toBe(4);
  const alone = { command: 'PutItemCommand', input: { TableName: 't', Item: item(900) } };
  expect(requestCost(alone).writeUnits).toBe(1);
});

test('page 04, 1.1: a flag in a 40 KB item costs 40 units, 80 in a transaction: the larger image counts', () => {
  const before = () => 40 * kilobytes;
  const alone = { command: 'UpdateItemCommand', input: update.Update };
  expect(requestCost(alone, before).writeUnits).toBe(40);
  expect(requestCost(transaction(update), before).writeUnits).toBe(80);
  expect(requestCost(alone).writeUnits).toBe(1);
});

test('page 04, 1.7: ten events in one 3 KB outbox item cost 9 units, as ten items 30', () => {
  const gone = { command: 'DeleteItemCommand', input: { TableName: 't', Key: key } };
  const cost = (count: number, bytes: number) =>
    count *
    (requestCost(transaction(put(bytes))).writeUnits + requestCost(gone, () => bytes).writeUnits);
  expect([cost(1, 3 * kilobytes), cost(10, 1 * kilobytes)]).toEqual([9, 30]);
});

test('page 04, 1.7: a load of 81 KB is 21 read units, the key row one more', () => {
  const page = {
    command: 'QueryCommand',
    input: { TableName: 't', ConsistentRead: true },
    output: { Items: [item(41 * kilobytes), item(40 * kilobytes)] },
  };
  const row = {
    command: 'GetItemCommand',
    input: { TableName: 't', ConsistentRead: true },
    output: { Item: item(600) },
  };
  expect(requestCost(page).readUnits + requestCost(row).readUnits).toBe(22);
  expect(requestCost({ ...row, input: { TableName: 't' } }).readUnits).toBe(0.5);
});

test('a batch read costs each key apart, an absent one as a small one, an unprocessed one nothing', () => {
  const cost = requestCost({
    command: 'BatchGetItemCommand',
    input: { RequestItems: { t: { Keys: [key, key, key, key], ConsistentRead: true } } },
    output: {
      Responses: { t: [item(5000), item(100)] },
      UnprocessedKeys: { t: { Keys: [key] } },
    },
  });
  expect(cost).toEqual({ reads: 1, writes: 0, readUnits: 4, writeUnits: 0 });
});

test('page 04, 1.1: the largest item is 409,600 bytes, its names counted', () => {
  expect(limits.itemBytes).toBe(409_600);
  expect(itemSize({ pk: { S: 'a' }, sk: { S: 'b' }, name: { S: 'é' } })).toBe(3 + 3 + 4 + 2);
});

test("the store's own calculator and this one agree on every kind of value", () => {
  const bytes = new Uint8Array(17);
  const own = itemBytes(
    { table: 'DATA', pk: 'p', sk: 's' },
    { a: 'päth', n: -1234, z: 0, b: bytes, t: true, l: ['x', 7], m: { k: null } },
  );
  const wire = itemSize({
    ...key,
    a: { S: 'päth' },
    n: { N: '-1234' },
    z: { N: '0' },
    b: { B: bytes },
    t: { BOOL: true },
    l: { L: [{ S: 'x' }, { N: '7' }] },
    m: { M: { k: { NULL: true } } },
  });
  expect(wire).toBe(own);
});

test('a command that costs no item units is refused by name', () => {
  expect(() => requestCost({ command: 'ListTablesCommand', input: {} })).toThrow(/ListTables/);
});
