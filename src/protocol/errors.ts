// Errors as data: a closed set of codes, what to do about each, and nothing secret in their text.
//   K-21  serialising an error leaves out its cause, which may hold credentials.
export const errorCodes = [
  'agent_mismatch',
  'agent_unknown',
  'already_announced',
  'already_decided',
  'concluded',
  'digest_mismatch',
  'effect_arguments_changed',
  'effect_in_flight',
  'erased',
  'expired',
  'fingerprint_mismatch',
  'forbidden',
  'foreign_subject',
  'four_eyes',
  'internal_error',
  'invalid_agent',
  'invalid_effect',
  'invalid_input',
  'invalid_plan',
  'invalid_request',
  'invalid_durable_turn_result',
  'journal_corrupt',
  'key_service_unavailable',
  'lease_lost',
  'legal_hold',
  'memory_id_reserved',
  'memory_source_gone',
  'label_refused',
  'not_erased',
  'method_not_allowed',
  'not_found',
  'not_implemented',
  'not_quarantined',
  'not_resumable',
  'not_undecided',
  'not_supported_yet',
  'payload_missing',
  'payload_too_large',
  'payload_unreadable',
  'quarantined',
  'record_skew',
  'record_too_large',
  'request_invalid_json',
  'schema_from_future',
  'shutting_down',
  'store_unavailable',
  'store_rejected',
  'subject_erased',
  'subject_required',
  'thread_busy',
  'turn_payload_changed',
  'unauthorized',
  'unsupported_media_type',
  'unknown_reference',
  'value_not_storable',
] as const;
export type ErrorCode = (typeof errorCodes)[number];
/** When the same call may succeed: at once, after a wait, or never as it is. */
export type Retry = 'now' | 'never' | { readonly afterMs: number };
export type ErrorDetails = Readonly<Record<string, string | number | boolean | null>>;

export class TurnstoneError extends Error {
  override readonly name: string = 'TurnstoneError';
  readonly code: ErrorCode;
  readonly retry: Retry;
  readonly details: ErrorDetails;

  constructor(
    code: ErrorCode,
    message: string,
    facts: { retry: Retry; details?: ErrorDetails; cause?: unknown },
  ) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = code;
    this.retry = facts.retry;
    this.details = facts.details ?? {};
  }

  toJSON(): { code: ErrorCode; message: string; retry: Retry; details: ErrorDetails } {
    return { code: this.code, message: this.message, retry: this.retry, details: this.details };
  }
}

/** A broken invariant: nobody may handle it; the work stops. */
export class InvariantError extends Error {
  override readonly name = 'InvariantError';
}

/** Throws InvariantError with the promise's label when `condition` is false. */
export function assertInvariant(
  condition: boolean,
  label: string,
  message: string,
): asserts condition {
  if (!condition) throw new InvariantError(`${label}: ${message}`);
}

/** The one class agent code throws to say whether the same turn may be tried again. */
export class AgentError extends Error {
  override readonly name = 'AgentError';
  readonly code: string;
  constructor(message: string, facts: { code?: string; cause?: unknown } = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = facts.code ?? 'agent_failed';
  }
}

/** A certificate that nothing was applied; only a port that can prove it may throw it (K-32). */
export class EffectNotAppliedError extends Error {
  override readonly name = 'EffectNotAppliedError';
}

const textBytesMax = 2048;

/** What can be said of any thrown value; bounded, and never throws itself. */
export function describeError(thrown: unknown): { name: string; message: string; code?: string } {
  const name = field(thrown, 'name') ?? typeof thrown;
  const message = field(thrown, 'message') ?? plain(thrown);
  const code = field(thrown, 'code') ?? field(property(thrown, 'cause'), 'code');
  const facts = { name: bounded(name), message: bounded(message) };
  return code === undefined ? facts : { ...facts, code: bounded(code) };
}

function property(thrown: unknown, name: string): unknown {
  if ((typeof thrown !== 'object' && typeof thrown !== 'function') || thrown === null)
    return undefined;
  try {
    return Reflect.get(thrown, name);
  } catch {
    return undefined;
  }
}

function field(thrown: unknown, name: string): string | undefined {
  const value = property(thrown, name);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function plain(thrown: unknown): string {
  if (typeof thrown === 'string') return thrown === '' ? 'an empty text was thrown' : thrown;
  if (thrown === null || thrown === undefined) return `${thrown} was thrown`;
  if (typeof thrown === 'object' || typeof thrown === 'function')
    return `a thrown ${typeof thrown} without a message`;
  return String(thrown);
}

function bounded(text: string): string {
  const whole = text.toWellFormed();
  if (Buffer.byteLength(whole) <= textBytesMax) return whole;
  return `${Buffer.from(whole)
    .subarray(0, textBytesMax - 4)
    .toString('utf8')
    .replace(/\uFFFD$/u, '')}…`;
}
