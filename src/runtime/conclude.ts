// How a pass that ended becomes a conclusion: the verdict, the last batch and the one transaction.
//   T1   checkpoint, projection, outbox entry and last records go in one transaction or not at all.
//   T2   the conclusion is the last record; a lost acknowledgement is settled by its position's token.
//   Decision 6, 24  no success over an open doubt; a failed turn concludes and changes no checkpoint.

import type {
  AttentionCondition,
  Checkpoint,
  Concluded,
  ConcludeWrite,
  Head,
  Hold,
  OutboxEntry,
} from '../ports/store.ts';
import { tallyOf } from '../protocol/budget.ts';
import { encode } from '../protocol/canonical.ts';
import { base64url, hashParts } from '../protocol/digest.ts';
import { doubtsOf } from '../protocol/doubt.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import type { RecordBody } from '../protocol/record.ts';
import { stepEvidence } from '../protocol/saga.ts';
import type { Conclusion } from '../protocol/turn-status.ts';
import { stagedIntents } from './acts.ts';
import { finishRemoval } from './forget.ts';
import type { JournalWriter } from './journal-writer.ts';
import { noPayload, payloadOf } from './journal-writer.ts';
import type { Keyring } from './keyring.ts';
import { noMemories, stagedMemories } from './memories.ts';
import type { Pass } from './pass.ts';
import { sealContext, sealText } from './payloads.ts';
import type { Runtime } from './runtime.ts';
import { stopReason } from './stop-record.ts';
import { loadState, nextCheckpoint, overgrowth } from './thread-state.ts';
import type { TurnError, TurnView } from './turn-view.ts';
import type { Verdict } from './verdict.ts';
import { verdictOf } from './verdict.ts';
import { openApprovals } from './wait-runner.ts';

export interface Conclusive {
  readonly pass: Pass;
  readonly writer: JournalWriter;
  readonly keyring: Keyring;
  readonly verdict: Verdict;
  /** Asked after the last batch: a long one may have claimed the thread on its way. */
  readonly hold: () => Hold;
  readonly seen: Head | null;
  readonly checkpoint: Checkpoint | null;
  readonly payloadDigest: string;
  readonly createdAt: EpochMs;
}

/** What a conclusion came to: the view it wrote, or why it could not. */
export type ConclusionOutcome =
  | { readonly kind: 'concluded'; readonly turn: TurnView }
  | { readonly kind: 'displaced' }
  /** The subject was erased while the turn ran: nothing of it may be kept [T12]. */
  | { readonly kind: 'erased' }
  /** A stop was recorded, and there is something to take back first. */
  | { readonly kind: 'stopped' };

/**
 * Writes the conclusion. Throws `store_unavailable`; nothing is then known to be concluded.
 * A stop recorded since the last look is honoured: what was about to be written is taken back (rule 5).
 */
export async function conclude(of: Conclusive): Promise<ConclusionOutcome> {
  const { pass, writer } = of;
  const { runtime, ref, history, state, scope } = pass.setup;
  let { verdict } = of;
  let cancelsSeen = writer.writer.cancelsSeen;
  for (;;) {
    const mark = writer.mark();
    const overgrown =
      verdict.status === 'succeeded' ? overgrowth(state, scope, pass.changes) : null;
    if (overgrown !== null) verdict = { status: 'failed', error: overgrown };
    const prepared = await prepare({ ...of, verdict }, cancelsSeen);
    if (prepared === null) return endOf(writer);
    if (prepared.refused !== null) {
      verdict = { status: 'failed', error: prepared.refused };
      writer.rewind(mark);
      continue;
    }
    const outcome = await runtime.store.conclude(prepared.write);
    if (await again(outcome, runtime, of.keyring)) {
      writer.rewind(mark);
      continue;
    }
    const moved = cancelMoved(outcome, writer, cancelsSeen);
    if (moved === null) return settle(outcome, prepared.turn);
    cancelsSeen = moved;
    writer.rewind(mark);
    const request = await runtime.store.stopOf(ref);
    if (request === null || verdict.status === 'quarantined') continue;
    if (of.hold().kind === 'held' && pass.stopRequest === null && mayUnwind(pass)) {
      return { kind: 'stopped' };
    }
    verdict = verdictOf({ kind: 'cancelled', request }, [...history.bodies(), ...writer.added]);
  }
}

/** True when a stop would take something back: the pass that honours it replays and unwinds (decision 5). */
function mayUnwind(pass: Pass): boolean {
  if (pass.setup.history.unwind !== null) return false;
  return [...pass.steps.values()].some(({ compensation }) => compensation !== 'unnecessary');
}

interface Prepared {
  readonly write: ConcludeWrite;
  /** Set when a success may not be written after all. */
  readonly refused: TurnError | null;
  readonly turn: TurnView;
}

/** Everything a conclusion writes, its parts and snapshot already stored; null when the writer has ended. */
async function prepare(of: Conclusive, cancelsSeen: number): Promise<Prepared | null> {
  const { pass, writer, verdict, keyring } = of;
  const { runtime, ref, sealer, agent, scope, history } = pass.setup;
  const succeeded = verdict.status === 'succeeded';
  const following = succeeded
    ? await nextCheckpoint({
        ref,
        keyring,
        scope,
        latest: of.checkpoint,
        loaded: () => loadState(runtime, keyring, ref, of.checkpoint, agent),
        changes: pass.changes,
        schema: agent.schema,
      })
    : null;
  await rideStop(of);
  const code = verdict.error === undefined ? {} : { code: verdict.error.code };
  const chainHead = writer.head.hash;
  writer.ride(
    { kind: 'RunConcluded', outcome: verdict.status, ...code, chainHead },
    verdict.error === undefined ? noPayload : payloadOf(verdict.error),
  );
  const batch = await writer.lastBatch();
  if (writer.end !== null) return null;
  const bodies = [...history.bodies(), ...writer.added];
  const now = runtime.clock.now();
  const revision = following?.next.revision ?? of.seen?.revision ?? 0;
  const turn = viewOf(of, bodies, revision, now);
  const view = sealText(sealer, sealContext(ref, 'view', revision), encode(storedView(turn)));
  const acts = succeeded ? stagedIntents(pass) : [];
  const memory = succeeded ? await stagedMemories(pass, now) : noMemories;
  await Promise.all(
    [
      view.parts,
      ...(following?.parts ?? []),
      ...acts.map((act) => act.parts),
      ...memory.parts,
    ].flatMap((set) =>
      set === null || set === undefined ? [] : [runtime.store.putParts(ref.tenant, set)],
    ),
  );
  if (following?.snapshot != null) {
    const { revision: from, segments, archived } = following.snapshot;
    await runtime.store.putSnapshot(ref, from, segments, archived);
  }
  const write: ConcludeWrite = {
    ref,
    agent: agent.name,
    hold: of.hold(),
    writer: { ...writer.writer, cancelsSeen },
    batch,
    announced: writer.announced,
    end: {
      status: verdict.status,
      agent: agent.name,
      positions: batch.index + 1,
      head: writer.head,
      payloadDigest: of.payloadDigest,
      revision,
      scope,
      view: view.payload,
      cancelsSeen,
      dueAt: null,
      createdAt: of.createdAt,
      updatedAt: now,
    },
    checkpoint:
      following === null
        ? null
        : { next: following.next, authority: agent.authority, schema: agent.schema },
    blocks: verdict.status === 'quarantined' && agent.onQuarantine === 'block',
    attention: attentionOf(verdict.status, bodies, pass),
    listed: history.lastConclusion !== null,
    closes: openApprovals(ref, bodies),
    intents: acts.map((act) => act.row),
    memories: memory.writes,
    entries: succeeded ? [...acts.map((act) => act.entry), committedEntry(of, revision, now)] : [],
    sequence: revision,
    keys: scope.startsWith('s') ? rowsOf(keyring, scope) : [],
    now,
  };
  return { write, turn, refused: memory.refused };
}

/** CA-2: the owner's record of a stop, once, before the conclusion it leads to. */
async function rideStop(of: Conclusive): Promise<void> {
  const { pass, writer, verdict } = of;
  if (verdict.stop === undefined) return;
  for (const body of [...pass.setup.history.bodies(), ...writer.added]) {
    if (body.kind === 'RunCancelled') return;
  }
  const reason = await stopReason(pass.setup, verdict.stop);
  writer.ride({ kind: 'RunCancelled', actor: verdict.stop.actor }, payloadOf({ reason }));
}

/** Why a conclusion needs a person, or null (AT-1: the next conclusion takes it off again). */
export function attentionOf(
  status: Conclusion,
  bodies: readonly RecordBody[],
  pass: Pass,
): AttentionCondition | null {
  if (status === 'quarantined' || status === 'exhausted') return status;
  if (status !== 'failed') return null;
  // E318: what a pivot or an unnecessary step left stands by declaration; a person can do nothing about it.
  const declared = (step: string): string => pass.steps.get(step)?.compensation ?? 'undeclared';
  const open = stepEvidence(bodies).some(
    ({ step, mutated, compensated }) =>
      mutated && !compensated && declared(step) !== 'pivot' && declared(step) !== 'unnecessary',
  );
  return open ? 'failed_with_landed_work' : null;
}

function rowsOf(keyring: Keyring, scope: string) {
  const row = keyring.row(scope);
  return row === undefined ? [] : [row];
}

/** A stop was recorded since the claim: the figure to conclude with, when the epoch is still ours. */
export function cancelMoved(
  outcome: Concluded,
  writer: JournalWriter,
  seen: number,
): number | null {
  if (outcome.kind !== 'lost' || outcome.reason !== 'moved' || outcome.head === null) return null;
  if (outcome.head.epoch !== writer.writer.epoch || outcome.head.cancels === seen) return null;
  return outcome.head.cancels;
}

/** What was prepared is stale: another turn remembered the same id, or a hold was placed or lifted. */
async function again(outcome: Concluded, runtime: Runtime, keyring: Keyring): Promise<boolean> {
  if (outcome.kind !== 'lost') return false;
  if (outcome.reason === 'memory') return true;
  if (outcome.reason !== 'key' || outcome.key?.state !== 'live') return false;
  if (keyring.row(outcome.key.scope)?.generation !== outcome.key.generation) return false;
  const { key } = outcome;
  if (key.removal === undefined) keyring.relearn(key);
  else {
    await finishRemoval(runtime, keyring.tenant, key.scope);
    const row = await runtime.store.key(keyring.tenant, key.scope);
    if (row !== null) keyring.relearn(row);
  }
  return true;
}

function settle(outcome: Concluded, turn: TurnView): ConclusionOutcome {
  if (outcome.kind === 'done') return { kind: 'concluded', turn };
  if (outcome.kind === 'unknown') {
    throw new TurnstoneError('store_unavailable', 'the conclusion has no known outcome', {
      retry: 'now',
      cause: outcome.cause,
    });
  }
  if (outcome.reason === 'key') return { kind: 'erased' };
  return { kind: 'displaced' };
}

function endOf(writer: JournalWriter): ConclusionOutcome {
  if (writer.end?.kind === 'unavailable') throw writer.end.error;
  return { kind: 'displaced' };
}

function viewOf(
  of: Conclusive,
  bodies: readonly RecordBody[],
  revision: number,
  now: EpochMs,
): TurnView {
  const { ref, agent } = of.pass.setup;
  const { verdict } = of;
  const { steps, effects, attempts, tokens, minorUnits } = tallyOf(bodies);
  return {
    thread: ref.thread,
    turn: ref.turn,
    agent: agent.name,
    status: verdict.status,
    revision,
    ...(verdict.status === 'succeeded' ? { result: verdict.result } : {}),
    ...(verdict.error === undefined ? {} : { error: verdict.error }),
    waits: [],
    undecided: undecidedOf(bodies),
    spend: { steps, effects, attempts, tokens, minorUnits },
    createdAt: of.createdAt,
    updatedAt: now,
  };
}

/** Open doubts of a journal as a person sees them; reads are no doubt for a person (QA-9). */
export function undecidedOf(bodies: Iterable<RecordBody>): TurnView['undecided'] {
  return doubtsOf(bodies).map((doubt) => ({
    effectKey: doubt.key,
    step: doubt.site.step,
    phase: doubt.site.phase,
    kind: doubt.effect,
    doubt: doubt.doubt,
    since: doubt.since as EpochMs,
  }));
}

/** The members of a view that are sealed; the rest is in the projection's clear fields. */
export function storedView(turn: TurnView) {
  const { result, error, waits, undecided, spend } = turn;
  return {
    ...(turn.status === 'succeeded' ? { result } : {}),
    ...(error === undefined ? {} : { error }),
    waits,
    undecided,
    spend,
  };
}

/** K-68: the commit announces itself as the last outbox entry, by reference only. */
function committedEntry(of: Conclusive, revision: number, now: EpochMs): OutboxEntry {
  const { ref, agent } = of.pass.setup;
  const id = base64url(
    hashParts('turnstone.event.1', [ref.tenant, ref.thread, ref.turn, 'turn.committed']),
  );
  const body = {
    v: 1,
    id,
    type: 'turn.committed',
    at: now,
    tenant: ref.tenant,
    threadId: ref.thread,
    turnId: ref.turn,
    agent: agent.name,
    status: 'succeeded',
    revision,
    sequence: 1,
    correlationId: ref.turn,
    category: 'integration',
  };
  return { id, queue: 'events', body: JSON.stringify(body) };
}
