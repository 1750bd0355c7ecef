import { expect, test } from 'vitest';
import { parseBudget, tallyOf } from '../../../src/protocol/budget.ts';
import { doubtsOf } from '../../../src/protocol/doubt.ts';
import { TurnstoneError } from '../../../src/protocol/errors.ts';
import type { RecordBody } from '../../../src/protocol/record.ts';
import { decodeBody, encodeBody } from '../../../src/protocol/record-codec.ts';

const common = { at: 5, epoch: 1, payload: { kind: 'none' as const } };
const spend = { tokens: 0, minorUnits: 0 };
const site = (ordinal: number, step = 's') => ({ step, phase: 'forward' as const, ordinal });
const started = (
  seq: number,
  ordinal: number,
  key: string,
  attempt = 1,
  mutates = true,
): RecordBody => ({
  ...common,
  seq,
  kind: 'EffectStarted',
  site: site(ordinal),
  key,
  effect: 'charge',
  attempt,
  backoffMs: 0,
  mutates,
  recovery: 'operator',
});
const failed = (
  seq: number,
  ordinal: number,
  key: string,
  disposition: 'in_doubt' | 'did_not_happen' | 'landed',
): RecordBody => ({
  ...common,
  seq,
  kind: 'EffectFailed',
  site: site(ordinal),
  key,
  disposition,
  permanent: false,
  code: 'x',
  spend,
});
const done = (seq: number, ordinal: number, key: string): RecordBody => ({
  ...common,
  seq,
  kind: 'EffectDone',
  site: site(ordinal),
  key,
  spend: { tokens: 40, minorUnits: 2 },
});
const reconciled = (
  seq: number,
  ordinal: number,
  key: string,
  disposition: 'in_doubt' | 'did_not_happen' | 'landed',
): RecordBody => ({
  ...common,
  seq,
  kind: 'EffectReconciled',
  site: site(ordinal),
  key,
  disposition,
  spend,
});

const examples: readonly RecordBody[] = [
  {
    ...common,
    seq: 1,
    kind: 'RunAdmitted',
    turn: 't1',
    agent: 'plan',
    payloadDigest: 'd',
    authority: 'a',
    presentation: 'p',
    schema: 1,
    canonical: 1,
    revision: 0,
    scope: 't3',
    generation: 1,
    payload: { kind: 'beside' },
  },
  { ...common, seq: 2, kind: 'PlanFrozen', digest: 'x' },
  { ...common, seq: 3, kind: 'StepStarted', step: 's' },
  started(4, 0, 'k1'),
  failed(5, 0, 'k1', 'did_not_happen'),
  done(6, 0, 'k2'),
  { ...reconciled(7, 1, 'k3', 'landed'), assertedBy: 'ann' } as RecordBody,
  { ...common, seq: 8, kind: 'StepFinished', step: 's', outcome: 'ok' },
  {
    ...common,
    seq: 9,
    kind: 'Note',
    step: '',
    author: 'agent',
    payload: { kind: 'parts', digest: 'z', count: 2, bytes: 9 },
  },
  {
    ...common,
    seq: 10,
    kind: 'RunConcluded',
    outcome: 'failed',
    code: 'x',
    chainHead: 'h',
    payload: { kind: 'lost', digest: 'z', bytes: 9 },
  },
];

test('every record body reads back as it was written [T13]', () => {
  for (const body of examples) expect(decodeBody(encodeBody(body))).toEqual(body);
});

test('E304 a newer version, an unknown kind or an unknown member is named skew [T13]', () => {
  const text = encodeBody(started(1, 0, 'k'));
  for (const [changed, member] of [
    [text.replace('"v":1', '"v":2'), 'v'],
    [text.replace('EffectStarted', 'EffectBegan'), 'k'],
    [text.replace('"v":1', '"v":1,"zz":1'), 'zz'],
  ] as const) {
    expect(() => decodeBody(changed)).toThrow(TurnstoneError);
    expect(() => decodeBody(changed)).toThrow(`"${member}"`);
  }
});

test('E305 a forward record has the same bytes with or without compensation in the build', () => {
  expect(encodeBody(started(1, 0, 'k'))).not.toContain('forward');
});

test('E101 an announcement and an inconclusive failure are doubts; a read is none [T6]', () => {
  expect(
    doubtsOf([
      started(1, 0, 'k1'),
      started(2, 1, 'k2'),
      failed(3, 1, 'k2', 'in_doubt'),
      started(4, 2, 'k3', 1, false),
    ]),
  ).toMatchObject([
    { key: 'k1', doubt: 'announced' },
    { key: 'k2', doubt: 'inconclusive' },
  ]);
});

test('E312 a later success of an identical twin does not hide a doubt [T6]', () => {
  const doubts = doubtsOf([
    started(1, 0, 'k1'),
    failed(2, 0, 'k1', 'in_doubt'),
    started(3, 1, 'k2'),
    done(4, 1, 'k2'),
  ]);
  expect(doubts.map((doubt) => doubt.key)).toEqual(['k1']);
});

test('ruling 1: a refused later attempt leaves the earlier send in doubt; a completed repeat clears it [T6]', () => {
  const before = [started(1, 0, 'k1'), failed(2, 0, 'k1', 'in_doubt'), started(3, 0, 'k2', 2)];
  expect(doubtsOf([...before, failed(4, 0, 'k2', 'did_not_happen')])).toHaveLength(1);
  expect(doubtsOf([...before, done(4, 0, 'k2')])).toHaveLength(0);
  const asked = [
    ...before,
    failed(4, 0, 'k2', 'in_doubt'),
    reconciled(5, 0, 'k2', 'did_not_happen'),
  ];
  expect(doubtsOf(asked)).toHaveLength(0);
  // A verdict over a bare announcement stands alone: its call may be on its way again.
  expect(doubtsOf([...before, reconciled(4, 0, 'k2', 'did_not_happen')])).toHaveLength(1);
  expect(
    doubtsOf([...before, reconciled(4, 0, 'k2', 'did_not_happen'), done(5, 0, 'k2')]),
  ).toHaveLength(0);
  expect(doubtsOf([...before, reconciled(4, 0, 'k2', 'in_doubt')])).toMatchObject([{ key: 'k2' }]);
});

test('E53 E65 a tally counts announcements once and bills failures and probes (BU-5)', () => {
  const bodies = [
    started(1, 0, 'k1'),
    failed(2, 0, 'k1', 'did_not_happen'),
    started(3, 0, 'k2', 2),
    done(4, 0, 'k2'),
  ];
  expect(tallyOf(bodies)).toEqual({ steps: 0, effects: 1, attempts: 2, tokens: 40, minorUnits: 2 });
});

test('a budget out of range is refused naming the field', () => {
  expect(parseBudget({ effects: 3, denials: 0 })).toEqual({ effects: 3, denials: 0 });
  for (const [budget, field] of [
    [{ effects: 0 }, 'budget.effects'],
    [{ tokens: 1.5 }, 'budget.tokens'],
    [{ effect: 1 }, 'budget.effect'],
  ] as const) {
    expect(() => parseBudget(budget)).toThrow(field);
  }
});
