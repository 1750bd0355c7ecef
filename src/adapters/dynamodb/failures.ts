// What a failed request to DynamoDB means for a write: the one place that reads error names and
// cancellation reasons (page 04, 1.2; F23, F35).
//
//   T4  a conflict is never "lost": only conditions that failed, alone, decide a race. A mixed list is asked
//       again. A reply that was not heard is not a failure: the same bytes go again.
import type { AttributeValue } from '@aws-sdk/client-dynamodb';

/** What to do about a failed request. */
export type Failure =
  /** Conditions decided; items by operation, undefined where the endpoint returned none. */
  | { readonly kind: 'refused'; readonly reasons: readonly Reason[] }
  /** Somebody else's transaction is in the way: again soon, with jitter. */
  | { readonly kind: 'conflict' }
  /** Too fast: back off, then again. */
  | { readonly kind: 'throttled' }
  /** Nobody knows whether it took effect: again, the same bytes. */
  | { readonly kind: 'unheard' }
  /** Wrong whatever is tried; `tooLarge` when a size limit says so. */
  | { readonly kind: 'rejected'; readonly tooLarge: boolean; readonly validation: boolean };

export interface Reason {
  readonly op: number;
  readonly item: Record<string, AttributeValue> | undefined;
}

const conflictNames = new Set([
  'TransactionConflictException',
  'TransactionInProgressException',
  'ReplicatedWriteConflictException',
]);
const throttleNames = new Set([
  'ProvisionedThroughputExceededException',
  'ThrottlingException',
  'Throttling',
  'RequestLimitExceeded',
  'RequestThrottledException',
  'TooManyRequestsException',
  'SlowDown',
]);
const unheardNames = new Set([
  'TimeoutError',
  'AbortError',
  'NetworkingError',
  'RequestTimeout',
  'RequestTimeoutException',
  'InternalServerError',
  'InternalFailure',
  'ServiceUnavailable',
  'ServiceUnavailableException',
]);
const unheardCodes = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EAI_AGAIN',
  'ENOTFOUND',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'ERR_SOCKET_CONNECTION_TIMEOUT',
  'UND_ERR_SOCKET',
]);
const sizeText = /size.*(exceed|limit)|exceed.*size/i;

/** Reads any thrown value. */
export function failureOf(error: unknown): Failure {
  const name = textOf(error, 'name');
  const message = textOf(error, 'message');
  if (name === 'ConditionalCheckFailedException') {
    return { kind: 'refused', reasons: [{ op: 0, item: itemOf(error) }] };
  }
  if (name === 'TransactionCanceledException') return cancelled(error, message);
  if (conflictNames.has(name)) return { kind: 'conflict' };
  if (throttleNames.has(name)) return { kind: 'throttled' };
  if (isExpiredSignature(name, message)) return { kind: 'unheard' };
  if (unheardNames.has(name) || unheardCodes.has(textOf(error, 'code'))) return { kind: 'unheard' };
  const status = statusOf(error);
  if (status !== undefined && (status >= 500 || status < 300)) return { kind: 'unheard' };
  const validation = name === 'ValidationException' || name === 'SerializationException';
  return { kind: 'rejected', tooLarge: validation && sizeText.test(message), validation };
}

function cancelled(error: unknown, message: string): Failure {
  const reasons = reasonsOf(error, message);
  const codes = new Set(reasons.map((reason) => reason.code));
  const known = ['None', 'ConditionalCheckFailed', 'TransactionConflict', ...throttleReasons];
  const fatal = reasons.find((reason) => !known.includes(reason.code));
  if (fatal !== undefined || reasons.length === 0) {
    const text = fatal?.message ?? message;
    return { kind: 'rejected', tooLarge: sizeText.test(text), validation: true };
  }
  if (throttleReasons.some((code) => codes.has(code))) return { kind: 'throttled' };
  if (codes.has('TransactionConflict')) return { kind: 'conflict' };
  const refused = reasons.flatMap((reason, op) =>
    reason.code === 'ConditionalCheckFailed' ? [{ op, item: reason.item }] : [],
  );
  return refused.length === 0 ? { kind: 'conflict' } : { kind: 'refused', reasons: refused };
}

const throttleReasons = [
  'ThrottlingError',
  'ProvisionedThroughputExceeded',
  'RequestLimitExceeded',
];

interface CancellationReason {
  readonly code: string;
  readonly message: string;
  readonly item: Record<string, AttributeValue> | undefined;
}

/** The positional list; where an endpoint left it out, the codes in the message's brackets. */
function reasonsOf(error: unknown, message: string): readonly CancellationReason[] {
  const listed = property(error, 'CancellationReasons');
  if (Array.isArray(listed)) {
    return listed.map((reason: unknown) => ({
      code: textOf(reason, 'Code') || 'None',
      message: textOf(reason, 'Message'),
      item: itemOf(reason),
    }));
  }
  const codes = /\[([A-Za-z, ]+)\]/.exec(message)?.[1]?.split(',') ?? [];
  return codes.map((code) => ({ code: code.trim(), message, item: undefined }));
}

function isExpiredSignature(name: string, message: string): boolean {
  if (name === 'RequestExpired' || name === 'RequestTimeTooSkewed') return true;
  return name === 'InvalidSignatureException' && /expired|not yet current/i.test(message);
}

function itemOf(holder: unknown): Record<string, AttributeValue> | undefined {
  const item = property(holder, 'Item');
  return isAttributeMap(item) ? item : undefined;
}

function isAttributeMap(value: unknown): value is Record<string, AttributeValue> {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}

function statusOf(error: unknown): number | undefined {
  const status = property(property(error, '$metadata'), 'httpStatusCode');
  return typeof status === 'number' ? status : undefined;
}

function textOf(holder: unknown, name: string): string {
  const value = property(holder, name);
  return typeof value === 'string' ? value : '';
}

function property(holder: unknown, name: string): unknown {
  if (typeof holder !== 'object' || holder === null) return undefined;
  return Reflect.get(holder, name);
}
