// Goal: the decisions are page 01's tables 1.3 and 1.4 under ruling 1, for every combination.
// Method: the tables are written here a second time, as rows of data, and every input is looked up in them.
import { expect, test } from 'vitest';
import type { Disposition, Recovery } from '../../../src/protocol/effect-decision.ts';
import {
  decideFailure,
  decideOrphan,
  decideProbe,
  recordAtOnce,
} from '../../../src/protocol/effect-decision.ts';

type Any = '*';
interface Row {
  readonly disposition: Disposition;
  readonly mutates: boolean | Any;
  readonly permanent: boolean | Any;
  readonly recovery: Recovery | 'repeatable' | Any;
  readonly earlierDoubt: boolean | Any;
  readonly left: string;
  readonly none: string;
}

const row = (text: string): Row => {
  const [disposition, mutates, permanent, recovery, earlier, left, none] = text.split(/\s+/);
  const flag = (word: string | undefined): boolean | Any => (word === '*' ? '*' : word === 'yes');
  return {
    disposition: disposition as Disposition,
    mutates: flag(mutates),
    permanent: flag(permanent),
    recovery: recovery as Row['recovery'],
    earlierDoubt: flag(earlier),
    left: left ?? '',
    none: none ?? '',
  };
};

// disposition      mutates permanent recovery    earlier-doubt | attempts left | none left
const table = [
  'did_not_happen   *       no        *           no              retry           failed',
  'did_not_happen   *       yes       *           no              failed          failed',
  'did_not_happen   no      no        *           yes             retry           failed',
  'did_not_happen   no      yes       *           yes             failed          failed',
  'did_not_happen   yes     no        reconcile   yes             retry           probe',
  'did_not_happen   yes     yes       reconcile   yes             probe           probe',
  'did_not_happen   yes     no        operator    yes             retry           quarantined',
  'did_not_happen   yes     yes       operator    yes             quarantined     quarantined',
  'did_not_happen   yes     no        repeatable  yes             retry           quarantined',
  'did_not_happen   yes     yes       repeatable  yes             quarantined     quarantined',
  'in_doubt         yes     *         repeatable  *               retry           quarantined',
  'in_doubt         no      *         repeatable  *               retry           failed',
  'in_doubt         *       *         reconcile   *               probe           probe',
  'in_doubt         *       *         operator    *               quarantined     quarantined',
  'landed           yes     *         *           *               failed          failed',
  'landed           no      no        *           *               retry           failed',
  'landed           no      yes       *           *               failed          failed',
].map(row);

const dispositions: readonly Disposition[] = ['did_not_happen', 'in_doubt', 'landed'];
const recoveries: readonly Recovery[] = ['retry', 'idempotent', 'reconcile', 'operator'];
const flags = [true, false];

function expected(facts: {
  disposition: Disposition;
  mutates: boolean;
  permanent: boolean;
  recovery: Recovery;
  earlierDoubt: boolean;
  left: boolean;
}): string {
  const fits = table.filter(
    (line) =>
      line.disposition === facts.disposition &&
      (line.mutates === '*' || line.mutates === facts.mutates) &&
      (line.permanent === '*' || line.permanent === facts.permanent) &&
      (line.earlierDoubt === '*' || line.earlierDoubt === facts.earlierDoubt) &&
      (line.recovery === '*' ||
        line.recovery === facts.recovery ||
        (line.recovery === 'repeatable' &&
          (facts.recovery === 'retry' || facts.recovery === 'idempotent'))),
  );
  expect(fits, JSON.stringify(facts)).toHaveLength(1);
  return (facts.left ? fits[0]?.left : fits[0]?.none) ?? '';
}

test('E38 E40 E41 E42 E44 E46 every failed attempt is decided as the table says [T6]', () => {
  let asked = 0;
  for (const disposition of dispositions)
    for (const recovery of recoveries)
      for (const mutates of flags)
        for (const permanent of flags)
          for (const earlierDoubt of flags)
            for (const left of flags) {
              const facts = { disposition, recovery, mutates, permanent, earlierDoubt };
              const decision = decideFailure({ ...facts, attempt: left ? 1 : 3, maxAttempts: 3 });
              expect(decision.kind, JSON.stringify({ ...facts, left })).toBe(
                expected({ ...facts, left }),
              );
              asked += 1;
            }
  expect(asked).toBe(192);
});

test('E48 E49 retry_landed repeats a reported failure of a read and is ignored for a mutation', () => {
  const facts = {
    disposition: 'landed' as const,
    permanent: true,
    recovery: 'retry' as const,
    attempt: 1,
    maxAttempts: 3,
    earlierDoubt: false,
    retryLanded: true,
  };
  expect(decideFailure({ ...facts, mutates: false }).kind).toBe('retry');
  expect(decideFailure({ ...facts, mutates: true }).kind).toBe('failed');
});

test('RT-1 raising the attempts never makes an in-doubt mutation repeatable [T6]', () => {
  for (const maxAttempts of [1, 10, 1000]) {
    const facts = {
      disposition: 'in_doubt' as const,
      permanent: false,
      mutates: true,
      recovery: 'operator' as const,
      attempt: 1,
      earlierDoubt: false,
    };
    expect(decideFailure({ ...facts, maxAttempts }).kind).toBe('quarantined');
  }
});

test('E56 E57 E58 E60 a probe decides after a failure and over an announcement [T6]', () => {
  const facts = { mutates: true, attempt: 1, maxAttempts: 2 };
  expect(decideProbe({ ...facts, verdict: 'landed', live: true }).kind).toBe('done');
  expect(decideProbe({ ...facts, verdict: 'did_not_happen', live: true }).kind).toBe('retry');
  expect(
    decideProbe({ ...facts, verdict: 'did_not_happen', live: true, maxAttempts: 1 }).kind,
  ).toBe('failed');
  expect(decideProbe({ ...facts, verdict: 'did_not_happen', live: false }).kind).toBe(
    'perform_same_key',
  );
  expect(decideProbe({ ...facts, verdict: 'inconclusive', live: true }).kind).toBe('quarantined');
  expect(decideProbe({ ...facts, verdict: 'inconclusive', live: false }).kind).toBe('quarantined');
});

test('E4 E5 E6 E66 an announcement without an outcome follows its recorded recovery [T6]', () => {
  const kinds = (pass: 'resume' | 'strict') =>
    recoveries.map((recovery) => decideOrphan({ recovery, mutates: true, pass }).kind);
  expect(kinds('resume')).toEqual(['perform_same_key', 'perform_same_key', 'probe', 'quarantined']);
  expect(kinds('strict')).toEqual(['undecidable', 'undecidable', 'undecidable', 'undecidable']);
});

test('what a crash would put in doubt or make paid for again is recorded at once (ruling 3) [T5]', () => {
  const at = (mutates: boolean, recovery: Recovery, declaredCost: boolean) =>
    recordAtOnce({ mutates, recovery, declaredCost });
  expect(at(true, 'operator', false)).toBe(true);
  expect(at(false, 'retry', true)).toBe(true);
  expect(at(true, 'idempotent', false)).toBe(false);
  expect(at(true, 'reconcile', false)).toBe(false);
  expect(at(false, 'retry', false)).toBe(false);
});
