// A conclusion a person gives a turn nobody drives: its records, its projection and its work row in one
// transaction beside whatever else the thread does.
//   T1   nothing else of the thread changes; T2 the conclusion is the last record.

import type { TurnRef } from '../ports/store.ts';
import { tallyOf } from '../protocol/budget.ts';
import { encode } from '../protocol/canonical.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import type { RecordFacts } from '../protocol/record.ts';
import type { Conclusion } from '../protocol/turn-status.ts';
import { storedView, undecidedOf } from './conclude.ts';
import { JournalWriter, noPayload } from './journal-writer.ts';
import { sealContext, sealText } from './payloads.ts';
import type { Standing } from './resume-turn.ts';
import type { Runtime } from './runtime.ts';
import { ledgerSpend } from './tenant-meter.ts';
import type { TurnAnswer, TurnView } from './turn-view.ts';
import { openApprovals } from './wait-runner.ts';
import { personWriter } from './writer-identity.ts';
import type { RecordPayload } from './writer-parts.ts';

/** Writes `records` and the conclusion; null when the thread moved and the caller must look again. */
export async function conclude(
  runtime: Runtime,
  ref: TurnRef,
  standing: Standing,
  status: Conclusion,
  records: readonly { readonly facts: RecordFacts; readonly payload: RecordPayload }[],
): Promise<TurnAnswer | null> {
  const { head, history, sealer, begun } = standing;
  const admitted = history.admission?.body;
  if (admitted === undefined)
    throw new TurnstoneError('journal_corrupt', 'the journal has no admission', { retry: 'never' });
  const now = runtime.clock.now();
  const identity = personWriter(runtime, head);
  const writer = new JournalWriter({
    store: runtime.store,
    ref,
    sealer,
    writer: identity,
    index: history.positions,
    seq: history.head.seq,
    hash: history.head.hash,
    announced: history.announced(),
    now: () => now,
    claim: null,
    progressed: () => undefined,
  });
  for (const { facts, payload } of records) writer.ride(facts, payload);
  const code = sealer.blind === true && status !== 'abandoned' ? { code: 'subject_erased' } : {};
  const chainHead = writer.head.hash;
  writer.ride({ kind: 'RunConcluded', outcome: status, ...code, chainHead }, noPayload);
  const batch = await writer.lastBatch();
  const bodies = [...history.bodies(), ...writer.added];
  const { steps, effects, attempts, tokens, minorUnits } = tallyOf(bodies);
  const revision = begun.end?.revision ?? head.revision;
  const turn: TurnView = {
    thread: ref.thread,
    turn: ref.turn,
    agent: admitted.agent as TurnView['agent'],
    status,
    revision,
    waits: [],
    undecided: undecidedOf(bodies),
    spend: { steps, effects, attempts, tokens, minorUnits },
    createdAt: admitted.at as EpochMs,
    updatedAt: now,
  };
  const view = sealText(sealer, sealContext(ref, 'view', revision), encode(storedView(turn)));
  if (view.parts !== null) await runtime.store.putParts(ref.tenant, view.parts);
  const outcome = await runtime.store.conclude({
    ref,
    agent: turn.agent,
    hold: { kind: 'aside', seen: head },
    writer: identity,
    batch,
    announced: writer.announced,
    end: {
      status,
      agent: turn.agent,
      positions: batch.index + 1,
      head: writer.head,
      payloadDigest: admitted.payloadDigest,
      revision,
      scope: admitted.scope,
      view: view.payload,
      cancelsSeen: head.cancels,
      dueAt: null,
      createdAt: turn.createdAt,
      updatedAt: now,
    },
    checkpoint: null,
    blocks: false,
    attention: status === 'quarantined' ? 'quarantined' : null,
    listed: true,
    closes: openApprovals(ref, bodies),
    intents: [],
    memories: [],
    entries: [],
    sequence: revision,
    keys: [],
    ...ledgerSpend(runtime, history, writer.added, now),
    now,
  });
  if (outcome.kind === 'lost') return null;
  if (outcome.kind === 'unknown') {
    throw new TurnstoneError('store_unavailable', 'the conclusion has no known outcome', {
      retry: 'now',
      cause: outcome.cause,
    });
  }
  return { kind: 'concluded', turn, replayed: false, currentRevision: head.revision };
}
