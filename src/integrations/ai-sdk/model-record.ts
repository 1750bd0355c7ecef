// What the journal keeps of a completion of the AI SDK: a digest of the request, and the answer whole.
//
// The request grows with every step of a loop and follows from the answers before it, so its digest is its
// identity. Bodies and headers of requests and responses are left out: they hold credentials.
import type {
  LanguageModelV4CallOptions,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from '@ai-sdk/provider';
import type { ModelUsage } from '../../ports/model.ts';
import { digestOf } from '../../protocol/canonical.ts';
import type { ReplayKey } from '../../protocol/replay-cache.ts';

/** Identity of a completion in its turn: nothing of it is lost but what names no answer. */
export function requestIdentity(
  model: string,
  params: LanguageModelV4CallOptions,
): { readonly model: string; readonly request: string; readonly messages: number } {
  const { abortSignal: _signal, headers: _headers, includeRawChunks: _raw, ...asked } = params;
  return { model, request: digestOf(storable(asked)), messages: params.prompt.length };
}

/** The settings that are numbers. */
export function numbersOf(params: LanguageModelV4CallOptions): Readonly<Record<string, number>> {
  const numbers = Object.entries(params).filter(
    (entry): entry is [string, number] => typeof entry[1] === 'number',
  );
  return Object.fromEntries(numbers);
}

/** What makes two completions equal for the replay cache; what a loop is handed has two forms (B-16). */
export function replayIdentity(
  model: string,
  params: LanguageModelV4CallOptions,
  form: 'whole' | 'parts',
): Omit<ReplayKey, 'sample'> {
  const { abortSignal: _signal, headers: _headers, includeRawChunks: _raw, ...asked } = params;
  const { prompt, tools, toolChoice, providerOptions, ...sampling } = asked;
  return {
    model,
    messages: digestOf(storable(prompt)),
    tools: digestOf(storable({ tools, toolChoice })),
    sampling: {
      ...(storable(sampling) as object),
      form,
      options: digestOf(storable({ providerOptions })),
    },
  };
}

/** Tools a completion may call, by name. */
export function toolNames({ tools = [] }: LanguageModelV4CallOptions): readonly string[] {
  return tools.map(({ name }) => name).sort();
}

/** An answer as it is recorded. */
export function recordedAnswer(
  result: LanguageModelV4GenerateResult,
): LanguageModelV4GenerateResult {
  const { request: _request, response, ...kept } = result;
  const { headers: _headers, body: _body, ...facts } = response ?? {};
  return storable({ ...kept, response: facts }) as LanguageModelV4GenerateResult;
}

/** Parts of a stream as they are recorded: deltas of one block joined, keep-alives and raw chunks left out. */
export function recordedParts(
  parts: readonly LanguageModelV4StreamPart[],
): readonly LanguageModelV4StreamPart[] {
  const kept: LanguageModelV4StreamPart[] = [];
  for (const part of parts) {
    if (part.type === 'raw' || part.type === 'ping') continue;
    const joined = join(kept.at(-1), part);
    if (joined === null) kept.push(storable(part) as LanguageModelV4StreamPart);
    else kept[kept.length - 1] = joined;
  }
  return kept;
}

function join(
  before: LanguageModelV4StreamPart | undefined,
  part: LanguageModelV4StreamPart,
): LanguageModelV4StreamPart | null {
  if (before === undefined || !isDelta(before) || !isDelta(part)) return null;
  const same = before.type === part.type && before.id === part.id;
  if (!same || before.providerMetadata !== undefined || part.providerMetadata !== undefined)
    return null;
  return { ...before, delta: before.delta + part.delta };
}

type Delta = Extract<LanguageModelV4StreamPart, { delta: string }>;

function isDelta(part: LanguageModelV4StreamPart): part is Delta {
  return 'delta' in part;
}

export function usageOf(usage: LanguageModelV4Usage): ModelUsage {
  return {
    inputTokens: count(usage.inputTokens.total),
    outputTokens: count(usage.outputTokens.total),
  };
}

function count(tokens: number | undefined): number {
  return tokens !== undefined && tokens > 0 ? Math.ceil(tokens) : 0;
}

const urlKey = 'turnstone:url';

/** A value without its undefined members, with addresses as text. */
export function storable(value: unknown): unknown {
  if (value instanceof URL) return { [urlKey]: value.href };
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (Array.isArray(value)) return value.map(storable);
  if (!isRecord(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.map(([key, member]) => [key, storable(member)]));
}

/** The inverse for what a provider answers. */
export function revived(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(revived);
  if (!isRecord(value)) return value;
  const address = value[urlKey];
  if (typeof address === 'string') return new URL(address);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, revived(member)]));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
