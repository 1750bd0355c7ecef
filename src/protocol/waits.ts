// Admission of an answer to a wait: one pure decision for people, events and timers (page 03, B-53 under 05).
//   T10  bound to the exact call by its digest, answered once, closed at its deadline on the server's clock.

/** What stands when an answer comes. */
export interface Standing {
  /** Null when nobody answered. */
  readonly answer: { readonly decision: 'approved' | 'denied' | 'expired' | 'event' } | null;
  readonly until: number;
  readonly digest: string | null;
  readonly requester: string;
  readonly fourEyes: boolean;
}

export interface Offered {
  readonly decision: 'approved' | 'denied';
  readonly digest: string;
  readonly actor: string;
  /** Server receive time, milliseconds (B-54). */
  readonly now: number;
}

export type Admission =
  | { readonly kind: 'admitted' }
  /** The same decision again: answered the same, nothing is written. */
  | { readonly kind: 'repeated' }
  | {
      readonly kind: 'refused';
      readonly code: 'already_decided' | 'expired' | 'four_eyes' | 'digest_mismatch';
    };

/** The first reason that refuses wins: decided, expired, four eyes, digest. */
export function admitAnswer(standing: Standing, offered: Offered): Admission {
  const { answer } = standing;
  if (answer !== null) {
    if (answer.decision === 'expired') return { kind: 'refused', code: 'expired' };
    if (answer.decision === offered.decision && offered.digest === standing.digest) {
      return { kind: 'repeated' };
    }
    return { kind: 'refused', code: 'already_decided' };
  }
  if (offered.now >= standing.until) return { kind: 'refused', code: 'expired' };
  const own = standing.fourEyes && offered.actor === standing.requester;
  if (own && offered.decision === 'approved') return { kind: 'refused', code: 'four_eyes' };
  if (offered.digest !== standing.digest) return { kind: 'refused', code: 'digest_mismatch' };
  return { kind: 'admitted' };
}
