// What clears a doubt and what does not, record by record; the crash cases are in records.test.ts.
import { expect, test } from 'vitest';
import { doubtsOf, siteKey } from '../../../src/protocol/doubt.ts';
import type { RecordFacts } from '../../../src/protocol/record.ts';
import { done, failed, journalOf, reconciled, site, started } from './bodies.ts';

const doubts = (...facts: readonly RecordFacts[]) => doubtsOf(journalOf(...facts));
const inDoubt = failed({ disposition: 'in_doubt' });

test('DO-1 a doubt says where, which key a person answers, what, how and since when [T6]', () => {
  expect(doubts(started())).toStrictEqual([
    { site: site(), key: 'k1', effect: 'charge', mutates: true, doubt: 'announced', since: 10 },
  ]);
  expect(doubts(started(), inDoubt)).toMatchObject([{ doubt: 'inconclusive', since: 20 }]);
  const second = started({ key: 'k2', attempt: 2 });
  expect(doubts(started(), inDoubt, second)).toMatchObject([
    { key: 'k2', doubt: 'announced', since: 20 },
  ]);
  const both = doubts(started(), inDoubt, second, failed({ key: 'k2', disposition: 'in_doubt' }));
  expect(both).toMatchObject([{ key: 'k2', doubt: 'inconclusive', since: 20 }]);
  const open = failed({ key: 'k2', disposition: 'in_doubt' });
  expect(
    doubts(started(), inDoubt, second, open, started({ key: 'k3', attempt: 3 })),
  ).toMatchObject([{ key: 'k3', doubt: 'announced', since: 20 }]);
});

test('DO-1 a doubt about a read is told only when it is asked for', () => {
  const read = started({ mutates: false });
  expect(doubts(read)).toEqual([]);
  expect(doubtsOf(journalOf(read), { reads: false })).toEqual([]);
  expect(doubtsOf(journalOf(read), { reads: true })).toMatchObject([{ key: 'k1', mutates: false }]);
});

test('decision 21 the dispatch is step, phase and ordinal: an ending of one says nothing of another [T6]', () => {
  const others = [
    site(1),
    site(0, 'ship'),
    site(0, 'pay', 'compensating'),
    site(11, 'pay'),
    site(1, '1:pay'),
  ];
  for (const other of others) {
    const twin = started({ site: other, key: 'k2' });
    for (const ending of [done, failed, reconciled]) {
      const left = doubts(started(), twin, inDoubt, ending({ site: other, key: 'k2' }), done());
      expect(left.map(({ key }) => key)).toEqual(ending === reconciled ? ['k2'] : []);
      expect(doubts(started(), twin, done({ site: other, key: 'k2' }))).toMatchObject([
        { site: site() },
      ]);
    }
  }
  const names = [site(), ...others].map(siteKey);
  expect(new Set(names).size).toBe(names.length);
  expect(names.slice(0, 4)).toEqual(['f:0:pay', 'f:1:pay', 'f:0:ship', 'c:0:pay']);
});

test('an attempt that was refused, or landed with a bad answer, is settled; its own send alone [T6]', () => {
  for (const disposition of ['did_not_happen', 'landed'] as const) {
    expect(doubts(started(), failed({ disposition }))).toEqual([]);
    const later = [started({ key: 'k2' }), failed({ key: 'k2', disposition })];
    expect(doubts(started(), inDoubt, ...later)).toMatchObject([{ doubt: 'inconclusive' }]);
  }
});

test('a verdict settles every send of its dispatch, except a probe over a call that is on its way [T6]', () => {
  const before = [started(), inDoubt, started({ key: 'k2' })];
  for (const verdict of [
    reconciled({ key: 'k2', disposition: 'landed' }),
    reconciled({ key: 'k2', assertedBy: 'ann' }),
    reconciled({ key: 'k1' }),
    reconciled({ key: 'k0' }),
  ])
    expect(doubts(...before, verdict)).toEqual([]);
  expect(doubts(...before, reconciled({ key: 'k2' }))).toHaveLength(1);
  expect(doubts(...before, reconciled({ key: 'k2', disposition: 'in_doubt' }))).toMatchObject([
    { key: 'k2', doubt: 'inconclusive', since: 20 },
  ]);
});

test('an ending without an announcement is no doubt', () => {
  const endings = [
    done(),
    failed(),
    inDoubt,
    reconciled(),
    reconciled({ disposition: 'in_doubt' }),
  ];
  expect(doubts(...endings)).toEqual([]);
});
