// Approvals and events: what people and other systems answer waiting turns with (page 05).
import { toIso } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import type { ApprovalView } from '../runtime/answer-approval.ts';
import { answerApproval, listApprovals } from '../runtime/answer-approval.ts';
import { publishEvent } from '../runtime/events.ts';
import type { ApiResponse } from './api-request.ts';
import { json } from './api-request.ts';
import type { Call } from './handler.ts';
import { parseBody, parseQuery } from './parse-body.ts';
import { approvalsQuerySchema, decisionSchema, eventSchema } from './schemas.ts';

/** GET approvals: oldest first; `cursor` goes on after the last one. */
export async function getApprovals(call: Call): Promise<ApiResponse> {
  const query = parseQuery(call.request, approvalsQuerySchema);
  const { items, cursor } = await listApprovals(call.host.runtime, call.identity.tenant, {
    status: query.status ?? 'pending',
    limit: Number(query.limit ?? limits.approvalsPage),
    cursor: query.cursor ?? null,
  });
  return json(200, {
    items: items.map(approvalObject),
    ...(cursor === null ? {} : { cursor }),
  });
}

/** POST approvals/{id}: the first decision wins and is answered with itself when it comes again. */
export async function decideApproval(call: Call): Promise<ApiResponse> {
  const body = parseBody(call.request, decisionSchema);
  const { decision, digest, note } = body;
  const { runtime } = call.host;
  const { tenant, actor } = call.identity;
  const answer = { decision, digest, note: note ?? null };
  const view = await answerApproval(runtime, tenant, call.params.id ?? '', answer, actor);
  return json(200, approvalObject(view));
}

/** POST events: 202 once it is stored; a repeat of (source, id) says `stored: false`. */
export async function postEvent(call: Call): Promise<ApiResponse> {
  const { source, id, type, correlation, data } = parseBody(call.request, eventSchema);
  const stored = await publishEvent(call.host.runtime, {
    tenant: call.identity.tenant,
    source: `external:${source}`,
    id,
    type,
    correlation: correlation ?? null,
    data: data ?? null,
  });
  return json(202, stored);
}

function approvalObject(view: ApprovalView): Record<string, unknown> {
  const { until, createdAt, decision, ...rest } = view;
  return {
    ...rest,
    until: toIso(until),
    createdAt: toIso(createdAt),
    ...(decision === undefined ? {} : { decision: { ...decision, at: toIso(decision.at) } }),
  };
}
