// What becomes of an approval that nobody answered: a pure, bounded decision (B-50, B-51).
//   T10  every way out fails closed: denied, asked again at most so often, or the turn is dropped.

/** All that a policy may look at; the same on every pass. */
export interface ExpiryFacts {
  readonly action: unknown;
  /** 0 for the first request. */
  readonly escalation: number;
  /** The deadline that passed, ISO 8601. */
  readonly deadline: string;
}

export type ExpiryDecision =
  | { readonly kind: 'deny' }
  /** Asks again; another deadline than the last request's when `expiresInMs` is given. */
  | { readonly kind: 'escalate'; readonly expiresInMs?: number }
  | { readonly kind: 'drop'; readonly detail?: string };

/** What is done about it; a drop says whether the policy wanted it. */
export type DecidedExpiry =
  | Exclude<ExpiryDecision, { kind: 'drop' }>
  | {
      readonly kind: 'drop';
      readonly code: 'approval_expired' | 'policy_error';
      readonly detail: string;
    };

/** Synchronous and pure: it runs again on every pass over the turn. */
export type ExpiryPolicy = (facts: ExpiryFacts) => ExpiryDecision;

/** Follows a policy; one that throws or answers nonsense drops the turn, and says so (T110). */
export function decideExpiry(
  policy: ExpiryPolicy,
  facts: ExpiryFacts,
  escalationsMax: number,
): DecidedExpiry {
  let decided: ExpiryDecision;
  try {
    decided = policy(Object.freeze({ ...facts }));
  } catch (error) {
    return { kind: 'drop', code: 'policy_error', detail: textOf(error) };
  }
  const kind: unknown = Reflect.get(Object(decided), 'kind');
  if (kind === 'escalate' && facts.escalation >= escalationsMax) return { kind: 'deny' };
  if (decided?.kind === 'drop') {
    return { kind: 'drop', code: 'approval_expired', detail: decided.detail ?? '' };
  }
  if (kind === 'deny' || kind === 'escalate') return decided;
  return {
    kind: 'drop',
    code: 'policy_error',
    detail: `expected deny, escalate or drop, got ${String(kind)}`,
  };
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
