// The records of an attempt's outcome: at once where a crash would cost something, else with the next write.
//   T5  every outcome is recorded; ruling 3 says when.
import type { RecordBody, RecordOf } from '../protocol/record.ts';
import type { Dispatch } from './dispatch.ts';
import type { AttemptOutcome } from './effect-attempt.ts';
import type { JournalWriter } from './journal-writer.ts';
import { payloadOf } from './journal-writer.ts';
import type { RecordPayload } from './writer-parts.ts';

export type AttemptFailure = Extract<AttemptOutcome, { kind: 'failed' }>;

type Outcome =
  | Omit<RecordOf<'EffectDone'>, 'site' | 'seq' | 'at' | 'epoch' | 'payload'>
  | Omit<RecordOf<'EffectFailed'>, 'site' | 'seq' | 'at' | 'epoch' | 'payload'>
  | Omit<RecordOf<'EffectReconciled'>, 'site' | 'seq' | 'at' | 'epoch' | 'payload'>;

/** Adds an outcome record of a dispatch. */
export function record(
  dispatch: Dispatch,
  writer: JournalWriter,
  outcome: Outcome,
  payload: RecordPayload,
): RecordBody {
  const facts = { ...outcome, site: dispatch.site };
  const body = dispatch.declared.atOnce
    ? writer.urgent(facts, payload)
    : writer.ride(facts, payload);
  dispatch.pass.meter.add(body);
  return body;
}

/** Adds the record of a failed attempt with its text, or the digest of an output that was too large. */
export function recordFailure(
  dispatch: Dispatch,
  writer: JournalWriter,
  key: string,
  outcome: AttemptFailure,
  disposition: AttemptFailure['disposition'],
): RecordBody {
  const { permanent, code, spend } = outcome;
  const facts = { kind: 'EffectFailed' as const, key, disposition, permanent, code, spend };
  return record(dispatch, writer, facts, outcome.lost ?? payloadOf({ message: outcome.message }));
}
