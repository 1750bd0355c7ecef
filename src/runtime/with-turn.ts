// One delivery of a turn, from the read that begins it to the transaction that concludes it.
//
// Owns: the order of decisions (page 00, withTurn). Does not own: what each one writes.
//   T2  a committed turn is answered before anything else is compared, and nothing runs again.
//   T3  a thread has one open turn: a lapsed one is finished first, a live one makes the caller wait.
//   T4  whoever loses a write begins again from the read; nothing durable of its pass remains open.

import type { Begun, OpenTurn, TurnRef } from '../ports/store.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';
import type { Keyring } from './keyring.ts';
import { keyringOf } from './keyring.ts';
import { knownTurn } from './known-turn.ts';
import type { PassOutcome } from './pass-ending.ts';
import { runFresh, runTakeover } from './run-turn.ts';
import type { Runtime } from './runtime.ts';
import { inSpan, safeTelemetry } from './tell.ts';
import { checkThread } from './thread-gates.ts';
import type { HostBounds, TurnRequest } from './turn-request.ts';
import { payloadChanged, payloadDigest } from './turn-request.ts';
import { endOfAnswer, turnSpan } from './turn-spans.ts';
import type { TurnAnswer } from './turn-view.ts';

/**
 * Answers one delivery: concluded (perhaps replayed), pending, or busy.
 * Throws `turn_payload_changed`, `agent_mismatch`, `fingerprint_mismatch`, `schema_from_future`,
 * `subject_erased`, `journal_corrupt`, and `store_unavailable` or `key_service_unavailable` for
 * infrastructure failures, after which the same turnId may be sent again.
 */
export async function withTurn(given: Runtime, request: TurnRequest): Promise<TurnAnswer> {
  const telemetry = safeTelemetry(given.telemetry, () => undefined);
  const start = turnSpan(request.ref, request.agent.name);
  const work = (below: Telemetry) => delivered({ ...given, telemetry: below }, request);
  return inSpan(telemetry, start, work, endOfAnswer);
}

async function delivered(runtime: Runtime, request: TurnRequest): Promise<TurnAnswer> {
  for (let round = 0; round < limits.beginRoundsMax; round += 1) {
    const begun = await runtime.store.begin(request.ref, request.subject);
    const keyring = keyringOf(runtime, request.ref, begun);
    const known = await knownTurn(runtime, request, begun, keyring);
    if (known.kind === 'answer') return known.answer;
    const outcome =
      known.kind === 'lapsed'
        ? await resumeOpen(runtime, request.ref, request, begun, keyring)
        : await freshOutcome(runtime, request, begun, keyring);
    if (outcome.kind === 'answer') return outcome.answer;
  }
  throw new TurnstoneError('store_unavailable', 'the thread changed under every attempt to begin', {
    retry: 'now',
    details: { rounds: limits.beginRoundsMax },
  });
}

async function freshOutcome(
  runtime: Runtime,
  request: TurnRequest,
  begun: Begun,
  keyring: Keyring,
): Promise<PassOutcome> {
  const { head } = begun;
  if (head?.open != null) return heldThread(runtime, request, head.open);
  if (head?.blockedBy != null) {
    return {
      kind: 'answer',
      answer: { kind: 'busy', retryAfterMs: runtime.settings.leaseMs, holder: head.blockedBy },
    };
  }
  checkThread(head, begun.checkpoint, request.agent);
  const sealer = await keyring.writer(begun.scope);
  const digest = payloadDigest(sealer, request);
  if (begun.work?.accepted != null && begun.work.accepted.payloadDigest !== digest) {
    throw payloadChanged(request.ref);
  }
  return runFresh({ runtime, request, begun, keyring, sealer, digest });
}

/** Another turn holds the thread: wait for a live owner, finish a lapsed one first (ruling 4). */
async function heldThread(
  runtime: Runtime,
  request: TurnRequest,
  open: OpenTurn,
): Promise<PassOutcome> {
  const left = open.leaseUntil - runtime.clock.now();
  const busy = (afterMs: number): PassOutcome => ({
    kind: 'answer',
    answer: { kind: 'busy', retryAfterMs: Math.max(afterMs, 1), holder: open.turn },
  });
  if (left > 0) return busy(left);
  if (!runtime.agents.has(open.agent)) return busy(runtime.settings.leaseMs);
  const ref = { ...request.ref, turn: open.turn };
  await driveOpen(runtime, ref, request);
  return { kind: 'again' };
}

/** Drives on whatever turn the head names, when its lease has lapsed. */
export async function driveOpen(
  runtime: Runtime,
  ref: TurnRef,
  host: HostBounds,
): Promise<PassOutcome> {
  const begun = await runtime.store.begin(ref, null);
  if (begun.head?.open?.turn !== ref.turn || begun.head.open.leaseUntil > runtime.clock.now()) {
    return { kind: 'again' };
  }
  return resumeOpen(runtime, ref, host, begun, keyringOf(runtime, ref, begun));
}

async function resumeOpen(
  runtime: Runtime,
  ref: TurnRef,
  host: HostBounds,
  begun: Begun,
  keyring: Keyring,
): Promise<PassOutcome> {
  const { head } = begun;
  if (head?.open == null) return { kind: 'again' };
  const agent = runtime.agents.get(head.open.agent);
  if (agent === undefined) {
    const answer = {
      kind: 'busy' as const,
      retryAfterMs: runtime.settings.leaseMs,
      holder: ref.turn,
    };
    return { kind: 'answer', answer };
  }
  return runTakeover({ runtime, ref, agent, host, begun, head, keyring });
}
