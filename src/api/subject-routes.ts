// People: what is remembered of them, holds, erasure, return; and cases (page 05).
import type { ErasureRow } from '../ports/subjects.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import { parseId, subjectId, toIso } from '../protocol/ids.ts';
import { readCase } from '../runtime/cases.ts';
import {
  eraseSubject,
  erasureOf,
  holdSubject,
  memoriesOf,
  readmitSubject,
  releaseSubject,
} from '../runtime/subjects.ts';
import type { ApiResponse } from './api-request.ts';
import { json } from './api-request.ts';
import type { Call } from './handler.ts';
import { parseBody, parseQuery } from './parse-body.ts';
import { memoriesQuerySchema, reasonSchema } from './schemas.ts';

function personOf(call: Call) {
  return { tenant: call.identity.tenant, subject: subjectId('subject', call.params.subject) };
}

export async function getMemories(call: Call): Promise<ApiResponse> {
  const { purpose } = parseQuery(call.request, memoriesQuerySchema);
  const items = await memoriesOf(call.host.runtime, personOf(call), purpose ?? null);
  return json(200, { items });
}

export async function putHold(call: Call): Promise<ApiResponse> {
  const { reason } = parseBody(call.request, reasonSchema);
  const { runtime } = call.host;
  return json(200, await holdSubject(runtime, personOf(call), reason, call.identity.actor));
}

export async function deleteHold(call: Call): Promise<ApiResponse> {
  if ((call.request.body?.byteLength ?? 0) > 0) parseBody(call.request, reasonSchema);
  return json(200, await releaseSubject(call.host.runtime, personOf(call)));
}

/** POST erase: 202 once the keys are destroyed; a repeat finishes what is left. */
export async function postErase(call: Call): Promise<ApiResponse> {
  parseBody(call.request, reasonSchema);
  const row = await eraseSubject(call.host.runtime, personOf(call), call.identity.actor);
  return json(202, { erasure: erasureObject(row) });
}

export async function postReadmit(call: Call): Promise<ApiResponse> {
  parseBody(call.request, reasonSchema);
  return json(200, await readmitSubject(call.host.runtime, personOf(call)));
}

export async function getErasure(call: Call): Promise<ApiResponse> {
  const row = await erasureOf(call.host.runtime, personOf(call));
  if (row === null) {
    throw new TurnstoneError('not_found', 'this subject was never erased', { retry: 'never' });
  }
  return json(200, { erasure: erasureObject(row) });
}

function erasureObject(row: ErasureRow): Record<string, unknown> {
  const { id, state, by, at, items, versions } = row;
  return { id, state, by, at: toIso(at), destroyed: { items, versions } };
}

export async function getCase(call: Call): Promise<ApiResponse> {
  const id = parseId('caseId', call.params.caseId);
  const { deadlines, ...view } = await readCase(call.host.runtime, call.identity.tenant, id);
  return json(200, {
    ...view,
    deadlines: deadlines.map((deadline) => ({ ...deadline, at: toIso(deadline.at) })),
  });
}
