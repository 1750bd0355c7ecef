// Resuming a turn whose journal ends in an open conclusion, or in a person's decision after one.
//   T7   the whole journal is replayed first; what was asked before is read back, never performed again.
//   RG-1 a sealed turn is not resumed; QA-5 a quarantine needs a standing decision.
//   QA-3 an abandonment that was journaled and not acted on is finished without executing anything.

import type { Begun, Head, TurnRef } from '../ports/store.ts';
import type { Sealer } from '../ports/vault.ts';
import type { Budget } from '../protocol/budget.ts';
import { fromBase64url } from '../protocol/digest.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import { parseStatus, seals } from '../protocol/turn-status.ts';
import type { AgentDefinition } from './agent-definition.ts';
import { blindSealer } from './blind-sealer.ts';
import { conclude } from './conclude-aside.ts';
import type { History } from './history.ts';
import { historyOf, openRecord } from './history.ts';
import { JournalWriter } from './journal-writer.ts';
import type { Keyring } from './keyring.ts';
import { keyringOf } from './keyring.ts';
import { endView } from './known-turn.ts';
import { Lease } from './lease.ts';
import { Pass } from './pass.ts';
import type { PassOutcome } from './pass-ending.ts';
import { drive, refusal } from './run-turn.ts';
import type { Runtime } from './runtime.ts';
import { tenantVerdict } from './tenant-meter.ts';
import { checkState } from './thread-gates.ts';
import { checkpointAt, loadState } from './thread-state.ts';
import { budgetOf } from './turn-budget.ts';
import type { HostBounds } from './turn-request.ts';
import { admissionFrom } from './turn-request.ts';
import { inPass } from './turn-spans.ts';
import type { TurnAnswer } from './turn-view.ts';
import { driveOpen } from './with-turn.ts';
import { newWriter } from './writer-identity.ts';

/** A turn that stands concluded, with what is needed to go on with it or to write beside it. */
export interface Standing {
  readonly begun: Begun;
  readonly head: Head;
  readonly history: History;
  readonly keyring: Keyring;
  readonly sealer: Sealer;
}

/** Reads a turn nobody drives. Throws `not_found`, `thread_busy` while it runs, `subject_erased`. */
export async function readStanding(
  runtime: Runtime,
  ref: TurnRef,
  of: { readonly erasedToo?: boolean } = {},
): Promise<Standing> {
  const [begun, positions] = await Promise.all([
    runtime.store.begin(ref, null),
    runtime.store.journal(ref),
  ]);
  const { head } = begun;
  if (positions.length === 0 || head === null) {
    throw new TurnstoneError('not_found', `turn "${ref.turn}" has no journal`, { retry: 'never' });
  }
  if (head.open?.turn === ref.turn) {
    throw new TurnstoneError('thread_busy', `turn "${ref.turn}" is running`, {
      retry: { afterMs: Math.max(1, head.open.leaseUntil - runtime.clock.now()) },
    });
  }
  const history = historyOf(positions);
  const keyring = keyringOf(runtime, ref, begun);
  const scope = history.admission?.body.scope ?? begun.scope;
  const found = await keyring.reader(scope);
  const sealer = found ?? (of.erasedToo === true ? blindSealer(scope) : null);
  if (sealer === null) {
    throw new TurnstoneError('subject_erased', `the subject of turn "${ref.turn}" was erased`, {
      retry: 'never',
    });
  }
  return { begun, head, history, keyring, sealer };
}

/** Status a standing turn ended with. */
export function standingStatus(history: History): string {
  if (history.records.at(-1)?.body.kind === 'RunSuspended') return 'suspended';
  return history.lastConclusion?.outcome ?? 'running';
}

/** Gives a standing turn one pass over its journal; the caller has checked that it may have one. */
export async function resumeTurn(
  runtime: Runtime,
  ref: TurnRef,
  host: HostBounds,
): Promise<TurnAnswer> {
  for (let round = 0; round < limits.beginRoundsMax; round += 1) {
    const standing = await readStanding(runtime, ref);
    const { history, head, begun, keyring } = standing;
    if (abandonStands(history)) {
      const ended = await conclude(runtime, ref, standing, 'abandoned', []);
      if (ended !== null) return ended;
      continue;
    }
    const status = parseStatus(standingStatus(history));
    const decided = history.standingDecision !== null;
    // SA-10: work that was taken back is not gone on with.
    const closed = status === 'failed' && history.unwind !== null;
    if (seals(status) || closed || (status === 'quarantined' && !decided))
      return recorded(runtime, ref, standing);
    if (head.open !== null) {
      const left = head.open.leaseUntil - runtime.clock.now();
      return { kind: 'busy', retryAfterMs: Math.max(1, left), holder: head.open.turn };
    }
    const agent = runtime.agents.get(history.admission?.body.agent ?? '');
    if (agent === undefined) {
      throw new TurnstoneError(
        'agent_unknown',
        'this worker does not have the agent of this turn',
        { retry: 'never' },
      );
    }
    const outcome = await inPass(runtime, ref, agent.name, 'resume', (below) =>
      runResume(below, ref, agent, host, standing),
    );
    if (outcome.kind === 'answer') return outcome.answer;
    if (outcome.kind === 'unchanged' && begun.end !== null) {
      const turn = await endView(runtime, ref, keyring, begun.end);
      return { kind: 'concluded', turn, replayed: false, currentRevision: head.revision };
    }
    const open = await driveOpen(runtime, ref, host);
    if (open.kind === 'answer') return open.answer;
  }
  throw new TurnstoneError('store_unavailable', 'the thread changed under every attempt to begin', {
    retry: 'now',
  });
}

/** QA-3: somebody wrote the turn off and nobody has concluded that yet. */
export function abandonStands(history: History): boolean {
  const decision = history.standingDecision;
  return decision?.kind === 'QuarantineDecided' && decision.decision === 'abandon';
}

async function recorded(runtime: Runtime, ref: TurnRef, standing: Standing): Promise<TurnAnswer> {
  const { begun, head, keyring } = standing;
  if (begun.end === null)
    throw new TurnstoneError('store_unavailable', 'the projection is missing', { retry: 'now' });
  const turn = await endView(runtime, ref, keyring, begun.end);
  return { kind: 'concluded', turn, replayed: true, currentRevision: head.revision };
}

async function runResume(
  runtime: Runtime,
  ref: TurnRef,
  agent: AgentDefinition,
  host: HostBounds,
  standing: Standing,
): Promise<PassOutcome> {
  const { begun, head, history, keyring, sealer } = standing;
  const admitted = history.admission;
  if (admitted === null) return { kind: 'again' };
  checkState(head, begun.checkpoint, agent);
  const admission = admissionFrom(await openRecord(runtime.store, sealer, ref, admitted.record));
  const lease = new Lease(runtime, ref, newWriter(runtime, head));
  const writer: JournalWriter = new JournalWriter({
    store: runtime.store,
    ref,
    sealer,
    writer: lease.writer,
    index: history.positions,
    seq: history.head.seq,
    hash: history.head.hash,
    announced: history.announced(),
    now: () => runtime.clock.now(),
    claim: async (batch) => {
      const taking = lease.taking();
      const claim = { ref, agent: agent.name, seen: head, writer: lease.writer, batch };
      const claimed = await runtime.store.claim({
        ...claim,
        leaseUntil: taking.until,
        now: runtime.clock.now(),
      });
      if (claimed.kind === 'done') taking.taken();
      return claimed;
    },
    progressed: () => pass.progressed(),
  });
  const createdAt = admitted.body.at as EpochMs;
  const pass: Pass = new Pass({
    runtime,
    ref,
    agent,
    sealer,
    history,
    writer,
    input: agent.parseInput(admission.input),
    subject: admission.subject,
    actor: admission.actor,
    budget: await budgetOf(runtime, ref, standing, admission.budget),
    seed: fromBase64url(admission.seed),
    admittedAt: createdAt,
    revision: admitted.body.revision,
    state: await loadState(
      runtime,
      keyring,
      ref,
      await checkpointAt(runtime, ref, begun.checkpoint, admitted.body.revision),
      agent,
    ),
    scope: admitted.body.scope,
    deadlineAt: host.deadlineAt ?? null,
    drain: host.drain ?? null,
  });
  lease.watch(pass);
  return drive({
    runtime,
    ref,
    begun,
    keyring,
    pass,
    writer,
    lease,
    createdAt,
    hold: () => (writer.held ? { kind: 'held' } : { kind: 'optimistic', seen: head }),
    digest: admitted.body.payloadDigest,
    refused: refusal(admitted.body, agent, runtime) ?? (await tenantVerdict(runtime, ref, history)),
  });
}

/** The budget a standing turn would go on under. */
export async function currentBudget(
  runtime: Runtime,
  ref: TurnRef,
  standing: Standing,
): Promise<Budget | null> {
  const admitted = standing.history.admission;
  if (admitted === null) return null;
  const opened = await openRecord(runtime.store, standing.sealer, ref, admitted.record);
  return budgetOf(runtime, ref, standing, admissionFrom(opened).budget);
}
