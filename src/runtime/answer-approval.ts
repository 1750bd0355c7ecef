// A person's answer to an approval, and the list of what waits for one.
//   T10  first decision wins; bound to the digest that was shown; refused at and after the deadline; the one
//        who asked may not approve where four eyes are wanted. What is refused changes nothing and is told.

import type { WaitRow } from '../ports/waits.ts';
import { encode } from '../protocol/canonical.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs, TenantId } from '../protocol/ids.ts';
import { toIso } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import { admitAnswer } from '../protocol/waits.ts';
import { inboxEntry } from './inbox-message.ts';
import { Keyring } from './keyring.ts';
import { openPayload, sealContext, sealText } from './payloads.ts';
import { relayThread } from './relay.ts';
import type { Runtime } from './runtime.ts';
import { tellError } from './tell.ts';

/** An approval as people see it; `action` is absent once its subject was erased. */
export interface ApprovalView {
  readonly id: string;
  readonly threadId: string;
  readonly turnId: string;
  readonly status: 'pending' | 'approved' | 'denied' | 'expired';
  readonly summary: string;
  readonly action?: unknown;
  readonly digest: string;
  readonly requestedBy: string;
  readonly fourEyes: boolean;
  readonly until: EpochMs;
  readonly createdAt: EpochMs;
  readonly decision?: {
    readonly decision: 'approve' | 'deny';
    readonly by: string;
    readonly at: EpochMs;
    readonly note: unknown;
  };
}

export interface ApprovalAnswer {
  readonly decision: 'approve' | 'deny';
  readonly digest: string;
  readonly note: string | null;
}

/** Records an answer; throws `not_found`, `already_decided`, `expired`, `four_eyes`, `digest_mismatch`, `concluded`. */
export async function answerApproval(
  runtime: Runtime,
  tenant: TenantId,
  id: string,
  answer: ApprovalAnswer,
  actor: string,
): Promise<ApprovalView> {
  for (let round = 0; round < limits.beginRoundsMax; round += 1) {
    const [found] = await runtime.store.waits(tenant, [id]);
    const wait = found ?? null;
    if (wait === null || wait.kind !== 'approval') {
      tellError(runtime.telemetry, 'orphaned_result', { id, detail: 'unknown_wait', actor });
      throw unknown(id);
    }
    const now = runtime.clock.now();
    const decision = answer.decision === 'approve' ? 'approved' : 'denied';
    const admitted = admitAnswer(standing(wait), { decision, digest: answer.digest, actor, now });
    if (admitted.kind === 'repeated') return viewOf(runtime, wait, now);
    if (admitted.kind === 'refused') {
      tellError(runtime.telemetry, 'orphaned_result', { id, detail: admitted.code, actor });
      throw refused(wait, admitted.code);
    }
    const keyring = new Keyring(runtime.store, runtime.vault, wait.ref);
    const sealer = await keyring.writer(wait.scope);
    const context = sealContext(wait.ref, `answer:${id}`, 0);
    const note = answer.note === null ? null : sealText(sealer, context, encode(answer.note));
    if (note?.parts != null) await runtime.store.putParts(tenant, note.parts);
    const given = { kind: decision, by: actor, at: now, note: note?.payload ?? null } as const;
    const entry = inboxEntry(wait.ref, `answer:${id}`);
    const decided = await runtime.store.decide({ wait, answer: given, entry, now });
    if (decided.kind === 'ended') {
      tellError(runtime.telemetry, 'orphaned_result', { id, detail: 'turn_ended', actor });
      throw new TurnstoneError('concluded', 'the turn that asked has ended', { retry: 'never' });
    }
    if (decided.kind === 'unknown') {
      throw new TurnstoneError(
        'store_unavailable',
        'whether the answer was recorded is not known',
        {
          retry: 'now',
          cause: decided.cause,
        },
      );
    }
    if (decided.kind === 'done') {
      await runtime.later(() => relayThread(runtime, wait.ref));
      return viewOf(runtime, { ...wait, answer: given }, now);
    }
  }
  throw new TurnstoneError('store_unavailable', 'the approval changed under every attempt', {
    retry: 'now',
  });
}

function standing(wait: WaitRow) {
  const { until, digest, requester, fourEyes } = wait;
  const answer = wait.answer === null ? null : { decision: wait.answer.kind };
  return { answer, until, digest, requester, fourEyes };
}

function unknown(id: string): TurnstoneError {
  return new TurnstoneError('not_found', `approval "${id}" is not known`, { retry: 'never' });
}

function refused(
  wait: WaitRow,
  code: 'already_decided' | 'expired' | 'four_eyes' | 'digest_mismatch',
): TurnstoneError {
  switch (code) {
    case 'already_decided': {
      const made = wait.answer;
      const decided = made?.kind === 'approved' || made?.kind === 'denied' ? made : null;
      return new TurnstoneError(code, `the request was ${decided?.kind ?? 'answered'} before`, {
        retry: 'never',
        details: {
          decision: decided?.kind === 'approved' ? 'approve' : 'deny',
          by: decided?.by ?? '',
          at: toIso(decided?.at ?? wait.createdAt),
        },
      });
    }
    case 'expired':
      return new TurnstoneError(code, 'the request expired; nothing was done', {
        retry: 'never',
        details: { until: toIso(wait.until) },
      });
    case 'four_eyes':
      return new TurnstoneError(code, 'whoever sent the turn cannot approve it', {
        retry: 'never',
      });
    case 'digest_mismatch':
      return new TurnstoneError(code, 'the digest is not that of the call this request shows', {
        retry: 'never',
      });
  }
}

async function viewOf(runtime: Runtime, wait: WaitRow, now: EpochMs): Promise<ApprovalView> {
  const keyring = new Keyring(runtime.store, runtime.vault, wait.ref);
  const sealer = await keyring.reader(wait.scope);
  const open = async (use: string, payload: WaitRow['payload'] | null): Promise<unknown> =>
    sealer === null || payload === null
      ? null
      : openPayload(runtime.store, sealer, sealContext(wait.ref, use, 0), payload);
  const shown = (await open(`wait:${wait.id}`, wait.payload)) as {
    summary?: string;
    action?: unknown;
  } | null;
  const { answer } = wait;
  const made = answer?.kind === 'approved' || answer?.kind === 'denied' ? answer : null;
  return {
    id: wait.id,
    threadId: wait.ref.thread,
    turnId: wait.ref.turn,
    status: made?.kind ?? (answer?.kind === 'expired' || wait.until <= now ? 'expired' : 'pending'),
    summary: shown?.summary ?? '',
    ...(shown === null ? {} : { action: shown.action }),
    digest: wait.digest ?? '',
    requestedBy: wait.requester,
    fourEyes: wait.fourEyes,
    until: wait.until,
    createdAt: wait.createdAt,
    ...(made === null
      ? {}
      : {
          decision: {
            decision: made.kind === 'approved' ? ('approve' as const) : ('deny' as const),
            by: made.by,
            at: made.at,
            note: await open(`answer:${wait.id}`, made.note),
          },
        }),
  };
}

/** A page of a tenant's approvals, oldest first; `cursor` is the place after the last one. */
export async function listApprovals(
  runtime: Runtime,
  tenant: TenantId,
  of: {
    readonly status: 'pending' | 'all';
    readonly limit: number;
    readonly cursor: string | null;
  },
): Promise<{ readonly items: readonly ApprovalView[]; readonly cursor: string | null }> {
  const { store, clock } = runtime;
  const lists = await Promise.all([
    store.approvals(tenant, 'pending'),
    of.status === 'all' ? store.approvals(tenant, 'answered') : [],
  ]);
  const place = (entry: { id: string; at: EpochMs }): string =>
    `${String(entry.at).padStart(13, '0')}:${entry.id}`;
  const cursor = of.cursor ?? '';
  const left = lists
    .flat()
    .filter((entry) => place(entry) > cursor)
    .sort((one, other) => (place(one) < place(other) ? -1 : 1));
  const page = left.slice(0, of.limit);
  const rows = await store.waits(
    tenant,
    page.map(({ id }) => id),
  );
  const now = clock.now();
  const views = await Promise.all(
    rows.flatMap((row) => (row === null ? [] : [viewOf(runtime, row, now)])),
  );
  const items = of.status === 'all' ? views : views.filter((view) => view.status === 'pending');
  const last = page.at(-1);
  const more = left.length > page.length && last !== undefined;
  return { items, cursor: more ? place(last) : null };
}
