// Driving a turn on without its caller: an inbox message, a due wake, a stranded lease.
//   Ruling 12  whatever has an acceptance or a journal goes on by itself; a busy thread waits its turn.
//   T3  messages of a thread come in order; a failed one holds back those behind it, others go on.

import type { Handled } from '../ports/queue.ts';
import type { Acceptance, Begun, TurnRef } from '../ports/store.ts';
import { describeError, isForAnotherBuild, TurnstoneError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';
import { parseInboxBody } from './inbox-message.ts';
import { keyringOf } from './keyring.ts';
import { openPayload, sealContext } from './payloads.ts';
import { resumeTurn } from './resume-turn.ts';
import type { Runtime } from './runtime.ts';
import type { HostBounds, TurnRequest } from './turn-request.ts';
import { admissionFrom } from './turn-request.ts';
import type { TurnAnswer } from './turn-view.ts';
import { driveOpen, withTurn } from './with-turn.ts';

/** Gives a turn one pass if it wants one. Throws for infrastructure failures. */
export async function drive(runtime: Runtime, ref: TurnRef, host: HostBounds): Promise<Handled> {
  for (let round = 0; round < limits.beginRoundsMax; round += 1) {
    const begun = await runtime.store.begin(ref, null);
    const open = begun.head?.open ?? null;
    const left = open === null ? 0 : open.leaseUntil - runtime.clock.now();
    if (open !== null && left > 0) {
      return { kind: 'later', afterMs: left, reason: `turn ${open.turn} holds the thread` };
    }
    if (open !== null) {
      if (!runtime.agents.has(open.agent)) {
        return {
          kind: 'later',
          afterMs: runtime.settings.leaseMs,
          reason: `no agent "${open.agent}" here`,
        };
      }
      const outcome = await driveOpen(runtime, { ...ref, turn: open.turn }, host);
      if (outcome.kind === 'answer' && open.turn === ref.turn) return handled(outcome.answer);
      continue;
    }
    const accepted = begun.work?.accepted ?? null;
    if (accepted === null) return wanted(runtime, ref, begun, host);
    const request = await requestOf(runtime, ref, begun, accepted, host);
    if (request === null) {
      return {
        kind: 'later',
        afterMs: runtime.settings.leaseMs,
        reason: `no agent "${accepted.agent}" here`,
      };
    }
    return handled(await withTurn(runtime, request));
  }
  return {
    kind: 'later',
    afterMs: 1_000,
    reason: 'the thread changed under every attempt to begin',
  };
}

/** A concluded turn with a due wake wants a pass: somebody reopened or resumed it and died. */
async function wanted(
  runtime: Runtime,
  ref: TurnRef,
  begun: Begun,
  host: HostBounds,
): Promise<Handled> {
  const waits = begun.end?.status === 'suspended';
  const wakes = begun.work !== null && begun.work.wakeAt !== null ? begun.work.version : null;
  if (begun.first === null || (!waits && wakes === null)) return { kind: 'done' };
  const outcome = handled(
    await resumeTurn(runtime, ref, host).catch((error: unknown) => onBusy(error, ref.turn)),
  );
  if (outcome.kind === 'done' && wakes !== null) {
    // A wake that came since is of another answer: it stays, and is met by a pass of its own.
    const change = { wakeAt: null, ifVersion: wakes };
    await runtime.store.noteTry(ref, change, runtime.clock.now());
  }
  return outcome;
}

/** Somebody else picked it between the look and the claim: a busy thread is no failure of its message (E341). */
function onBusy(error: unknown, holder: TurnRef['turn']): TurnAnswer {
  if (!(error instanceof TurnstoneError) || error.code !== 'thread_busy') throw error;
  const retryAfterMs = typeof error.retry === 'object' ? error.retry.afterMs : 1_000;
  return { kind: 'busy', retryAfterMs, holder };
}

function handled(answer: TurnAnswer): Handled {
  if (answer.kind !== 'busy') return { kind: 'done' };
  return {
    kind: 'later',
    afterMs: answer.retryAfterMs,
    reason: `turn ${answer.holder} holds the thread`,
  };
}

async function requestOf(
  runtime: Runtime,
  ref: TurnRef,
  begun: Begun,
  accepted: Acceptance,
  host: HostBounds,
): Promise<TurnRequest | null> {
  const agent = runtime.agents.get(accepted.agent);
  if (agent === undefined) return null;
  const keyring = keyringOf(runtime, ref, begun);
  const sealer = await keyring.reader(accepted.scope);
  if (sealer === null || sealer.generation !== accepted.generation) {
    throw new TurnstoneError(
      'subject_erased',
      `the subject of turn "${ref.turn}" was erased before it ran`,
      {
        retry: 'never',
        details: { turnId: ref.turn },
      },
    );
  }
  const opened = await openPayload(
    runtime.store,
    sealer,
    sealContext(ref, 'accept', 0),
    accepted.payload,
  );
  const { subject, budget, actor, input } = admissionFrom(opened);
  return { ref, agent, input: agent.parseInput(input), subject, budget, actor, ...host };
}

export interface InboxMessage {
  readonly id: string;
  readonly body: string;
  /** Deliveries of this message so far, this one included. */
  readonly receives: number;
}

/** Handles a batch: messages of one thread in order, threads side by side, one outcome a message (F25). */
export async function handleInboxBatch(
  runtime: Runtime,
  messages: readonly InboxMessage[],
  host: HostBounds,
): Promise<ReadonlyMap<string, Handled>> {
  const outcomes = new Map<string, Handled>();
  const groups = new Map<string, { message: InboxMessage; ref: TurnRef }[]>();
  for (const message of messages) {
    try {
      const { ref, due } = parseInboxBody(message.body);
      const afterMs = due === null ? 0 : due - runtime.clock.now();
      if (afterMs > 0) {
        outcomes.set(message.id, { kind: 'later', afterMs, reason: 'it is not due yet' });
        continue;
      }
      const group = due === null ? `${ref.tenant}\n${ref.thread}` : `due\n${message.id}`;
      groups.set(group, [...(groups.get(group) ?? []), { message, ref }]);
    } catch (error) {
      outcomes.set(message.id, { kind: 'failed', reason: describeError(error).message });
    }
  }
  await Promise.all(
    [...groups.values()].map((group) => handleGroup(runtime, group, host, outcomes)),
  );
  return outcomes;
}

async function handleGroup(
  runtime: Runtime,
  group: readonly { message: InboxMessage; ref: TurnRef }[],
  host: HostBounds,
  outcomes: Map<string, Handled>,
): Promise<void> {
  let stopped: Handled | null = null;
  for (const { message, ref } of group) {
    const outcome: Handled = stopped ?? (await handleOne(runtime, message, ref, host));
    outcomes.set(message.id, outcome);
    if (outcome.kind !== 'done') stopped = outcome;
  }
}

/** One message; a failure that would recur parks the turn after a bounded number of tries (F27). */
async function handleOne(
  runtime: Runtime,
  message: InboxMessage,
  ref: TurnRef,
  host: HostBounds,
): Promise<Handled> {
  try {
    return await drive(runtime, ref, host);
  } catch (error) {
    const { message: reason } = describeError(error);
    runtime.telemetry.emit('inbox.failed', {
      turnId: ref.turn,
      threadId: ref.thread,
      receives: message.receives,
    });
    if (isForAnotherBuild(error)) return held(runtime, message, ref, reason);
    const final = error instanceof TurnstoneError && error.retry === 'never';
    if (!final && message.receives < limits.inboxTriesMax) return { kind: 'failed', reason };
    await runtime.store.noteTry(
      ref,
      { parkedReason: reason, tries: message.receives, wakeAt: null },
      runtime.clock.now(),
    );
    return { kind: 'done' };
  }
}

/**
 * Decision 19: a newer build wrote this; nothing is mutated and nothing dead-lettered. The message is hidden for
 * longer each time, so that its receives last for days, and whoever watches is told each time.
 */
function held(runtime: Runtime, message: InboxMessage, ref: TurnRef, reason: string): Handled {
  runtime.telemetry.emit('turn.held', { threadId: ref.thread, turnId: ref.turn, reason });
  const doubled = runtime.settings.leaseMs * 2 ** Math.min(message.receives - 1, 20);
  return { kind: 'later', afterMs: Math.min(limits.heldMaxMs, doubled), reason };
}
