// The SDK's own `toolApproval`, answered by people through the turn: `generateText({ toolApproval: turnApproval(context, {...}) })`.
//
//   T10  what asks for a user suspends the turn; the loop goes on from the answer. The SDK asks for one call after
//        another: `approval` of `toolEffects` asks for all calls of an answer at once, beside those that need nobody.
import type { ToolApprovalStatus } from 'ai';
import { never } from '../../runtime/never.ts';
import type { TurnContext } from '../../runtime/turn-context.ts';
import { TurnSuspendedError } from '../../runtime/turn-context.ts';

/** What the SDK is told of a call: a status, or one decided by its input. Tools left out need nobody. */
export type TurnApprovals = Readonly<
  Record<string, ToolApprovalStatus | ((input: unknown) => ToolApprovalStatus)>
>;

/** Turns `user-approval` into a wait of the turn; the model hears a denial, and an answer that never came, as denied. */
export function turnApproval(
  context: TurnContext,
  approvals: TurnApprovals,
): (asked: {
  readonly toolCall: { readonly toolName: string; readonly input: unknown };
}) => Promise<ToolApprovalStatus> {
  return async ({ toolCall: { toolName: tool, input } }) => {
    const given = Object.hasOwn(approvals, tool) ? approvals[tool] : undefined;
    const status = typeof given === 'function' ? given(input) : given;
    const { type, reason } = typeof status === 'object' ? status : { type: status, reason: '' };
    if (type !== 'user-approval') return status;
    const summary = reason === undefined || reason === '' ? `call ${tool}` : reason;
    try {
      const answer = await context.approval({ action: { tool, input }, summary });
      if (answer.decision === 'approved') return { type: 'approved' };
      const note = typeof answer.note === 'string' && answer.note !== '' ? `: ${answer.note}` : '';
      return { type: 'denied', reason: `${answer.decision}${note}` };
    } catch (error) {
      // The loop rests with its turn.
      if (error instanceof TurnSuspendedError) return never();
      throw error;
    }
  };
}
