// Undoing forward: deciding that an unwind starts, and walking it (page 01, sections 5 and 6).
//   T8   reverse order of completion; nothing is compensated around a doubt; an undo happens once, may wait,
//        and a failed one stops the walk and names its step.
//   Decision 4  the start is journaled with its status, reason and walk; later passes obey it.
//   SA-13 a resumed unwind starts its walk over: recorded undos are read back, nothing is remembered.

import type { StopRequest } from '../ports/store.ts';
import { encode } from '../protocol/canonical.ts';
import { doubtsOf } from '../protocol/doubt.ts';
import { describeError } from '../protocol/errors.ts';
import type { RecordBody } from '../protocol/record.ts';
import type { Compensation, UndoAction } from '../protocol/saga.ts';
import { planUnwind, stepEvidence, stuckGroup } from '../protocol/saga.ts';
import { settling } from './groups.ts';
import { openRecord } from './history.ts';
import { noPayload, payloadOf } from './journal-writer.ts';
import type { Pass } from './pass.ts';
import { stopReason } from './stop-record.ts';
import type { StepOptions } from './turn-context.ts';
import {
  BudgetExhaustedError,
  EffectError,
  TurnDroppedError,
  TurnSuspendedError,
} from './turn-context.ts';
import { errorOf } from './turn-errors.ts';
import { TurnScope } from './turn-scope.ts';
import type { TurnError } from './turn-view.ts';

/** A step as a pass met it. */
export interface StepState {
  readonly compensation: Compensation;
  undo?: NonNullable<StepOptions['undo']>;
  output: unknown;
}

/** An unwind that starts or goes on. */
export interface UnwindStart {
  readonly status: 'failed' | 'cancelled';
  readonly error: TurnError | null;
  readonly walk: readonly UndoAction[];
  /** Outputs as they were when the unwind started; null for a step that did not complete. */
  readonly outputs: ReadonlyMap<string, unknown>;
}

export interface UnwindEnd {
  readonly status: 'failed' | 'cancelled';
  readonly error: TurnError | null;
  /** Why the walk stopped before its end: the turn is quarantined. */
  readonly stuck: TurnError | null;
  readonly request: StopRequest | null;
}

type ForwardEnd =
  | { readonly kind: 'returned'; readonly value: unknown }
  | { readonly kind: 'threw'; readonly error: unknown }
  | { readonly kind: 'cancelled'; readonly request: StopRequest }
  | null;

/** CC-2: a step that nobody can decide outranks what the code throws, be the call in doubt a read (E138). */
export function severest<T extends { readonly kind: 'returned' | 'threw' }>(
  main: T,
  undecided: EffectError | null,
): T | { readonly kind: 'threw'; readonly error: unknown } {
  return main.kind === 'threw' && undecided !== null ? { kind: 'threw', error: undecided } : main;
}

/** A failed or stopped forward phase takes its open groups back; a pause or a doubt leaves them (E205). */
export function takesBack(end: ForwardEnd): boolean {
  if (end === null || end.kind === 'cancelled') return true;
  if (end.kind === 'returned') return false;
  const { error } = end;
  if (error instanceof BudgetExhaustedError || error instanceof TurnSuspendedError) return false;
  return !(error instanceof EffectError && error.undecided);
}

/** How the forward phase ended, when nothing is taken back. */
export type ForwardStop = Exclude<ForwardEnd, null> | ({ readonly kind: 'unwound' } & UnwindEnd);

/**
 * Decision 4: before a group is taken back at the end of the forward phase, that end is recorded, so that later
 * passes do not run the code past it.
 */
export async function recordForwardEnd(pass: Pass, end: ForwardEnd): Promise<void> {
  const { writer, history } = pass.setup;
  const status = statusOf(end);
  if (end === null || status === null || writer === null || history.unwind !== null) return;
  await recordStop(pass);
  const error = end.kind === 'threw' ? errorOf(end.error) : null;
  const code = error === null ? {} : { code: error.code };
  writer.ride(
    { kind: 'UnwindStarted', status, ...code },
    payloadOf({ error, list: [], walk: null }),
  );
}

/** The unwind that follows the end of the forward phase, its start recorded here; or the end, when nothing follows. */
export async function decideUnwind(
  pass: Pass,
  end: ForwardEnd,
): Promise<UnwindStart | ForwardStop> {
  const { history, writer, runtime, sealer, ref } = pass.setup;
  const recorded = history.unwind;
  let status = statusOf(end);
  let error = end?.kind === 'threw' ? errorOf(end.error) : null;
  let stop: ForwardStop = end ?? {
    kind: 'threw',
    error: new Error('the forward phase has no end'),
  };
  if (recorded !== null) {
    const start = startFrom(recorded.body, await openRecord(runtime.store, sealer, ref, recorded));
    if (start.walk !== null) return { ...start, walk: start.walk };
    ({ status, error } = start);
    const request = pass.stopRequest;
    const ended = request === null ? start.status : ('cancelled' as const);
    stop = { kind: 'unwound', status: ended, error, stuck: null, request };
  }
  const bodies = [...history.bodies(), ...(writer?.added ?? [])];
  const doubtful = doubtsOf(bodies).length > 0 || stuckGroup(bodies) !== null;
  if (status === null || doubtful || (pass.strict && recorded === null)) return stop;
  const plan = planUnwind(
    stepEvidence(bodies),
    (step) => pass.steps.get(step)?.compensation ?? 'undeclared',
    status,
  );
  if (plan === null) return stop;
  const list = plan.list.map(({ step, completed }) => ({
    step,
    completed,
    output: completed ? storable(pass.steps.get(step)?.output) : null,
  }));
  await recordStop(pass);
  const code = error === null ? {} : { code: error.code };
  writer?.ride(
    { kind: 'UnwindStarted', status, ...code },
    payloadOf({ error, list, walk: plan.walk }),
  );
  const outputs = new Map(list.map(({ step, output }) => [step, output]));
  return { status, error, walk: plan.walk, outputs };
}

/** CA-2: the owner's record of a stop comes before the unwind it leads to. */
async function recordStop(pass: Pass): Promise<void> {
  const request = pass.stopRequest;
  const { writer, history } = pass.setup;
  if (request === null || writer === null) return;
  for (const body of [...history.bodies(), ...writer.added]) {
    if (body.kind === 'RunCancelled') return;
  }
  const reason = await stopReason(pass.setup, request);
  writer.ride({ kind: 'RunCancelled', actor: request.actor }, payloadOf({ reason }));
}

function statusOf(end: ForwardEnd): 'failed' | 'cancelled' | null {
  if (end === null || end.kind === 'returned') return null;
  if (end.kind === 'cancelled') return 'cancelled';
  const { error } = end;
  if (error instanceof BudgetExhaustedError || error instanceof TurnSuspendedError) return null;
  if (error instanceof TurnDroppedError) return 'cancelled';
  return error instanceof EffectError && error.undecided ? null : 'failed';
}

/** What is recorded of a start; its walk is null while only the forward phase has ended. */
function startFrom(
  body: RecordBody,
  payload: unknown,
): Omit<UnwindStart, 'walk'> & { readonly walk: readonly UndoAction[] | null } {
  const { error, list, walk } = payload as {
    error: TurnError | null;
    list: { step: string; output: unknown }[];
    walk: UndoAction[] | null;
  };
  const cancelled = body.kind === 'UnwindStarted' && body.status === 'cancelled';
  return {
    status: cancelled ? 'cancelled' : 'failed',
    error,
    walk,
    outputs: new Map(list.map(({ step, output }) => [step, output])),
  };
}

function storable(value: unknown): unknown {
  try {
    encode(value ?? null);
    return value ?? null;
  } catch {
    return null;
  }
}

/** Walks an unwind. Rejects with TurnSuspendedError while an undo waits. */
export async function runUnwind(pass: Pass, start: UnwindStart): Promise<UnwindEnd> {
  const end = (stuck: TurnError | null): UnwindEnd => {
    const request = pass.stopRequest;
    const status = request === null ? start.status : 'cancelled';
    return { status, error: start.error, stuck, request };
  };
  for (const action of start.walk) {
    const stuck =
      action.kind === 'refuse'
        ? undeclared(action.step)
        : await undo(pass, action.step, start.outputs.get(action.step) ?? null);
    if (stuck !== null) return end(stuck);
  }
  return end(null);
}

function undeclared(step: string): TurnError {
  const message = `step "${step}" changed something and does not say how it is taken back`;
  return { code: 'undo_undeclared', message, step };
}

/** One step's undo; null when it is taken back, else why the walk stops here (SA-14). */
async function undo(pass: Pass, step: string, output: unknown): Promise<TurnError | null> {
  const { writer, history } = pass.setup;
  const recorded = history.compensated(step);
  const compensated = (outcome: 'ok' | 'failed', error: TurnError | null): void => {
    if (recorded === outcome) return;
    const payload = error === null ? noPayload : payloadOf(error);
    writer?.ride({ kind: 'StepCompensated', step, outcome }, payload);
  };
  try {
    const state = pass.steps.get(step);
    if (state?.undo === undefined) throw new Error(`step "${step}" has no undo`);
    const { undo: takeBack } = state;
    const scope = new TurnScope(pass, step, 'compensating');
    await settling(
      () => scope.group,
      () => takeBack(scope, output),
    );
    compensated('ok', null);
    return null;
  } catch (error) {
    if (error instanceof TurnSuspendedError) throw error;
    if (error instanceof EffectError && error.undecided) {
      return { ...errorOf(error), step };
    }
    const message = `the undo of step "${step}" failed: ${describeError(error).message}`;
    const stuck: TurnError = { code: 'undo_failed', message, step };
    compensated('failed', stuck);
    return stuck;
  }
}
