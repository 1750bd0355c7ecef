// What a failure of Bedrock Converse proves about its attempt.
//
//   what came                                    | proves            | again | charged
//   throttled, over quota, not ready, 503        | nothing generated | yes   | nothing
//   validation, no access, no such model         | nothing generated | no    | nothing
//   a conflict                                   | nothing generated | yes   | nothing
//   credentials expired, out of time or not had  | nothing generated | yes   | nothing
//   credentials refused                          | nothing generated | no    | nothing
//   another 4xx                                  | nothing generated | no    | nothing
//   model timeout, model error, stream error     | nothing           | yes   | the reserve
//   internal error, another 5xx                  | nothing           | yes   | the reserve
//   no connection was made                       | nothing was sent  | yes   | nothing
//   the connection broke, timed out, was stopped | nothing           | yes   | the reserve
//   an answer nobody can read                    | nothing           | yes   | its usage, or the reserve
// Once a part of an answer came, no error proves that nothing was generated.
import type { ModelFailure, ModelUsage } from '../../ports/model.ts';
import { describeError } from '../../protocol/errors.ts';
import { limits } from '../../protocol/limits.ts';

type Class = Pick<ModelFailure, 'code' | 'disposition' | 'permanent'>;

const busy = (code: string): Class => ({
  code,
  disposition: 'did_not_happen',
  permanent: false,
});
const refused = (code: string): Class => ({
  code,
  disposition: 'did_not_happen',
  permanent: true,
});
const unknown = (code: string): Class => ({ code, disposition: 'in_doubt', permanent: false });

/** By the name of the exception, as the service or the SDK gives it. */
export const bedrockFailures: Readonly<Record<string, Class>> = {
  ThrottlingException: busy('model_throttled'),
  TooManyRequestsException: busy('model_throttled'),
  ServiceQuotaExceededException: busy('model_quota'),
  ModelNotReadyException: busy('model_not_ready'),
  ServiceUnavailableException: busy('model_unavailable'),
  ConflictException: busy('model_conflict'),
  ValidationException: refused('model_request_invalid'),
  AccessDeniedException: refused('model_access_denied'),
  ResourceNotFoundException: refused('model_not_found'),
  ModelTimeoutException: unknown('model_timeout'),
  ModelErrorException: unknown('model_error'),
  ModelStreamErrorException: unknown('model_stream_error'),
  InternalServerException: unknown('model_internal'),
  // The SDK loads credentials again, and corrects its clock, before the next attempt.
  ExpiredTokenException: busy('model_credentials'),
  ExpiredToken: busy('model_credentials'),
  RequestExpired: busy('model_credentials'),
  RequestTimeTooSkewed: busy('model_credentials'),
  InvalidSignatureException: busy('model_credentials'),
  SignatureDoesNotMatch: busy('model_credentials'),
  CredentialsProviderError: busy('model_credentials'),
  TokenProviderError: busy('model_credentials'),
  UnrecognizedClientException: refused('model_credentials_refused'),
  MissingAuthenticationTokenException: refused('model_credentials_refused'),
  IncompleteSignatureException: refused('model_credentials_refused'),
};

/** Errors of a connection that was never made. */
const neverSent: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']);

/** Classes what the client threw; `generated` says that part of an answer had come. */
export function bedrockFailure(
  thrown: unknown,
  heard: { readonly generated: boolean; readonly usage?: ModelUsage } = { generated: false },
): ModelFailure {
  const { message } = describeError(thrown);
  const named = classOf(thrown);
  const { usage } = heard;
  const proven = heard.generated ? { ...named, disposition: 'in_doubt' as const } : named;
  const adviceMs = named.permanent ? null : adviceOf(thrown);
  return {
    kind: 'failed',
    message,
    ...proven,
    ...(adviceMs === null ? {} : { adviceMs }),
    ...(usage === undefined ? {} : { usage }),
  };
}

function classOf(thrown: unknown): Class {
  const { name } = describeError(thrown);
  const known = Object.hasOwn(bedrockFailures, name) ? bedrockFailures[name] : undefined;
  if (known !== undefined) return known;
  // HTTP/2 cancels the stream of a connection that failed, and names that failure as its cause.
  const codes = [member(thrown, 'code'), member(member(thrown, 'cause'), 'code')];
  if (codes.some((code) => typeof code === 'string' && neverSent.has(code))) {
    return busy('effect_not_sent');
  }
  const status = member(member(thrown, '$metadata'), 'httpStatusCode');
  if (typeof status !== 'number' || status < 400) return unknown('model_failed');
  if (status === 429 || status === 503) return busy(`model_${status}`);
  return status < 500 ? refused(`model_${status}`) : unknown(`model_${status}`);
}

/** Milliseconds of a Retry-After in seconds, at most what the platform waits. */
function adviceOf(thrown: unknown): number | null {
  const named = member(member(member(thrown, '$response'), 'headers'), 'retry-after');
  if (typeof named !== 'string' || !/^\d+(?:\.\d+)?$/.test(named)) return null;
  return Math.min(Math.ceil(Number(named) * 1_000), limits.retryAdviceMaxMs);
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}
