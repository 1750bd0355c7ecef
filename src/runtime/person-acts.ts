// What a person may do with a turn that stands: give a missing fact, reopen, abandon, resume.
//   T6    a person fills a gap and never replaces a recorded outcome (QA-2); the runtime gives the verdict (QA-1).
//   QA-3  the decision is journaled before it is acted on; a crash in between is finished by the next pass.
//   T13   who, when and why are in the journal.

import type { TurnRef } from '../ports/store.ts';
import type { Budget } from '../protocol/budget.ts';
import { doubtsOf } from '../protocol/doubt.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';
import type { RecordFacts } from '../protocol/record.ts';
import { parseStatus, seals } from '../protocol/turn-status.ts';
import { conclude } from './conclude-aside.ts';
import { JournalWriter, payloadOf } from './journal-writer.ts';
import type { Standing } from './resume-turn.ts';
import {
  abandonStands,
  currentBudget,
  readStanding,
  resumeTurn,
  standingStatus,
} from './resume-turn.ts';
import type { Runtime } from './runtime.ts';
import type { HostBounds } from './turn-request.ts';
import type { TurnAnswer } from './turn-view.ts';
import { personWriter } from './writer-identity.ts';
import type { RecordPayload } from './writer-parts.ts';

export interface Assertion {
  readonly outcome: 'landed' | 'did_not_happen';
  readonly output?: unknown;
  readonly note: string;
}

/** Settles one open doubt by a person's word. Throws `not_found`, `not_undecided`, `not_quarantined`, `thread_busy`. */
export async function assertFact(
  runtime: Runtime,
  ref: TurnRef,
  effectKey: string,
  assertion: Assertion,
  actor: string,
): Promise<void> {
  await write(runtime, ref, null, (standing) => {
    const doubt = doubtsOf(standing.history.bodies()).find((open) => open.key === effectKey);
    if (doubt === undefined) throw notUndecided(standing, effectKey);
    // CH-5, QA-6: what was written off stays on record as it was.
    if (seals(parseStatus(standingStatus(standing.history)))) demandQuarantined(standing);
    const { outcome, output, note } = assertion;
    const payload = outcome === 'landed' ? { output: output ?? null, note } : { note };
    return {
      facts: {
        kind: 'EffectReconciled',
        site: doubt.site,
        key: doubt.key,
        disposition: outcome,
        spend: { tokens: 0, minorUnits: 0 },
        assertedBy: actor,
      },
      payload: payloadOf(payload),
    };
  });
}

function notUndecided(standing: Standing, effectKey: string): TurnstoneError {
  const known = [...standing.history.announced()].includes(effectKey);
  return known
    ? new TurnstoneError(
        'not_undecided',
        `effect ${effectKey} has an outcome: an assertion fills a gap, it replaces nothing`,
        { retry: 'never' },
      )
    : new TurnstoneError('not_found', `effect ${effectKey} is not in this journal`, {
        retry: 'never',
      });
}

/** Reopens a quarantined turn for one pass and answers what it reached. */
export async function reopenTurn(
  runtime: Runtime,
  ref: TurnRef,
  reason: string,
  actor: string,
  host: HostBounds,
): Promise<TurnAnswer> {
  await write(runtime, ref, 'wake', (standing) => {
    demandQuarantined(standing);
    if (abandonStands(standing.history)) return null;
    return {
      facts: { kind: 'QuarantineDecided', decision: 'reopen', decider: actor },
      payload: payloadOf({ reason }),
    };
  });
  return resumeTurn(runtime, ref, host);
}

/** Resumes a failed or exhausted turn; `budget` replaces the fields it names. */
export async function resumeByPerson(
  runtime: Runtime,
  ref: TurnRef,
  change: { readonly reason: string | null; readonly budget: Budget | null },
  actor: string,
  host: HostBounds,
): Promise<TurnAnswer> {
  const standing = await readStanding(runtime, ref);
  const status = standingStatus(standing.history);
  if (abandonStands(standing.history)) return resumeTurn(runtime, ref, host);
  if (status !== 'failed' && status !== 'exhausted') {
    throw new TurnstoneError(
      'not_resumable',
      `turn "${ref.turn}" is ${status}: expected failed or exhausted`,
      {
        retry: 'never',
        details: { status },
      },
    );
  }
  if (change.budget !== null && (await raises(runtime, ref, standing, change.budget))) {
    await write(runtime, ref, 'wake', () => ({
      facts: { kind: 'RunResumed', actor },
      payload: payloadOf({ reason: change.reason, budget: change.budget }),
    }));
  }
  return resumeTurn(runtime, ref, host);
}

/** True when a budget changes what the turn goes on under: otherwise its journal need not grow (E87). */
async function raises(
  runtime: Runtime,
  ref: TurnRef,
  standing: Standing,
  budget: Budget,
): Promise<boolean> {
  const current: Budget = (await currentBudget(runtime, ref, standing)) ?? {};
  return Object.entries(budget).some(([name, figure]) => current[name as keyof Budget] !== figure);
}

/** Writes a quarantined turn off: nothing is executed, nothing is undone, the doubt stays on record. */
export async function abandonTurn(
  runtime: Runtime,
  ref: TurnRef,
  reason: string,
  actor: string,
): Promise<TurnAnswer> {
  for (let round = 0; round < limits.beginRoundsMax; round += 1) {
    const standing = await readStanding(runtime, ref, { erasedToo: true });
    demandQuarantined(standing);
    const decided: PersonRecord = {
      facts: { kind: 'QuarantineDecided', decision: 'abandon', decider: actor },
      payload: payloadOf({ reason }),
    };
    const records = abandonStands(standing.history) ? [] : [decided];
    const ended = await conclude(runtime, ref, standing, 'abandoned', records);
    if (ended !== null) return ended;
  }
  throw contended();
}

function demandQuarantined(standing: Standing): void {
  const status = standingStatus(standing.history);
  if (status === 'quarantined') return;
  throw new TurnstoneError('not_quarantined', `the turn is ${status}, not quarantined`, {
    retry: 'never',
    details: { status },
  });
}

interface PersonRecord {
  readonly facts: RecordFacts;
  readonly payload: RecordPayload;
}

/** Adds one record at the next position, or none on null; begins again when the thread moved under it. */
async function write(
  runtime: Runtime,
  ref: TurnRef,
  wake: 'wake' | null,
  decide: (standing: Standing) => PersonRecord | null,
): Promise<void> {
  for (let round = 0; round < limits.beginRoundsMax; round += 1) {
    const standing = await readStanding(runtime, ref);
    const decided = decide(standing);
    if (decided === null) return;
    const { facts, payload } = decided;
    const writer = asideWriter(runtime, ref, standing, wake);
    writer.urgent(facts, payload);
    await writer.settled();
    if (writer.end === null) return;
    if (writer.end.kind === 'unavailable') throw writer.end.error;
  }
  throw contended();
}

function asideWriter(
  runtime: Runtime,
  ref: TurnRef,
  standing: Standing,
  wake: 'wake' | null,
): JournalWriter {
  const { head, history, sealer } = standing;
  const identity = personWriter(runtime, head);
  return new JournalWriter({
    store: runtime.store,
    ref,
    sealer,
    writer: identity,
    index: history.positions,
    seq: history.head.seq,
    hash: history.head.hash,
    announced: history.announced(),
    now: () => runtime.clock.now(),
    claim: async (batch) => {
      const now = runtime.clock.now();
      const wakeAt = wake === null ? null : now;
      const outcome = await runtime.store.annotate({
        ref,
        seen: head,
        writer: identity,
        batch,
        wakeAt,
        now,
      });
      if (outcome.kind !== 'lost') return outcome;
      return { kind: 'lost', head: null, position: null };
    },
    progressed: () => undefined,
  });
}

function contended(): TurnstoneError {
  return new TurnstoneError('store_unavailable', 'the thread changed under every attempt', {
    retry: 'now',
  });
}
