// Goal: stored bytes are for ever. Method: every kind of record, all its members set and all its optional members
// away, beside the bytes it is stored as; a change of one byte would make journals that exist unreadable.
import { expect, test } from 'vitest';
import type { RecordBody, RecordFacts } from '../../../src/protocol/record.ts';
import { decodeBody, encodeBody, recordMembers } from '../../../src/protocol/record-codec.ts';
import { done, failed, reconciled, site, started } from './bodies.ts';

const at = site(3, 's1', 'compensating');
const spend = { tokens: 7, minorUnits: 9 };

const vectors: readonly (readonly [RecordFacts, string])[] = [
  [
    {
      kind: 'RunAdmitted',
      turn: 't1',
      agent: 'plan',
      payloadDigest: 'd',
      authority: 'a',
      presentation: 'p',
      schema: 1,
      canonical: 2,
      revision: 3,
      scope: 't4',
      generation: 5,
      policy: 'po',
    },
    '{"ag":"plan","au":"a","cv":2,"e":13,"gn":5,"k":"RunAdmitted","pd":"d","pl":"po","pr":"p","q":11,"rv":3,"sc":"t4","sv":1,"t":12,"tn":"t1","v":1}',
  ],
  [
    {
      kind: 'RunAdmitted',
      turn: '',
      agent: '',
      payloadDigest: '',
      authority: '',
      presentation: '',
      schema: 0,
      canonical: 0,
      revision: 0,
      scope: '',
      generation: 0,
    },
    '{"ag":"","au":"","e":13,"k":"RunAdmitted","pd":"","pr":"","q":11,"sc":"","t":12,"tn":"","v":1}',
  ],
  [{ kind: 'PlanFrozen', digest: 'x' }, '{"dg":"x","e":13,"k":"PlanFrozen","q":11,"t":12,"v":1}'],
  [{ kind: 'StepStarted', step: 's1' }, '{"e":13,"k":"StepStarted","q":11,"s":"s1","t":12,"v":1}'],
  [
    { kind: 'StepFinished', step: 's1', outcome: 'failed' },
    '{"e":13,"k":"StepFinished","oc":"failed","q":11,"s":"s1","t":12,"v":1}',
  ],
  [
    started({
      site: at,
      key: 'k',
      effect: 'e',
      attempt: 2,
      backoffMs: 4,
      mutates: true,
      recovery: 'reconcile',
      cost: spend,
      wait: 'timer',
      group: 'g',
      receipt: 'r',
    }),
    '{"a":2,"b":4,"cs":[7,9],"e":13,"ef":"e","ek":"k","g":"g","k":"EffectStarted","m":1,"o":3,"ph":"compensating","q":11,"r":"reconcile","rc":"r","s":"s1","t":12,"v":1,"w":"timer"}',
  ],
  [
    started({ site: site(0, ''), mutates: false, recovery: 'retry' }),
    '{"a":1,"e":13,"ef":"charge","ek":"k1","k":"EffectStarted","q":11,"r":"retry","t":12,"v":1}',
  ],
  [
    started({ cost: { tokens: 0, minorUnits: 9 } }),
    '{"a":1,"cs":[0,9],"e":13,"ef":"charge","ek":"k1","k":"EffectStarted","m":1,"q":11,"r":"operator","s":"pay","t":12,"v":1}',
  ],
  [
    done({ site: at, spend, label: 'l' }),
    '{"e":13,"ek":"k1","k":"EffectDone","lb":"l","o":3,"ph":"compensating","q":11,"s":"s1","sp":[7,9],"t":12,"v":1}',
  ],
  [
    done({ spend: { tokens: 7, minorUnits: 0 } }),
    '{"e":13,"ek":"k1","k":"EffectDone","q":11,"s":"pay","sp":[7,0],"t":12,"v":1}',
  ],
  [done(), '{"e":13,"ek":"k1","k":"EffectDone","q":11,"s":"pay","t":12,"v":1}'],
  [
    failed({ site: at, disposition: 'in_doubt', permanent: true, code: 'c', spend }),
    '{"c":"c","d":"in_doubt","e":13,"ek":"k1","k":"EffectFailed","o":3,"ph":"compensating","pm":1,"q":11,"s":"s1","sp":[7,9],"t":12,"v":1}',
  ],
  [
    reconciled({ site: at, disposition: 'landed', spend, assertedBy: 'ann' }),
    '{"by":"ann","d":"landed","e":13,"ek":"k1","k":"EffectReconciled","o":3,"ph":"compensating","q":11,"s":"s1","sp":[7,9],"t":12,"v":1}',
  ],
  [
    reconciled(),
    '{"d":"did_not_happen","e":13,"ek":"k1","k":"EffectReconciled","q":11,"s":"pay","t":12,"v":1}',
  ],
  [
    { kind: 'BudgetRefused', site: at, key: 'k', limit: 'effects' },
    '{"e":13,"ek":"k","k":"BudgetRefused","l":"effects","o":3,"ph":"compensating","q":11,"s":"s1","t":12,"v":1}',
  ],
  [
    {
      kind: 'AnswerCached',
      site: at,
      key: 'k',
      effect: 'e',
      tokens: 7,
      turn: 't1',
      from: 3,
      label: 'l',
    },
    '{"e":13,"ef":"e","ek":"k","fr":3,"k":"AnswerCached","lb":"l","o":3,"ph":"compensating","q":11,"s":"s1","t":12,"tn":"t1","to":7,"v":1}',
  ],
  [
    {
      kind: 'AnswerCached',
      site: site(),
      key: '',
      effect: '',
      tokens: 0,
      turn: '',
      from: 0,
    },
    '{"e":13,"ef":"","ek":"","k":"AnswerCached","q":11,"s":"pay","t":12,"tn":"","v":1}',
  ],
  [
    { kind: 'BudgetReadmitted', site: at, key: 'k', limit: 'effects' },
    '{"e":13,"ek":"k","k":"BudgetReadmitted","l":"effects","o":3,"ph":"compensating","q":11,"s":"s1","t":12,"v":1}',
  ],
  [
    { kind: 'PolicyDenied', site: at, key: 'k', by: 'policy', exhausts: true },
    '{"by":"policy","e":13,"ek":"k","k":"PolicyDenied","o":3,"ph":"compensating","q":11,"s":"s1","t":12,"v":1,"xh":1}',
  ],
  [
    { kind: 'PolicyDenied', site: site(), key: 'k', by: 'declaration', exhausts: false },
    '{"by":"declaration","e":13,"ek":"k","k":"PolicyDenied","q":11,"s":"pay","t":12,"v":1}',
  ],
  [
    { kind: 'AtomicRefused', site: at, key: 'k' },
    '{"e":13,"ek":"k","k":"AtomicRefused","o":3,"ph":"compensating","q":11,"s":"s1","t":12,"v":1}',
  ],
  [
    { kind: 'QuarantineDecided', decision: 'reopen', decider: 'ann' },
    '{"by":"ann","dc":"reopen","e":13,"k":"QuarantineDecided","q":11,"t":12,"v":1}',
  ],
  [
    { kind: 'RunCancelled', actor: 'ann' },
    '{"by":"ann","e":13,"k":"RunCancelled","q":11,"t":12,"v":1}',
  ],
  [
    { kind: 'RunResumed', actor: 'ann' },
    '{"by":"ann","e":13,"k":"RunResumed","q":11,"t":12,"v":1}',
  ],
  [{ kind: 'RunSuspended', until: 99 }, '{"e":13,"k":"RunSuspended","q":11,"t":12,"u":99,"v":1}'],
  [
    { kind: 'ReceiptRead', site: at, key: 'k', receipt: 'r', outcome: 'in_flight' },
    '{"e":13,"ek":"k","k":"ReceiptRead","o":3,"oc":"in_flight","ph":"compensating","q":11,"rc":"r","s":"s1","t":12,"v":1}',
  ],
  [
    { kind: 'MemoryStaged', site: at, key: 'k', purpose: 'care', label: 'l' },
    '{"e":13,"ek":"k","k":"MemoryStaged","lb":"l","o":3,"ph":"compensating","pu":"care","q":11,"s":"s1","t":12,"v":1}',
  ],
  [
    { kind: 'MemoryStaged', site: site(), key: 'k', purpose: 'care' },
    '{"e":13,"ek":"k","k":"MemoryStaged","pu":"care","q":11,"s":"pay","t":12,"v":1}',
  ],
  [
    { kind: 'ActStaged', site: at, key: 'k', effect: 'mail', intent: 'i', expiresInMs: 8 },
    '{"e":13,"ef":"mail","ek":"k","in":"i","k":"ActStaged","o":3,"ph":"compensating","q":11,"s":"s1","t":12,"v":1,"x":8}',
  ],
  [
    { kind: 'UnwindStarted', status: 'failed', code: 'c' },
    '{"c":"c","e":13,"k":"UnwindStarted","q":11,"st":"failed","t":12,"v":1}',
  ],
  [
    { kind: 'UnwindStarted', status: 'cancelled' },
    '{"e":13,"k":"UnwindStarted","q":11,"st":"cancelled","t":12,"v":1}',
  ],
  [
    { kind: 'StepCompensated', step: 's1', outcome: 'ok' },
    '{"e":13,"k":"StepCompensated","oc":"ok","q":11,"s":"s1","t":12,"v":1}',
  ],
  [
    { kind: 'GroupOpened', step: 's1', phase: 'compensating', name: 'g' },
    '{"e":13,"k":"GroupOpened","n":"g","ph":"compensating","q":11,"s":"s1","t":12,"v":1}',
  ],
  [
    { kind: 'GroupOpened', step: 's1', name: 'g' },
    '{"e":13,"k":"GroupOpened","n":"g","q":11,"s":"s1","t":12,"v":1}',
  ],
  [
    { kind: 'GroupSettled', step: 's1', phase: 'compensating', name: 'g', outcome: 'aborted' },
    '{"e":13,"k":"GroupSettled","n":"g","oc":"aborted","ph":"compensating","q":11,"s":"s1","t":12,"v":1}',
  ],
  [
    { kind: 'GroupSettled', step: 's1', name: 'g', outcome: 'committed' },
    '{"e":13,"k":"GroupSettled","n":"g","oc":"committed","q":11,"s":"s1","t":12,"v":1}',
  ],
  [
    { kind: 'Note', step: 's1', author: 'system' },
    '{"e":13,"k":"Note","q":11,"s":"s1","t":12,"v":1,"wr":"system"}',
  ],
  [
    { kind: 'RunConcluded', outcome: 'failed', code: 'c', chainHead: 'h' },
    '{"c":"c","ch":"h","e":13,"k":"RunConcluded","oc":"failed","q":11,"t":12,"v":1}',
  ],
  [
    { kind: 'RunConcluded', outcome: 'succeeded', chainHead: 'h' },
    '{"ch":"h","e":13,"k":"RunConcluded","oc":"succeeded","q":11,"t":12,"v":1}',
  ],
];

const common = { seq: 11, at: 12, epoch: 13 };
const bodyOf = (facts: RecordFacts): RecordBody => ({
  ...common,
  payload: { kind: 'none' },
  ...facts,
});

test.each(vectors)(
  'CH-1 stored bytes of %j are frozen, and read back equal [T13]',
  (facts, text) => {
    expect(encodeBody(bodyOf(facts))).toBe(text);
    expect(decodeBody(text)).toStrictEqual(bodyOf(facts));
  },
);

test('CH-1 every kind has a vector', () => {
  const kinds = new Set(vectors.map(([{ kind }]) => kind));
  expect([...kinds].sort()).toEqual(Object.keys(recordMembers).sort());
});

test('CH-1 where a payload lives is stored in short, and read back equal [T13]', () => {
  const places: readonly (readonly [RecordBody['payload'], string])[] = [
    [{ kind: 'none' }, ''],
    [{ kind: 'beside' }, '"p":1,'],
    [{ kind: 'parts', digest: 'z', count: 2, bytes: 9 }, '"p":["p","z",2,9],'],
    [{ kind: 'lost', digest: 'z', bytes: 9 }, '"p":["l","z",9],'],
  ];
  for (const [payload, stored] of places) {
    const one: RecordBody = { ...common, kind: 'StepStarted', step: 's', payload };
    const text = `{"e":13,"k":"StepStarted",${stored}"q":11,"s":"s","t":12,"v":1}`;
    expect(encodeBody(one)).toBe(text);
    expect(decodeBody(text)).toStrictEqual(one);
  }
});

test('CH-1 a position of zero, epoch zero and instant zero are left out and read back', () => {
  const zero: RecordBody = {
    seq: 0,
    at: 0,
    epoch: 0,
    payload: { kind: 'none' },
    kind: 'StepStarted',
    step: '',
  };
  expect(decodeBody(encodeBody(zero))).toStrictEqual(zero);
  expect(decodeBody('{"k":"StepStarted","s":"","v":1}')).toStrictEqual(zero);
});
