// Ceilings against what records spent: figures at the edge, and what a rest leaves for the tenant's ledger.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Refusal } from '../../../src/protocol/meter.ts';
import { Meter, spendOfRest } from '../../../src/protocol/meter.ts';
import type { RecordFacts } from '../../../src/protocol/record.ts';
import { body, done, failed, journalOf, none, reconciled, site, started } from './bodies.ts';

function meterOf(...facts: readonly RecordFacts[]): Meter {
  const meter = new Meter();
  for (const one of journalOf(...facts)) meter.add(one);
  return meter;
}
const spend = (tokens: number, minorUnits = 0) => ({ tokens, minorUnits });
const suspended: RecordFacts = { kind: 'RunSuspended', until: 9 };
const concluded: RecordFacts = { kind: 'RunConcluded', outcome: 'succeeded', chainHead: 'h' };
const refusal = (limit: Refusal['limit'], ceiling: number, consumed: number): Refusal => ({
  limit,
  ceiling,
  consumed,
});

test('E53 BU-2 every announced attempt takes a slot, and those let through beside it count [T11]', () => {
  const meter = meterOf(
    started(),
    failed(),
    started({ key: 'k2', attempt: 2 }),
    done({ key: 'k2' }),
  );
  expect(meter.attempt({ effects: 3 }, none, 0)).toBeNull();
  expect(meter.attempt({ effects: 3 }, none, 0, 1)).toEqual(refusal('effects', 3, 3));
  expect(meter.attempt({ effects: 2 }, none, 0)).toEqual(refusal('effects', 2, 2));
  expect(new Meter().attempt({ effects: 1 }, none, 0)).toBeNull();
});

test('BU-3 a ceiling that is used up stops a free call too; one unit left lets it through [T11]', () => {
  const meter = meterOf(started(), done({ spend: spend(9, 4) }));
  expect(meter.attempt({ tokens: 10, minorUnits: 5 }, none, 0)).toBeNull();
  expect(meter.attempt({ tokens: 9 }, none, 0)).toEqual(refusal('tokens', 9, 9));
  expect(meter.attempt({ minorUnits: 4 }, none, 0)).toEqual(refusal('minorUnits', 4, 4));
  expect(meter.attempt({ tokens: 10 }, spend(2), 0)).toEqual(refusal('tokens', 10, 9));
  expect(meter.attempt({ minorUnits: 5 }, spend(0, 2), 0)).toEqual(refusal('minorUnits', 5, 4));
  expect(meter.attempt({ tokens: 11, minorUnits: 6 }, spend(2, 2), 0)).toBeNull();
});

test('F41 a declared cost is charged from its announcement until its outcome is known [T11]', () => {
  const dear = started({ cost: spend(6, 3) });
  const charged = (...facts: readonly RecordFacts[]) =>
    meterOf(...facts).attempt({ tokens: 1, minorUnits: 1 }, none, 0)?.consumed ?? 0;
  expect(charged(dear)).toBe(6);
  expect(charged(dear, done({ spend: spend(2) }))).toBe(2);
  expect(charged(dear, failed({ spend: spend(3) }))).toBe(3);
  expect(charged(dear, reconciled({ spend: spend(4) }))).toBe(4);
  expect(charged(dear, started({ key: 'k2', cost: spend(1) }))).toBe(7);
  expect(charged(dear, started({ key: 'k2', cost: spend(1) }), done({ spend: spend(2) }))).toBe(3);
  expect(charged(started(), done({ spend: spend(5) }))).toBe(5);
});

test('BU-5 a probe bills its spend and takes no slot [T11]', () => {
  const meter = meterOf(started(), failed({ spend: spend(1) }), reconciled({ spend: spend(2) }));
  expect(meter.attempt({ effects: 2, tokens: 4 }, none, 0)).toBeNull();
  expect(meter.attempt({ tokens: 3 }, none, 0)).toEqual(refusal('tokens', 3, 3));
});

test('egress is counted by the bytes of each announcement; zero is a ceiling [T11]', () => {
  const meter = new Meter();
  meter.add(body(started()), 40);
  meter.add(body(started({ key: 'k2' })), 2);
  meter.add(body(done()), 1_000);
  meter.add(body(started({ key: 'k3' })));
  expect(meter.attempt({ egressBytes: 50 }, none, 8)).toBeNull();
  expect(meter.attempt({ egressBytes: 50 }, none, 9)).toEqual(refusal('egressBytes', 50, 42));
  expect(new Meter().attempt({ egressBytes: 0 }, none, 0)).toBeNull();
  expect(new Meter().attempt({ egressBytes: 0 }, none, 1)).toEqual(refusal('egressBytes', 0, 0));
});

test('the first ceiling in order names the refusal; no budget refuses nothing (ruling 26)', () => {
  const meter = meterOf(started(), done({ spend: spend(9, 9) }));
  const all = { effects: 1, tokens: 1, minorUnits: 1, egressBytes: 0 };
  expect(meter.attempt(all, none, 1)?.limit).toBe('effects');
  expect(meter.attempt({ ...all, effects: 5 }, none, 1)?.limit).toBe('tokens');
  expect(meter.attempt({ ...all, effects: 5, tokens: 99 }, none, 1)?.limit).toBe('minorUnits');
  expect(meter.attempt(null, spend(1e9, 1e9), 1e9)).toBeNull();
  expect(meter.attempt({}, spend(1e9, 1e9), 1e9)).toBeNull();
});

test('a step is refused by the number of steps, then by the time that passed [T11]', () => {
  const meter = new Meter();
  expect(meter.step(null, 99, 99)).toBeNull();
  expect(meter.step({ steps: 2 }, 1, 99)).toBeNull();
  expect(meter.step({ steps: 2 }, 2, 99)).toEqual(refusal('steps', 2, 2));
  expect(meter.step({ wallClockMs: 100 }, 9, 99)).toBeNull();
  expect(meter.step({ wallClockMs: 100 }, 9, 100)).toEqual(refusal('wallClockMs', 100, 100));
  expect(meter.step({ steps: 1, wallClockMs: 1 }, 1, 1)?.limit).toBe('steps');
});

test('denials by policy are counted, those by the declaration are not', () => {
  const denied = (by: 'policy' | 'declaration'): RecordFacts => ({
    kind: 'PolicyDenied',
    site: site(),
    key: 'k',
    by,
    exhausts: false,
  });
  expect(new Meter().denials).toBe(0);
  expect(meterOf(denied('policy'), denied('declaration'), denied('policy')).denials).toBe(2);
  expect(meterOf(done(), failed()).denials).toBe(0);
});

test('BU-10 the ledger gets what is charged over the most that any rest charged before [T11]', () => {
  const spent = (...facts: readonly RecordFacts[]) => meterOf(...facts).uncounted;
  const dear = started({ cost: spend(6, 4) });
  expect(spent(dear)).toEqual(spend(6, 4));
  for (const rest of [suspended, concluded]) {
    expect(spent(dear, rest)).toEqual(none);
    expect(spent(dear, rest, done({ spend: spend(2, 1) }))).toEqual(none);
    expect(spent(dear, rest, done({ spend: spend(7, 9) }))).toEqual(spend(1, 5));
    expect(
      spent(dear, rest, done({ spend: none }), rest, started({ key: 'k2', cost: spend(7, 3) })),
    ).toEqual(spend(1, 0));
  }
  expect(spent(dear, { kind: 'RunResumed', actor: 'ann' })).toEqual(spend(6, 4));
});

test('BU-10 what the rests of a turn add makes what it was charged at most, whatever it did [T11]', () => {
  const event = fc.record({
    kind: fc.constantFrom('start', 'done', 'failed', 'rest'),
    key: fc.constantFrom('a', 'b', 'c'),
    tokens: fc.nat(9),
  });
  fc.assert(
    fc.property(fc.array(event, { maxLength: 20 }), (events) => {
      const bodies = journalOf(
        ...events.map(({ kind, key, tokens }): RecordFacts => {
          if (kind === 'start') return started({ key, cost: spend(tokens) });
          if (kind === 'done') return done({ key, spend: spend(tokens) });
          return kind === 'failed' ? failed({ key, spend: spend(tokens) }) : suspended;
        }),
        suspended,
      );
      let ledger = 0;
      let most = 0;
      let from = 0;
      const held = new Map<string, number>();
      let paid = 0;
      for (const [index, one] of bodies.entries()) {
        if (one.kind === 'EffectStarted') held.set(one.key, one.cost?.tokens ?? 0);
        if (one.kind === 'EffectDone' || one.kind === 'EffectFailed') {
          held.delete(one.key);
          paid += one.spend.tokens;
        }
        if (one.kind !== 'RunSuspended') continue;
        most = Math.max(most, paid + [...held.values()].reduce((sum, cost) => sum + cost, 0));
        ledger += spendOfRest(bodies.slice(0, from), bodies.slice(from, index + 1)).tokens;
        from = index + 1;
      }
      expect(ledger).toBe(most);
    }),
  );
  const all = journalOf(started({ cost: spend(3) }), concluded);
  expect(spendOfRest([], all)).toEqual(spend(3));
});
