// A completion as an effect: journaled before its answer is used, billed for every attempt, never paid twice.
//
//   T7, decision 17  the answer is read back by every later pass of its turn, and by no other turn (B-21).
//   Ruling 3   it declares a cost, so it is recorded at once: a crash would have it paid for again.
//   T11, F41   an attempt that failed without a bill stays charged at its reserve, unless nothing was generated.
import type { Model, ModelAnswer, ModelOutcome, ModelRequest, ModelUsage } from '../ports/model.ts';
import type { RetryPolicy } from '../protocol/backoff.ts';
import { limits } from '../protocol/limits.ts';
import { plainOf, type ReplayKey } from '../protocol/replay-cache.ts';
import type { Effect, EffectCall } from '../runtime/turn-context.ts';
import { EffectFailure } from '../runtime/turn-context.ts';
import type { Circuit } from './circuit.ts';

/** How completions are treated; all of it may be left out. */
export interface ModelTreatment {
  /** Effect kind, as policies and declarations name it. Default `model.complete`. */
  readonly kind?: string;
  /** Tokens set aside before an attempt, and charged when it ends without a known bill. Default: the request's output limit, or 0. */
  readonly reserveTokens?: number;
  /** Money set aside likewise, in minor units. Default 0. */
  readonly reserveMinorUnits?: number;
  /** Minor units an attempt costs. Default: none. */
  readonly price?: (usage: ModelUsage) => number;
  /** Default 55000: just within the time a turn may go without progress. */
  readonly timeoutMs?: number;
  /** Default 3 attempts; a wait the provider names is a floor (B-24). */
  readonly retry?: Partial<RetryPolicy>;
  /**
   * Serves an equal completion of this thread at this revision again, unbilled (`Effect.cache`). Two calls that are meant
   * to differ take a `sample` each. Default: every completion is asked for.
   */
  readonly cache?: boolean | { readonly sample: number };
  /**
   * Sees text as it comes, of every attempt that streams: provisional until the completion is recorded (ruling 3), and
   * not seen again on a later pass.
   */
  readonly live?: (text: string, attempt: number) => void;
  /** Keeps attempts from a provider that fails in a row. Default: none. */
  readonly circuit?: Circuit;
}

export const modelTimeoutMs = limits.turnTimeoutMs - 5_000;

/** An effect whose every attempt asks a model once. */
export function modelEffect<Answer>(facts: {
  readonly args: unknown;
  /** Who is asked, for telemetry. */
  readonly provider: string;
  readonly model: string;
  readonly maxOutputTokens: number | undefined;
  readonly treatment: ModelTreatment;
  /** Settings of the request: a number that is none is refused, with a replay cache or without (B-16). */
  readonly sampling: unknown;
  /** What was asked, for the replay cache. */
  readonly request: () => Omit<ReplayKey, 'sample'>;
  readonly ask: (call: EffectCall) => Promise<ModelOutcome<Answer>>;
}): Effect<Answer> {
  const { treatment, args, provider, model, maxOutputTokens, ask, sampling } = facts;
  const { circuit } = treatment;
  plainOf('effect.sampling', sampling);
  return {
    kind: treatment.kind ?? 'model.complete',
    args,
    mutates: false,
    recovery: 'retry',
    asks: { kind: 'model', provider, model },
    timeoutMs: treatment.timeoutMs ?? modelTimeoutMs,
    ...(treatment.retry === undefined ? {} : { retry: treatment.retry }),
    cost: {
      tokens: treatment.reserveTokens ?? maxOutputTokens ?? 0,
      minorUnits: treatment.reserveMinorUnits ?? 0,
    },
    ...cached(facts.request, treatment),
    perform: async (call) => {
      const outcome = await (circuit === undefined ? ask(call) : circuit.ask(() => ask(call)));
      bill(call, outcome, treatment);
      if (outcome.kind === 'answered') return outcome.answer;
      const { message, code, disposition, permanent, adviceMs } = outcome;
      const advice = adviceMs === undefined ? {} : { adviceMs };
      throw new EffectFailure(message, { code, disposition, permanent, ...advice });
    },
  };
}

function cached(
  request: () => Omit<ReplayKey, 'sample'>,
  { cache = false }: ModelTreatment,
): { readonly cache?: ReplayKey } {
  if (cache === false) return {};
  return { cache: cache === true ? request() : { ...request(), sample: cache.sample } };
}

/** A completion for `context.effect(...)`. */
export function completion(
  model: Model,
  request: ModelRequest,
  treatment: ModelTreatment = {},
): Effect<ModelAnswer> {
  const slash = model.id.indexOf('/');
  const { live } = treatment;
  const { maxOutputTokens = null, temperature = null } = request;
  const { schema = null, tools = [], toolChoice = 'auto' } = request;
  const sampling = { maxOutputTokens, temperature };
  return modelEffect({
    args: { model: model.id, request },
    provider: slash < 0 ? model.id : model.id.slice(0, slash),
    model: model.id.slice(slash + 1),
    maxOutputTokens: request.maxOutputTokens,
    treatment,
    sampling,
    request: () => ({
      model: model.id,
      messages: { instructions: request.instructions ?? null, messages: request.messages },
      tools: { schema, tools, toolChoice },
      sampling: { ...sampling, settings: model.settings ?? null, form: 'answer' },
    }),
    ask: ({ signal, idempotencyKey, attempt }) => {
      const told = live === undefined ? {} : { live: (text: string) => live(text, attempt) };
      return model.ask(request, { signal, idempotencyKey, ...told });
    },
  });
}

function bill(call: EffectCall, outcome: ModelOutcome<unknown>, treatment: ModelTreatment): void {
  const { usage } = outcome;
  if (usage !== undefined) {
    const minorUnits = treatment.price === undefined ? {} : { minorUnits: treatment.price(usage) };
    const tokens = usage.inputTokens + usage.outputTokens;
    return call.bill({ tokens, ...minorUnits }, usage);
  }
  if (outcome.kind === 'failed' && outcome.disposition === 'did_not_happen') call.bill({});
}
