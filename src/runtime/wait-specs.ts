// What code asks to wait for, checked and completed with its defaults before anything is announced.
//   T11  every wait has a deadline; a bad one is refused with the field, what was expected and what came.
import { encode } from '../protocol/canonical.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';
import type { ApprovalRequest, EventRequest } from './turn-context.ts';
import type { WaitSpec } from './wait-runner.ts';
import { correlationText } from './wait-runner.ts';

export function approvalSpec(request: ApprovalRequest): WaitSpec {
  const forMs = duration('approval.expiresInMs', request.expiresInMs);
  const fourEyes = request.fourEyes ?? true;
  const { action, escalation = 0 } = request;
  return {
    kind: 'approval',
    args: { action, fourEyes, expiresInMs: forMs, escalation },
    forMs,
    summary: shortened(request.summary ?? (typeof action === 'string' ? action : encode(action))),
    approval: { action, fourEyes },
  };
}

export function eventSpec(request: EventRequest): WaitSpec {
  const forMs = duration('event.expiresInMs', request.expiresInMs);
  const { type, correlation } = request;
  if (typeof type !== 'string' || type === '') throw bad('event.type', 'text', typeof type);
  return {
    kind: 'event',
    args: { type, correlation, expiresInMs: forMs },
    forMs,
    summary: shortened(type),
    event: { type, correlation: correlationText(correlation) },
  };
}

export function timerSpec(ms: number): WaitSpec {
  const forMs = duration('sleep', ms);
  return { kind: 'timer', args: { ms: forMs }, forMs, summary: `${forMs} ms` };
}

function duration(field: string, given: number | undefined): number {
  const ms = given ?? limits.waitMs;
  if (Number.isSafeInteger(ms) && ms >= 1 && ms <= limits.waitMaxMs) return ms;
  throw bad(field, `1 to ${limits.waitMaxMs} ms`, String(ms));
}

function shortened(text: string): string {
  const { summaryCharacters } = limits;
  return text.length <= summaryCharacters ? text : `${text.slice(0, summaryCharacters - 1)}…`;
}

function bad(field: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError('invalid_request', `${field}: expected ${expected}, got ${got}`, {
    retry: 'never',
    details: { field, expected, got },
  });
}
