import { expect, test } from 'vitest';
import type { AuditedRecord } from '../../../src/protocol/audit.ts';
import { findingsOf, notAudited } from '../../../src/protocol/audit.ts';
import { genesisHash, recordHash } from '../../../src/protocol/chain.ts';
import type { RecordBody, RecordFacts } from '../../../src/protocol/record.ts';
import { encodeBody } from '../../../src/protocol/record-codec.ts';

const site = { step: 'pay', phase: 'forward' as const, ordinal: 0 };
const spend = { tokens: 0, minorUnits: 0 };
const started: RecordFacts = {
  kind: 'EffectStarted',
  site,
  key: 'k1',
  effect: 'charge',
  attempt: 1,
  backoffMs: 0,
  mutates: true,
  recovery: 'operator',
};
const doubtful: RecordFacts = {
  kind: 'EffectFailed',
  site,
  key: 'k1',
  disposition: 'in_doubt',
  permanent: false,
  code: 'x',
  spend,
};
const done: RecordFacts = { kind: 'EffectDone', site, key: 'k1', spend };
const opened: RecordFacts = { kind: 'GroupOpened', step: 'pay', name: 'checkout' };
const settled: RecordFacts = {
  kind: 'GroupSettled',
  step: 'pay',
  name: 'checkout',
  outcome: 'committed',
};

/** A journal built by hand: chained, and concluded as told; null leaves it open. */
function journal(facts: readonly RecordFacts[], outcome: string | null): AuditedRecord[] {
  let prevHash = genesisHash;
  const records: AuditedRecord[] = [];
  const add = (fact: RecordFacts): void => {
    const seq = records.length + 1;
    const body: RecordBody = { ...fact, seq, at: 5, epoch: 1, payload: { kind: 'none' } };
    records.push({ body, prevHash });
    prevHash = recordHash(prevHash, encodeBody(body));
  };
  for (const fact of facts) add(fact);
  if (outcome !== null) add({ kind: 'RunConcluded', outcome, chainHead: prevHash });
  return records;
}

const names = (records: readonly AuditedRecord[]) =>
  findingsOf(records).map(({ finding }) => finding);

test('E313 a sealed turn over an undecided mutation has a finding that names it; the same turn open has none [T13]', () => {
  for (const open of [[started], [started, doubtful]]) {
    expect(findingsOf(journal(open, 'succeeded'))).toEqual([
      {
        finding: 'effect_undecided',
        effectKey: 'k1',
        step: 'pay',
        phase: 'forward',
        kind: 'charge',
        doubt: open.length === 1 ? 'announced' : 'inconclusive',
      },
    ]);
    for (const sealing of ['cancelled', 'abandoned'])
      expect(names(journal(open, sealing))).toEqual(['effect_undecided']);
    for (const still of [null, 'failed', 'exhausted', 'quarantined'])
      expect(names(journal(open, still))).toEqual([]);
  }
  expect(names(journal([started, done], 'succeeded'))).toEqual([]);
  const read: RecordFacts = { ...started, kind: 'EffectStarted', mutates: false };
  expect(names(journal([read], 'succeeded'))).toEqual([]);
});

test('E313 a sealed turn over an unsettled group has a finding; endings are counted, not named once [T13]', () => {
  const group = { finding: 'group_unsettled', step: 'pay', phase: 'forward', name: 'checkout' };
  expect(findingsOf(journal([opened], 'succeeded'))).toEqual([group]);
  expect(findingsOf(journal([opened, settled, opened], 'succeeded'))).toEqual([group]);
  expect(names(journal([opened, settled, opened, settled], 'succeeded'))).toEqual([]);
  expect(names(journal([opened], 'quarantined'))).toEqual([]);
  const anew: RecordFacts = { ...settled, kind: 'GroupSettled', outcome: 'quarantined' };
  expect(names(journal([opened, anew, settled, opened], 'succeeded'))).toEqual(['group_unsettled']);
});

test('E313 a conclusion that claims another head, and a record after a seal, are findings by number [T13]', () => {
  const [first, last] = journal([done], 'succeeded') as [AuditedRecord, AuditedRecord];
  expect(findingsOf([first, { ...last, prevHash: genesisHash }])).toMatchObject([
    { finding: 'seal_claim', seq: 2 },
  ]);
  const whole = journal([done], 'succeeded');
  const note: RecordBody = {
    kind: 'Note',
    step: '',
    author: 'agent',
    seq: 3,
    at: 5,
    epoch: 1,
    payload: { kind: 'none' },
  };
  expect(findingsOf([...whole, { body: note, prevHash: '' }])).toEqual([
    { finding: 'after_seal', seq: 3 },
  ]);
});

test('E313 a seal that is the first record counts, and groups are told apart by step, phase and name [T13]', () => {
  expect(names(journal([], 'succeeded'))).toEqual([]);
  const late = journal([], 'succeeded');
  const body: RecordBody = { ...started, seq: 2, at: 5, epoch: 1, payload: { kind: 'none' } };
  expect(names([...late, { body, prevHash: '' }])).toEqual(['effect_undecided', 'after_seal']);
  const others: readonly RecordFacts[] = [
    { kind: 'GroupSettled', step: 'ship', name: 'checkout', outcome: 'committed' },
    { kind: 'GroupSettled', step: 'pay', name: 'returns', outcome: 'committed' },
    { ...settled, kind: 'GroupSettled', phase: 'compensating' } as RecordFacts,
  ];
  for (const other of others) {
    expect(names(journal([opened, other], 'succeeded'))).toEqual(['group_unsettled']);
  }
  const undo: RecordFacts = {
    kind: 'GroupOpened',
    step: 'pay',
    phase: 'compensating',
    name: 'checkout',
  };
  expect(findingsOf(journal([undo, started, done], 'cancelled'))).toEqual([
    { finding: 'group_unsettled', step: 'pay', phase: 'compensating', name: 'checkout' },
  ]);
});

test('T13 what is not audited is said in words', () => {
  expect(notAudited).toEqual([
    'signatures',
    'transparency log',
    'an earlier checkpoint of the auditor',
  ]);
});
