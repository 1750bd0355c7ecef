// One delivery of a turn: what the caller sent and what the host allows.

import type { TurnRef } from '../ports/store.ts';
import type { Sealer } from '../ports/vault.ts';
import type { Budget } from '../protocol/budget.ts';
import { encode } from '../protocol/canonical.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs, SubjectId } from '../protocol/ids.ts';
import type { AgentDefinition } from './agent-definition.ts';

export interface TurnRequest {
  readonly ref: TurnRef;
  readonly agent: AgentDefinition;
  /** As the caller sent it; the agent's parseInput has accepted it. */
  readonly input: unknown;
  readonly subject: SubjectId | null;
  readonly budget: Budget | null;
  /** Who sent it: from the authorizer, never from a body. */
  readonly actor: string;
  /** Wall instant the host ends this process at, when it does. */
  readonly deadlineAt?: EpochMs;
  /** Fires when the process must stop: effects in flight finish, nothing new starts. */
  readonly drain?: AbortSignal;
}

/** What the admission keeps sealed: enough to run the turn again without its caller. */
export interface Admission {
  readonly input: unknown;
  readonly subject: SubjectId | null;
  readonly budget: Budget | null;
  readonly actor: string;
  /** Seed of the turn's deterministic randomness, base64url. */
  readonly seed: string;
}

const utf8 = new TextEncoder();

/** Keyed digest of the compared payload: agent, input, subject and budget (page 05, settled details). */
export function payloadDigest(
  sealer: Sealer,
  request: Pick<TurnRequest, 'agent' | 'input' | 'subject' | 'budget'>,
): string {
  const compared = {
    agent: request.agent.name,
    input: request.input,
    subject: request.subject,
    budget: request.budget,
  };
  return sealer.mac('turnstone.payload.1', utf8.encode(encode(compared)));
}

/** The subset of a stored admission that is known to be one; anything else is `payload_unreadable`. */
export function admissionFrom(value: unknown): Admission {
  const raw = value as Partial<Admission>;
  return {
    input: raw.input,
    subject: raw.subject ?? null,
    budget: raw.budget ?? null,
    actor: String(raw.actor ?? ''),
    seed: String(raw.seed ?? ''),
  };
}

/** What the host allows a pass; the rest of a resumed request comes from its journal. */
export type HostBounds = Pick<TurnRequest, 'deadlineAt' | 'drain'>;

/** T2: a used turnId came with another payload. */
export function payloadChanged(ref: TurnRef): TurnstoneError {
  return new TurnstoneError(
    'turn_payload_changed',
    `turn "${ref.turn}" was sent before with another agent, input, subject or budget`,
    { retry: 'never', details: { turnId: ref.turn } },
  );
}
