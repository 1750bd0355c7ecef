// The turn routes: deliver, read, journal, doubts, strict pass.

import { auditTurn } from '../operator/audit.ts';
import type { TurnRef } from '../ports/store.ts';
import { parseBudget } from '../protocol/budget.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { SubjectId } from '../protocol/ids.ts';
import { agentName, subjectId, threadId, toIso, turnId } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import type { RecordBody } from '../protocol/record.ts';
import { acceptTurn } from '../runtime/accept-turn.ts';
import type { AgentDefinition } from '../runtime/agent-definition.ts';
import type { LateView } from '../runtime/late-results.ts';
import type { JournalEntry } from '../runtime/read-turn.ts';
import {
  readEvidence,
  readJournal,
  readThread,
  readTurn,
  readUndecided,
} from '../runtime/read-turn.ts';
import type { TurnRequest } from '../runtime/turn-request.ts';
import type { TurnAnswer } from '../runtime/turn-view.ts';
import { verifyTurn } from '../runtime/verify-turn.ts';
import { withTurn } from '../runtime/with-turn.ts';
import type { ApiResponse } from './api-request.ts';
import { json } from './api-request.ts';
import type { Call } from './handler.ts';
import { parseBody, parseQuery } from './parse-body.ts';
import { parsePrefer } from './prefer.ts';
import { problem } from './problem.ts';
import { journalQuerySchema, startTurnSchema } from './schemas.ts';
import { turnObject } from './turn-object.ts';

/** POST turns: 200 concluded, 202 pending, 409 busy or changed (page 05, ruling 12). */
export async function startTurn(call: Call): Promise<ApiResponse> {
  const { request, host, identity } = call;
  const body = parseBody(request, startTurnSchema);
  const prefer = parsePrefer(request.headers.prefer);
  const agent = host.runtime.agents.get(agentName('agent', body.agent));
  if (agent === undefined) {
    throw new TurnstoneError(
      'agent_unknown',
      `agent: expected a registered agent, got "${body.agent}"`,
      {
        retry: 'never',
        details: { path: 'agent', got: body.agent },
      },
    );
  }
  const input = body.input ?? null;
  agent.parseInput(input);
  const turn: TurnRequest = {
    ref: {
      tenant: identity.tenant,
      thread: threadId('threadId', call.params.threadId),
      turn: turnId('turnId', body.turnId),
    },
    agent,
    input,
    subject: subjectOf(body.subject, agent, input),
    budget: body.budget === undefined ? null : parseBudget(defined(body.budget)),
    actor: identity.actor,
    ...host.bounds(),
  };
  if (prefer.async) return answered(await acceptTurn(host.runtime, turn));
  return deliverWithin(call, turn, prefer.waitMs);
}

/** The subject the caller names, or the one the input is about; two different ones are refused (ruling 19). */
function subjectOf(
  named: string | undefined,
  agent: AgentDefinition,
  input: unknown,
): SubjectId | null {
  const about = agent.subjectOf(input);
  if (named !== undefined && about !== null && named !== about) {
    throw new TurnstoneError('foreign_subject', `subject: expected "${about}", got "${named}"`, {
      retry: 'never',
      details: { path: 'subject', expected: about, got: named },
    });
  }
  const subject = named ?? about;
  return subject === null ? null : subjectId('subject', subject);
}

export function defined(
  budget: Readonly<Record<string, number | undefined>>,
): Record<string, number> {
  return Object.fromEntries(
    Object.entries(budget).flatMap(([name, figure]) =>
      figure === undefined ? [] : [[name, figure]],
    ),
  );
}

/** Delivers and waits at most `waitMs` (default 25 s; 0 on a busy thread); then answers 202 or 409. */
async function deliverWithin(
  call: Call,
  turn: TurnRequest,
  waitMs: number | null,
): Promise<ApiResponse> {
  const { host } = call;
  const { clock } = host.runtime;
  const until = clock.monotonicMs() + (waitMs ?? limits.syncWaitMs);
  for (;;) {
    const pass = withTurn(host.runtime, turn);
    const left = until - clock.monotonicMs();
    const answer = await within(call, pass, left);
    if (answer === 'late') {
      host.detach(pass);
      const view = await readTurn(host.runtime, turn.ref);
      if (view !== null)
        return json(view.status === 'running' ? 202 : 200, turnObject(view, { replayed: false }));
      return answered(await acceptTurn(host.runtime, turn));
    }
    const again = until - clock.monotonicMs() > 0 && turn.drain?.aborted !== true;
    if (answer.kind === 'busy' && waitMs !== null && again) {
      await host.pause(Math.min(answer.retryAfterMs, until - clock.monotonicMs()));
      continue;
    }
    if (answer.kind === 'pending' && again && answer.turn.status === 'running' && waitMs !== 0) {
      await host.pause(Math.min(250, until - clock.monotonicMs()));
      continue;
    }
    return answered(answer);
  }
}

async function within(
  call: Call,
  pass: Promise<TurnAnswer>,
  ms: number,
): Promise<TurnAnswer | 'late'> {
  const { clock } = call.host.runtime;
  let cancel = (): void => undefined;
  const late = new Promise<'late'>((resolve) => {
    cancel = clock.timer(Math.max(0, ms), () => resolve('late'));
  });
  try {
    return await Promise.race([pass, late]);
  } finally {
    cancel();
  }
}

export function answered(answer: TurnAnswer): ApiResponse {
  switch (answer.kind) {
    case 'concluded':
      return json(200, turnObject(answer.turn, answer));
    case 'pending':
      return json(202, turnObject(answer.turn, { replayed: false }));
    case 'busy':
      return problem({
        status: 409,
        code: 'thread_busy',
        detail: `turn "${answer.holder}" holds this thread`,
        retryAfterMs: answer.retryAfterMs,
        extra: { details: { holder: answer.holder } },
      });
  }
}

export function refOf(call: Call): TurnRef {
  return {
    tenant: call.identity.tenant,
    thread: threadId('threadId', call.params.threadId),
    turn: turnId('turnId', call.params.turnId),
  };
}

export function notFound(what: string): TurnstoneError {
  return new TurnstoneError('not_found', `${what} is not known`, { retry: 'never' });
}

export async function getThread(call: Call): Promise<ApiResponse> {
  const thread = threadId('threadId', call.params.threadId);
  const view = await readThread(call.host.runtime, { tenant: call.identity.tenant, thread });
  if (view === null) throw notFound(`thread "${thread}"`);
  const { agent, revision, openTurn, blockedBy } = view;
  return json(200, { threadId: thread, agent, revision, openTurn, blockedBy });
}

export async function getTurn(call: Call): Promise<ApiResponse> {
  const ref = refOf(call);
  const view = await readTurn(call.host.runtime, ref);
  if (view === null) throw notFound(`turn "${ref.turn}"`);
  return json(200, turnObject(view, { replayed: false }));
}

export async function getJournal(call: Call): Promise<ApiResponse> {
  const ref = refOf(call);
  const query = parseQuery(call.request, journalQuerySchema);
  const page = {
    after: Number(query.after ?? 0),
    limit: Number(query.limit ?? limits.journalPageRecords),
  };
  const journal = await readJournal(call.host.runtime, ref, page);
  if (journal === null) throw notFound(`a journal of turn "${ref.turn}"`);
  return json(200, {
    records: journal.records.map(recordObject),
    head: journal.head,
    verified: journal.verified,
    ...(journal.late.length === 0 ? {} : { late: journal.late.map(lateObject) }),
  });
}

/** A result that came too late, as a person and a program read it. */
function lateObject({ at, code, output, spend, ...facts }: LateView): Record<string, unknown> {
  const failed = code === '' ? {} : { code };
  return { ...facts, at: toIso(at), ...failed, ...spend, output: output ?? null };
}

/** One record as a person and a program read it. */
function recordObject(entry: JournalEntry): Record<string, unknown> {
  const { body } = entry;
  const { seq, kind, at, epoch, payload: place, ...facts } = body;
  return {
    seq,
    kind,
    at: toIso(at),
    epoch,
    ...placeFacts(facts),
    ...(place.kind === 'none' ? {} : { payload: entry.payload ?? null }),
    ...(place.kind === 'lost' ? { lost: { digest: place.digest, bytes: place.bytes } } : {}),
    prevHash: entry.prevHash,
    hash: entry.hash,
  };
}

type Facts = Omit<RecordBody, 'seq' | 'kind' | 'at' | 'epoch' | 'payload'>;

function placeFacts(facts: Facts): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(facts)) {
    if (name === 'site') Object.assign(out, value);
    else if (name === 'key') out.effectKey = value;
    else if (name === 'effect') out.effectKind = value;
    else out[name] = value;
  }
  return out;
}

export async function getUndecided(call: Call): Promise<ApiResponse> {
  const ref = refOf(call);
  const undecided = await readUndecided(call.host.runtime, ref);
  if (undecided === null) throw notFound(`a journal of turn "${ref.turn}"`);
  const evidence = undecided.length === 0 ? [] : await readEvidence(call.host.runtime, ref);
  const items = undecided.map((doubt) => {
    const late = evidence.find((result) => result.effectKey === doubt.effectKey);
    const beside = late === undefined ? {} : { late: lateObject(late) };
    return { ...doubt, since: toIso(doubt.since), ...beside };
  });
  return json(200, { items });
}

export async function verifyTurnRoute(call: Call): Promise<ApiResponse> {
  const ref = refOf(call);
  const { runtime } = call.host;
  const [verdict, audit] = await Promise.all([verifyTurn(runtime, ref), auditTurn(runtime, ref)]);
  if (verdict === null) throw notFound(`a journal of turn "${ref.turn}"`);
  return json(200, { ...verdict, audit });
}
