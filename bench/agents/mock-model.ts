// The AI SDK's mock model over the script: each completion is paid for at the provider before it is given.
import type { LanguageModelV4Content } from '@ai-sdk/provider';
import { tool } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { z } from 'zod';
import { answerText, ask, callsOf, tools as names, type Tool } from './script.ts';

export function mockModel(provider: string): MockLanguageModelV4 {
  return new MockLanguageModelV4({
    provider: 'mock',
    modelId: 'mock-1',
    doGenerate: async ({ prompt }) => {
      const turn = prompt.filter(({ role }) => role === 'assistant').length;
      await ask(provider, `/model/${turn}`, '');
      const calls = callsOf(turn);
      const content: LanguageModelV4Content[] = calls.map(({ id, tool: toolName }) => ({
        type: 'tool-call',
        toolCallId: id,
        toolName,
        input: '{}',
      }));
      const done = calls.length === 0;
      return {
        content: done ? [{ type: 'text', text: answerText }] : content,
        finishReason: { unified: done ? 'stop' : 'tool-calls', raw: undefined },
        usage: {
          inputTokens: { total: 10, noCache: 10, cacheRead: undefined, cacheWrite: undefined },
          outputTokens: { total: 5, text: 5, reasoning: undefined },
        },
        warnings: [],
      };
    },
  });
}

/** The five tools as the AI SDK has them; `keyOf` is what a call can send as its key. */
export function toolSet(
  provider: string,
  keyOf: (options: { readonly toolCallId: string }) => string,
) {
  const made = (name: Tool) =>
    tool({
      description: name,
      inputSchema: z.object({}),
      execute: async (_, options) =>
        ask(provider, `/tool/${name}`, keyOf(options), options.abortSignal),
    });
  return Object.fromEntries(names.map((name) => [name, made(name)])) as Record<
    Tool,
    ReturnType<typeof made>
  >;
}
