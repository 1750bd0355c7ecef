// An approval with a policy for silence: asked, asked again within a bound, or given up (page 03, B-51).
//   T10  silence never consents: what comes back approved was approved by a person, at one of the requests.
//   T7   the policy is a pure function of what is recorded, so every pass walks the same requests.
import { AgentError } from '../protocol/errors.ts';
import type { ExpiryPolicy } from '../protocol/expiry-policy.ts';
import { decideExpiry } from '../protocol/expiry-policy.ts';
import { limits } from '../protocol/limits.ts';
import type { ApprovalAnswer, ApprovalRequest, TurnContext } from './turn-context.ts';
import { TurnDroppedError } from './turn-context.ts';

export interface SilencePolicy {
  readonly onExpiry: ExpiryPolicy;
  /** Default 1; at most `limits.escalationsMax`. */
  readonly maxEscalations?: number;
}

/**
 * Answers the first request that a person answered, or the last one that expired when the policy denies.
 * Throws `TurnDroppedError`: `approval_expired` when the policy drops the turn, `policy_error` when it fails.
 */
export async function approveUnder(
  context: Pick<TurnContext, 'approval'>,
  request: Omit<ApprovalRequest, 'escalation'>,
  silence: SilencePolicy,
): Promise<ApprovalAnswer> {
  const most = silence.maxEscalations ?? 1;
  if (!Number.isSafeInteger(most) || most < 0 || most > limits.escalationsMax) {
    throw new AgentError(
      `maxEscalations: expected 0 to ${limits.escalationsMax}, got ${String(most)}`,
    );
  }
  let asked: ApprovalRequest = { ...request, escalation: 0 };
  for (let escalation = 0; ; escalation += 1) {
    const answer = await context.approval(asked);
    if (answer.decision !== 'expired') return answer;
    const facts = { action: request.action, escalation, deadline: answer.at };
    const decided = decideExpiry(silence.onExpiry, facts, most);
    if (decided.kind === 'deny') return answer;
    if (decided.kind === 'drop') {
      const detail = decided.detail === '' ? '' : `: ${decided.detail}`;
      const message = `nobody answered the request in time${detail}`;
      throw new TurnDroppedError(decided.code, message);
    }
    const { expiresInMs } = decided;
    asked = {
      ...request,
      escalation: escalation + 1,
      ...(expiresInMs === undefined ? {} : { expiresInMs }),
    };
  }
}
