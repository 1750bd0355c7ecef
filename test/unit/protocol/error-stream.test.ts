import { expect, test } from 'vitest';
import type { ErrorReason } from '../../../src/protocol/error-stream.ts';
import { errorReason, errorReasons, reasonOf } from '../../../src/protocol/error-stream.ts';
import { TurnstoneError } from '../../../src/protocol/errors.ts';
import type { ExpiryDecision, ExpiryFacts } from '../../../src/protocol/expiry-policy.ts';
import { decideExpiry } from '../../../src/protocol/expiry-policy.ts';
import { tellError } from '../../../src/runtime/tell.ts';

const sink = () => {
  const heard: [string, unknown][] = [];
  return { heard, emit: (name: string, fields: unknown) => void heard.push([name, fields]) };
};

test('T122 a reason outside the vocabulary is refused by the types and when it is told; nothing is emitted', () => {
  const out = sink();
  // @ts-expect-error the vocabulary is closed
  const unknown: ErrorReason = 'bored';
  expect(() => tellError(out, unknown, {})).toThrow(TurnstoneError);
  expect(() => errorReason('Activation_Error')).toThrow('reason: expected activation_error');
  expect(out.heard).toEqual([]);
  for (const reason of errorReasons) tellError(out, reason, { detail: 'd' });
  expect(out.heard).toEqual(errorReasons.map((name) => [`error.${name}`, { detail: 'd' }]));
});

test('B-59 every conclusion has one reason or none', () => {
  expect(
    [
      ['succeeded', undefined],
      ['failed', 'agent_failed'],
      ['failed', 'turn_timeout'],
      ['exhausted', 'budget_exhausted'],
      ['cancelled', undefined],
      ['cancelled', 'approval_expired'],
      ['cancelled', 'policy_error'],
      ['quarantined', 'divergence'],
    ].map(([status, code]) => reasonOf(status ?? '', code)),
  ).toEqual([
    null,
    'activation_error',
    'activation_timeout',
    'budget_exceeded',
    null,
    'hitl_timeout',
    'hitl_timeout',
    null,
  ]);
});

test('B-59 a refused reason is told with the whole vocabulary', () => {
  let refusal: unknown;
  try {
    errorReason(7);
  } catch (error) {
    refusal = error;
  }
  expect(refusal).toMatchObject({
    code: 'invalid_request',
    message:
      'reason: expected activation_error, activation_timeout, budget_exceeded, orphaned_result, hitl_timeout, intent_dead_letter, got 7',
    retry: 'never',
    details: { field: 'reason' },
  });
});

const facts: ExpiryFacts = { action: { pay: 1 }, escalation: 0, deadline: '2026-01-01' };

test('T109 an escalation is bounded: at the bound it is a denial, and the same facts decide the same', () => {
  const escalate = (): ExpiryDecision => ({ kind: 'escalate', expiresInMs: 5 });
  for (let most = 0; most < 4; most += 1) {
    const walk = Array.from({ length: most + 1 }, (_, escalation) =>
      decideExpiry(escalate, { ...facts, escalation }, most),
    );
    expect(walk.map(({ kind }) => kind)).toEqual([...Array(most).fill('escalate'), 'deny']);
    expect(decideExpiry(escalate, facts, most)).toEqual(walk[0]);
  }
});

test('T110 T122 a policy that throws, or decides nothing known, drops as a policy error; custom text goes to the detail', () => {
  const broken = (): ExpiryDecision => {
    throw new Error('no rota');
  };
  expect(decideExpiry(broken, facts, 1)).toEqual({
    kind: 'drop',
    code: 'policy_error',
    detail: 'no rota',
  });
  const approves = (() => ({ kind: 'approve' })) as unknown as () => ExpiryDecision;
  expect(decideExpiry(approves, facts, 1)).toMatchObject({ kind: 'drop', code: 'policy_error' });
  const nothing = (() => undefined) as unknown as () => ExpiryDecision;
  expect(decideExpiry(nothing, facts, 1)).toMatchObject({ kind: 'drop', code: 'policy_error' });
  const custom = (): ExpiryDecision => ({ kind: 'drop', detail: 'gone_fishing' });
  expect(decideExpiry(custom, facts, 1)).toEqual({
    kind: 'drop',
    code: 'approval_expired',
    detail: 'gone_fishing',
  });
  const meddles = (given: ExpiryFacts): ExpiryDecision => {
    Object.assign(given, { escalation: -1 });
    return { kind: 'escalate' };
  };
  expect(decideExpiry(meddles, facts, 1)).toMatchObject({ kind: 'drop', code: 'policy_error' });
});

test('B-50 a policy sees the facts, frozen, and what it decides is followed as it is', () => {
  let seen: unknown;
  const looks = (given: ExpiryFacts): ExpiryDecision => {
    seen = given;
    return { kind: 'deny' };
  };
  expect(decideExpiry(looks, facts, 0)).toEqual({ kind: 'deny' });
  expect(decideExpiry(looks, { ...facts, escalation: 9 }, 1)).toEqual({ kind: 'deny' });
  expect(seen).toEqual({ ...facts, escalation: 9 });
  expect(Object.isFrozen(seen)).toBe(true);
  const later: ExpiryDecision = { kind: 'escalate', expiresInMs: 5 };
  expect(decideExpiry(() => later, facts, 1)).toEqual(later);
  expect(decideExpiry(() => ({ kind: 'drop' }), { ...facts, escalation: 9 }, 1)).toEqual({
    kind: 'drop',
    code: 'approval_expired',
    detail: '',
  });
});

test.each([
  [{ kind: 'approve' }, 'approve'],
  [{}, 'undefined'],
  [undefined, 'undefined'],
  [null, 'undefined'],
  ['deny', 'undefined'],
])('T110 a policy that answers %j is told what was expected and what came', (answer, got) => {
  const policy = (() => answer) as unknown as () => ExpiryDecision;
  expect(decideExpiry(policy, { ...facts, escalation: 9 }, 1)).toEqual({
    kind: 'drop',
    code: 'policy_error',
    detail: `expected deny, escalate or drop, got ${got}`,
  });
});

test('T110 what a policy throws is told, an error or not', () => {
  const throws = (): never => {
    throw 'no rota';
  };
  expect(decideExpiry(throws, facts, 1)).toMatchObject({ kind: 'drop', detail: 'no rota' });
});
