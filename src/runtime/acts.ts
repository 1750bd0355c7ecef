// Deferred acts: staged with the turn, on their way only with its suspension or success (B-01, ruling 13).
//   T1   the intent's row and its message are written by that transaction, or nothing leaves.
//   T7   the id is a function of the place, computable ahead; other arguments at the place are a divergence.

import type { OutboxEntry, PartSet, ThreadRef, TurnRef } from '../ports/store.ts';
import type { IntentRow } from '../ports/waits.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { tenantId, threadId } from '../protocol/ids.ts';
import { intentId } from '../protocol/keys.ts';
import { limits } from '../protocol/limits.ts';
import type { RecordOf, Site } from '../protocol/record.ts';
import type { Pass } from './pass.ts';
import { sealContext, sealText } from './payloads.ts';
import { stageDispatch } from './staged-dispatch.ts';
import type { Act } from './turn-context.ts';

/** An act that leaves with the next suspension or success. */
export interface StagedAct {
  readonly seq: number;
  readonly row: IntentRow;
  readonly entry: OutboxEntry;
  readonly parts: PartSet | null;
}

/** Acts staged since the turn last rested. */
export function stagedIntents(pass: Pass): readonly StagedAct[] {
  const left = lastSuspension(pass);
  return pass.staged.filter((staged) => staged.seq > left);
}

function lastSuspension(pass: Pass): number {
  let seq = 0;
  for (const body of pass.setup.history.bodies()) {
    if (body.kind === 'RunSuspended') seq = body.seq;
  }
  return seq;
}

/** Stages an act and answers its intent id. */
export async function runAct(pass: Pass, site: Site, act: Act): Promise<string> {
  const { ref, agent } = pass.setup;
  checkAct(pass, act);
  const intent = intentId({
    tenant: ref.tenant,
    agent: agent.name,
    thread: ref.thread,
    turnId: ref.turn,
    ...site,
  });
  const expiresInMs = act.expiresInMs ?? limits.actMs;
  await stageDispatch(pass, site, {
    kind: act.kind,
    args: act.args,
    facts: (key) => ({ kind: 'ActStaged', site, key, effect: act.kind, intent, expiresInMs }),
    staged: (body, argsText) => {
      if (body.kind === 'ActStaged') stage(pass, body, argsText);
    },
  });
  return intent;
}

function stage(pass: Pass, body: RecordOf<'ActStaged'>, argsText: string): void {
  const { ref, agent, sealer, scope } = pass.setup;
  const sealed = sealText(sealer, sealContext(ref, `intent:${body.intent}`, 0), argsText);
  const row: IntentRow = {
    id: body.intent,
    ref,
    agent: agent.name,
    effect: body.effect,
    argsDigest: sealer.mac('turnstone.intent-args.1', new TextEncoder().encode(argsText)),
    scope,
    payload: sealed.payload,
    createdAt: body.at as EpochMs,
    expiresAt: (body.at + body.expiresInMs) as EpochMs,
    attempt: 0,
    doubt: false,
    claim: null,
    outcome: null,
    result: null,
  };
  pass.staged.push({
    seq: body.seq,
    row,
    entry: intentEntry(ref, body.intent),
    parts: sealed.parts,
  });
}

/** B-29, B-30: refused before anything is staged. */
function checkAct(pass: Pass, act: Act): void {
  const { agent } = pass.setup;
  const refuse = (field: string, expected: string, got: string): TurnstoneError =>
    new TurnstoneError('invalid_effect', `act.${field}: expected ${expected}, got ${got}`, {
      retry: 'never',
      details: { field: `act.${field}`, expected, got },
    });
  if (agent.act(act.kind, act.args) === null) {
    throw refuse('kind', 'a kind this agent declares as an act', act.kind);
  }
  const { args } = act;
  if (typeof args === 'object' && args !== null && Object.hasOwn(args, 'intent')) {
    throw refuse('args', 'no member named "intent": it is the runtime that adds it', 'one');
  }
  const { expiresInMs = limits.actMs } = act;
  if (!Number.isSafeInteger(expiresInMs) || expiresInMs < 1 || expiresInMs > limits.waitMaxMs) {
    throw refuse('expiresInMs', `1 to ${limits.waitMaxMs} ms`, String(expiresInMs));
  }
  if (stagedIntents(pass).length >= limits.actsPerCommitMax) {
    throw refuse('kind', `at most ${limits.actsPerCommitMax} acts at once`, 'one more');
  }
}

/** The message that brings an intent to the effector: a reference, never its arguments (ruling 22). */
export function intentEntry(ref: TurnRef, id: string): OutboxEntry {
  const body = { v: 1, tenant: ref.tenant, thread: ref.thread, turn: ref.turn, intent: id };
  return { id: `intent-${id}`, queue: 'intents', body: JSON.stringify(body) };
}

/** Reads an intent message; throws `invalid_request` naming the field. */
export function parseIntentBody(text: string): ThreadRef & { readonly intent: string } {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch (cause) {
    throw malformed('body', 'JSON', cause);
  }
  if (typeof raw !== 'object' || raw === null) throw malformed('body', 'an object');
  const { v, tenant, thread, intent }: Record<string, unknown> = { ...raw };
  if (v !== 1) throw malformed('v', '1');
  if (typeof intent !== 'string' || !/^[0-9a-f-]{36}$/.test(intent)) {
    throw malformed('intent', 'a UUID');
  }
  return { tenant: tenantId('tenant', tenant), thread: threadId('thread', thread), intent };
}

function malformed(field: string, expected: string, cause?: unknown): TurnstoneError {
  return new TurnstoneError('invalid_request', `intent message ${field}: expected ${expected}`, {
    retry: 'never',
    details: { field, expected },
    cause,
  });
}
