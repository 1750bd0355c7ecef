// What follows an attempt that failed, a probe's answer, or an announcement without an outcome.
// The tables of page 01, 1.3 and 1.4, under ruling 1. Pure.
//   T6  disposition, then recovery, then policy; policy only narrows. A later send's answer never
//       settles an earlier send: a dispatch with an unresolved send stays in doubt.
export type Disposition = 'did_not_happen' | 'in_doubt' | 'landed';
export type Recovery = 'retry' | 'idempotent' | 'reconcile' | 'operator';

export interface FailureFacts {
  readonly disposition: Disposition;
  /** The far side answered rather than faulted. */
  readonly permanent: boolean;
  readonly mutates: boolean;
  readonly recovery: Recovery;
  /** 1-based number of the attempt that failed. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** An earlier send of this dispatch was never settled. */
  readonly earlierDoubt: boolean;
  /** Repeat a landed, permanent failure of a read. Ignored for mutations (E49). */
  readonly retryLanded?: boolean;
}

export type FailureDecision =
  | { readonly kind: 'retry' }
  | { readonly kind: 'probe' }
  | { readonly kind: 'failed' }
  | { readonly kind: 'quarantined' };

/** Page 01, 1.3. */
export function decideFailure(facts: FailureFacts): FailureDecision {
  const left = facts.attempt < facts.maxAttempts;
  switch (facts.disposition) {
    case 'landed':
      return decideLanded(facts, left);
    case 'in_doubt':
      return decideInDoubt(facts, left);
    case 'did_not_happen':
      if (!facts.permanent && left) return { kind: 'retry' };
      return facts.earlierDoubt && facts.mutates ? settleDoubt(facts) : { kind: 'failed' };
  }
}

function decideLanded(facts: FailureFacts, left: boolean): FailureDecision {
  if (facts.mutates || !left) return { kind: 'failed' };
  if (facts.permanent && facts.retryLanded !== true) return { kind: 'failed' };
  return { kind: 'retry' };
}

function decideInDoubt(facts: FailureFacts, left: boolean): FailureDecision {
  switch (facts.recovery) {
    case 'operator':
      return { kind: 'quarantined' };
    case 'reconcile':
      return { kind: 'probe' };
    case 'retry':
    case 'idempotent':
      if (left) return { kind: 'retry' };
      return facts.mutates ? { kind: 'quarantined' } : { kind: 'failed' };
  }
}

function settleDoubt(facts: FailureFacts): FailureDecision {
  return facts.recovery === 'reconcile' ? { kind: 'probe' } : { kind: 'quarantined' };
}

export interface ProbeFacts {
  readonly verdict: 'landed' | 'did_not_happen' | 'inconclusive';
  readonly mutates: boolean;
  readonly attempt: number;
  readonly maxAttempts: number;
  /** True after a live failure, false over an announcement without an outcome. */
  readonly live: boolean;
}

export type ProbeDecision =
  | { readonly kind: 'done' }
  | { readonly kind: 'retry' }
  | { readonly kind: 'perform_same_key' }
  | { readonly kind: 'failed' }
  | { readonly kind: 'quarantined' };

/** The reconcile rows of 1.3 (live) and 1.4 (orphan). */
export function decideProbe(facts: ProbeFacts): ProbeDecision {
  switch (facts.verdict) {
    case 'landed':
      return { kind: 'done' };
    case 'inconclusive':
      return { kind: 'quarantined' };
    case 'did_not_happen':
      if (!facts.live) return { kind: 'perform_same_key' };
      return facts.attempt < facts.maxAttempts ? { kind: 'retry' } : { kind: 'failed' };
  }
}

export type OrphanDecision =
  | { readonly kind: 'perform_same_key' }
  | { readonly kind: 'probe' }
  | { readonly kind: 'quarantined' }
  | { readonly kind: 'undecidable' };

/** Page 01, 1.4; `recovery` is the recorded one (OR-1). */
export function decideOrphan(facts: {
  readonly recovery: Recovery;
  readonly mutates: boolean;
  readonly pass: 'resume' | 'strict';
}): OrphanDecision {
  if (facts.pass === 'strict') return { kind: 'undecidable' };
  switch (facts.recovery) {
    case 'retry':
    case 'idempotent':
      return { kind: 'perform_same_key' };
    case 'reconcile':
      return { kind: 'probe' };
    case 'operator':
      return { kind: 'quarantined' };
  }
}

/** True when a crash would put the effect in doubt, or make it be paid for again (ruling 3). */
export function recordAtOnce(facts: {
  readonly mutates: boolean;
  readonly recovery: Recovery;
  readonly declaredCost: boolean;
}): boolean {
  return facts.declaredCost || (facts.mutates && facts.recovery === 'operator');
}
