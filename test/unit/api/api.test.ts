import { expect, test } from 'vitest';
import { matchPath } from '../../../src/api/handle.ts';
import stored from '../../../src/api/openapi.json' with { type: 'json' };
import { openapiDocument } from '../../../src/api/openapi-document.ts';
import { parsePrefer } from '../../../src/api/prefer.ts';
import { problemOf } from '../../../src/api/problem.ts';
import { routes, routesNotYet } from '../../../src/api/routes.ts';
import { describeError, TurnstoneError } from '../../../src/protocol/errors.ts';

test('the stored OpenAPI document is what the schemas say', () => {
  expect(stored).toEqual(JSON.parse(JSON.stringify(openapiDocument())));
});

test('every route of page 05 is there, or named as not there yet, once', () => {
  const names = [...routes, ...routesNotYet].map(({ method, path }) => `${method} ${path}`);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toHaveLength(27);
});

test('paths match whole, decode their parameters, and hostile escapes match nothing', () => {
  expect(matchPath('/v1/threads/{threadId}', '/v1/threads/a%3Ab')).toEqual({
    params: { threadId: 'a:b' },
  });
  expect(matchPath('/v1/threads/{threadId}', '/v1/threads/a/b')).toBeNull();
  expect(matchPath('/v1/threads/{threadId}', '/v1/threads/%zz')).toBeNull();
});

test('Prefer is read as far as turns know it', () => {
  expect(parsePrefer(undefined)).toEqual({ async: false, waitMs: null });
  expect(parsePrefer('respond-async, wait=5')).toEqual({ async: true, waitMs: 5_000 });
  expect(parsePrefer('wait=600')).toEqual({ async: false, waitMs: 25_000 });
  expect(parsePrefer('return=minimal')).toEqual({ async: false, waitMs: null });
  expect(() => parsePrefer('wait=soon')).toThrow('whole seconds');
});

test('K-21 a problem says nothing of its cause, and a foreign error says nothing at all', () => {
  const cause = new Error('token=s3cret');
  const told = problemOf(
    new TurnstoneError('store_unavailable', 'the store is away', { retry: 'now', cause }),
  );
  expect(told).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
  expect(told.body).not.toContain('s3cret');
  const opaque = problemOf(new Error('password=1'));
  expect(opaque.status).toBe(500);
  expect(opaque.body).not.toContain('password');
  expect(
    JSON.stringify(new TurnstoneError('internal_error', 'x', { retry: 'never', cause })),
  ).not.toContain('s3cret');
});

test('anything thrown can be described: primitives, nulls, throwing getters, huge texts', () => {
  const hostile = {
    get message(): string {
      throw new Error('no');
    },
    get name(): string {
      throw new Error('no');
    },
  };
  for (const thrown of [
    undefined,
    null,
    0,
    '',
    'text',
    Symbol('s'),
    10n,
    hostile,
    () => 1,
    Object.create(null),
    new Error('x'.repeat(1e6)),
  ]) {
    const { name, message } = describeError(thrown);
    expect(typeof name).toBe('string');
    expect(message.length).toBeGreaterThan(0);
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(2_048);
  }
});
