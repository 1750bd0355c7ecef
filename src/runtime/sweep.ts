// The sweeper: finds work nobody drives and sees that somebody does.
//   LE-10  a lapsed lease is a stranded turn; it goes on by an inbox message.
//   Rule 6 of page 09  work rows are the only discovery; unsent entries, due wakes and lapsed runs are theirs.

import type { ThreadRef, WorkRow } from '../ports/store.ts';
import type { DueRow } from '../ports/waits.ts';
import { describeError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import { intentEntry } from './acts.ts';
import { finishLook } from './events.ts';
import { groupOf, inboxEntry } from './inbox-message.ts';
import { isSpent, sendThread } from './relay.ts';
import type { Runtime } from './runtime.ts';

export interface SweepReport {
  readonly rows: number;
  readonly stranded: number;
  readonly woken: number;
  readonly relayed: number;
  /** Age of the oldest row found, milliseconds. */
  readonly oldestMs: number;
}

/** One sweep over all shards; failures of one thread do not stop the others. */
export async function sweep(runtime: Runtime): Promise<SweepReport> {
  const now = runtime.clock.now();
  const rows = await runtime.store.dueWork(now, {
    unsentMs: limits.unsentMs,
    limit: limits.sweepPageRows,
  });
  let [stranded, woken, relayed, oldestMs] = [0, 0, 0, 0];
  const threads = new Map<string, ThreadRef>();
  for (const row of rows) {
    oldestMs = Math.max(oldestMs, now - row.updatedAt);
    if (row.parkedReason !== null) continue;
    if (row.entries.length > 0 || isSpent(row))
      threads.set(`${row.ref.tenant}\n${row.ref.thread}`, row.ref);
    if (row.runDueAt !== null && row.runDueAt <= now) stranded += 1;
    else if (row.wakeAt !== null && row.wakeAt <= now) woken += 1;
    else if (row.lookOwed === null && (row.accepted === null || row.entries.length > 0)) continue;
    await wake(runtime, row, now);
  }
  for (const thread of threads.values()) {
    if (await guarded(runtime, thread, () => sendThread(runtime, thread))) relayed += 1;
  }
  const waited = await sweepWaits(runtime, now);
  const found = rows.length + waited.found;
  return { rows: found, stranded, woken: woken + waited.woken, relayed, oldestMs };
}

/** Deadlines that have come, events whose look died, acts nobody settled. */
async function sweepWaits(
  runtime: Runtime,
  now: EpochMs,
): Promise<{ found: number; woken: number }> {
  const before = (now - limits.unsentMs) as EpochMs;
  const limit = limits.sweepPageRows;
  const [due, looks, owed] = await Promise.all([
    runtime.store.due(now, limit),
    runtime.store.looks(before, limit),
    runtime.store.owedIntents(before, limit),
  ]);
  let woken = 0;
  for (const row of due)
    if (await guarded(runtime, row.ref, () => wakeDue(runtime, row))) woken += 1;
  for (const look of looks) {
    const place = { tenant: look.tenant, thread: look.event as ThreadRef['thread'] };
    await guarded(runtime, place, async () => {
      await finishLook(runtime, look);
      return true;
    });
  }
  await rollUp(runtime, limit);
  const period = Math.floor(now / Math.max(runtime.settings.leaseMs, 1_000));
  for (const { ref, id } of owed) {
    await guarded(runtime, ref, async () => {
      const entry = intentEntry(ref, id);
      const dedupId = `${entry.id}:${period}`;
      await runtime.queues.intents.send([{ group: groupOf(ref), dedupId, body: entry.body }]);
      return true;
    });
  }
  return { found: woken + looks.length + owed.length, woken };
}

/** Ledgers that a look found long are added up; a failure leaves the note for the next sweep (B19). */
async function rollUp(runtime: Runtime, limit: number): Promise<void> {
  const { store, telemetry, settings } = runtime;
  if (settings.tenantBudget === undefined) return;
  for (const note of await store.ledgersToRollUp(limit)) {
    try {
      await store.rollUpLedger(note);
    } catch (error) {
      telemetry.emit('sweep.failed', { ledger: note.ledger, reason: describeError(error).message });
    }
  }
}

/** A turn whose deadline has come is woken; a row that speaks of an earlier rest is dropped (B-52). */
async function wakeDue(runtime: Runtime, row: DueRow): Promise<boolean> {
  const { end, head } = await runtime.store.begin(row.ref, null);
  const rests = end?.status === 'suspended' && head?.open?.turn !== row.ref.turn;
  const later = end?.dueAt != null && end.dueAt > row.at;
  if (end?.status !== 'suspended' || later) {
    await runtime.store.dropDue(row);
    return false;
  }
  if (!rests) return false;
  const period = Math.floor(runtime.clock.now() / Math.max(runtime.settings.leaseMs, 1_000));
  const entry = inboxEntry(row.ref, `due:${row.at}:${period}`);
  const message = { group: groupOf(row.ref), dedupId: entry.id, body: entry.body };
  await runtime.queues.inbox.send([message]);
  return true;
}

/** Asks for a pass: the message id carries the row's state, so that repeats within it collapse. */
async function wake(runtime: Runtime, row: WorkRow, now: number): Promise<void> {
  const period = Math.floor(now / Math.max(runtime.settings.leaseMs, 1_000));
  const entry = inboxEntry(
    row.ref,
    `sweep:${row.runDueAt ?? row.wakeAt ?? row.updatedAt}:${period}`,
  );
  await guarded(runtime, row.ref, async () => {
    const message = { group: groupOf(row.ref), dedupId: entry.id, body: entry.body };
    await runtime.queues.inbox.send([message]);
    return true;
  });
}

async function guarded(
  runtime: Runtime,
  thread: ThreadRef,
  work: () => Promise<boolean>,
): Promise<boolean> {
  try {
    return await work();
  } catch (error) {
    const { message } = describeError(error);
    runtime.telemetry.emit('sweep.failed', { threadId: thread.thread, reason: message });
    return false;
  }
}
