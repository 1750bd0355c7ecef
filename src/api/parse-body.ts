// Bodies and queries at the door: parsed once, refused with the offending path.
import * as v from 'valibot';
import { TurnstoneError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';
import type { ApiRequest } from './api-request.ts';

/** The JSON body under a schema; throws `payload_too_large`, `unsupported_media_type`, `request_invalid_json`, `invalid_request`. */
export function parseBody<S extends v.GenericSchema>(
  request: ApiRequest,
  schema: S,
): v.InferOutput<S> {
  const size = request.body?.byteLength ?? 0;
  if (size > limits.requestBodyBytes) throw tooLarge(size);
  const type = request.headers['content-type'];
  if (type !== undefined && !/^application\/(?:[\w.+-]+\+)?json\b/i.test(type)) {
    throw new TurnstoneError(
      'unsupported_media_type',
      `content-type: expected application/json, got ${type}`,
      {
        retry: 'never',
      },
    );
  }
  return check(schema, jsonOf(request.body), '');
}

/** The error of a body over the limit. */
export function tooLarge(size: number): TurnstoneError {
  return new TurnstoneError(
    'payload_too_large',
    `body: expected at most ${limits.requestBodyBytes} bytes, got ${size}`,
    {
      retry: 'never',
      details: { limit: limits.requestBodyBytes, size },
    },
  );
}

/** The query under a schema; a name twice is refused. */
export function parseQuery<S extends v.GenericSchema>(
  request: ApiRequest,
  schema: S,
): v.InferOutput<S> {
  const names = [...request.query.keys()];
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw invalid(`query.${twice}`, 'one value', 'several');
  return check(schema, Object.fromEntries(request.query), 'query.');
}

function jsonOf(body: Uint8Array | null): unknown {
  if (body === null || body.byteLength === 0) throw malformed('expected a JSON body, got none');
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    throw malformed('expected a JSON body in UTF-8');
  }
}

function malformed(detail: string): TurnstoneError {
  return new TurnstoneError('request_invalid_json', detail, { retry: 'never' });
}

function check<S extends v.GenericSchema>(
  schema: S,
  input: unknown,
  prefix: string,
): v.InferOutput<S> {
  const result = v.safeParse(schema, input, { abortEarly: true });
  if (result.success) return result.output;
  const [issue] = result.issues;
  const path = (issue.path ?? [])
    .map(({ key }, index) =>
      typeof key === 'number' ? `[${key}]` : `${index === 0 ? '' : '.'}${String(key)}`,
    )
    .join('');
  throw invalid(
    `${prefix}${path === '' ? 'body' : path}`,
    issue.expected ?? issue.message,
    issue.received,
  );
}

function invalid(path: string, expected: string, got: string): TurnstoneError {
  const wanted = expected === 'never' ? 'no such field' : expected;
  return new TurnstoneError('invalid_request', `${path}: expected ${wanted}, got ${got}`, {
    retry: 'never',
    details: { path, expected: wanted, got },
  });
}
