// The rules of undoing are a check that can fail: each one against a journal that breaks it and nothing else.
import { expect, test } from 'vitest';
import type { RecordBody } from '../../../src/protocol/record.ts';
import type { MemberClass } from '../../../src/testing/undo-rules.ts';
import { brokenGroupRules, brokenUnwindRules } from '../../../src/testing/undo-rules.ts';

/** Journals as words: `ES:x` announces, `ED:x` lands, `EF:x` did not happen, `E?:x` is in doubt, `c:` marks an undo. */
function journal(...words: readonly string[]): readonly RecordBody[] {
  const ordinals = new Map<string, number>();
  return words.map((word, seq) => {
    const [what = '', name = '', extra = ''] = word.split(':');
    const common = { seq, at: seq, epoch: 1, payload: { kind: 'none' } };
    const phase = extra === 'c' ? 'compensating' : 'forward';
    const place = `${name}/${phase}`;
    if (what === 'ES' && !ordinals.has(place)) ordinals.set(place, ordinals.size);
    const site = { step: 's', phase, ordinal: ordinals.get(place) ?? 0 };
    const group = phase === 'forward' ? { group: 'g' } : {};
    const kinds: Record<string, object> = {
      ES: { kind: 'EffectStarted', site, effect: name, mutates: name !== 'look', ...group },
      ED: { kind: 'EffectDone', site },
      EF: { kind: 'EffectFailed', site, disposition: 'did_not_happen' },
      'E?': { kind: 'EffectFailed', site, disposition: 'in_doubt' },
      GO: { kind: 'GroupOpened', step: 's', name: 'g' },
      GS: { kind: 'GroupSettled', step: 's', name: 'g', outcome: name },
      RC: { kind: 'RunConcluded', outcome: name },
      RX: { kind: 'RunCancelled', actor: 'olga' },
      US: { kind: 'UnwindStarted', status: name },
      SS: { kind: 'StepStarted', step: name },
      SF: { kind: 'StepFinished', step: name, outcome: 'ok' },
      SC: { kind: 'StepCompensated', step: name, outcome: 'ok' },
    };
    return { ...common, ...kinds[what] } as RecordBody;
  });
}

const classOf = (effect: string): MemberClass => {
  if (effect.startsWith('un')) return { reverses: effect.slice(2) };
  if (effect === 'look') return 'read';
  if (effect === 'row') return 'atomic';
  return effect.startsWith('d') ? 'deferred' : 'reversible';
};

const done = (...kinds: readonly string[]) => kinds.flatMap((kind) => [`ES:${kind}`, `ED:${kind}`]);

const groups: readonly (readonly [string, readonly string[], string | null])[] = [
  ['a whole one', ['GO', ...done('r1', 'r2', 'row', 'd1'), 'GS:committed'], null],
  ['one taken back', ['GO', ...done('r1', 'r2', 'unr2', 'unr1'), 'GS:aborted'], null],
  ['a doubt', ['GO', ...done('r1'), 'ES:r2', 'E?:r2', 'GS:quarantined', 'RC:quarantined'], null],
  ['early', ['GO', ...done('d1', 'r1'), 'GS:committed'], 'GR-6 d1 left before a reversible'],
  [
    'before its rows',
    ['GO', ...done('d1', 'row'), 'GS:committed'],
    'GR-6 d1 left before the atomic',
  ],
  ['still standing', ['GO', ...done('r1'), 'GS:aborted'], 'GR-8 aborted, and r1 was reversed 0×'],
  ['half back', ['GO', ...done('r1'), 'ES:unr1', 'EF:unr1', 'GS:aborted'], 'GR-8 r1 still stands'],
  ['mailed', ['GO', ...done('d1'), 'GS:aborted'], 'GR-8 aborted, and a deferred member left'],
  ['rows left', ['GO', ...done('row'), 'GS:aborted'], 'GR-8 aborted over standing rows'],
  ['short', ['GO', 'ES:d1', 'EF:d1', 'GS:committed'], 'GR-8 committed without a member'],
  ['both', ['GO', ...done('r1', 'unr1'), 'GS:committed'], 'GR-7 committed and reversed'],
  [
    'oldest first',
    ['GO', ...done('r1', 'r2', 'unr1', 'unr2'), 'GS:aborted'],
    'GR-5 reversed as r1, r2',
  ],
  [
    'an apology',
    ['GO', ...done('r1', 'd1', 'unr1'), 'GS:quarantined'],
    'GR-5 something was taken back',
  ],
  [
    'around a doubt',
    ['GO', ...done('r1'), 'ES:r2', 'E?:r2', ...done('unr1'), 'GS:quarantined'],
    'GR-8 a doubt stands',
  ],
  ['two endings', ['GO', 'GS:aborted', 'GS:committed'], 'GR-8 one ending'],
  ['unsettled', ['GO', 'RC:failed'], 'GR-12'],
  ['a lie', ['GO', 'GS:quarantined', 'RC:succeeded'], 'decision 1'],
];

test.each(groups)('T9 the rules of a group see %s', (_, words, rule) => {
  const broken = brokenGroupRules(journal(...words), classOf);
  if (rule === null) expect(broken).toEqual([]);
  else expect(broken.join('; ')).toContain(rule);
});

const steps = ['SS:a', 'SF:a', 'SS:b', 'SF:b', 'SS:c'];
const unwinds: readonly (readonly [string, readonly string[], string | null])[] = [
  ['a whole one', [...steps, 'US:failed', 'SC:c', 'SC:b', 'SC:a', 'RC:failed'], null],
  ['a stop', [...steps, 'RX', 'US:cancelled', 'SC:c', 'SC:b', 'SC:a', 'RC:cancelled'], null],
  ['oldest first', [...steps, 'US:failed', 'SC:a', 'SC:b'], 'SA-4'],
  ['completed before interrupted', [...steps, 'US:failed', 'SC:b', 'SC:c'], 'SA-4'],
  ['twice', [...steps, 'US:failed', 'SC:b', 'SC:b'], 'SA-13'],
  ['a success over it', [...steps, 'US:failed', 'SC:b', 'RC:succeeded'], 'SA-10'],
  ['no recorded start', [...steps, 'ES:x:c', 'ED:x:c', 'SC:b'], 'decision 4'],
  ['around a doubt', ['SS:a', 'SF:a', 'ES:pay', 'E?:pay', 'US:failed', 'SC:a'], 'SA-8'],
  ['two stops', [...steps, 'RX', 'RX'], 'CA-2 a stop is recorded twice'],
  ['a late stop', [...steps, 'US:cancelled', 'RX'], 'CA-2 the unwind of a stop'],
];

test.each(unwinds)('T8 the rules of an unwind see %s', (_, words, rule) => {
  const broken = brokenUnwindRules(journal(...words));
  if (rule === null) expect(broken).toEqual([]);
  else expect(broken.join('; ')).toContain(rule);
});
