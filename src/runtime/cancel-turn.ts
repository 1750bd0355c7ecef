// Stopping a turn: a side record, first asker wins, honoured by the owner at a boundary (page 01, section 8).
//   T8   a stop is refused against a quarantine (CA-4) and seen before anything else is left to do (CA-2).
//   Decision 5  a turn at rest is replayed first, so that what it did is known and taken back in order.

import type { Begun, StopRequest, TurnRef } from '../ports/store.ts';
import { encode } from '../protocol/canonical.ts';
import { doubtsOf } from '../protocol/doubt.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';
import { hasLandedWork } from '../protocol/saga.ts';
import { isConclusion } from '../protocol/turn-status.ts';
import { conclude } from './conclude-aside.ts';
import { noPayload, payloadOf } from './journal-writer.ts';
import { keyringOf } from './keyring.ts';
import { sealContext, sealText } from './payloads.ts';
import { readStanding, resumeTurn } from './resume-turn.ts';
import type { Runtime } from './runtime.ts';
import type { HostBounds } from './turn-request.ts';

/**
 * Records a stop; `recorded` is false when somebody asked before. Throws `not_found`, `quarantined`, `concluded`,
 * `invalid_request` for a blank reason.
 */
export async function cancelTurn(
  runtime: Runtime,
  ref: TurnRef,
  reason: string,
  actor: string,
  host: HostBounds = {},
): Promise<{ readonly recorded: boolean }> {
  if (reason.trim() === '') {
    throw new TurnstoneError('invalid_request', 'reason: expected why it is stopped, got blank', {
      retry: 'never',
      details: { field: 'reason' },
    });
  }
  for (let round = 0; round < limits.beginRoundsMax; round += 1) {
    const begun = await runtime.store.begin(ref, null);
    const refused = refusalOf(ref, begun);
    if (refused === 'cancelled') return { recorded: false };
    if (begun.head === null) throw unknown(ref);
    if (begun.end !== null && begun.head.open?.turn !== ref.turn) {
      const ended = await endErased(runtime, ref, actor);
      if (ended === 'moved') continue;
      if (ended === 'ended') return { recorded: true };
    }
    const request = await requestOf(runtime, ref, begun, reason, actor);
    const now = runtime.clock.now();
    const stopped = await runtime.store.stop({ ref, seen: begun.head, request, now });
    if (stopped.kind === 'moved') continue;
    if (stopped.kind === 'unknown') {
      throw new TurnstoneError('store_unavailable', 'whether the stop was recorded is not known', {
        retry: 'now',
        cause: stopped.cause,
      });
    }
    const asker = stopped.kind === 'asked' ? stopped.request.actor : actor;
    await runtime.later(() => endResting(runtime, ref, { actor: asker, reason }, host));
    return { recorded: stopped.kind === 'done' };
  }
  throw new TurnstoneError('store_unavailable', 'the thread changed under every attempt', {
    retry: 'now',
  });
}

/**
 * E337: a turn at rest whose person was erased cannot be replayed, so nothing is undone on what cannot be read: it is
 * quarantined where work of it stands or is in doubt, for a person to abandon.
 */
async function endErased(
  runtime: Runtime,
  ref: TurnRef,
  actor: string,
): Promise<'ended' | 'moved' | 'readable'> {
  const standing = await readStanding(runtime, ref, { erasedToo: true });
  if (standing.sealer.blind !== true) return 'readable';
  const bodies = [...standing.history.bodies()];
  const unsettled = doubtsOf(bodies).length > 0 || hasLandedWork(bodies);
  const facts = { kind: 'RunCancelled' as const, actor };
  const status = unsettled ? 'quarantined' : 'cancelled';
  const ended = await conclude(runtime, ref, standing, status, [{ facts, payload: noPayload }]);
  return ended === null ? 'moved' : 'ended';
}

function refusalOf(ref: TurnRef, begun: Begun): 'cancelled' | null {
  const { head, end, first, work } = begun;
  if (first === null && work?.accepted == null) throw unknown(ref);
  const open = head?.open?.turn === ref.turn;
  if (open || end === null || !isConclusion(end.status)) return null;
  switch (end.status) {
    case 'cancelled':
      return 'cancelled';
    case 'quarantined':
      throw new TurnstoneError(
        'quarantined',
        'a quarantined turn is not stopped: answer its doubt and reopen it, or abandon it',
        {
          retry: 'never',
        },
      );
    case 'succeeded':
    case 'abandoned':
      throw new TurnstoneError('concluded', `the turn is ${end.status}`, {
        retry: 'never',
        details: { status: end.status },
      });
    default:
      return null;
  }
}

function unknown(ref: TurnRef): TurnstoneError {
  return new TurnstoneError('not_found', `turn "${ref.turn}" is not known`, { retry: 'never' });
}

async function requestOf(
  runtime: Runtime,
  ref: TurnRef,
  begun: Begun,
  reason: string,
  actor: string,
): Promise<StopRequest> {
  const keyring = keyringOf(runtime, ref, begun);
  const sealer = await keyring.writer(begun.scope);
  const { payload, parts } = sealText(sealer, sealContext(ref, 'stop', 0), encode(reason));
  if (parts !== null) await runtime.store.putParts(ref.tenant, parts);
  return { actor, reason: payload, scope: begun.scope, at: runtime.clock.now() };
}

/** Whoever drives the turn now sees the stop; anything else is an error. */
function onBusy(error: unknown): null {
  if (error instanceof TurnstoneError && error.code === 'thread_busy') return null;
  throw error;
}

/** A turn at rest is woken by the request itself; a running one is left to its owner (CA-3). */
async function endResting(
  runtime: Runtime,
  ref: TurnRef,
  of: { readonly actor: string; readonly reason: string },
  host: HostBounds,
): Promise<void> {
  for (let round = 0; round < limits.beginRoundsMax; round += 1) {
    const begun = await runtime.store.begin(ref, null);
    if (begun.head?.open?.turn === ref.turn || begun.end === null) return;
    const { status } = begun.end;
    if (status !== 'failed' && status !== 'exhausted' && status !== 'suspended') return;
    const standing = await readStanding(runtime, ref).catch(onBusy);
    if (standing === null) return;
    const unwound = status === 'failed' && standing.history.unwind !== null;
    if (!unwound) {
      const answer = await resumeTurn(runtime, ref, host).catch(onBusy);
      if (answer === null || answer.kind === 'busy') return;
      await runtime.store.noteTry(ref, { wakeAt: null }, runtime.clock.now());
      return;
    }
    const facts = { kind: 'RunCancelled' as const, actor: of.actor };
    const ended = await conclude(runtime, ref, standing, 'cancelled', [
      { facts, payload: payloadOf({ reason: of.reason }) },
    ]);
    if (ended !== null) return;
  }
}
