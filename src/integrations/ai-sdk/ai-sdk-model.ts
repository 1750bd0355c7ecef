// The model port over any language model of the AI SDK.
import type { LanguageModelV4, LanguageModelV4CallOptions } from '@ai-sdk/provider';
import type {
  Model,
  ModelAnswer,
  ModelCall,
  ModelOutcome,
  ModelRequest,
} from '../../ports/model.ts';
import { usageOf } from './model-record.ts';
import { providerFailure } from './provider-failure.ts';

/** A port over `model`; `now` is asked when a provider names an instant to wait for. */
export function aiSdkModel(model: LanguageModelV4, now: () => number): Model {
  return {
    id: `${model.provider}/${model.modelId}`,
    ask: (request, call) => ask(model, request, call, now),
  };
}

async function ask(
  model: LanguageModelV4,
  request: ModelRequest,
  { signal }: ModelCall,
  now: () => number,
): Promise<ModelOutcome<ModelAnswer>> {
  try {
    const { content, finishReason, usage } = await model.doGenerate(optionsOf(request, signal));
    const text = content.map((part) => (part.type === 'text' ? part.text : '')).join('');
    const spent = usageOf(usage);
    return {
      kind: 'answered',
      answer: { text, finish: finishes[finishReason.unified] ?? 'other', usage: spent },
      usage: spent,
    };
  } catch (error) {
    return providerFailure(error, now);
  }
}

const finishes: Readonly<Partial<Record<string, ModelAnswer['finish']>>> = {
  stop: 'stop',
  length: 'length',
  'content-filter': 'filtered',
};

function optionsOf(request: ModelRequest, abortSignal: AbortSignal): LanguageModelV4CallOptions {
  const { instructions, messages, schema, maxOutputTokens, temperature } = request;
  const system =
    instructions === undefined ? [] : [{ role: 'system' as const, content: instructions }];
  const said = messages.map(({ role, text }) => ({
    role,
    content: [{ type: 'text' as const, text }],
  }));
  return {
    prompt: [...system, ...said],
    abortSignal,
    ...(schema === undefined ? {} : { responseFormat: { type: 'json' as const, schema } }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...(temperature === undefined ? {} : { temperature }),
  };
}
