// Records for the tests of pure functions: facts that matter to a test, the rest filled in.
import type { Phase } from '../../../src/protocol/keys.ts';
import type { RecordBody, RecordFacts, RecordOf, Site } from '../../../src/protocol/record.ts';

type Kind = RecordFacts['kind'];
type FactsOf<K extends Kind> = Partial<Omit<RecordOf<K>, 'kind'>>;

export const none = { tokens: 0, minorUnits: 0 };

/** Where an effect stands: dispatch 0 of step "pay", forward, unless told otherwise. */
export function site(ordinal = 0, step = 'pay', phase: Phase = 'forward'): Site {
  return { step, phase, ordinal };
}

/** A record of these facts; a place in a journal only where a test reads one. */
export function body(facts: RecordFacts, seq = 1, at = 5): RecordBody {
  return { seq, at, epoch: 1, payload: { kind: 'none' }, ...facts };
}

/** A journal of these facts, numbered from 1; record n was written at instant 10 n. */
export function journalOf(...facts: readonly RecordFacts[]): RecordBody[] {
  return facts.map((fact, index) => body(fact, index + 1, (index + 1) * 10));
}

export function started(of: FactsOf<'EffectStarted'> = {}): RecordFacts {
  return {
    kind: 'EffectStarted',
    site: site(),
    key: 'k1',
    effect: 'charge',
    attempt: 1,
    backoffMs: 0,
    mutates: true,
    recovery: 'operator',
    ...of,
  };
}

export function done(of: FactsOf<'EffectDone'> = {}): RecordFacts {
  return { kind: 'EffectDone', site: site(), key: 'k1', spend: none, ...of };
}

export function failed(of: FactsOf<'EffectFailed'> = {}): RecordFacts {
  return {
    kind: 'EffectFailed',
    site: site(),
    key: 'k1',
    disposition: 'did_not_happen',
    permanent: false,
    code: 'x',
    spend: none,
    ...of,
  };
}

export function reconciled(of: FactsOf<'EffectReconciled'> = {}): RecordFacts {
  return {
    kind: 'EffectReconciled',
    site: site(),
    key: 'k1',
    disposition: 'did_not_happen',
    spend: none,
    ...of,
  };
}
