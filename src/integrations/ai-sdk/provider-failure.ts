// What an error of an AI SDK provider proves about its attempt, read from its shape: no provider is imported.
//
//   the provider answered     | proves            | again | charged
//   408 409 425 429 503 529   | nothing generated | yes   | nothing
//   424, another 5xx          | nothing           | yes   | the reserve
//   another 4xx               | nothing generated | no    | nothing
//   nothing: refused, unknown | nothing was sent  | yes   | nothing
//   nothing: cut, timed out   | nothing           | yes   | the reserve
//   an answer it cannot read  | nothing           | yes   | the reserve
//   its own argument errors   | nothing was sent  | no    | nothing
// The gateway's provider gives a status to failures that had no answer: 408 to its own time-out, 500 to the rest.
import type { ModelFailure } from '../../ports/model.ts';
import { describeError } from '../../protocol/errors.ts';
import { limits } from '../../protocol/limits.ts';

/** Statuses after which the same request may succeed, and that say that nothing was generated. */
const busy: ReadonlySet<number> = new Set([408, 409, 425, 429, 503, 529]);

/** Errors a provider raises before it sends anything. */
const neverSent: ReadonlySet<string> = new Set([
  'AI_InvalidArgumentError',
  'AI_InvalidPromptError',
  'AI_LoadAPIKeyError',
  'AI_LoadSettingError',
  'AI_NoSuchModelError',
  'AI_NoSuchProviderReferenceError',
  'AI_TooManyEmbeddingValuesForCallError',
  'AI_UnsupportedFunctionalityError',
]);

/** Codes of a connection that was never made. */
const refusedConnections: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Errors an error may stand for, itself among them. */
const causesMax = 5;

/** Classes what a provider threw. `now` is asked for a Retry-After that names an instant. */
export function providerFailure(thrown: unknown, now: () => number): ModelFailure {
  const { name, message } = describeError(thrown);
  const status = statusOf(thrown);
  if (status !== null) {
    const retryable = busy.has(status);
    const unproven = status === 424 || (status >= 500 && !retryable);
    const advice = retryable || unproven ? adviceOf(thrown, now) : null;
    return {
      kind: 'failed',
      disposition: unproven ? 'in_doubt' : 'did_not_happen',
      permanent: !unproven && !retryable,
      code: `model_${status}`,
      message,
      ...(advice === null ? {} : { adviceMs: advice }),
    };
  }
  const facts = { kind: 'failed' as const, message };
  if (neverSent.has(name)) {
    return {
      ...facts,
      disposition: 'did_not_happen',
      permanent: true,
      code: 'model_request_invalid',
    };
  }
  if (causesOf(thrown).some((cause) => refusedConnections.has(String(member(cause, 'code'))))) {
    return { ...facts, disposition: 'did_not_happen', permanent: false, code: 'effect_not_sent' };
  }
  return { ...facts, disposition: 'in_doubt', permanent: false, code: 'model_failed' };
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

/** An error and what caused it. */
function causesOf(thrown: unknown): readonly unknown[] {
  const causes: unknown[] = [];
  for (let cause = thrown; cause != null && causes.length < causesMax; ) {
    causes.push(cause);
    cause = member(cause, 'cause');
  }
  return causes;
}

/** The status of an APICallError or a gateway error; null for one that stands for no answer. */
function statusOf(thrown: unknown): number | null {
  const given = member(thrown, 'statusCode');
  const invented = given === 408 || (typeof given === 'number' && given >= 500);
  const ofGateway = describeError(thrown).name.startsWith('Gateway');
  const status = ofGateway && invented ? member(member(thrown, 'cause'), 'statusCode') : given;
  return typeof status === 'number' && status >= 400 && status < 600 ? status : null;
}

/** Milliseconds of `retry-after-ms` or `retry-after`, at most what the platform waits. */
function adviceOf(thrown: unknown, now: () => number): number | null {
  const headers =
    member(thrown, 'responseHeaders') ?? member(member(thrown, 'cause'), 'responseHeaders');
  const exact = Number.parseFloat(String(member(headers, 'retry-after-ms')));
  if (exact >= 0) return Math.min(Math.ceil(exact), limits.retryAdviceMaxMs);
  const named = member(headers, 'retry-after');
  if (typeof named !== 'string') return null;
  const seconds = /^\d+(?:\.\d+)?$/.test(named.trim()) ? Number(named) : null;
  const wait = seconds === null ? Date.parse(named) - now() : seconds * 1_000;
  return wait >= 0 ? Math.min(Math.ceil(wait), limits.retryAdviceMaxMs) : null;
}
