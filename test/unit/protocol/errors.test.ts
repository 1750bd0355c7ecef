// Errors as data: what is kept of a thrown value, and what never is.
import { expect, test } from 'vitest';
import type { ErrorCode } from '../../../src/protocol/errors.ts';
import {
  AgentError,
  assertInvariant,
  describeError,
  EffectNotAppliedError,
  errorCodes,
  InvariantError,
  isForAnotherBuild,
  TurnstoneError,
} from '../../../src/protocol/errors.ts';

test('K-21 an error serialises without its cause, which may hold credentials', () => {
  const cause = new Error('token abc');
  const error = new TurnstoneError('not_found', 'turn: expected one, got none', {
    retry: { afterMs: 5 },
    details: { turn: 't1' },
    cause,
  });
  expect(error.cause).toBe(cause);
  expect(error).toBeInstanceOf(Error);
  expect(JSON.parse(JSON.stringify(error))).toEqual({
    code: 'not_found',
    message: 'turn: expected one, got none',
    retry: { afterMs: 5 },
    details: { turn: 't1' },
  });
  const bare = new TurnstoneError('not_found', 'm', { retry: 'never' });
  expect(bare.details).toEqual({});
  expect(Object.hasOwn(bare, 'cause')).toBe(false);
});

test('each class has its name, and agent code may name its failure', () => {
  expect(new TurnstoneError('expired', 'm', { retry: 'now' }).name).toBe('TurnstoneError');
  expect(new AgentError('m')).toMatchObject({
    name: 'AgentError',
    message: 'm',
    code: 'agent_failed',
  });
  expect(Object.hasOwn(new AgentError('m'), 'cause')).toBe(false);
  expect(new AgentError('m', { code: 'no_stock', cause: 1 })).toMatchObject({
    code: 'no_stock',
    cause: 1,
  });
  expect(new EffectNotAppliedError('m').name).toBe('EffectNotAppliedError');
  expect(new InvariantError('m').name).toBe('InvariantError');
});

test('codes are lower-case words, each once', () => {
  expect(new Set(errorCodes).size).toBe(errorCodes.length);
  for (const code of errorCodes) expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/);
});

test('a broken invariant names its promise', () => {
  expect(() => assertInvariant(true, 'T5', 'one key')).not.toThrow();
  expect(() => assertInvariant(false, 'T5', 'one key')).toThrow(InvariantError);
  expect(() => assertInvariant(false, 'T5', 'one key')).toThrow('T5: one key');
});

test('decision 19: only what another build wrote is held for it', () => {
  const of = (code: ErrorCode, newer?: boolean): TurnstoneError =>
    new TurnstoneError(code, 'm', {
      retry: 'never',
      details: newer === undefined ? {} : { newer },
    });
  expect(isForAnotherBuild(of('schema_from_future'))).toBe(true);
  expect(isForAnotherBuild(of('agent_unknown'))).toBe(true);
  expect(isForAnotherBuild(of('record_skew', true))).toBe(true);
  expect(isForAnotherBuild(of('record_skew', false))).toBe(false);
  expect(isForAnotherBuild(of('record_skew'))).toBe(false);
  expect(isForAnotherBuild(of('journal_corrupt', true))).toBe(false);
  expect(isForAnotherBuild({ code: 'agent_unknown', details: {} })).toBe(false);
  expect(isForAnotherBuild(undefined)).toBe(false);
});

const thrower = {
  get message(): string {
    throw new Error('no');
  },
};
const coded = (code: unknown): Error => Object.assign(new Error('m'), { code });
const withCause = (cause: unknown): Error => new Error('m', { cause });

test.each<[string, unknown, { name: string; message: string; code?: string }]>([
  ['an error', new RangeError('too far'), { name: 'RangeError', message: 'too far' }],
  ['a code', coded('ECONNRESET'), { name: 'Error', message: 'm', code: 'ECONNRESET' }],
  ['a code that is no text', coded(7), { name: 'Error', message: 'm' }],
  ['an empty code', coded(''), { name: 'Error', message: 'm' }],
  [
    'the code of a cause',
    withCause({ code: 'EPIPE' }),
    { name: 'Error', message: 'm', code: 'EPIPE' },
  ],
  ['a cause without one', withCause('x'), { name: 'Error', message: 'm' }],
  ['a text', 'broken', { name: 'string', message: 'broken' }],
  ['an empty text', '', { name: 'string', message: 'an empty text was thrown' }],
  ['null', null, { name: 'object', message: 'null was thrown' }],
  ['undefined', undefined, { name: 'undefined', message: 'undefined was thrown' }],
  ['a number', 7, { name: 'number', message: '7' }],
  ['a symbol', Symbol('s'), { name: 'symbol', message: 'Symbol(s)' }],
  ['an object', {}, { name: 'object', message: 'a thrown object without a message' }],
  [
    'an empty message',
    new Error(''),
    { name: 'Error', message: 'a thrown object without a message' },
  ],
  ['a function', () => 1, { name: 'function', message: 'a thrown function without a message' }],
  [
    'a getter that throws',
    thrower,
    { name: 'object', message: 'a thrown object without a message' },
  ],
  ['an error like object', { name: 'N', message: 'M' }, { name: 'N', message: 'M' }],
  ['a lone surrogate', new Error('a\ud800b'), { name: 'Error', message: 'a\ufffdb' }],
])('%s is described without throwing', (_, thrown, expected) => {
  const described = describeError(thrown);
  if (_ === 'a function') expect(described.message).toBe(expected.message);
  else expect(described).toStrictEqual(expected);
});

test('what is kept of a text is at most 2 KiB, cut between characters', () => {
  const exact = 'x'.repeat(2048);
  expect(describeError(exact).message).toBe(exact);
  expect(describeError(`${exact}x`).message).toBe(`${'x'.repeat(2044)}…`);
  expect(describeError('é'.repeat(1100)).message).toBe(`${'é'.repeat(1022)}…`);
  expect(describeError(`x${'é'.repeat(1100)}`).message).toBe(`x${'é'.repeat(1021)}…`);
  const long = coded('c'.repeat(3_000));
  long.name = 'n'.repeat(3_000);
  expect(describeError(long).name).toBe(`${'n'.repeat(2044)}…`);
  expect(describeError(long).code).toBe(`${'c'.repeat(2044)}…`);
});
