// A pass with everything its ending needs, and the endings that conclude nothing: broken off, parked.
//   Ruling 8  a host's timeout parks the turn: it stays the open one and goes on by an inbox message.

import type { Begun, Hold, TurnRef } from '../ports/store.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { inboxEntry } from './inbox-message.ts';
import type { JournalWriter } from './journal-writer.ts';
import type { Keyring } from './keyring.ts';
import { runningView } from './known-turn.ts';
import type { Lease } from './lease.ts';
import type { Pass } from './pass.ts';
import type { PassEnd } from './pass-setup.ts';
import { relayThread } from './relay.ts';
import type { Runtime } from './runtime.ts';
import type { TurnAnswer } from './turn-view.ts';
import type { Verdict } from './verdict.ts';

export type PassOutcome =
  | { readonly kind: 'answer'; readonly answer: TurnAnswer }
  /** The world moved: begin again. */
  | { readonly kind: 'again' }
  /** A resumed pass came to the recorded conclusion and wrote nothing. */
  | { readonly kind: 'unchanged' };

/** A pass with everything its ending needs. */
export interface Opened {
  readonly runtime: Runtime;
  readonly ref: TurnRef;
  readonly begun: Begun;
  readonly keyring: Keyring;
  readonly pass: Pass;
  readonly writer: JournalWriter;
  readonly lease: Lease;
  readonly hold: () => Hold;
  readonly digest: string;
  readonly createdAt: EpochMs;
  /** A verdict that stands before any code runs (a fingerprint that moved under an open turn). */
  readonly refused: Verdict | null;
}

/** What a pass that could not go on comes to: begin again, or its error. */
export function brokenOff(end: Extract<PassEnd, { kind: 'ended' | 'broken' }>): PassOutcome {
  if (end.kind === 'broken') {
    if (end.error instanceof TurnstoneError) throw end.error;
    throw new TurnstoneError('internal_error', 'the pass broke off', {
      retry: 'now',
      cause: end.error,
    });
  }
  if (end.end.kind === 'unavailable') throw end.end.error;
  return { kind: 'again' };
}

/** Drain rule: hands the lease back; the turn stays the open one and goes on by an inbox message. */
export async function park(opened: Opened, wakeAt: EpochMs | null): Promise<PassOutcome> {
  const { runtime, ref, writer, begun, pass } = opened;
  if (!writer.held) {
    throw new TurnstoneError(
      'shutting_down',
      'the host stops before this turn began; send it again',
      {
        retry: { afterMs: 1_000 },
      },
    );
  }
  const batch = await writer.lastBatch();
  if (writer.end !== null) return brokenOff({ kind: 'ended', end: writer.end });
  const now = runtime.clock.now();
  const due = wakeAt ?? now;
  const parked = await runtime.store.park({
    ref,
    writer: writer.writer,
    batch,
    announced: writer.announced,
    wakeAt: due,
    entries: due > now ? [] : [inboxEntry(ref, `park:${batch.index}`)],
    now,
  });
  if (parked.kind === 'unknown') throw unavailable(parked.cause);
  if (parked.kind === 'lost') return { kind: 'again' };
  runtime.telemetry.emit('turn.parked', { threadId: ref.thread, turnId: ref.turn, wakeAt: due });
  await runtime.later(() => relayThread(runtime, ref));
  const view = runningView(ref, begun);
  const turn = {
    ...view,
    agent: pass.setup.agent.name,
    createdAt: opened.createdAt,
    updatedAt: now,
  };
  return { kind: 'answer', answer: { kind: 'pending', turn } };
}

/** A write whose outcome nobody knows: the turn may be sent again. */
export function unavailable(cause: unknown): TurnstoneError {
  return new TurnstoneError('store_unavailable', 'a write of this turn has no known outcome', {
    retry: 'now',
    cause,
  });
}
