// One call of `perform` or `probe`, bounded by its timeout, and what its ending means.
//   Page 01, 1.2: only the port that can prove "nothing happened" may say so; anything else is in doubt.
//   Decision 22: a landed output is never lost for its size; over the limit its digest is kept.

import type { SpanStart, TelemetryFields } from '../ports/telemetry.ts';
import { addSpend } from '../protocol/budget.ts';
import { encode } from '../protocol/canonical.ts';
import { base64url, sha256 } from '../protocol/digest.ts';
import type { Disposition } from '../protocol/effect-decision.ts';
import { describeError, EffectNotAppliedError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';
import type { Spend } from '../protocol/record.ts';
import type { DeclaredEffect } from './declared-effect.ts';
import type { Dispatch } from './dispatch.ts';
import { noPayload, payloadOf } from './journal-writer.ts';
import { placeOf } from './replay-span.ts';
import type { Runtime } from './runtime.ts';
import { inSpan } from './tell.ts';
import type { EffectCall, ProbeAnswer } from './turn-context.ts';
import { EffectFailure } from './turn-context.ts';
import type { RecordPayload } from './writer-parts.ts';

export type AttemptOutcome =
  | { readonly kind: 'done'; readonly text: string; readonly spend: Spend }
  | {
      readonly kind: 'failed';
      readonly disposition: Disposition;
      readonly permanent: boolean;
      readonly code: string;
      readonly message: string;
      readonly adviceMs?: number;
      readonly spend: Spend;
      /** The digest of an output that is too large to keep. */
      readonly lost?: RecordPayload;
    };

export interface ProbeOutcome {
  readonly verdict: 'landed' | 'did_not_happen' | 'inconclusive';
  readonly output: unknown;
  readonly payload: RecordPayload;
  readonly spend: Spend;
  readonly message: string;
}

/** Error codes of a send that never left: refused or unresolvable before a byte was written. */
const neverSent: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']);

/** What one call is told of itself. */
export interface CallFacts {
  readonly idempotencyKey: string;
  readonly effectKey: string;
  readonly attempt: number;
  /** Where the call stands, for telemetry. */
  readonly where: TelemetryFields;
  /** Fires when the pass must stop. */
  readonly stop?: AbortSignal;
}

/** Performs one attempt of a dispatch; never throws. */
export function attemptOnce(
  dispatch: Dispatch,
  key: string,
  attempt: number,
): Promise<AttemptOutcome> {
  return callOnce(dispatch.pass.setup.runtime, dispatch.declared, factsOf(dispatch, key, attempt));
}

/** Asks the probe of a dispatch once; a thrown probe is inconclusive and its text is kept (RE-2). */
export function probeOnce(dispatch: Dispatch, key: string, attempt: number): Promise<ProbeOutcome> {
  return probeCall(dispatch.pass.setup.runtime, dispatch.declared, factsOf(dispatch, key, attempt));
}

function factsOf(dispatch: Dispatch, effectKey: string, attempt: number): CallFacts {
  const { idempotencyKey, pass, site } = dispatch;
  const where = placeOf(pass.setup.ref, site);
  return { idempotencyKey, effectKey, attempt, where, stop: pass.abort.signal };
}

function spanOf(
  kind: 'attempt' | 'probe',
  { kind: name, asks }: DeclaredEffect,
  { effectKey, attempt, where }: CallFacts,
): SpanStart {
  const fields = { effectKey, attempt, ...where };
  return { kind, name, fields, ...(asks === null ? {} : { asks }) };
}

/** Calls `perform` once; never throws. */
export async function callOnce(
  runtime: Runtime,
  declared: DeclaredEffect,
  facts: CallFacts,
): Promise<AttemptOutcome> {
  const { call, billed, usage, finish } = openCall(facts);
  const attempt = async (): Promise<AttemptOutcome> => {
    try {
      const value = await withinTimeout(runtime, declared, call, () => declared.perform(call));
      return landed(value, spendOf(billed(), declared));
    } catch (error) {
      return failureOf(error, spendOf(billed(), declared));
    } finally {
      finish();
    }
  };
  return inSpan(runtime.telemetry, spanOf('attempt', declared, facts), attempt, (outcome) => {
    const fields = { ...outcome.spend, ...usage() };
    if (outcome.kind === 'done') return { outcome: 'done', fields };
    const { disposition, code } = outcome;
    return { outcome: 'failed', error: code, fields: { ...fields, disposition } };
  });
}

/** Calls `probe` once; never throws. */
export async function probeCall(
  runtime: Runtime,
  declared: DeclaredEffect,
  facts: CallFacts,
): Promise<ProbeOutcome> {
  if (declared.probe === null) return inconclusive('no probe is written for this effect', zero);
  const { probe } = declared;
  const { call, billed, finish } = openCall(facts);
  const ask = async (): Promise<ProbeOutcome> => {
    try {
      const answer = await withinTimeout(runtime, declared, call, () => probe(call));
      return verdictOf(answer, billed() ?? zero);
    } catch (error) {
      return inconclusive(describeError(error).message, billed() ?? zero);
    } finally {
      finish();
    }
  };
  return inSpan(runtime.telemetry, spanOf('probe', declared, facts), ask, ({ verdict, spend }) => ({
    outcome: verdict,
    fields: { ...spend },
  }));
}

const zero: Spend = { tokens: 0, minorUnits: 0 };

class TimedOut extends Error {
  override readonly name = 'TimedOut';
}

function openCall(facts: CallFacts) {
  const controller = new AbortController();
  const { stop } = facts;
  let spend: Spend | null = null;
  const usage = { inputTokens: 0, outputTokens: 0 };
  let divided = false;
  const onStop = (): void => controller.abort(stop?.reason);
  stop?.addEventListener('abort', onStop, { once: true });
  const call: EffectCall & { readonly controller: AbortController } = {
    idempotencyKey: facts.idempotencyKey,
    effectKey: facts.effectKey,
    attempt: facts.attempt,
    signal: controller.signal,
    controller,
    bill: (more, of) => {
      spend = addSpend(spend ?? zero, more);
      if (of === undefined) return;
      divided = true;
      usage.inputTokens += of.inputTokens;
      usage.outputTokens += of.outputTokens;
    },
  };
  return {
    call,
    billed: () => spend,
    usage: () => (divided ? usage : {}),
    finish: () => stop?.removeEventListener('abort', onStop),
  };
}

function withinTimeout<T>(
  runtime: Runtime,
  declared: DeclaredEffect,
  call: { readonly controller: AbortController },
  work: () => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = runtime.clock.timer(declared.timeoutMs, () => {
      const reason = new TimedOut(`no answer within ${declared.timeoutMs} ms`);
      call.controller.abort(reason);
      reject(reason);
    });
    Promise.resolve().then(work).then(resolve, reject).finally(cancel);
  });
}

function landed(value: unknown, spend: Spend): AttemptOutcome {
  let text: string;
  try {
    text = encode(value);
  } catch (error) {
    const { message } = describeError(error);
    return unusable(
      'output_not_storable',
      `the call landed, but its output cannot be stored: ${message}`,
      spend,
    );
  }
  const bytes = Buffer.byteLength(text);
  if (bytes <= limits.effectAnswerBytes) return { kind: 'done', text, spend };
  const lost = { kind: 'lost' as const, digest: base64url(sha256(text)), bytes };
  const message = `the call landed, but its output of ${bytes} bytes is over the limit of ${limits.effectAnswerBytes}`;
  return { ...unusable('output_too_large', message, spend), lost };
}

function unusable(
  code: string,
  message: string,
  spend: Spend,
): Extract<AttemptOutcome, { kind: 'failed' }> {
  return { kind: 'failed', disposition: 'landed', permanent: true, code, message, spend };
}

function failureOf(error: unknown, spend: Spend): AttemptOutcome {
  const { message, code } = describeError(error);
  if (error instanceof EffectFailure) {
    const advice = error.adviceMs === undefined ? {} : { adviceMs: error.adviceMs };
    const { disposition, permanent } = error;
    // A code is a word of the record itself: an overlong one is cut before it is one.
    const word = code ?? 'effect_failed';
    return { kind: 'failed', disposition, permanent, code: word, message, spend, ...advice };
  }
  const base = { kind: 'failed' as const, permanent: false, message, spend };
  if (error instanceof EffectNotAppliedError) {
    return { ...base, disposition: 'did_not_happen', code: 'effect_not_applied' };
  }
  if (error instanceof TimedOut)
    return { ...base, disposition: 'in_doubt', code: 'effect_timeout' };
  if (code !== undefined && neverSent.has(code)) {
    return { ...base, disposition: 'did_not_happen', code: 'effect_not_sent' };
  }
  return { ...base, disposition: 'in_doubt', code: 'effect_failed' };
}

function verdictOf(answer: ProbeAnswer, billed: Spend): ProbeOutcome {
  if (answer.outcome === 'landed') {
    const spend = addSpend(billed, answer.spend ?? {});
    const payload = payloadOf({ output: answer.output });
    const bytes = payload.kind === 'text' ? Buffer.byteLength(payload.text) : 0;
    if (bytes > limits.effectAnswerBytes) {
      const most = limits.effectAnswerBytes;
      return inconclusive(`it landed, but its output of ${bytes} bytes is over ${most}`, spend);
    }
    return { verdict: 'landed', output: answer.output, payload, spend, message: '' };
  }
  if (answer.outcome === 'did_not_happen') {
    const message = 'the provider says it did not happen';
    return {
      verdict: 'did_not_happen',
      output: undefined,
      payload: noPayload,
      spend: billed,
      message,
    };
  }
  return inconclusive(answer.detail ?? 'the probe could not tell', billed);
}

function inconclusive(message: string, spend: Spend): ProbeOutcome {
  const { message: told } = describeError(message);
  return {
    verdict: 'inconclusive',
    output: undefined,
    payload: payloadOf({ message: told }),
    spend,
    message: told,
  };
}

/** Spend of an attempt: what it billed, or its declared cost when it billed nothing (ruling 17). */
function spendOf(billed: Spend | null, declared: DeclaredEffect): Spend {
  return billed ?? addSpend({ tokens: 0, minorUnits: 0 }, declared.cost);
}
