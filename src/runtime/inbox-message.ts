// Messages of the inbox: references only, never payload (ruling 22).

import type { OutboxEntry, ThreadRef, TurnRef } from '../ports/store.ts';
import { base64url, hashParts } from '../protocol/digest.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import { tenantId, threadId, turnId } from '../protocol/ids.ts';

/** An inbox entry that asks for a pass of a turn; `why` makes its deduplication id distinct. */
export function inboxEntry(ref: TurnRef, why: string): OutboxEntry {
  const id = base64url(hashParts('turnstone.inbox.1', [ref.tenant, ref.thread, ref.turn, why]));
  const body = { v: 1, tenant: ref.tenant, thread: ref.thread, turn: ref.turn };
  return { id, queue: 'inbox', body: JSON.stringify(body) };
}

/** Queue group of a thread: its messages are handled one after another [T3]. */
export function groupOf(ref: ThreadRef): string {
  return base64url(hashParts('turnstone.group.1', [ref.tenant, ref.thread]));
}

/** Reads an inbox body; throws `invalid_request` naming the field. */
export function parseInboxBody(body: string): TurnRef {
  let raw: unknown;
  try {
    raw = JSON.parse(body);
  } catch (cause) {
    throw malformed('body', 'JSON', cause);
  }
  if (typeof raw !== 'object' || raw === null) throw malformed('body', 'an object');
  const { v, tenant, thread, turn }: Record<string, unknown> = { ...raw };
  if (v !== 1) throw malformed('v', '1');
  return {
    tenant: tenantId('tenant', tenant),
    thread: threadId('thread', thread),
    turn: turnId('turn', turn),
  };
}

function malformed(field: string, expected: string, cause?: unknown): TurnstoneError {
  return new TurnstoneError('invalid_request', `inbox message ${field}: expected ${expected}`, {
    retry: 'never',
    details: { field, expected },
    cause,
  });
}
