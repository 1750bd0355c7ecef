// The outcome classes of an HTTP effect (page 05), as pure functions.
//   T6  only an answer that proves "nothing happened" is did_not_happen; silence is in doubt.
import type { Disposition } from './effect-decision.ts';
import { limits } from './limits.ts';

export type HttpOutcome =
  | { readonly kind: 'done' }
  | {
      readonly kind: 'failed';
      readonly disposition: Disposition;
      readonly permanent: boolean;
      readonly code: string;
      readonly adviceMs?: number;
    };

const refusals: ReadonlySet<number> = new Set([
  400, 401, 402, 403, 404, 405, 409, 410, 411, 412, 413, 414, 415, 422, 428, 431, 451,
]);
const notNow: ReadonlySet<number> = new Set([425, 429]);

export interface HttpAnswer {
  readonly status: number;
  /** Seconds of a numeric Retry-After, when there was one. */
  readonly retryAfterSeconds?: number;
  readonly body: 'ok' | 'unparsable' | 'too_large';
  readonly mutates: boolean;
}

/** Class of an answer that arrived. */
export function classifyHttp(answer: HttpAnswer): HttpOutcome {
  const code = `http_${answer.status}`;
  const { status } = answer;
  if (status >= 200 && status < 300) {
    if (answer.body === 'ok') return { kind: 'done' };
    const unusable = answer.body === 'unparsable' ? 'http_body_unparsable' : 'http_body_too_large';
    return { kind: 'failed', disposition: 'landed', permanent: false, code: unusable };
  }
  if (status >= 300 && status < 400) {
    const disposition = answer.mutates ? 'landed' : 'did_not_happen';
    return { kind: 'failed', disposition, permanent: true, code };
  }
  if (refusals.has(status))
    return { kind: 'failed', disposition: 'did_not_happen', permanent: true, code };
  if (notNow.has(status)) {
    const advice = adviceOf(answer.retryAfterSeconds);
    return { kind: 'failed', disposition: 'did_not_happen', permanent: false, code, ...advice };
  }
  return { kind: 'failed', disposition: 'in_doubt', permanent: false, code };
}

function adviceOf(seconds: number | undefined): { adviceMs?: number } {
  if (seconds === undefined || !Number.isFinite(seconds) || seconds <= 0) return {};
  return { adviceMs: Math.min(Math.ceil(seconds * 1000), limits.retryAdviceMaxMs) };
}

/** Class of a call that ended without an answer. */
export function classifyTransport(failure: {
  /** Whether any byte of the request was handed to a connected peer. */
  readonly phase: 'before_write' | 'after_write';
  readonly code: string;
}): Extract<HttpOutcome, { kind: 'failed' }> {
  const disposition = failure.phase === 'before_write' ? 'did_not_happen' : 'in_doubt';
  return { kind: 'failed', disposition, permanent: false, code: failure.code };
}
