// The end of an open turn whose subject was erased: it fails closed, without a payload, and frees its thread.
//   T12  nothing of it can be read or run any more; E337: nothing is undone on what cannot be read. An open doubt
//        stays one, for a person to abandon.

import type { Begun, Head, TurnRef } from '../ports/store.ts';
import { doubtsOf } from '../protocol/doubt.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { hasLandedWork } from '../protocol/saga.ts';
import type { Conclusion } from '../protocol/turn-status.ts';
import type { AgentDefinition } from './agent-definition.ts';
import { blindSealer } from './blind-sealer.ts';
import { undecidedOf } from './conclude.ts';
import type { History } from './history.ts';
import { JournalWriter, noPayload } from './journal-writer.ts';
import type { PassOutcome } from './pass-ending.ts';
import { unavailable } from './pass-ending.ts';
import type { Runtime } from './runtime.ts';
import { ledgerSpend } from './tenant-meter.ts';
import type { TurnView } from './turn-view.ts';
import { newWriter } from './writer-identity.ts';

/** Takes the lapsed turn over and concludes it; quarantined when a mutation is in doubt or stands. */
export async function concludeErased(of: {
  readonly runtime: Runtime;
  readonly ref: TurnRef;
  readonly agent: AgentDefinition;
  readonly begun: Begun;
  readonly head: Head;
  readonly history: History;
}): Promise<PassOutcome> {
  const { runtime, ref, agent, begun, head, history } = of;
  const admitted = history.admission?.body;
  if (admitted === undefined) return { kind: 'again' };
  const identity = newWriter(runtime, head);
  const now = runtime.clock.now();
  const taken = await runtime.store.takeover({
    ref,
    seen: head,
    writer: identity,
    batch: { index: history.positions, records: [], announces: [] },
    leaseUntil: (now + runtime.settings.leaseMs) as EpochMs,
    now,
  });
  if (taken.kind === 'unknown') throw unavailable(taken.cause);
  if (taken.kind === 'lost') return { kind: 'again' };
  const writer = new JournalWriter({
    store: runtime.store,
    ref,
    sealer: blindSealer(admitted.scope),
    writer: identity,
    index: history.positions + 1,
    seq: history.head.seq,
    hash: history.head.hash,
    announced: history.announced(),
    now: () => now,
    claim: null,
    progressed: () => undefined,
  });
  const bodies = [...history.bodies()];
  const unsettled = doubtsOf(bodies).length > 0 || hasLandedWork(bodies);
  const status: Conclusion = unsettled ? 'quarantined' : 'failed';
  const code = 'subject_erased';
  writer.ride(
    { kind: 'RunConcluded', outcome: status, code, chainHead: writer.head.hash },
    noPayload,
  );
  const batch = await writer.lastBatch();
  const revision = head.revision;
  const outcome = await runtime.store.conclude({
    ref,
    agent: agent.name,
    hold: { kind: 'held' },
    writer: identity,
    batch,
    announced: writer.announced,
    end: {
      status,
      agent: agent.name,
      positions: batch.index + 1,
      head: writer.head,
      payloadDigest: admitted.payloadDigest,
      revision,
      scope: admitted.scope,
      view: { kind: 'inline', bytes: new Uint8Array(0) },
      cancelsSeen: identity.cancelsSeen,
      dueAt: null,
      createdAt: admitted.at as EpochMs,
      updatedAt: now,
    },
    checkpoint: null,
    blocks: false,
    attention: unsettled ? 'quarantined' : null,
    listed: true,
    closes: [],
    intents: [],
    memories: [],
    entries: [],
    sequence: revision,
    keys: [],
    ...ledgerSpend(runtime, history, writer.added, now),
    now,
  });
  if (outcome.kind === 'unknown') throw unavailable(outcome.cause);
  if (outcome.kind === 'lost') return { kind: 'again' };
  const turn: TurnView = {
    thread: ref.thread,
    turn: ref.turn,
    agent: agent.name,
    status,
    revision,
    erased: true,
    error: { code, message: 'the subject of this turn was erased while it ran' },
    waits: [],
    undecided: undecidedOf(bodies),
    spend: { steps: 0, effects: 0, attempts: 0, tokens: 0, minorUnits: 0 },
    createdAt: admitted.at as EpochMs,
    updatedAt: now,
  };
  const currentRevision = begun.head?.revision ?? revision;
  return { kind: 'answer', answer: { kind: 'concluded', turn, replayed: false, currentRevision } };
}
