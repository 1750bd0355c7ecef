// What an unwind does, on hand-written journals and on evidence drawn at random beside the rules written once more.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { GroupOutcome, RecordFacts } from '../../../src/protocol/record.ts';
import type { Compensation, StepEvidence } from '../../../src/protocol/saga.ts';
import { hasLandedWork, planUnwind, stepEvidence, stuckGroup } from '../../../src/protocol/saga.ts';
import { body, done, failed, journalOf, reconciled, site, started } from './bodies.ts';

const begun = (step = 'pay'): RecordFacts => ({ kind: 'StepStarted', step });
const ended = (outcome: 'ok' | 'failed', step = 'pay'): RecordFacts => ({
  kind: 'StepFinished',
  step,
  outcome,
});
const undone = (outcome: 'ok' | 'failed'): RecordFacts => ({
  kind: 'StepCompensated',
  step: 'pay',
  outcome,
});
const opened = (name = 'g', step = 'pay'): RecordFacts => ({ kind: 'GroupOpened', step, name });
const settled = (outcome: GroupOutcome, name = 'g', step = 'pay'): RecordFacts => ({
  kind: 'GroupSettled',
  step,
  name,
  outcome,
});
const evidence = (...facts: readonly RecordFacts[]) => stepEvidence(journalOf(...facts));
const mutated = (...facts: readonly RecordFacts[]) =>
  stepEvidence(journalOf(begun(), ...facts))[0]?.mutated;

const nothing: StepEvidence = {
  step: 'pay',
  completed: false,
  failed: false,
  mutated: false,
  discounted: false,
  compensated: false,
};

test('SA-4 evidence lists steps in the order they started, with how each ended [T8]', () => {
  expect(evidence(begun('a'), begun('b'), ended('ok', 'b'), ended('failed', 'a'))).toStrictEqual([
    { ...nothing, step: 'a', failed: true },
    { ...nothing, step: 'b', completed: true },
  ]);
  expect(evidence(begun(), ended('failed'), ended('ok'))).toStrictEqual([
    { ...nothing, completed: true },
  ]);
  expect(evidence(begun(), ended('ok'), begun())).toStrictEqual([{ ...nothing, completed: true }]);
  expect(evidence(begun(), undone('ok'))).toStrictEqual([{ ...nothing, compensated: true }]);
  expect(evidence(begun(), undone('failed'))).toStrictEqual([nothing]);
});

test('SA-1 a step mutated while a forward send of a mutating effect is not refuted [T8]', () => {
  expect(evidence(begun(), started())).toStrictEqual([{ ...nothing, mutated: true }]);
  expect(mutated(started(), done())).toBe(true);
  expect(mutated(started(), failed({ disposition: 'in_doubt' }))).toBe(true);
  expect(mutated(started(), failed({ disposition: 'landed' }))).toBe(true);
  expect(mutated(started(), reconciled({ disposition: 'landed' }))).toBe(true);
  expect(mutated(started(), reconciled({ disposition: 'in_doubt' }))).toBe(true);
  expect(mutated(started({ mutates: false }), done())).toBe(false);
  expect(mutated(started({ site: site(0, 'pay', 'compensating') }), done())).toBe(false);
});

test('E117 E120 SA-2 the last word of each dispatch counts, and every new attempt may have touched the world [T8]', () => {
  const refused = failed();
  const again = started({ key: 'k2', attempt: 2 });
  expect(mutated(started(), refused)).toBe(false);
  expect(mutated(started(), refused, again)).toBe(true);
  expect(mutated(started(), refused, again, failed({ key: 'k2', disposition: 'landed' }))).toBe(
    true,
  );
  // Ruling 1: a later refusal says nothing of the earlier send.
  const doubtful = failed({ disposition: 'in_doubt' });
  expect(mutated(started(), doubtful, again, failed({ key: 'k2' }))).toBe(true);
  expect(mutated(started(), doubtful, again, reconciled({ key: 'k2' }))).toBe(false);
  const other = started({ site: site(1), key: 'o1' });
  expect(mutated(started(), other, refused)).toBe(true);
  expect(mutated(started(), other, refused, failed({ site: site(1), key: 'o1' }))).toBe(false);
});

test('SA-2 a call that a probe cleared and that was sent again under its key counts again [T8]', () => {
  const cleared = [started(), reconciled()];
  expect(mutated(...cleared)).toBe(false);
  expect(mutated(...cleared, done())).toBe(true);
  expect(mutated(...cleared, failed({ disposition: 'in_doubt' }))).toBe(true);
  expect(mutated(...cleared, failed({ disposition: 'landed' }))).toBe(true);
  expect(mutated(...cleared, failed())).toBe(false);
});

test('endings of what was never announced, or belongs to an undo, are no evidence', () => {
  const undo = site(0, 'pay', 'compensating');
  expect(mutated(done(), failed({ disposition: 'landed' }), reconciled())).toBe(false);
  expect(mutated(started(), failed({ site: undo }), reconciled({ site: undo }))).toBe(true);
  expect(evidence(done(), failed(), failed({ disposition: 'in_doubt' }), reconciled())).toEqual([]);
  expect(evidence(started(), body({ kind: 'Note', step: 'x', author: 'agent' }))).toHaveLength(1);
});

test('E121 SA-3 decision 2: members and reversals of an aborted group are no evidence [T8]', () => {
  const member = started({ group: 'g' });
  expect(evidence(begun(), opened(), member, done(), settled('aborted'))).toStrictEqual([
    { ...nothing, discounted: true },
  ]);
  for (const outcome of ['committed', 'quarantined'] as const) {
    expect(evidence(begun(), opened(), member, done(), settled(outcome))).toStrictEqual([
      { ...nothing, mutated: true },
    ]);
  }
  const beside = started({ site: site(1), key: 'k2' });
  expect(evidence(begun(), opened(), member, settled('aborted'), beside)).toStrictEqual([
    { ...nothing, mutated: true },
  ]);
  expect(evidence(begun(), opened(), member, failed(), settled('aborted'))).toStrictEqual([
    nothing,
  ]);
  expect(evidence(begun(), opened(), member, settled('aborted'), settled('aborted'))).toStrictEqual(
    [{ ...nothing, discounted: true }],
  );
  expect(evidence(begun(), opened(), settled('aborted'))).toStrictEqual([nothing]);
});

test('GR-10 groups are told apart by step and name; a name used again starts empty [T8]', () => {
  const inG = started({ group: 'g' });
  const inH = started({ site: site(1), key: 'k2', group: 'h' });
  expect(
    evidence(
      begun(),
      opened('g'),
      inG,
      settled('committed', 'g'),
      opened('h'),
      inH,
      settled('aborted', 'h'),
    ),
  ).toStrictEqual([{ ...nothing, mutated: true }]);
  expect(
    evidence(begun(), opened('undefined'), started(), settled('aborted', 'undefined')),
  ).toStrictEqual([{ ...nothing, mutated: true }]);
  const elsewhere = started({ site: site(0, 'ship'), key: 'k3', group: 'g' });
  expect(
    evidence(
      begun(),
      opened(),
      inG,
      opened('g', 'ship'),
      elsewhere,
      settled('aborted', 'g', 'ship'),
    ),
  ).toStrictEqual([
    { ...nothing, mutated: true },
    { ...nothing, step: 'ship', discounted: true },
  ]);
  const anew = started({ site: site(1), key: 'k2', group: 'g' });
  expect(
    evidence(begun(), opened(), inG, settled('committed'), opened(), anew, settled('aborted')),
  ).toStrictEqual([{ ...nothing, mutated: true }]);
  expect(evidence(begun(), inG, settled('aborted'))).toStrictEqual([{ ...nothing, mutated: true }]);
});

const step = (name: string, of: Partial<StepEvidence> = {}): StepEvidence => ({
  ...nothing,
  step: name,
  ...of,
});
const ok = { completed: true };
const posted = { mutated: true };
type Status = 'failed' | 'cancelled';
/** Steps named after how they are taken back: c… compensatable, p… pivot, n… unnecessary, u… undeclared. */
const declared = (name: string): Compensation => {
  if (name.startsWith('c')) return 'compensatable';
  if (name.startsWith('p')) return 'pivot';
  return name.startsWith('n') ? 'unnecessary' : 'undeclared';
};
const walk = (status: Status, ...steps: readonly StepEvidence[]): string | null =>
  planUnwind(steps, declared, status)
    ?.walk.map(({ kind, step: name }) => `${kind} ${name}`)
    .join(', ') ?? null;

test.each<[string, readonly StepEvidence[], string | null]>([
  [
    'E116 reverse ready order',
    [step('c1', ok), step('c2', ok), step('c3', { failed: true })],
    'undo c2, undo c1',
  ],
  ['E117 an undeclared one that touched nothing', [step('c1', ok), step('u1', ok)], 'undo c1'],
  [
    'E118 an undeclared one that mutated',
    [step('c1', ok), step('u1', { ...ok, ...posted })],
    'refuse u1',
  ],
  [
    'E121 only an aborted group',
    [step('c1', ok), step('u1', { ...ok, discounted: true })],
    'undo c1',
  ],
  ['E122 a pivot stops the walk', [step('c1', ok), step('p1', ok), step('c2', ok)], 'undo c2'],
  ['E122 nothing after the pivot', [step('c1', ok), step('p1', ok)], null],
  [
    'an unnecessary one is passed over',
    [step('c1', ok), step('n1', { ...ok, ...posted })],
    'undo c1',
  ],
  ['E124 only reads', [step('c1', ok)], 'undo c1'],
  ['E126 the failing step is not asked', [step('c1', { ...posted, failed: true })], null],
  [
    'SA-7 but is undone when another opened',
    [step('c1', { ...posted, failed: true }), step('c2', ok)],
    'undo c1, undo c2',
  ],
  ['E128 interrupted ones first', [step('c1', posted), step('c2', ok)], 'undo c1, undo c2'],
  ['E129 an interrupted one opens', [step('c1', posted), step('c2', { failed: true })], 'undo c1'],
  ['E130 nobody mutated', [step('c1'), step('c2', { failed: true })], null],
  ['E150 taken back with its group', [step('c1', { ...ok, discounted: true })], null],
  ['decision 3 an unfinished pivot that landed', [step('c1', ok), step('p1', posted)], null],
  ['decision 3 an unfinished pivot that did not', [step('c1', ok), step('p1')], 'undo c1'],
  ['an undeclared one that was interrupted', [step('u1', posted)], 'refuse u1'],
  ['a completed undeclared read', [step('u1', ok)], null],
  ['only an unnecessary one', [step('n1', { ...ok, ...posted })], null],
  ['SA-1 outside any step', [step('', { ...ok, ...posted })], null],
  ['SA-1 outside any step, beside one', [step('', posted), step('c1', ok)], 'undo c1'],
])('%s [T8]', (_, steps, expected) => {
  expect(walk('failed', ...steps)).toBe(expected);
});

test('SA-6 a cancellation opens without being asked; both list the same steps [T8]', () => {
  const own = step('c1', { ...posted, failed: true });
  expect(walk('cancelled', own)).toBe('undo c1');
  expect(walk('cancelled', step('c1'))).toBeNull();
  expect(walk('cancelled')).toBeNull();
  const steps = [step('c1', posted), step('n1', ok), step('c2', ok), step('u1')];
  for (const status of ['failed', 'cancelled'] as const) {
    expect(planUnwind(steps, declared, status)?.list).toStrictEqual([
      { step: 'n1', completed: true },
      { step: 'c2', completed: true },
      { step: 'c1', completed: false },
    ]);
  }
});

const anyStep = fc.record({
  kind: fc.constantFrom('c', 'p', 'n', 'u'),
  completed: fc.boolean(),
  failed: fc.boolean(),
  state: fc.constantFrom('clean', 'mutated', 'discounted'),
});

test('T8 whatever the evidence: nothing past a pivot, a refusal or twice; only declared work is undone', () => {
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 7 }), fc.boolean(), (drawn, cancels) => {
      const steps = drawn.map(({ kind, completed, failed: broke, state }, index) =>
        step(`${kind}${index}`, {
          completed,
          failed: broke && !completed,
          mutated: state === 'mutated',
          discounted: state === 'discounted',
        }),
      );
      const plan = planUnwind(steps, declared, cancels ? 'cancelled' : 'failed');
      const finished = steps.filter((one) => one.completed);
      const cut = steps.filter((one) => !one.completed && one.mutated);
      const reversed = [...cut.toReversed(), ...finished.toReversed()];
      const pivot = reversed.findIndex(({ step: name }) => name.startsWith('p'));
      const reach = pivot < 0 ? reversed : reversed.slice(0, pivot);
      const barred = reach.findIndex((one) => one.step.startsWith('u') && one.mutated);
      const before = barred < 0 ? reach : reach.slice(0, barred);
      const undos = before
        .filter((one) => one.step.startsWith('c') && !one.discounted)
        .map((one) => `undo ${one.step}`);
      const expected = barred < 0 ? undos : [...undos, `refuse ${reach[barred]?.step}`];
      const asked = [...finished, ...cut.filter((one) => !one.failed)].some(
        (one) =>
          (one.step.startsWith('c') && !one.discounted) ||
          (one.step.startsWith('u') && one.mutated),
      );
      const opens = (cancels || asked) && expected.length > 0;
      expect(plan?.walk.map(({ kind, step: name }) => `${kind} ${name}`) ?? []).toEqual(
        opens ? expected : [],
      );
      expect(plan === null).toBe(!opens);
    }),
    { numRuns: 300 },
  );
});

test('GR-8 a group whose last settlement is quarantined is stuck; another group, step or phase hides nothing [T9]', () => {
  const stuck = (...facts: readonly RecordFacts[]) => stuckGroup(journalOf(...facts));
  expect(stuck()).toBeNull();
  expect(
    stuck({ kind: 'RunConcluded', outcome: 'quarantined', chainHead: 'h' }, settled('committed')),
  ).toBeNull();
  expect(stuck(opened(), settled('committed'), settled('aborted', 'h'))).toBeNull();
  expect(stuck(settled('quarantined'))).toMatchObject({ name: 'g', outcome: 'quarantined' });
  expect(stuck(settled('quarantined'), settled('committed'))).toBeNull();
  expect(stuck(settled('committed'), settled('quarantined'))).toMatchObject({ name: 'g' });
  expect(stuck(settled('quarantined'), settled('committed', 'h'))).toMatchObject({ name: 'g' });
  expect(stuck(settled('quarantined'), settled('committed', 'g', 'ship'))).not.toBeNull();
  const undo: RecordFacts = {
    kind: 'GroupSettled',
    step: 'pay',
    phase: 'compensating',
    name: 'g',
    outcome: 'committed',
  };
  expect(stuck(settled('quarantined'), undo)).not.toBeNull();
});

test('landed work is a mutation that nothing took back [T8]', () => {
  expect(hasLandedWork(journalOf())).toBe(false);
  expect(hasLandedWork(journalOf(started()))).toBe(true);
  expect(hasLandedWork(journalOf(started(), undone('ok')))).toBe(false);
  expect(hasLandedWork(journalOf(started(), undone('failed')))).toBe(true);
  expect(hasLandedWork(journalOf(started(), failed()))).toBe(false);
  const other = started({ site: site(0, 'ship'), key: 'k2' });
  expect(hasLandedWork(journalOf(started(), undone('ok'), other))).toBe(true);
});
