// Events of a turn: staged by its code, on their way with its commit or not at all, `turn.committed` last (K-68).
//
//   T1    they are entries of the commit's own transaction; a turn that fails tells nobody but telemetry.
//   K-67  sequence counts from 1 without a gap, whatever ran side by side; each names what caused it.
//   K-70, ruling 22  an event is a reference: it carries names and ids, never data of the turn, so there is nothing
//         to redact and nothing an erasure could not reach.
import type { OutboxEntry } from '../ports/store.ts';
import { base64url, hashParts } from '../protocol/digest.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { parseEffectKind } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import type { Pass } from './pass.ts';
import type { TurnEvent } from './turn-context.ts';

export interface StagedEvent {
  readonly id: string;
  readonly type: string;
  readonly category: NonNullable<TurnEvent['category']>;
  readonly step: string;
  readonly causation: string | null;
  readonly at: EpochMs;
}

/** Stages an event and answers its id, a function of its place; throws `invalid_request` past the limit. */
export function stageEvent(pass: Pass, step: string, event: TurnEvent): string {
  const { ref } = pass.setup;
  const { events } = pass;
  const type = parseEffectKind('event.type', event.type);
  const most = limits.eventsPerTurnMax;
  if (events.length >= most) throw refused('event', `at most ${most} in a turn`, `${most + 1}`);
  const causation = event.causation ?? null;
  if (causation !== null && !events.some(({ id }) => id === causation)) {
    throw refused('event.causation', 'the id of an earlier event of this turn', causation);
  }
  const place = `${events.length + 1}`;
  const id = base64url(hashParts('turnstone.event.1', [ref.tenant, ref.thread, ref.turn, place]));
  const category = event.category ?? 'integration';
  events.push({ id, type, category, step, causation, at: pass.instant });
  return id;
}

/** The entries a success writes: what was staged in order, then the commit itself. */
export function eventEntries(pass: Pass, revision: number, now: EpochMs): readonly OutboxEntry[] {
  const { ref, agent } = pass.setup;
  const names = {
    v: 1,
    tenant: ref.tenant,
    threadId: ref.thread,
    turnId: ref.turn,
    agent: agent.name,
    correlationId: ref.turn,
  };
  const staged = pass.events.map(({ id, type, category, step, causation, at }, index) =>
    entryOf({
      ...names,
      id,
      type,
      at,
      sequence: index + 1,
      category,
      ...(step === '' ? {} : { stepId: step }),
      ...(causation === null ? {} : { causationId: causation }),
    }),
  );
  const committed = entryOf({
    ...names,
    id: base64url(
      hashParts('turnstone.event.1', [ref.tenant, ref.thread, ref.turn, 'turn.committed']),
    ),
    type: 'turn.committed',
    at: now,
    status: 'succeeded',
    revision,
    sequence: staged.length + 1,
    category: 'integration',
  });
  return [...staged, committed];
}

function entryOf(body: { readonly id: string; readonly [name: string]: unknown }): OutboxEntry {
  return { id: body.id, queue: 'events', body: JSON.stringify(body) };
}

function refused(field: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError('invalid_request', `${field}: expected ${expected}, got ${got}`, {
    retry: 'never',
    details: { field, expected, got },
  });
}
