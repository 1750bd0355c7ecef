// The spans of a turn: one a delivery, and below it one a pass, whoever gives it.
import type { TurnRef } from '../ports/store.ts';
import type { SpanEnd, SpanStart } from '../ports/telemetry.ts';
import type { PassOutcome } from './pass-ending.ts';
import type { Runtime } from './runtime.ts';
import { inSpan, safeTelemetry } from './tell.ts';
import type { TurnAnswer } from './turn-view.ts';

export function turnSpan({ tenant, thread, turn }: TurnRef, agent: string): SpanStart {
  return {
    kind: 'turn',
    name: agent,
    fields: { tenantId: tenant, threadId: thread, turnId: turn },
  };
}

/** What a delivery came to; `replayed` when the answer was there before it. */
export function endOfAnswer(answer: TurnAnswer): SpanEnd {
  if (answer.kind === 'busy') return { outcome: 'busy' };
  const { status, error } = answer.turn;
  const fields = { replayed: answer.kind === 'concluded' && answer.replayed };
  return { outcome: status, fields, ...(error === undefined ? {} : { error: error.code }) };
}

/** `fresh` has no history; every other pass replays what is recorded before it goes on; `strict` only replays. */
export type PassBegan = 'fresh' | 'takeover' | 'resume' | 'strict';

export function passSpan(
  { tenant, thread, turn }: TurnRef,
  agent: string,
  began: PassBegan,
): SpanStart {
  const fields = { tenantId: tenant, threadId: thread, turnId: turn, began };
  return { kind: 'pass', name: agent, fields };
}

/** Runs a pass in its span. */
export function inPass(
  given: Runtime,
  ref: TurnRef,
  agent: string,
  began: PassBegan,
  run: (runtime: Runtime) => Promise<PassOutcome>,
): Promise<PassOutcome> {
  return inSpan(
    safeTelemetry(given.telemetry, () => undefined),
    passSpan(ref, agent, began),
    (telemetry) => run({ ...given, telemetry }),
    (end) => (end.kind === 'answer' ? endOfAnswer(end.answer) : { outcome: end.kind }),
  );
}
