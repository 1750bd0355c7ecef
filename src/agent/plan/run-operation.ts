// One operation of a plan step against the turn's context (page 05).
import type { HttpCaller } from '../../ports/http-caller.ts';
import { AgentError } from '../../protocol/errors.ts';
import { approveUnder } from '../../runtime/approve-under.ts';
import type { TurnContext } from '../../runtime/turn-context.ts';
import { holds } from './conditions.ts';
import { actArgs, defined, httpEffect, textOf } from './plan-effect.ts';
import type { Operation, PlanApprove, PlanWait } from './plan-language.ts';
import type { Roots } from './references.ts';
import { resolve } from './references.ts';
import { runGroup } from './run-group.ts';

/** What an operation may name and refer to. */
export interface OperationScope {
  readonly roots: () => Roots;
  readonly names: Map<string, unknown>;
  readonly http: HttpCaller;
}

/** Runs one operation; its value goes under its `as` name. */
export async function runOperation(
  context: TurnContext,
  op: Operation,
  scope: OperationScope,
): Promise<void> {
  const value = await performed(context, op, scope);
  if ('as' in op && op.as !== undefined) scope.names.set(op.as, value);
}

async function performed(
  context: TurnContext,
  op: Operation,
  { roots, names, http }: OperationScope,
): Promise<unknown> {
  if ('note' in op) return context.note(textOf(resolve(op.note, roots())));
  if ('fail' in op) {
    if (op.when !== undefined && !holds(op.when, roots())) return null;
    throw new AgentError(textOf(resolve(op.fail, roots())), { code: 'step_failed' });
  }
  if ('remember' in op) {
    const { subject, expiresInMs, ...fact } = op.remember;
    const content = resolve(fact.content, roots());
    return context.remember({ ...fact, content, ...defined({ subject, expiresInMs }) });
  }
  if ('recall' in op) {
    const { subject, limit, purpose } = op.recall;
    return { items: await context.recall({ purpose, ...defined({ subject, limit }) }) };
  }
  if ('case' in op) {
    const { deadline, ...change } = op.case;
    const state = change.state === undefined ? undefined : resolve(change.state, roots());
    const at = deadline === undefined ? undefined : { name: deadline.name, ...defined(deadline) };
    return context.case({ id: change.id, ...defined({ ...change, state, deadline: at }) });
  }
  if ('sleep' in op) return context.sleep(op.sleep);
  if ('wait' in op) return waitFor(context, op.wait, roots());
  if ('approve' in op) return approve(context, op.approve, roots());
  if ('group' in op) return runGroup(context, op.group, { roots, names, http });
  if ('act' in op) {
    const { expiresInMs, ...act } = op.act;
    const args = actArgs(act, roots());
    return context.act({ kind: act.kind, args, ...defined({ expiresInMs }) });
  }
  return context.effect(httpEffect(op.effect, roots(), http));
}

async function waitFor(context: TurnContext, wait: PlanWait, roots: Roots): Promise<unknown> {
  const { event: type, expiresInMs, onExpiry } = wait;
  const correlation = resolve(wait.correlation, roots);
  const answer = await context.event({ type, correlation, ...defined({ expiresInMs }) });
  if (answer.kind === 'event') return answer.data;
  if (onExpiry === 'continue') return null;
  throw new AgentError(`no event "${type}" came in time`, { code: 'wait_expired' });
}

/** Silence never consents: an expired request is denied, escalated a bounded number of times, or drops the turn. */
async function approve(context: TurnContext, op: PlanApprove, roots: Roots): Promise<unknown> {
  const { expiresInMs, fourEyes } = op;
  const onExpiry = op.onExpiry ?? 'deny';
  const request = {
    action: resolve(op.action, roots),
    ...defined({ expiresInMs, fourEyes }),
  };
  const silence = {
    onExpiry: () => ({ kind: onExpiry }),
    ...defined({ maxEscalations: op.maxEscalations }),
  };
  const { decision, by, at, note } = await approveUnder(context, request, silence);
  if (decision === 'approved') return { decision: 'approve', by, at, note };
  if (decision === 'denied') {
    throw new AgentError(`the request was denied by ${by}`, { code: 'approval_denied' });
  }
  throw new AgentError('nobody answered the request in time', { code: 'approval_expired' });
}
