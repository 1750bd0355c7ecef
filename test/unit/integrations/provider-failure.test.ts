// What a provider's error proves, from the shapes the AI SDK's providers throw.
import { APICallError, LoadAPIKeyError, TypeValidationError } from '@ai-sdk/provider';
import { expect, test } from 'vitest';
import { providerFailure } from '../../../src/integrations/ai-sdk/provider-failure.ts';

const now = () => Date.parse('2030-01-01T00:00:00Z');
const url = 'https://model.example';

function status(statusCode: number, responseHeaders: Record<string, string> = {}): APICallError {
  return new APICallError({
    message: 'no',
    url,
    requestBodyValues: {},
    statusCode,
    responseHeaders,
  });
}

test.each([
  [400, 'did_not_happen', true],
  [401, 'did_not_happen', true],
  [403, 'did_not_happen', true],
  [404, 'did_not_happen', true],
  [413, 'did_not_happen', true],
  [422, 'did_not_happen', true],
  [408, 'did_not_happen', false],
  [409, 'did_not_happen', false],
  [429, 'did_not_happen', false],
  [503, 'did_not_happen', false],
  [529, 'did_not_happen', false],
  [500, 'in_doubt', false],
  [502, 'in_doubt', false],
  [504, 'in_doubt', false],
] as const)('a %i of a provider is %s, permanent %s [T6]', (code, disposition, permanent) => {
  expect(providerFailure(status(code), now)).toEqual({
    kind: 'failed',
    message: 'no',
    code: `model_${code}`,
    disposition,
    permanent,
  });
});

test.each([
  [{ 'retry-after': '3' }, 3_000],
  [{ 'retry-after': '0.5' }, 500],
  [{ 'retry-after-ms': '120', 'retry-after': '9' }, 120],
  [{ 'retry-after': 'Tue, 01 Jan 2030 00:00:07 GMT' }, 7_000],
  [{ 'retry-after': '86400' }, 60_000],
  [{ 'retry-after': 'soon' }, undefined],
  [{ 'retry-after': 'Mon, 31 Dec 2029 00:00:00 GMT' }, undefined],
] as const)('the wait %j is %s ms', (headers, advice) => {
  expect(providerFailure(status(429, headers), now).adviceMs).toBe(advice);
});

const refused = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
const reset = Object.assign(new Error('read'), { code: 'ECONNRESET' });
const unreached = (cause: Error) =>
  new APICallError({
    message: 'Cannot connect to API',
    url,
    requestBodyValues: {},
    cause,
    isRetryable: true,
  });

test.each([
  ['a refused connection', unreached(refused), 'did_not_happen', false, 'effect_not_sent'],
  ['a reset connection', unreached(reset), 'in_doubt', false, 'model_failed'],
  [
    'a missing key',
    new LoadAPIKeyError({ message: 'no key' }),
    'did_not_happen',
    true,
    'model_request_invalid',
  ],
  [
    'an answer nobody can read',
    new TypeValidationError({ value: 1, cause: 'shape' }),
    'in_doubt',
    false,
    'model_failed',
  ],
  ['an abort', new DOMException('stopped', 'AbortError'), 'in_doubt', false, 'model_failed'],
  ['a thrown text', 'nope', 'in_doubt', false, 'model_failed'],
] as const)('%s is %s [T6]', (_, thrown, disposition, permanent, code) => {
  expect(providerFailure(thrown, now)).toMatchObject({ disposition, permanent, code });
});
