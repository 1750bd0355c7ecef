// A language model that answers by how far its conversation has come: the same prompt, the same answer.
import type {
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
} from '@ai-sdk/provider';
import { MockLanguageModelV4 } from 'ai/test';

/** One answer: its text, and the tools it calls as [name, input]. */
export interface Line {
  readonly text?: string;
  readonly calls?: readonly (readonly [tool: string, input: unknown])[];
}

/** What one answer of a talk is billed with. */
export const lineUsage = {
  inputTokens: { total: 10, noCache: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 5, text: 5, reasoning: undefined },
};

export class Talk {
  readonly model: MockLanguageModelV4;
  /** Prompts the provider saw, in order. */
  readonly seen: LanguageModelV4CallOptions[] = [];
  /** Thrown instead of an answer, one a request, first in first out. */
  readonly faults: unknown[] = [];
  readonly #lines: readonly Line[];
  readonly #through: <T>(answer: () => Promise<T>) => Promise<T>;

  constructor(
    lines: readonly Line[],
    through: <T>(answer: () => Promise<T>) => Promise<T> = (answer) => answer(),
  ) {
    this.#lines = lines;
    this.#through = through;
    this.model = new MockLanguageModelV4({
      provider: 'fake',
      modelId: 'talk-1',
      doGenerate: (options) => through(async () => this.#result(options)),
      doStream: (options) =>
        through(async () => ({ stream: ReadableStream.from(partsOf(this.#result(options))) })),
    });
  }

  /** A stream that breaks off after its first delta. */
  cutting(error: unknown): MockLanguageModelV4 {
    return new MockLanguageModelV4({
      provider: 'fake',
      modelId: 'talk-1',
      doStream: (options) =>
        this.#through(async () => {
          const parts = partsOf(this.#result(options));
          if (this.seen.length > 1) return { stream: ReadableStream.from(parts) };
          const upTo = parts.findIndex((part) => part.type === 'text-delta') + 1;
          const broken: LanguageModelV4StreamPart[] = [
            ...parts.slice(0, upTo),
            { type: 'error', error },
          ];
          return { stream: ReadableStream.from(broken) };
        }),
    });
  }

  #result(options: LanguageModelV4CallOptions): LanguageModelV4GenerateResult {
    this.seen.push(options);
    const fault = this.faults.shift();
    if (fault !== undefined) throw fault;
    const turn = options.prompt.filter(({ role }) => role === 'assistant').length;
    const line = this.#lines[turn];
    if (line === undefined) throw new Error(`the talk has no answer ${turn}`);
    const calls = line.calls ?? [];
    const content: LanguageModelV4Content[] = [
      ...(line.text === undefined ? [] : [{ type: 'text' as const, text: line.text }]),
      ...calls.map(([toolName, input], index) => ({
        type: 'tool-call' as const,
        toolCallId: `call-${turn}-${index}`,
        toolName,
        input: JSON.stringify(input),
      })),
    ];
    const unified = calls.length > 0 ? ('tool-calls' as const) : ('stop' as const);
    return {
      content,
      finishReason: { unified, raw: undefined },
      usage: lineUsage,
      warnings: [],
      response: { headers: { 'set-cookie': 'secret' }, body: { secret: true } },
    };
  }
}

function partsOf(result: LanguageModelV4GenerateResult): LanguageModelV4StreamPart[] {
  return [
    { type: 'stream-start', warnings: [] },
    ...result.content.flatMap((part, index): LanguageModelV4StreamPart[] => {
      if (part.type !== 'text') return [part as LanguageModelV4StreamPart];
      const id = `${index}`;
      const half = Math.ceil(part.text.length / 2);
      return [
        { type: 'text-start', id },
        { type: 'text-delta', id, delta: part.text.slice(0, half) },
        { type: 'text-delta', id, delta: part.text.slice(half) },
        { type: 'text-end', id },
      ];
    }),
    { type: 'finish', usage: result.usage, finishReason: result.finishReason },
  ];
}
