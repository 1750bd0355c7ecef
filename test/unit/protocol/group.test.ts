// The table of situations of a group (page 01, section 7), move by move.
import { expect, test } from 'vitest';
import type { GroupFacts, MemberClass, MemberFailure } from '../../../src/protocol/group.ts';
import { afterFailure, nextOfAbort, nextOfCommit } from '../../../src/protocol/group.ts';

const none: GroupFacts = {
  inFlight: 0,
  failed: false,
  landed: 0,
  reversed: 0,
  atomic: 0,
  written: false,
  deferred: 0,
  sent: 0,
};
const facts = (of: Partial<GroupFacts>): GroupFacts => ({ ...none, ...of });

test('GR-6 a commit waits, judges, writes the rows, sends what was deferred in order, then commits [T9]', () => {
  const full = { landed: 2, atomic: 1, deferred: 2 };
  expect(nextOfCommit(facts({ ...full, inFlight: 1, failed: true }), false)).toEqual({
    kind: 'await',
  });
  expect(nextOfCommit(facts({ ...full, failed: true }), true)).toEqual({
    kind: 'abort',
    because: 'failed',
  });
  expect(nextOfCommit(facts(full), false)).toEqual({ kind: 'abort', because: 'invariant' });
  expect(nextOfCommit(facts(full), true)).toEqual({ kind: 'write' });
  expect(nextOfCommit(facts({ ...full, written: true }), true)).toEqual({ kind: 'send', index: 0 });
  const half = facts({ ...full, written: true, sent: 1 });
  expect(nextOfCommit(half, true)).toEqual({ kind: 'send', index: 1 });
  expect(nextOfCommit({ ...half, sent: 2 }, true)).toEqual({ kind: 'commit' });
  expect(nextOfCommit(none, true)).toEqual({ kind: 'commit' });
});

test('GR-5 taking back waits, goes newest first, and never past the frontier [T9]', () => {
  expect(nextOfAbort(facts({ landed: 2, inFlight: 1 }))).toEqual({ kind: 'await' });
  expect(nextOfAbort(facts({ landed: 2 }))).toEqual({ kind: 'reverse', index: 1 });
  expect(nextOfAbort(facts({ landed: 2, reversed: 1 }))).toEqual({ kind: 'reverse', index: 0 });
  expect(nextOfAbort(facts({ landed: 2, reversed: 2 }))).toEqual({ kind: 'abort' });
  expect(nextOfAbort(facts({ landed: 1, sent: 1 }))).toEqual({ kind: 'quarantine' });
  expect(nextOfAbort(facts({ landed: 1, written: true }))).toEqual({ kind: 'quarantine' });
});

const refused: MemberFailure = { undecided: false, disposition: 'did_not_happen' };
const gate: MemberFailure = { undecided: false, disposition: null };
const doubt: MemberFailure = { undecided: true, disposition: 'in_doubt' };
const garbled: MemberFailure = { undecided: false, disposition: 'landed' };

const table: readonly (readonly [
  MemberClass,
  string,
  MemberFailure,
  Partial<GroupFacts>,
  string,
])[] = [
  ['read', 'in doubt', doubt, {}, 'take_back'],
  ['reversible', 'refused', refused, {}, 'take_back'],
  ['reversible', 'refused by a gate', gate, {}, 'take_back'],
  ['reversible', 'in doubt', doubt, {}, 'quarantine'],
  ['reversible', 'landed badly', garbled, {}, 'quarantine'],
  ['reversible', 'refused past the frontier', refused, { written: true }, 'quarantine'],
  ['atomic', 'in doubt', doubt, { sent: 1 }, 'take_back'],
  ['atomic', 'refused', refused, {}, 'take_back'],
  ['deferred', 'refused first', refused, { deferred: 2 }, 'take_back'],
  ['deferred', 'refused by a gate first', gate, { deferred: 2 }, 'take_back'],
  ['deferred', 'refused after another', refused, { deferred: 2, sent: 1 }, 'quarantine'],
  ['deferred', 'refused after the rows', refused, { atomic: 1, written: true }, 'quarantine'],
  ['deferred', 'in doubt first', doubt, { deferred: 1 }, 'quarantine'],
  ['deferred', 'landed badly first', garbled, { deferred: 1 }, 'quarantine'],
];

test.each(table)('GR-8 a member that is %s and %s [T9]', (as, _, failure, of, expected) => {
  expect(afterFailure(as, failure, facts(of))).toBe(expected);
});
