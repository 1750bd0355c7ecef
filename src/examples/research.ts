// A research loop of the AI SDK. The loop is as its documentation writes it; what makes it durable is the
// middleware around the model and the wrapper around the tools.
//
//   npm install ai zod
//   AI_GATEWAY_API_KEY=... TURNSTONE_AGENTS=src/examples/research.ts npm start
//   npx cdk deploy -c agents=src/examples/research.ts -c httpAllow=desk.example.com,ai-gateway.vercel.sh
//
// A search is harmless to repeat. Publishing is not: the desk deduplicates on the key it is sent, an editor must
// allow it first, and a turn that fails afterwards withdraws the article.
import {
  gateway,
  generateText,
  isStepCount,
  type LanguageModel,
  tool,
  wrapLanguageModel,
} from 'ai';
import type { AgentHost, HttpCaller } from 'turnstone';
import { defineTurnAgent, httpCall, performHttp } from 'turnstone';
import { effectCall, modelEffects, toolEffects } from 'turnstone/ai-sdk';
import * as z from 'zod';

const Question = z.object({ question: z.string().min(1) });
const Article = z.object({ title: z.string(), text: z.string() });

/** Tools as the AI SDK has them, over the desk's HTTP interface. */
function deskTools(http: HttpCaller, desk: string) {
  return {
    search: tool({
      description: 'Search the archive',
      inputSchema: z.object({ query: z.string() }),
      execute: async ({ query }, options) => {
        const request = { method: 'GET', url: `${desk}/search?q=${encodeURIComponent(query)}` };
        return (await performHttp(http, request, false, effectCall(options))).body;
      },
    }),
    publish: tool({
      description: 'Publish an article',
      inputSchema: Article,
      execute: async (article, options) => {
        const request = { method: 'POST', url: `${desk}/articles`, body: article };
        return (await performHttp(http, request, true, effectCall(options))).body;
      },
    }),
  };
}

/** The agent over any language model. */
export function research(language: Exclude<LanguageModel, string>, http: HttpCaller, desk: string) {
  return defineTurnAgent({
    name: 'research',
    input: Question,
    effects: ['model.complete', 'tool.search', 'tool.publish', 'withdraw'],
    run: async (context, input) => {
      const { question } = input as z.infer<typeof Question>;
      const model = wrapLanguageModel({
        model: language as Parameters<typeof wrapLanguageModel>[0]['model'],
        middleware: modelEffects(context),
      });
      const tools = toolEffects(context, deskTools(http, desk), {
        search: { mutates: false },
        publish: {
          recovery: 'idempotent',
          approval: ({ title }) => ({ summary: `publish "${title}"` }),
          undo: (undo, { output }) => {
            const request = {
              method: 'DELETE',
              url: `${desk}/articles`,
              body: { withdraw: output },
            };
            return undo.effect(
              httpCall(http, request, { kind: 'withdraw', recovery: 'idempotent' }),
            );
          },
        },
      });
      const { text, usage } = await generateText({
        model,
        tools,
        instructions: 'Research the question in the archive, then publish one article about it.',
        prompt: question,
        stopWhen: isStepCount(12),
      });
      context.state.append('questions', question);
      return { text, tokens: usage.totalTokens };
    },
  });
}

export const agents = ({ http, env }: AgentHost) => [
  research(
    gateway(env.MODEL ?? 'openai/gpt-5-mini'),
    http,
    env.DESK_URL ?? 'http://127.0.0.1:4000',
  ),
];
