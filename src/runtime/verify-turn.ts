// A strict pass: the agent's code over the journal, reading only (ST-1 to ST-4).
//   T7/T13  verified, diverged (with what moved), or why it cannot be replayed; nothing is written.

import type { Begun, TurnRef } from '../ports/store.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { Sealer } from '../ports/vault.ts';
import { canonicalVersion } from '../protocol/canonical.ts';
import { fromBase64url } from '../protocol/digest.ts';
import { describeError, TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import type { AgentDefinition } from './agent-definition.ts';
import type { Trial } from './divergence-class.ts';
import { classify } from './divergence-class.ts';
import { EditedHistory } from './edited-history.ts';
import type { History } from './history.ts';
import { historyOf, openRecord } from './history.ts';
import { keyringOf } from './keyring.ts';
import { Pass } from './pass.ts';
import type { PassEnd } from './pass-setup.ts';
import type { Divergence } from './resume-point.ts';
import type { Runtime } from './runtime.ts';
import { inSpan, safeTelemetry } from './tell.ts';
import { checkpointAt, loadState } from './thread-state.ts';
import { admissionFrom } from './turn-request.ts';
import { passSpan } from './turn-spans.ts';
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
  const strict = await strictOf(runtime, ref, begun, history, agent);
  if (strict === null) return cannot('erased', { declaration: digests });
  const strictly = async (telemetry: Telemetry) => {
    const pass = strict.pass(history, telemetry);
    const end = await pass.run();
    return { end, lost: pass.lostMemory !== null };
  };
  const telemetry = safeTelemetry(runtime.telemetry, () => undefined);
  const start = passSpan(ref, agent.name, 'strict');
  const { end, lost } = await inSpan(telemetry, start, strictly, ({ end: { kind } }) => ({
    outcome: kind,
  }));
  if (lost) return cannot('erased', { declaration: digests });
  const verdict = judge(end, history);
  if (end.kind !== 'diverged') return { ...verdict, declaration: digests };
  const edited = new EditedHistory(history, runtime.store, strict.sealer, ref);
  const change = await classify(edited, end.divergence, (over) => tried(strict.pass(over), over));
  return { ...verdict, change, declaration: digests };
}

/** The agent's code over a journal, reading only; null when what it holds was erased. */
export async function strictPass(
  runtime: Runtime,
  ref: TurnRef,
  begun: Begun,
  history: History,
  agent: AgentDefinition,
): Promise<Pass | null> {
  const strict = await strictOf(runtime, ref, begun, history, agent);
  return strict === null ? null : strict.pass(history);
}

/** How strict passes of a turn are made; null when what it holds was erased. */
async function strictOf(
  runtime: Runtime,
  ref: TurnRef,
  begun: Begun,
  history: History,
  agent: AgentDefinition,
): Promise<{
  readonly sealer: Sealer;
  readonly pass: (over: History, telemetry?: Telemetry) => Pass;
} | null> {
  const admitted = history.admission;
  if (admitted === null) throw new Error('a journal without its admission');
  const { body } = admitted;
  const keyring = keyringOf(runtime, ref, begun);
  const sealer = await keyring.reader(body.scope);
  if (sealer === null) return null;
  const admission = admissionFrom(await openRecord(runtime.store, sealer, ref, admitted.record));
  const { checkpoint } = await runtime.store.thread(ref);
  const seen = await checkpointAt(runtime, ref, checkpoint, body.revision);
  const state = await loadState(runtime, keyring, ref, seen, agent);
  const pass = (over: History, telemetry: Telemetry = runtime.telemetry): Pass =>
    new Pass({
      runtime: { ...runtime, telemetry },
      ref,
      agent,
      sealer,
      state,
      history: over,
      input: agent.parseInput(admission.input),
      subject: admission.subject,
      actor: admission.actor,
      budget: admission.budget,
      seed: fromBase64url(admission.seed),
      admittedAt: body.at as EpochMs,
      revision: body.revision,
      scope: body.scope,
      writer: null,
      deadlineAt: null,
      drain: null,
    });
  return { sealer, pass };
}

/** One strict pass over an edited history; the code failing on a borrowed answer is a disagreement like any other. */
async function tried(pass: Pass, over: History): Promise<Trial> {
  const end = await pass.run();
  if (end.kind === 'broken') return { agrees: false, unread: over.unreadCount };
  return { agrees: judge(end, over).verdict === 'verified', unread: over.unreadCount };
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

/** What was asked for, with its place where that is another one. */
function placed({ kind, key, site }: NonNullable<Divergence['asked']>): Record<string, unknown> {
  return { kind, key, ...site };
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
        asked: asked === null ? null : placed(asked),
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
