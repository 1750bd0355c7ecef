// A middleware for `wrapLanguageModel`: every completion of a loop is an effect of its turn.
//
//   T7   what was answered is read back on every later pass; the provider is asked once, whatever dies.
//   Ruling 3  the loop sees no token before its completion is recorded. `live` shows them as they come.
//   T11  tokens and money of every attempt, failed ones included, are billed to the turn's budget.
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4GenerateResult,
  LanguageModelV4Middleware,
  LanguageModelV4StreamPart,
} from '@ai-sdk/provider';
import { type ModelTreatment, modelEffect } from '../../agent/model-effect.ts';
import type { ModelOutcome } from '../../ports/model.ts';
import type { EffectCall, TurnContext } from '../../runtime/turn-context.ts';
import { inLoop } from './loop.ts';
import {
  numbersOf,
  recordedAnswer,
  recordedParts,
  replayIdentity,
  requestIdentity,
  revived,
  toolNames,
  usageOf,
} from './model-record.ts';
import { providerFailure } from './provider-failure.ts';

export interface ModelEffectOptions extends Omit<ModelTreatment, 'live'> {
  /**
   * What makes a completion the one that was recorded. `request` (default): model, prompt and settings, so that
   * another wording is a divergence. `place`: where it stands in the turn and which tools it may call, so that a
   * turn that waited over a deployment goes on from its recorded answers under new wording (decision 15).
   */
  readonly identity?: 'request' | 'place';
  /**
   * Sees the parts of a stream while they come, of every attempt that streams: provisional until the completion
   * is recorded, and not seen again on a later pass.
   */
  readonly live?: (part: LanguageModelV4StreamPart, attempt: number) => void;
}

/** Binds the completions of a model to one turn: `wrapLanguageModel({ model, middleware: modelEffects(context) })`. */
export function modelEffects(
  context: TurnContext,
  options: ModelEffectOptions = {},
): LanguageModelV4Middleware {
  return {
    specificationVersion: 'v4',
    wrapGenerate: ({ model, params }) =>
      inLoop(context, async () => {
        const asked = (call: EffectCall) => generate(model, bound(params, call), context);
        const answer = revived(await perform(context, model, params, options, 'whole', asked));
        return withInstant(context, answer as LanguageModelV4GenerateResult);
      }),
    wrapStream: ({ model, params }) =>
      inLoop(context, async () => {
        const asked = (call: EffectCall) =>
          stream(model, bound(params, call), context, (part) => options.live?.(part, call.attempt));
        const parts = revived(await perform(context, model, params, options, 'parts', asked));
        return { stream: streamOf(parts as readonly LanguageModelV4StreamPart[]) };
      }),
  };
}

function perform<Answer>(
  context: TurnContext,
  model: LanguageModelV4,
  params: LanguageModelV4CallOptions,
  { identity = 'request', live: _live, ...treatment }: ModelEffectOptions,
  form: 'whole' | 'parts',
  ask: (call: EffectCall) => Promise<ModelOutcome<Answer>>,
): Promise<Answer> {
  const tools = toolNames(params);
  const args =
    identity === 'place'
      ? { tools }
      : { ...requestIdentity(`${model.provider}/${model.modelId}`, params), tools };
  const { maxOutputTokens } = params;
  const { provider, modelId } = model;
  const request = () => replayIdentity(`${provider}/${modelId}`, params, form);
  const sampling = numbersOf(params);
  return context.effect(
    modelEffect({
      args,
      provider,
      model: modelId,
      maxOutputTokens,
      treatment,
      sampling,
      request,
      ask,
    }),
  );
}

/** The request of one attempt: stopped with it. */
function bound(params: LanguageModelV4CallOptions, call: EffectCall): LanguageModelV4CallOptions {
  const { abortSignal } = params;
  const signals = abortSignal === undefined ? [call.signal] : [call.signal, abortSignal];
  return { ...params, abortSignal: AbortSignal.any(signals) };
}

async function generate(
  model: LanguageModelV4,
  params: LanguageModelV4CallOptions,
  context: TurnContext,
): Promise<ModelOutcome<LanguageModelV4GenerateResult>> {
  try {
    const result = await model.doGenerate(params);
    return { kind: 'answered', answer: recordedAnswer(result), usage: usageOf(result.usage) };
  } catch (error) {
    return providerFailure(error, () => context.now());
  }
}

async function stream(
  model: LanguageModelV4,
  params: LanguageModelV4CallOptions,
  context: TurnContext,
  show: (part: LanguageModelV4StreamPart) => void,
): Promise<ModelOutcome<readonly LanguageModelV4StreamPart[]>> {
  const parts: LanguageModelV4StreamPart[] = [];
  const finish = () => parts.find((part) => part.type === 'finish');
  try {
    const answer = await model.doStream(params);
    for await (const part of answer.stream) {
      if (part.type === 'error') throw part.error;
      parts.push(part);
      show(part);
    }
  } catch (error) {
    const spent = finish();
    const failure = providerFailure(error, () => context.now());
    return spent === undefined ? cut(failure, parts) : { ...failure, usage: usageOf(spent.usage) };
  }
  const end = finish();
  if (end !== undefined) {
    return { kind: 'answered', answer: recordedParts(parts), usage: usageOf(end.usage) };
  }
  const message = `the stream ended after ${parts.length} parts without saying how it finished`;
  return { kind: 'failed', disposition: 'in_doubt', permanent: false, code: 'model_cut', message };
}

/** Once tokens came, an error no longer proves that nothing was generated. */
function cut(
  failure: ReturnType<typeof providerFailure>,
  parts: readonly LanguageModelV4StreamPart[],
): ReturnType<typeof providerFailure> {
  const generated = parts.some((part) => 'delta' in part);
  return generated ? { ...failure, disposition: 'in_doubt' } : failure;
}

/** The SDK fills in the instant of an answer that has none; here it is the turn's, the same on every pass. */
function withInstant(
  context: TurnContext,
  answer: LanguageModelV4GenerateResult,
): LanguageModelV4GenerateResult {
  const timestamp = answer.response?.timestamp ?? new Date(context.now());
  const id = answer.response?.id ?? `${context.turn}:${context.now()}`;
  return { ...answer, response: { ...answer.response, id, timestamp } };
}

function streamOf(
  parts: readonly LanguageModelV4StreamPart[],
): ReadableStream<LanguageModelV4StreamPart> {
  return new ReadableStream({
    start: (controller) => {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
}
