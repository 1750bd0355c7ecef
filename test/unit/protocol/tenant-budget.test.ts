// A tenant's ceiling: periods, verdicts, the text a host gives it, and what a rest adds to the ledger.
import { expect, test } from 'vitest';
import { readSettings } from '../../../src/local/settings.ts';
import { spendOfRest } from '../../../src/protocol/meter.ts';
import type { RecordBody } from '../../../src/protocol/record.ts';
import { parseTenantBudget, periodOf, tenantRefusal } from '../../../src/protocol/tenant-budget.ts';

test('a period is a UTC day or month [T11]', () => {
  const last = Date.parse('2026-12-31T23:59:59.999Z');
  expect(periodOf({ period: 'day' }, last)).toBe('2026-12-31');
  expect(periodOf({ period: 'month' }, last)).toBe('2026-12');
  expect(periodOf({ period: 'month' }, last + 1)).toBe('2027-01');
});

test('BU-3 a tenant with nothing left is refused the smallest attempt too, by the name of the ceiling [T11]', () => {
  const budget = { period: 'day', tokens: 100, minorUnits: 10 } as const;
  const none = { tokens: 0, minorUnits: 0 };
  expect(tenantRefusal(budget, { tokens: 99, minorUnits: 9 }, none)).toBeNull();
  expect(tenantRefusal(budget, { tokens: 100, minorUnits: 9 }, none)).toEqual({
    limit: 'tenant.tokens',
    ceiling: 100,
    consumed: 100,
  });
  expect(tenantRefusal(budget, none, { tokens: 0, minorUnits: 11 })).toMatchObject({
    limit: 'tenant.minorUnits',
  });
  expect(
    tenantRefusal({ period: 'day', tokens: 1 }, { tokens: 0, minorUnits: 9e15 }, none),
  ).toBeNull();
  const most = { tokens: Number.MAX_SAFE_INTEGER, minorUnits: 0 };
  expect(tenantRefusal(budget, most, most)).toMatchObject({ limit: 'tenant.tokens' });
});

test('the text of a ceiling is read whole or refused by the name of its setting [T11]', () => {
  expect(parseTenantBudget('CEILING', 'month, tokens=5,minorUnits=7')).toEqual({
    period: 'month',
    tokens: 5,
    minorUnits: 7,
  });
  for (const text of ['', 'week,tokens=1', 'day', 'day,tokens=0', 'day,tokens=-1', 'day,cents=1']) {
    expect(() => parseTenantBudget('CEILING', text), text).toThrow(/^CEILING: expected/);
  }
  expect(() => parseTenantBudget('CEILING', 'day,tokens=1,tokens=2')).toThrow('tokens once');
});

test.each([
  ['week,tokens=1', 'one of day, month first', 'week'],
  ['', 'one of day, month first', ''],
  ['day', 'at least one ceiling after the period', 'day'],
  ['day,cents=1', 'tokens=<integer> or minorUnits=<integer>', 'cents=1'],
  ['day,xtokens=1', 'tokens=<integer> or minorUnits=<integer>', 'xtokens=1'],
  ['day,tokens=1x', 'tokens=<integer> or minorUnits=<integer>', 'tokens=1x'],
  [
    'day,tokens=1234567890123456',
    'tokens=<integer> or minorUnits=<integer>',
    'tokens=1234567890123456',
  ],
  ['day,', 'tokens=<integer> or minorUnits=<integer>', ''],
  ['day,minorUnits=0', 'minorUnits of at least 1', 'minorUnits=0'],
  ['day,tokens=1,tokens=2', 'tokens once', 'tokens=2'],
])('the text %j of a ceiling is refused with what was expected [T11]', (text, expected, got) => {
  let refusal: unknown;
  try {
    parseTenantBudget('CEILING', text);
  } catch (error) {
    refusal = error;
  }
  expect(refusal).toMatchObject({
    code: 'invalid_request',
    message: `CEILING: expected ${expected}, got "${got}"`,
    retry: 'never',
    details: { field: 'CEILING', expected, got },
  });
});

test('a ceiling has up to fifteen digits, from 1 [T11]', () => {
  expect(parseTenantBudget('CEILING', 'day,minorUnits=1')).toEqual({
    period: 'day',
    minorUnits: 1,
  });
  expect(parseTenantBudget('CEILING', 'day,tokens=999999999999999')).toEqual({
    period: 'day',
    tokens: 999_999_999_999_999,
  });
});

test('the local server takes a ceiling from its environment [T11]', () => {
  expect(readSettings({}).tenantBudget).toBeUndefined();
  expect(readSettings({ TURNSTONE_TENANT_BUDGET: 'day,tokens=5' }).tenantBudget).toEqual({
    period: 'day',
    tokens: 5,
  });
  expect(() => readSettings({ TURNSTONE_TENANT_BUDGET: 'day' })).toThrow('TURNSTONE_TENANT_BUDGET');
});

const site = { step: '', phase: 'forward', ordinal: 0 } as const;
const base = { seq: 1, at: 1, epoch: 1, payload: { kind: 'none' } } as const;
const started = (key: string, minorUnits: number): RecordBody => ({
  ...base,
  kind: 'EffectStarted',
  site,
  key,
  effect: 'charge',
  attempt: 1,
  backoffMs: 0,
  mutates: true,
  recovery: 'operator',
  cost: { tokens: 0, minorUnits },
});
const done = (key: string, minorUnits: number): RecordBody => ({
  ...base,
  kind: 'EffectDone',
  site,
  key,
  spend: { tokens: 0, minorUnits },
});
const rested: RecordBody = { ...base, kind: 'RunSuspended', until: 9 };

test('BU-10 a rest adds what no rest before it had charged; a reserve that came to less is used up first [T11]', () => {
  const first = [started('a', 6)];
  expect(spendOfRest([], [...first, rested])).toEqual({ tokens: 0, minorUnits: 6 });
  const second = [done('a', 2), started('b', 3), done('b', 3)];
  expect(spendOfRest([...first, rested], [...second, rested])).toEqual({
    tokens: 0,
    minorUnits: 0,
  });
  const third = [started('c', 4), done('c', 4)];
  expect(spendOfRest([...first, rested, ...second, rested], [...third, rested])).toEqual({
    tokens: 0,
    minorUnits: 3,
  });
  expect(spendOfRest([...first, rested], [rested])).toEqual({ tokens: 0, minorUnits: 0 });
});
