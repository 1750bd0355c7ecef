// The sweeper: finds work nobody drives and sees that somebody does.
//   LE-10  a lapsed lease is a stranded turn; it goes on by an inbox message.
//   Rule 6 of page 09  work rows are the only discovery; unsent entries, due wakes and lapsed runs are theirs.

import type { ThreadRef, WorkRow } from '../ports/store.ts';
import { describeError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';
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
    else if (row.accepted === null || row.entries.length > 0) continue;
    await wake(runtime, row, now);
  }
  for (const thread of threads.values()) {
    if (await guarded(runtime, thread, () => sendThread(runtime, thread))) relayed += 1;
  }
  return { rows: rows.length, stranded, woken, relayed, oldestMs };
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
