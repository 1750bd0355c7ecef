// Errors on the wire: RFC 9457 problem details with a stable code (page 05).
//   K-21  nothing of a cause or a stack leaves.

import type { ErrorCode } from '../protocol/errors.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { ApiResponse } from './api-request.ts';

const statuses: Readonly<Partial<Record<ErrorCode, number>>> = {
  agent_mismatch: 409,
  agent_unknown: 422,
  already_decided: 409,
  concluded: 409,
  digest_mismatch: 409,
  erased: 410,
  expired: 409,
  fingerprint_mismatch: 409,
  forbidden: 403,
  foreign_subject: 422,
  four_eyes: 403,
  internal_error: 500,
  invalid_input: 422,
  invalid_plan: 422,
  invalid_effect: 422,
  invalid_request: 422,
  key_service_unavailable: 503,
  legal_hold: 409,
  memory_id_reserved: 409,
  memory_source_gone: 409,
  label_refused: 422,
  not_erased: 409,
  method_not_allowed: 405,
  not_found: 404,
  not_implemented: 501,
  not_quarantined: 409,
  not_resumable: 409,
  not_undecided: 409,
  not_supported_yet: 422,
  payload_too_large: 413,
  quarantined: 409,
  request_invalid_json: 400,
  schema_from_future: 409,
  shutting_down: 503,
  store_unavailable: 503,
  subject_erased: 410,
  subject_required: 422,
  thread_busy: 409,
  turn_payload_changed: 409,
  unauthorized: 401,
  unsupported_media_type: 415,
  value_not_storable: 422,
};

/** A problem response; `retryAfterMs` becomes Retry-After in whole seconds. */
export function problem(of: {
  status: number;
  code: string;
  detail: string;
  extra?: Readonly<Record<string, unknown>>;
  retryAfterMs?: number;
}): ApiResponse {
  const retry =
    of.retryAfterMs === undefined
      ? {}
      : { 'retry-after': String(Math.max(1, Math.ceil(of.retryAfterMs / 1000))) };
  return {
    status: of.status,
    headers: { 'content-type': 'application/problem+json', 'cache-control': 'no-store', ...retry },
    body: JSON.stringify({
      type: 'about:blank',
      title: titles[of.status] ?? 'Error',
      status: of.status,
      code: of.code,
      detail: of.detail,
      ...of.extra,
    }),
  };
}

const titles: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  410: 'Gone',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  422: 'Unprocessable Content',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  503: 'Service Unavailable',
};

/** The problem an error stands for; anything unknown is an opaque 500. */
export function problemOf(error: unknown): ApiResponse {
  if (!(error instanceof TurnstoneError)) {
    return problem({
      status: 500,
      code: 'internal_error',
      detail: 'the request failed for an internal reason',
    });
  }
  const status = statuses[error.code] ?? 500;
  const after =
    typeof error.retry === 'object' ? error.retry.afterMs : status === 503 ? 1_000 : undefined;
  const { details } = error;
  return problem({
    status,
    code: error.code,
    detail: error.message,
    ...(Object.keys(details).length === 0 ? {} : { extra: { details } }),
    ...(after === undefined ? {} : { retryAfterMs: after }),
  });
}
