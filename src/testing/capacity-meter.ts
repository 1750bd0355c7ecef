// Capacity units of DynamoDB requests, computed from what is sent and answered (page 04, 1.1): emulators answer
// flat figures, and a bill is no place to learn of them.
//
// Owns: sizes of marshalled items, units of a request, counting the requests of a client. It shares no code with
// the store's own calculator, so that each checks the other.
import type { AttributeValue, DynamoDBClient } from '@aws-sdk/client-dynamodb';

type Attributes = Readonly<Record<string, AttributeValue>>;

/** A request as the SDK's middleware sees it; `output` where it was answered. */
export interface MeteredCall {
  /** Name of the command: `PutItemCommand`. */
  readonly command: string;
  readonly input: object;
  readonly output?: object;
}

export interface RequestCost {
  /** Requests that write and requests that only read: one of them is 1. */
  readonly writes: number;
  readonly reads: number;
  readonly writeUnits: number;
  readonly readUnits: number;
}

/** Bytes of the image an action replaces, where the caller knows it; 0 for none. */
export type ImageBefore = (table: string, key: Attributes) => number;

const nothing: RequestCost = { writes: 0, reads: 0, writeUnits: 0, readUnits: 0 };
const none: ImageBefore = () => 0;

/** Bytes of an item with its names: UTF-8 for text, two digits a byte for numbers, 3 + 1 an element for a list or map. */
export function itemSize(item: Attributes): number {
  return Object.entries(item).reduce((sum, [name, value]) => sum + utf8(name) + sizeOf(value), 0);
}

/**
 * The cost of one request. A write is charged on the larger of the images before and after, per started kilobyte,
 * twice in a transaction, checks included; a read per started 4 KB, half where it need not be consistent. The image
 * before is taken from `before`; without it an update or delete counts by what its request holds.
 *
 * @throws TypeError for a command this calculator does not know.
 */
export function requestCost(call: MeteredCall, before: ImageBefore = none): RequestCost {
  switch (call.command) {
    case 'PutItemCommand':
    case 'UpdateItemCommand':
    case 'DeleteItemCommand':
      return written(actionUnits(call.input, before));
    case 'TransactWriteItemsCommand':
      return written(
        transacted(call.input).reduce((sum, action) => sum + 2 * actionUnits(action, before), 0),
      );
    case 'GetItemCommand': {
      const item = attributes(member(call.output, 'Item'));
      return read(readUnits(itemSize(item), isConsistent(call.input)));
    }
    case 'BatchGetItemCommand':
      return read(batchUnits(call.input, call.output));
    case 'QueryCommand':
    case 'ScanCommand': {
      const items = list(member(call.output, 'Items')).map(attributes);
      const bytes = items.reduce((sum, item) => sum + itemSize(item), 0);
      return read(readUnits(bytes, isConsistent(call.input)));
    }
    default:
      throw new TypeError(
        `capacity: expected a command that reads or writes items, got "${call.command}"`,
      );
  }
}

/** What a client's requests cost so far; the SDK's own retries count as the requests they are. */
export interface CapacityMeter {
  total(): RequestCost;
  /** Starts again from nothing. */
  reset(): void;
}

/** Counts every request that leaves the client from now on, a refused one in full as DynamoDB charges it. */
export function meterCapacity(client: DynamoDBClient): CapacityMeter {
  let total = nothing;
  client.middlewareStack.add(
    (next, context) => async (args) => {
      const command = typeof context.commandName === 'string' ? context.commandName : '';
      const { input } = args;
      try {
        const answer = await next(args);
        total = sum(total, requestCost({ command, input, output: answer.output }));
        return answer;
      } catch (error) {
        total = sum(total, requestCost({ command, input }));
        throw error;
      }
    },
    { step: 'finalizeRequest', name: 'turnstoneCapacity', priority: 'low' },
  );
  return {
    total: () => total,
    reset: () => {
      total = nothing;
    },
  };
}

function sum(left: RequestCost, right: RequestCost): RequestCost {
  return {
    writes: left.writes + right.writes,
    reads: left.reads + right.reads,
    writeUnits: left.writeUnits + right.writeUnits,
    readUnits: left.readUnits + right.readUnits,
  };
}

const written = (writeUnits: number): RequestCost => ({ ...nothing, writes: 1, writeUnits });
const read = (readUnits: number): RequestCost => ({ ...nothing, reads: 1, readUnits });

function readUnits(bytes: number, consistent: boolean): number {
  return Math.max(1, Math.ceil(bytes / 4096)) * (consistent ? 1 : 0.5);
}

function actionUnits(action: object, before: ImageBefore): number {
  const item = member(action, 'Item');
  const key = attributes(member(action, 'Key'));
  const table = member(action, 'TableName');
  const after =
    item === undefined ? itemSize(key) + updateSize(action) : itemSize(attributes(item));
  const image = before(
    typeof table === 'string' ? table : '',
    item === undefined ? key : attributes(item),
  );
  return Math.max(1, Math.ceil(Math.max(after, image) / 1024));
}

/** Bytes an update's expression brings into the item: the names it touches and the values it uses. */
function updateSize(action: object): number {
  const expression = member(action, 'UpdateExpression');
  if (typeof expression !== 'string') return 0;
  const names = member(action, 'ExpressionAttributeNames');
  const values = attributes(member(action, 'ExpressionAttributeValues'));
  const aliases = new Set(expression.match(/#\w+/g) ?? []);
  const used = new Set(expression.match(/:\w+/g) ?? []);
  let bytes = 0;
  for (const alias of aliases) {
    const name = member(names, alias);
    bytes += typeof name === 'string' ? utf8(name) : 0;
  }
  for (const name of used) {
    const value = values[name];
    bytes += value === undefined ? 0 : sizeOf(value);
  }
  return bytes;
}

/** Every key of a batch is a read of its own: one that is absent costs as much as a small item. */
function batchUnits(input: object, output: object | undefined): number {
  const asked = member(input, 'RequestItems');
  const found = member(output, 'Responses');
  const left = member(output, 'UnprocessedKeys');
  let units = 0;
  for (const table of isObject(asked) ? Object.keys(asked) : []) {
    const request = member(asked, table);
    const consistent = isConsistent(request);
    const items = list(member(found, table)).map(attributes);
    const keys = list(member(request, 'Keys')).length;
    const answered = keys - list(member(member(left, table), 'Keys')).length;
    for (const item of items) units += readUnits(itemSize(item), consistent);
    units += (answered - items.length) * readUnits(0, consistent);
  }
  return units;
}

function transacted(input: object): readonly object[] {
  return list(member(input, 'TransactItems')).flatMap((entry) =>
    isObject(entry) ? Object.values(entry).filter(isObject) : [],
  );
}

function sizeOf(value: AttributeValue): number {
  if (value.S !== undefined) return utf8(value.S);
  if (value.N !== undefined) return numberSize(value.N);
  if (value.B !== undefined) return value.B.byteLength;
  if (value.BOOL !== undefined || value.NULL !== undefined) return 1;
  if (value.L !== undefined) return value.L.reduce((bytes, one) => bytes + 1 + sizeOf(one), 3);
  if (value.M !== undefined) {
    return Object.entries(value.M).reduce(
      (bytes, [name, one]) => bytes + 1 + utf8(name) + sizeOf(one),
      3,
    );
  }
  if (value.SS !== undefined) return value.SS.reduce((bytes, one) => bytes + utf8(one), 0);
  if (value.NS !== undefined) return value.NS.reduce((bytes, one) => bytes + numberSize(one), 0);
  if (value.BS !== undefined) return value.BS.reduce((bytes, one) => bytes + one.byteLength, 0);
  throw new TypeError(`capacity: unknown attribute type in ${JSON.stringify(value)}`);
}

/** One byte, one for each two significant digits, one for a sign. */
function numberSize(text: string): number {
  const [mantissa = ''] = text.toLowerCase().split('e');
  const digits = mantissa.replace(/[-+.]/g, '').replace(/^0+|0+$/g, '');
  return 1 + Math.ceil(digits.length / 2) + (text.startsWith('-') ? 1 : 0);
}

function utf8(text: string): number {
  return Buffer.byteLength(text, 'utf8');
}

function isConsistent(request: unknown): boolean {
  return member(request, 'ConsistentRead') === true;
}

function member(of: unknown, name: string): unknown {
  return isObject(of) ? Reflect.get(of, name) : undefined;
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function attributes(value: unknown): Attributes {
  return isAttributes(value) ? value : {};
}

function isAttributes(value: unknown): value is Attributes {
  return isObject(value);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
