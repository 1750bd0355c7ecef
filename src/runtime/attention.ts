// The attention list: conditions that need a person, each with whom it concerns and what to do (page 01, 18).
//   AT-1  a condition leaves the list when it was answered; T13 silence about a store that was not asked is said.

import type { AttentionCondition, TurnRef } from '../ports/store.ts';
import type { TenantId } from '../protocol/ids.ts';
import type { Runtime } from './runtime.ts';

export interface AttentionEntry {
  readonly condition: string;
  readonly count: number;
  readonly atLeast: boolean;
  readonly subjects: readonly {
    readonly threadId: string;
    readonly turnId: string;
    readonly since: number;
  }[];
  readonly remedy: string;
}

export interface Attention {
  readonly items: readonly AttentionEntry[];
  readonly notChecked: readonly string[];
}

const subjectsMax = 10;
const workRowsMax = 1_000;

const remedies: Readonly<Record<string, string>> = {
  'turn.quarantined':
    'answer its doubts (GET and POST .../undecided), then reopen it, or abandon it',
  'turn.exhausted': 'resume it with a raised budget, or cancel it',
  'turn.failed_with_landed_work': 'resume it to continue, or cancel it; what landed stands',
  'turn.stranded': 'nothing: the sweeper takes it over; if it stays, no worker has its agent',
  'turn.parked': 'its message failed for good; correct the cause and send the turn again',
};

const names: Readonly<Record<AttentionCondition, string>> = {
  quarantined: 'turn.quarantined',
  exhausted: 'turn.exhausted',
  failed_with_landed_work: 'turn.failed_with_landed_work',
};

/** What needs a person in a tenant now. */
export async function readAttention(runtime: Runtime, tenant: TenantId): Promise<Attention> {
  const now = runtime.clock.now();
  const [rows, work] = await Promise.all([
    runtime.store.attention(tenant),
    runtime.store.dueWork(now, { unsentMs: 0, limit: workRowsMax }),
  ]);
  const found = new Map<string, { ref: TurnRef; since: number }[]>();
  const add = (condition: string, ref: TurnRef, since: number): void => {
    found.set(condition, [...(found.get(condition) ?? []), { ref, since }]);
  };
  for (const row of rows) add(names[row.condition], row.ref, row.since);
  for (const row of work) {
    if (row.ref.tenant !== tenant) continue;
    if (row.parkedReason !== null) add('turn.parked', row.ref, row.updatedAt);
    else if (row.runDueAt !== null && row.runDueAt <= now)
      add('turn.stranded', row.ref, row.runDueAt);
  }
  return {
    items: [...found].map(([condition, subjects]) => ({
      condition,
      count: subjects.length,
      atLeast:
        work.length === workRowsMax &&
        (condition === 'turn.parked' || condition === 'turn.stranded'),
      subjects: subjects
        .slice(0, subjectsMax)
        .map(({ ref, since }) => ({ threadId: ref.thread, turnId: ref.turn, since })),
      remedy: remedies[condition] ?? '',
    })),
    notChecked: ['receipts', 'approvals', 'obligations', 'dead-letter queues'],
  };
}
