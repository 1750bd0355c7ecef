// The relay: what a transaction left in the outbox goes to its queue, in order, at least once.
//   T1/K-69  an entry is removed only after the queue confirmed it; its id is stable over resends.
//   T3  a thread's rows are sent lowest sequence first; the first failure stops that thread.

import type { Queue, Sent } from '../ports/queue.ts';
import type { OutboxEntry, ThreadRef, WorkRow } from '../ports/store.ts';
import { describeError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';
import { groupOf } from './inbox-message.ts';
import type { Runtime } from './runtime.ts';

/** Sends every unsent entry of a thread; true when nothing is left unsent. */
export async function sendThread(runtime: Runtime, thread: ThreadRef): Promise<boolean> {
  for (const row of await runtime.store.workOf(thread)) {
    if (row.entries.length > 0 && !(await sendRow(runtime, row))) return false;
    if (isSpent(row)) await runtime.store.markSent(row.ref, [], runtime.clock.now());
  }
  return true;
}

/** A row that a conclusion without entries left behind. */
export function isSpent(row: WorkRow): boolean {
  const { entries, accepted, runDueAt, wakeAt, parkedReason } = row;
  return (
    entries.length === 0 &&
    accepted === null &&
    runDueAt === null &&
    wakeAt === null &&
    parkedReason === null
  );
}

/** The relay after a commit: best effort, the sweeper finishes what it could not. */
export async function relayThread(runtime: Runtime, thread: ThreadRef): Promise<void> {
  try {
    await sendThread(runtime, thread);
  } catch (error) {
    const reason = describeError(error).message;
    runtime.telemetry.emit('relay.failed', { threadId: thread.thread, reason });
  }
}

async function sendRow(runtime: Runtime, row: WorkRow): Promise<boolean> {
  const group = groupOf(row.ref);
  for (let from = 0; from < row.entries.length; from += limits.queueBatch) {
    const page = row.entries.slice(from, from + limits.queueBatch);
    const confirmed: string[] = [];
    for (const [name, entries] of byQueue(page)) {
      const queue: Queue = runtime.queues[name];
      const outcomes = await queue.send(
        entries.map((entry) => ({ group, dedupId: entry.id, body: entry.body })),
      );
      confirmed.push(...confirmedIds(runtime, entries, outcomes));
    }
    if (confirmed.length > 0) await runtime.store.markSent(row.ref, confirmed, runtime.clock.now());
    if (confirmed.length < page.length) return false;
  }
  return true;
}

/** Consecutive runs of one queue, in order. */
function byQueue(entries: readonly OutboxEntry[]): [OutboxEntry['queue'], OutboxEntry[]][] {
  const runs: [OutboxEntry['queue'], OutboxEntry[]][] = [];
  for (const entry of entries) {
    const last = runs.at(-1);
    if (last !== undefined && last[0] === entry.queue) last[1].push(entry);
    else runs.push([entry.queue, [entry]]);
  }
  return runs;
}

function confirmedIds(
  runtime: Runtime,
  entries: readonly OutboxEntry[],
  outcomes: readonly Sent[],
): string[] {
  const ids: string[] = [];
  for (const [index, entry] of entries.entries()) {
    const outcome = outcomes[index];
    if (outcome?.kind === 'done') {
      ids.push(entry.id);
      continue;
    }
    const reason = outcome?.kind === 'refused' ? outcome.reason : 'no answer';
    runtime.telemetry.emit('relay.unsent', { entry: entry.id, queue: entry.queue, reason });
    break;
  }
  return ids;
}
