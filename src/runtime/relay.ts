// The relay: what transactions left in the outbox goes to its queue, in order, at least once.
//   T1/K-69  an entry is removed only after the queue confirmed it; its id is stable over resends.
//   T3  a thread's entries are sent in the order of the passes that wrote them; the first failure stops that thread.

import type { Queue, Sent } from '../ports/queue.ts';
import type { OutboxEntry, ThreadRef, TurnRef, WorkRow } from '../ports/store.ts';
import { describeError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';
import { groupOf } from './inbox-message.ts';
import type { Runtime } from './runtime.ts';

/** A suspension that has looked for events which came before its waits (page 09, rule 7). */
export interface Looked {
  readonly ref: TurnRef;
  /** Position of the suspension. */
  readonly position: number;
}

interface Line {
  readonly row: WorkRow;
  readonly entry: OutboxEntry;
}

/** Sends every unsent entry of a thread; true when nothing is left unsent. */
export async function sendThread(
  runtime: Runtime,
  thread: ThreadRef,
  looked: Looked | null = null,
): Promise<boolean> {
  const rows = await runtime.store.workOf(thread);
  const lines = linesOf(rows);
  for (let from = 0; from < lines.length; from += limits.queueBatch) {
    const page = lines.slice(from, from + limits.queueBatch);
    const confirmed = await sendPage(runtime, groupOf(thread), page);
    for (const row of rows) {
      const ids = confirmed.filter((line) => line.row === row).map(({ entry }) => entry.id);
      if (ids.length > 0) await mark(runtime, row, ids, looked);
    }
    if (confirmed.length < page.length) return false;
  }
  for (const row of rows) {
    const owed = row.lookOwed !== null && isOf(row, looked) && row.entries.length === 0;
    if (owed || isSpent(row)) await mark(runtime, row, [], looked);
  }
  return true;
}

/** Wakes first, which no order binds, then what passes wrote, pass by pass. */
function linesOf(rows: readonly WorkRow[]): readonly Line[] {
  return rows
    .flatMap((row) => row.entries.map((entry) => ({ row, entry })))
    .sort((one, other) => (one.entry.order ?? 0) - (other.entry.order ?? 0));
}

function isOf(row: WorkRow, looked: Looked | null): looked is Looked {
  return looked !== null && looked.ref.turn === row.ref.turn;
}

async function mark(
  runtime: Runtime,
  row: WorkRow,
  ids: readonly string[],
  looked: Looked | null,
): Promise<void> {
  const position = isOf(row, looked) ? looked.position : null;
  await runtime.store.markSent(row.ref, ids, runtime.clock.now(), position);
}

/** A row that a conclusion without entries left behind. */
export function isSpent(row: WorkRow): boolean {
  const { entries, accepted, runDueAt, wakeAt, lookOwed, parkedReason } = row;
  return (
    entries.length === 0 &&
    accepted === null &&
    runDueAt === null &&
    wakeAt === null &&
    lookOwed === null &&
    parkedReason === null
  );
}

/** The relay after a commit: best effort, the sweeper finishes what it could not. */
export async function relayThread(
  runtime: Runtime,
  thread: ThreadRef,
  looked: Looked | null = null,
): Promise<void> {
  try {
    await sendThread(runtime, thread, looked);
  } catch (error) {
    const reason = describeError(error).message;
    runtime.telemetry.emit('relay.failed', { threadId: thread.thread, reason });
  }
}

/** The lines the queues took, in order, up to the first they did not. */
async function sendPage(
  runtime: Runtime,
  group: string,
  page: readonly Line[],
): Promise<readonly Line[]> {
  const confirmed: Line[] = [];
  for (const [name, lines] of byQueue(page)) {
    const queue: Queue = runtime.queues[name];
    const outcomes = await queue.send(
      lines.map(({ entry }) => ({ group, dedupId: entry.id, body: entry.body })),
    );
    const taken = takenOf(runtime, lines, outcomes);
    confirmed.push(...taken);
    if (taken.length < lines.length) break;
  }
  return confirmed;
}

/** Consecutive runs of one queue, in order. */
function byQueue(lines: readonly Line[]): [OutboxEntry['queue'], Line[]][] {
  const runs: [OutboxEntry['queue'], Line[]][] = [];
  for (const line of lines) {
    const last = runs.at(-1);
    if (last !== undefined && last[0] === line.entry.queue) last[1].push(line);
    else runs.push([line.entry.queue, [line]]);
  }
  return runs;
}

function takenOf(
  runtime: Runtime,
  lines: readonly Line[],
  outcomes: readonly Sent[],
): readonly Line[] {
  const end = lines.findIndex((_, index) => outcomes[index]?.kind !== 'done');
  if (end === -1) return lines;
  const { entry } = lines[end] as Line;
  const outcome = outcomes[end];
  const reason = outcome?.kind === 'refused' ? outcome.reason : 'no answer';
  runtime.telemetry.emit('relay.unsent', { entry: entry.id, queue: entry.queue, reason });
  return lines.slice(0, end);
}
