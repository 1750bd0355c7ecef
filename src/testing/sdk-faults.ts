// Faults inside an AWS SDK client: what the service and the network do to a request and emulators never do.
//
// Owns: throwing, delaying and forging answers in the client's middleware. Does not own: which request
// suffers; the caller's plan decides from the command and its running number.
// Faults act inside the SDK's own retry, as on the wire: give the client `maxAttempts: 1` to see each one
// reach the adapter, or more to have the SDK's retry in between.
import {
  ConditionalCheckFailedException,
  type DynamoDBClient,
  ProvisionedThroughputExceededException,
  TransactionCanceledException,
  TransactionConflictException,
} from '@aws-sdk/client-dynamodb';

export type SdkFault =
  /** TransactionCanceledException with these codes in order; nothing is sent. */
  | { readonly kind: 'cancelled'; readonly codes: readonly string[] }
  /** A plain write meets somebody's transaction; nothing is sent. */
  | { readonly kind: 'conflict' }
  | { readonly kind: 'throttled' }
  /** A condition that failed without an item in the answer; nothing is sent. */
  | { readonly kind: 'refused' }
  | { readonly kind: 'validation'; readonly message: string }
  /** The clock of a thawed sandbox: nothing is sent. */
  | { readonly kind: 'expired signature' }
  /** The socket breaks before the request arrives, or after it took effect. */
  | { readonly kind: 'reset'; readonly when: 'before' | 'after' }
  /** It took effect and the reply is a time-out. */
  | { readonly kind: 'lost reply' }
  /** It takes effect at once; the reply is held until the promise settles. */
  | { readonly kind: 'delayed reply'; readonly until: Promise<unknown> }
  /** The request itself is held back until the promise settles. */
  | { readonly kind: 'delayed request'; readonly until: Promise<unknown> }
  /** A 500 after it took effect, or without effect. */
  | { readonly kind: 'server error'; readonly when: 'before' | 'after' }
  /** A query answers at most this many items a page. */
  | { readonly kind: 'small page'; readonly items: number }
  /** A batch read leaves all but this many keys unprocessed. */
  | { readonly kind: 'unprocessed'; readonly keep: number };

/** One request as the plan sees it. `number` counts this client's requests from 1. */
export interface SdkCall {
  readonly command: string;
  readonly input: object;
  readonly number: number;
}

export type SdkFaultPlan = (call: SdkCall) => SdkFault | undefined;

/** Installs the plan in a client; every request that leaves it is asked for its fault. */
export function injectSdkFaults(client: DynamoDBClient, plan: SdkFaultPlan): void {
  let number = 0;
  client.middlewareStack.add(
    (next, context) => async (args) => {
      const command = typeof context.commandName === 'string' ? context.commandName : '';
      number += 1;
      const fault = plan({ command, input: args.input, number });
      if (fault === undefined) return next(args);
      if (fault.kind === 'delayed request') await fault.until;
      const before = errorBefore(fault);
      if (before !== undefined) throw before;
      const answer = await next(fault.kind === 'small page' ? limited(args, fault.items) : args);
      if (fault.kind === 'delayed reply') await fault.until;
      const after = errorAfter(fault);
      if (after !== undefined) throw after;
      if (fault.kind === 'unprocessed') leaveUnprocessed(answer.output, args.input, fault.keep);
      return answer;
    },
    { step: 'finalizeRequest', name: 'turnstoneFaults', priority: 'low' },
  );
}

function errorBefore(fault: SdkFault): Error | undefined {
  const $metadata = { httpStatusCode: 400 };
  switch (fault.kind) {
    case 'cancelled':
      return new TransactionCanceledException({
        message: `Transaction cancelled, please refer cancellation reasons for specific reasons [${fault.codes.join(', ')}]`,
        CancellationReasons: fault.codes.map((Code) => ({ Code })),
        $metadata,
      });
    case 'conflict':
      return new TransactionConflictException({
        message: 'Transaction is ongoing for the item',
        $metadata,
      });
    case 'throttled':
      return new ProvisionedThroughputExceededException({ message: 'Rate exceeded', $metadata });
    case 'refused':
      return new ConditionalCheckFailedException({
        message: 'The conditional request failed',
        $metadata,
      });
    case 'validation':
      return Object.assign(new Error(fault.message), { name: 'ValidationException', $metadata });
    case 'expired signature':
      return Object.assign(
        new Error('Signature expired: 20261130T000000Z is now earlier than 20261130T010000Z'),
        { name: 'InvalidSignatureException', $metadata },
      );
    case 'reset':
      return fault.when === 'before' ? reset() : undefined;
    case 'server error':
      return fault.when === 'before' ? serverError() : undefined;
    default:
      return undefined;
  }
}

function errorAfter(fault: SdkFault): Error | undefined {
  if (fault.kind === 'reset') return reset();
  if (fault.kind === 'server error') return serverError();
  if (fault.kind !== 'lost reply') return undefined;
  return Object.assign(new Error('Connection timed out after 100 ms'), { name: 'TimeoutError' });
}

function reset(): Error {
  return Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
}

function serverError(): Error {
  return Object.assign(new Error('The request processing has failed'), {
    name: 'InternalServerError',
    $metadata: { httpStatusCode: 500 },
  });
}

/** The request with a page limit: its body is rewritten, since it is serialised already. */
function limited<T extends { readonly request: unknown }>(args: T, items: number): T {
  const { request } = args;
  if (!isBodied(request)) throw new TypeError('small page: the request has no text body');
  const sent =
    typeof request.body === 'string' ? request.body : Buffer.from(request.body).toString('utf8');
  const body: object = JSON.parse(sent);
  const text = JSON.stringify({ ...body, Limit: items });
  request.body = text;
  request.headers['content-length'] = String(Buffer.byteLength(text));
  return args;
}

interface Bodied {
  body: string | Uint8Array;
  headers: Record<string, string>;
}

function isBodied(request: unknown): request is Bodied {
  if (typeof request !== 'object' || request === null) return false;
  if (!('body' in request) || !('headers' in request)) return false;
  return typeof request.body === 'string' || request.body instanceof Uint8Array;
}

/** Moves answered keys of a batch read back to the unprocessed ones. */
function leaveUnprocessed(output: object, input: object, keep: number): void {
  const responses: unknown = Reflect.get(output, 'Responses');
  const asked: unknown = Reflect.get(input, 'RequestItems');
  if (!isRecord(responses) || !isRecord(asked)) throw new TypeError('unprocessed: no batch read');
  const unprocessed: Record<string, unknown> = {};
  let left = keep;
  for (const [table, request] of Object.entries(asked)) {
    const keys: unknown = isRecord(request) ? request.Keys : undefined;
    if (!isRecord(request) || !Array.isArray(keys)) continue;
    const kept = keys.slice(0, left);
    left -= kept.length;
    const names = new Set(kept.map(addressOf));
    const items: unknown = responses[table];
    if (Array.isArray(items)) {
      responses[table] = items.filter((item: unknown) => names.has(addressOf(item)));
    }
    const rest = keys.slice(kept.length);
    if (rest.length > 0) unprocessed[table] = { ...request, Keys: rest };
  }
  if (Object.keys(unprocessed).length > 0) Reflect.set(output, 'UnprocessedKeys', unprocessed);
}

function addressOf(item: unknown): string {
  return isRecord(item) ? JSON.stringify([item.pk, item.sk]) : '';
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
