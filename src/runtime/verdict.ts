// How the end of a pass is judged against its journal, before anything is written.
//   Decision 6, 24  no success over an open doubt; a failed turn concludes and changes no checkpoint.

import type { StopRequest } from '../ports/store.ts';
import { decode, encode } from '../protocol/canonical.ts';
import { doubtsOf, siteKey } from '../protocol/doubt.ts';
import { describeError } from '../protocol/errors.ts';
import type { RecordBody, RecordOf } from '../protocol/record.ts';
import { stepEvidence, stuckGroup } from '../protocol/saga.ts';
import type { Conclusion } from '../protocol/turn-status.ts';
import type { PassEnd } from './pass-setup.ts';
import { BudgetExhaustedError, EffectError, TurnDroppedError } from './turn-context.ts';
import { describeSite, divergenceError, errorAt, errorOf } from './turn-errors.ts';
import type { TurnError } from './turn-view.ts';

/** How a pass is judged before anything is written. */
export interface Verdict {
  readonly status: Conclusion;
  readonly result?: unknown;
  readonly error?: TurnError;
  /** The stop request that led here. */
  readonly stop?: StopRequest;
}

/** Judges the end of a pass against its journal (severity CC-2, decision 6). */
export function verdictOf(
  end: Exclude<PassEnd, { kind: 'ended' | 'parked' | 'broken' | 'undecidable' | 'suspended' }>,
  bodies: Iterable<RecordBody>,
): Verdict {
  if (end.kind === 'diverged')
    return { status: 'quarantined', error: divergenceError(end.divergence) };
  const records = [...bodies];
  const request =
    end.kind === 'cancelled' || end.kind === 'unwound' ? (end.request ?? undefined) : undefined;
  const stop = request === undefined ? {} : { stop: request };
  const doubts = doubtsOf(records);
  const [doubt] = doubts;
  if (doubt !== undefined) {
    const why = `the outcome of ${doubt.effect} (${describeSite(doubt.site)}) is unknown`;
    return {
      status: 'quarantined',
      error: errorAt('effect_undecided', why, doubt.site.step, doubt.key),
      ...stop,
    };
  }
  const stuck = stuckGroup(records);
  if (stuck !== null) {
    const why = `what stands of group "${stuck.name}" is unknown`;
    return { status: 'quarantined', error: errorAt('group_quarantined', why, stuck.step), ...stop };
  }
  const receipt = uncertainReceipt(records);
  if (receipt !== null) {
    const why = `the outcome of a business key is unknown: receipt ${receipt.receipt}`;
    return {
      status: 'quarantined',
      error: errorAt('effect_undecided', why, receipt.site.step, receipt.key),
      ...stop,
    };
  }
  if (end.kind === 'unwound' && end.stuck !== null) {
    return { status: 'quarantined', error: end.stuck, ...stop };
  }
  if (end.kind === 'cancelled' || (end.kind === 'unwound' && end.status === 'cancelled')) {
    const dropped = end.kind === 'unwound' && end.error !== null ? { error: end.error } : {};
    return { status: 'cancelled', ...stop, ...landedError(records), ...dropped };
  }
  if (end.kind === 'unwound') {
    return { status: 'failed', ...(end.error === null ? {} : { error: end.error }) };
  }
  if (end.kind === 'timeout') {
    return {
      status: 'failed',
      error: { code: 'turn_timeout', message: 'the turn made no progress within its time limit' },
    };
  }
  if (end.kind === 'threw') {
    if (end.error instanceof BudgetExhaustedError) {
      return { status: 'exhausted', error: errorOf(end.error) };
    }
    if (end.error instanceof TurnDroppedError) {
      return { status: 'cancelled', error: errorOf(end.error) };
    }
    const undecided = end.error instanceof EffectError && end.error.undecided;
    return { status: undecided ? 'quarantined' : 'failed', error: errorOf(end.error) };
  }
  return resultVerdict(end.value);
}

/** K-39: a key in doubt that was read and not settled since, whatever the code made of it. */
function uncertainReceipt(bodies: readonly RecordBody[]): RecordOf<'ReceiptRead'> | null {
  const last = new Map<string, RecordBody>();
  for (const body of bodies) if ('site' in body) last.set(siteKey(body.site), body);
  for (const body of last.values()) {
    if (body.kind === 'ReceiptRead' && body.outcome === 'uncertain') return body;
  }
  return null;
}

/** A stopped turn that leaves something standing in the world says where: a pivot, or work outside any step. */
function landedError(bodies: readonly RecordBody[]): { error?: TurnError } {
  const standing = stepEvidence(bodies).filter((step) => step.mutated && !step.compensated);
  if (standing.length === 0) return {};
  const where = standing.map(({ step }) => (step === '' ? 'outside any step' : `step ${step}`));
  const message = `the turn was stopped; what landed stands: ${where.join(', ')}`;
  return { error: { code: 'cancelled_with_landed_work', message } };
}

function resultVerdict(value: unknown): Verdict {
  try {
    return { status: 'succeeded', result: decode(encode(value ?? null)) };
  } catch (error) {
    return {
      status: 'failed',
      error: { code: 'result_not_storable', message: describeError(error).message },
    };
  }
}
