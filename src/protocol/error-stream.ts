// The error stream: every failure that somebody should hear of, under a closed vocabulary (B-59).
//   A reason is one of these words or it is refused, by the types and when it is told; `detail` says more, in words
//   of the platform's own: what agents and people wrote stays sealed with the turn.
//   Nothing here has state that lapses or batches that overflow, so those reasons of the rules do not exist.
import { TurnstoneError } from './errors.ts';

export const errorReasons = [
  /** The agent's code or an effect failed the turn. */
  'activation_error',
  /** The turn made no progress within its limit. */
  'activation_timeout',
  /** A ceiling stopped the turn. */
  'budget_exceeded',
  /** An answer, for a wait that is answered, over, or was never there. */
  'orphaned_result',
  /** Nobody answered in time and the policy dropped the turn. */
  'hitl_timeout',
  /** An act that cannot be verified or performed. */
  'intent_dead_letter',
] as const;
export type ErrorReason = (typeof errorReasons)[number];

/** Throws `invalid_request` naming a reason that is not one. */
export function errorReason(value: unknown): ErrorReason {
  const found = errorReasons.find((reason) => reason === value);
  if (found !== undefined) return found;
  throw new TurnstoneError(
    'invalid_request',
    `reason: expected ${errorReasons.join(', ')}, got ${String(value)}`,
    { retry: 'never', details: { field: 'reason' } },
  );
}

/** Why a turn that concluded belongs on the stream, or null for one that does not. */
export function reasonOf(status: string, code: string | undefined): ErrorReason | null {
  if (status === 'exhausted') return 'budget_exceeded';
  if (status === 'cancelled') {
    return code === 'approval_expired' || code === 'policy_error' ? 'hitl_timeout' : null;
  }
  if (status !== 'failed') return null;
  return code === 'turn_timeout' ? 'activation_timeout' : 'activation_error';
}
