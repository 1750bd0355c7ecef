// Messages of the inbox: references only, never payload (ruling 22).

import type { QueueMessage } from '../ports/queue.ts';
import type { OutboxEntry, ThreadRef, TurnRef } from '../ports/store.ts';
import { base64url, hashParts } from '../protocol/digest.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { epochMs, tenantId, threadId, turnId } from '../protocol/ids.ts';

/** An inbox entry that asks for a pass of a turn; `why` makes its deduplication id distinct. */
export function inboxEntry(ref: TurnRef, why: string): OutboxEntry {
  const id = base64url(hashParts('turnstone.inbox.1', [ref.tenant, ref.thread, ref.turn, why]));
  const body = { v: 1, tenant: ref.tenant, thread: ref.thread, turn: ref.turn };
  return { id, queue: 'inbox', body: JSON.stringify(body) };
}

/**
 * A message that comes early on purpose: hidden until `due` in a group of its own, so that it holds nobody up.
 */
export function dueMessage(ref: TurnRef, due: EpochMs): QueueMessage {
  const entry = inboxEntry(ref, `due:${due}`);
  const body = { ...JSON.parse(entry.body), due };
  const group = base64url(hashParts('turnstone.group.1', [ref.tenant, ref.thread, 'due', due]));
  return { group, dedupId: entry.id, body: JSON.stringify(body) };
}

/** Queue group of a thread: its messages are handled one after another [T3]. */
export function groupOf(ref: ThreadRef): string {
  return base64url(hashParts('turnstone.group.1', [ref.tenant, ref.thread]));
}

/** Reads an inbox body; `due` is null for a message that is wanted at once. Throws `invalid_request` naming the field. */
export function parseInboxBody(body: string): {
  readonly ref: TurnRef;
  readonly due: EpochMs | null;
} {
  let raw: unknown;
  try {
    raw = JSON.parse(body);
  } catch (cause) {
    throw malformed('body', 'JSON', cause);
  }
  if (typeof raw !== 'object' || raw === null) throw malformed('body', 'an object');
  const { v, tenant, thread, turn, due }: Record<string, unknown> = { ...raw };
  if (v !== 1) throw malformed('v', '1');
  const ref = {
    tenant: tenantId('tenant', tenant),
    thread: threadId('thread', thread),
    turn: turnId('turn', turn),
  };
  if (due !== undefined && !Number.isSafeInteger(due)) throw malformed('due', 'an instant');
  return { ref, due: typeof due === 'number' ? epochMs(due) : null };
}

function malformed(field: string, expected: string, cause?: unknown): TurnstoneError {
  return new TurnstoneError('invalid_request', `inbox message ${field}: expected ${expected}`, {
    retry: 'never',
    details: { field, expected },
    cause,
  });
}
