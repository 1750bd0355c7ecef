// What a group of effects does next, judged on what its members came to: pure (page 01, section 7).
//   T9   committed: everything stands; aborted: nothing stands; quarantined: nobody knows, nothing is reversed.
//   GR-5 what landed is taken back newest first; GR-6 invariants, then the transaction, then what was deferred.
//   GR-8 nothing ends while a member is on its way, and nothing is taken back past the frontier.
import type { Disposition } from './effect-decision.ts';

export type MemberClass = 'read' | 'reversible' | 'deferred' | 'atomic';

/** What a group has come to so far. */
export interface GroupFacts {
  /** Members that were dispatched and not heard of. */
  readonly inFlight: number;
  /** A member failed and nothing of it stands. */
  readonly failed: boolean;
  /** Reversible members that landed, and how many of them were taken back. */
  readonly landed: number;
  readonly reversed: number;
  /** Atomic members that were registered, and whether their transaction was written. */
  readonly atomic: number;
  readonly written: boolean;
  /** Deferred members that were registered, and how many have left. */
  readonly deferred: number;
  readonly sent: number;
}

/** How a member failed. */
export interface MemberFailure {
  /** Nobody knows whether it happened. */
  readonly undecided: boolean;
  /** Null for a refusal before the call. */
  readonly disposition: Disposition | null;
}

/** Something is out that nothing takes back: rows of the transaction, or a deferred member. */
export function pastFrontier(facts: GroupFacts): boolean {
  return facts.written || facts.sent > 0;
}

/** True when a failed call may stand in the world: in doubt, or landed with an unusable answer. */
function externalised({ undecided, disposition }: MemberFailure): boolean {
  return undecided || (disposition !== null && disposition !== 'did_not_happen');
}

/** What a member's failure leaves to its group: it can only be taken back, or nobody knows what stands. */
export function afterFailure(
  member: MemberClass,
  failure: MemberFailure,
  facts: GroupFacts,
): 'take_back' | 'quarantine' {
  switch (member) {
    case 'read':
    case 'atomic':
      // A read changes nothing (E188); a transaction that rejects has written nothing (GR-13).
      return 'take_back';
    case 'reversible':
    case 'deferred':
      return pastFrontier(facts) || externalised(failure) ? 'quarantine' : 'take_back';
  }
}

export type CommitMove =
  /** Members are on their way: nothing is judged before they were heard of. */
  | { readonly kind: 'await' }
  | { readonly kind: 'abort'; readonly because: 'failed' | 'invariant' }
  | { readonly kind: 'write' }
  | { readonly kind: 'send'; readonly index: number }
  | { readonly kind: 'commit' };

/** The next move of a commit (GR-6). */
export function nextOfCommit(facts: GroupFacts, invariantsHold: boolean): CommitMove {
  if (facts.inFlight > 0) return { kind: 'await' };
  if (facts.failed) return { kind: 'abort', because: 'failed' };
  if (!invariantsHold) return { kind: 'abort', because: 'invariant' };
  if (facts.atomic > 0 && !facts.written) return { kind: 'write' };
  if (facts.sent < facts.deferred) return { kind: 'send', index: facts.sent };
  return { kind: 'commit' };
}

export type AbortMove =
  | { readonly kind: 'await' }
  /** It is past its frontier: what is out is not taken back. */
  | { readonly kind: 'quarantine' }
  /** Takes back the landed member of this index. */
  | { readonly kind: 'reverse'; readonly index: number }
  | { readonly kind: 'abort' };

/** The next move of taking a group back (GR-5). A reversal that fails quarantines it (E166). */
export function nextOfAbort(facts: GroupFacts): AbortMove {
  if (pastFrontier(facts)) return { kind: 'quarantine' };
  if (facts.inFlight > 0) return { kind: 'await' };
  if (facts.reversed < facts.landed)
    return { kind: 'reverse', index: facts.landed - facts.reversed - 1 };
  return { kind: 'abort' };
}
