// What an operator does with a turn that stands: answer a doubt, reopen, abandon, resume.
import { parseBudget } from '../protocol/budget.ts';
import { toIso } from '../protocol/ids.ts';
import { readAttention } from '../runtime/attention.ts';
import { cancelTurn } from '../runtime/cancel-turn.ts';
import { abandonTurn, assertFact, reopenTurn, resumeByPerson } from '../runtime/person-acts.ts';
import { readTurn } from '../runtime/read-turn.ts';
import type { ApiResponse } from './api-request.ts';
import { json } from './api-request.ts';
import type { Call } from './handler.ts';
import { parseBody } from './parse-body.ts';
import { assertSchema, reasonSchema, resumeSchema } from './schemas.ts';
import { turnObject } from './turn-object.ts';
import { answered, defined, notFound, refOf } from './turn-routes.ts';

/** POST undecided/{effectKey}: a person's fact; the status stays until the turn is reopened (QA-1). */
export async function answerDoubt(call: Call): Promise<ApiResponse> {
  const ref = refOf(call);
  const body = parseBody(call.request, assertSchema);
  const { outcome, note } = body;
  const assertion = 'output' in body ? { outcome, note, output: body.output } : { outcome, note };
  await assertFact(
    call.host.runtime,
    ref,
    call.params.effectKey ?? '',
    assertion,
    call.identity.actor,
  );
  const view = await readTurn(call.host.runtime, ref);
  if (view === null) throw notFound(`turn "${ref.turn}"`);
  return json(200, turnObject(view, { replayed: false }));
}

export async function reopen(call: Call): Promise<ApiResponse> {
  const { reason } = parseBody(call.request, reasonSchema);
  const { runtime } = call.host;
  const work = reopenTurn(runtime, refOf(call), reason, call.identity.actor, call.host.bounds());
  return answered(await work);
}

export async function abandon(call: Call): Promise<ApiResponse> {
  const { reason } = parseBody(call.request, reasonSchema);
  return answered(await abandonTurn(call.host.runtime, refOf(call), reason, call.identity.actor));
}

export async function resume(call: Call): Promise<ApiResponse> {
  const body = parseBody(call.request, resumeSchema);
  const change = {
    reason: body.reason ?? null,
    budget: body.budget === undefined ? null : parseBudget(defined(body.budget)),
  };
  const { runtime } = call.host;
  const work = resumeByPerson(
    runtime,
    refOf(call),
    change,
    call.identity.actor,
    call.host.bounds(),
  );
  return answered(await work);
}

/** POST cancel: 202 with whether this call recorded the stop. */
export async function cancel(call: Call): Promise<ApiResponse> {
  const { reason } = parseBody(call.request, reasonSchema);
  const { runtime } = call.host;
  const bounds = call.host.bounds();
  return json(202, await cancelTurn(runtime, refOf(call), reason, call.identity.actor, bounds));
}

/** GET attention: what needs a person, with remedies, and what was not looked at. */
export async function attention(call: Call): Promise<ApiResponse> {
  const list = await readAttention(call.host.runtime, call.identity.tenant);
  const items = list.items.map((item) => ({
    ...item,
    subjects: item.subjects.map((subject) => ({ ...subject, since: toIso(subject.since) })),
  }));
  return json(200, { items, notChecked: list.notChecked });
}
