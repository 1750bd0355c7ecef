// Goal: every status has the class page 05 gives it. Method: the page's table, written a second time.
import { expect, test } from 'vitest';
import { classifyHttp, classifyTransport } from '../../../src/protocol/http-outcome.ts';

function classOf(status: number, mutates: boolean): string {
  if (status >= 200 && status <= 299) return 'done';
  if (status >= 300 && status <= 399)
    return mutates ? 'landed permanent' : 'did_not_happen permanent';
  switch (status) {
    case 400:
    case 401:
    case 402:
    case 403:
    case 404:
    case 405:
    case 409:
    case 410:
    case 411:
    case 412:
    case 413:
    case 414:
    case 415:
    case 422:
    case 428:
    case 431:
    case 451:
      return 'did_not_happen permanent';
    case 425:
    case 429:
      return 'did_not_happen';
    default:
      return 'in_doubt';
  }
}

test('every status from 100 to 599 is classed as the contract says [T6]', () => {
  for (let status = 100; status <= 599; status += 1) {
    for (const mutates of [true, false]) {
      const outcome = classifyHttp({ status, mutates, body: 'ok' });
      const came =
        outcome.kind === 'done'
          ? 'done'
          : `${outcome.kind === 'failed' ? '' : '?'}${outcome.disposition}${outcome.permanent ? ' permanent' : ''}`;
      expect(came, `${status} ${mutates}`).toBe(classOf(status, mutates));
      if (outcome.kind === 'failed') expect(outcome.code).toBe(`http_${status}`);
    }
  }
});

test('a 2xx whose answer cannot be used has landed [T6]', () => {
  for (const body of ['unparsable', 'too_large'] as const) {
    for (const mutates of [true, false]) {
      expect(classifyHttp({ status: 200, mutates, body })).toEqual({
        kind: 'failed',
        disposition: 'landed',
        permanent: false,
        code: `http_body_${body}`,
      });
    }
  }
});

test('Retry-After is honoured and capped at sixty seconds', () => {
  const advice = (seconds: number) =>
    classifyHttp({ status: 429, mutates: true, body: 'ok', retryAfterSeconds: seconds });
  expect(advice(3)).toMatchObject({ adviceMs: 3_000 });
  expect(advice(600)).toMatchObject({ adviceMs: 60_000 });
  expect(advice(0.0001)).toMatchObject({ adviceMs: 1 });
  for (const none of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
    expect(advice(none)).not.toHaveProperty('adviceMs');
  }
  expect(classifyHttp({ status: 425, mutates: true, body: 'ok' })).toStrictEqual({
    kind: 'failed',
    disposition: 'did_not_happen',
    permanent: false,
    code: 'http_425',
  });
});

test('F15 nothing happened while nothing was written; afterwards silence is in doubt [T6]', () => {
  expect(classifyTransport({ phase: 'before_write', code: 'econnrefused' })).toEqual({
    kind: 'failed',
    disposition: 'did_not_happen',
    permanent: false,
    code: 'econnrefused',
  });
  expect(classifyTransport({ phase: 'after_write', code: 'econnreset' })).toEqual({
    kind: 'failed',
    disposition: 'in_doubt',
    permanent: false,
    code: 'econnreset',
  });
});
