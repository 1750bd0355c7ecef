// A strict pass: the agent's code over the journal, reading only (ST-1 to ST-4).
//   T7/T13  verified, diverged (with what moved), or why it cannot be replayed; nothing is written.

import type { TurnRef } from '../ports/store.ts';
import { canonicalVersion } from '../protocol/canonical.ts';
import { fromBase64url } from '../protocol/digest.ts';
import { describeError, TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import type { History } from './history.ts';
import { historyOf, openRecord } from './history.ts';
import { keyringOf } from './keyring.ts';
import { Pass } from './pass.ts';
import type { PassEnd } from './pass-setup.ts';
import type { Runtime } from './runtime.ts';
import { checkpointAt, loadState } from './thread-state.ts';
import { admissionFrom } from './turn-request.ts';
import { verdictOf } from './verdict.ts';

export type StrictVerdict = Readonly<Record<string, unknown>> & {
  readonly verdict: 'verified' | 'diverged' | 'cannot_replay';
};

/** Verifies a turn; null when it has no journal. */
export async function verifyTurn(runtime: Runtime, ref: TurnRef): Promise<StrictVerdict | null> {
  const [begun, positions] = await Promise.all([
    runtime.store.begin(ref, null),
    runtime.store.journal(ref),
  ]);
  if (positions.length === 0) return null;
  const history = readHistory(positions);
  if (!(history instanceof Object) || 'verdict' in history) return history as StrictVerdict;
  const admitted = history.admission;
  if (admitted === null) return cannot('no_admission');
  const { body } = admitted;
  const agent = runtime.agents.get(body.agent);
  if (agent === undefined) return cannot('entry_point_removed', { agent: body.agent });
  const digests = {
    recorded: body.authority,
    inHand: agent.authority,
    same: body.authority === agent.authority,
  };
  if (body.canonical !== canonicalVersion)
    return cannot('canonical_changed', { declaration: digests });
  const { conclusion } = history;
  if (conclusion === null) return cannot('not_concluded', { declaration: digests });
  if (conclusion.outcome === 'cancelled' || conclusion.outcome === 'abandoned') {
    return cannot('ended_by_an_act', { outcome: conclusion.outcome, declaration: digests });
  }
  const keyring = keyringOf(runtime, ref, begun);
  const sealer = await keyring.reader(body.scope);
  if (sealer === null) return cannot('erased', { declaration: digests });
  const admission = admissionFrom(await openRecord(runtime.store, sealer, ref, admitted.record));
  const pass = new Pass({
    runtime,
    ref,
    agent,
    sealer,
    history,
    input: agent.parseInput(admission.input),
    subject: admission.subject,
    actor: admission.actor,
    budget: admission.budget,
    seed: fromBase64url(admission.seed),
    admittedAt: body.at as EpochMs,
    revision: body.revision,
    state: await loadState(
      runtime,
      keyring,
      ref,
      await checkpointAt(runtime, ref, (await runtime.store.thread(ref)).checkpoint, body.revision),
      agent,
    ),
    scope: body.scope,
    writer: null,
    deadlineAt: null,
    drain: null,
  });
  const end = await pass.run();
  if (pass.lostMemory !== null) return cannot('erased', { declaration: digests });
  return { ...judge(end, history), declaration: digests };
}

function readHistory(positions: Parameters<typeof historyOf>[0]): History | StrictVerdict {
  try {
    return historyOf(positions);
  } catch (error) {
    if (!(error instanceof TurnstoneError)) throw error;
    if (error.code === 'journal_corrupt') return cannot('chain', { ...error.details });
    if (error.code === 'record_skew') return cannot('record_skew', { ...error.details });
    throw error;
  }
}

function cannot(reason: string, facts: Record<string, unknown> = {}): StrictVerdict {
  return { verdict: 'cannot_replay', reason, ...facts };
}

function judge(end: PassEnd, history: History): StrictVerdict {
  const recorded = history.conclusion?.outcome ?? '';
  switch (end.kind) {
    case 'diverged': {
      const { site, recorded: was, asked, moved, seq } = end.divergence;
      return {
        verdict: 'diverged',
        ...site,
        moved,
        seq,
        recorded: was,
        asked,
      };
    }
    case 'undecidable':
      if (recorded === 'quarantined') return { verdict: 'verified', outcome: recorded };
      return cannot('undecidable', { ...end.site });
    case 'returned':
    case 'threw':
    case 'unwound':
    case 'timeout': {
      const { status } = verdictOf(end, history.bodies());
      if (status === recorded) return { verdict: 'verified', outcome: recorded };
      return { verdict: 'diverged', moved: 'outcome', recordedOutcome: recorded, outcome: status };
    }
    case 'broken':
      throw end.error instanceof TurnstoneError
        ? end.error
        : new TurnstoneError('internal_error', describeError(end.error).message, {
            retry: 'now',
            cause: end.error,
          });
    case 'cancelled':
    case 'suspended':
    case 'parked':
    case 'ended':
      return cannot('stopped');
  }
}
