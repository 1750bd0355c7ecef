// Receipts: what a business key came to, and a person's word on one in doubt (page 05).

import { threadId, toIso } from '../protocol/ids.ts';
import { answerReceipt as answer } from '../runtime/answer-receipt.ts';
import type { ReceiptView } from '../runtime/receipts.ts';
import { listReceipts } from '../runtime/receipts.ts';
import type { ApiResponse } from './api-request.ts';
import { json } from './api-request.ts';
import type { Call } from './handler.ts';
import { parseBody, parseQuery } from './parse-body.ts';
import { assertSchema, receiptsQuerySchema } from './schemas.ts';

/** GET receipts: of one thread, or of every thread with a turn that needs a person. */
export async function getReceipts(call: Call): Promise<ApiResponse> {
  const query = parseQuery(call.request, receiptsQuerySchema);
  const thread = query.threadId === undefined ? null : threadId('threadId', query.threadId);
  const { runtime } = call.host;
  const of = { thread, status: query.status ?? null };
  const items = await listReceipts(runtime, call.identity.tenant, of);
  return json(200, { items: items.map(receiptObject) });
}

/** POST receipts/{receiptId}: the same fact as at the effect's own door (ruling 2). */
export async function answerReceipt(call: Call): Promise<ApiResponse> {
  const body = parseBody(call.request, assertSchema);
  const { runtime } = call.host;
  const { tenant, actor } = call.identity;
  const id = call.params.receiptId ?? '';
  const { outcome, note } = body;
  const fact = 'output' in body ? { outcome, note, output: body.output } : { outcome, note };
  return json(200, receiptObject(await answer(runtime, tenant, id, fact, actor)));
}

function receiptObject(view: ReceiptView): Record<string, unknown> {
  return { ...view, createdAt: toIso(view.createdAt), updatedAt: toIso(view.updatedAt) };
}
