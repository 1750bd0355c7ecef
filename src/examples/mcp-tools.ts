// An agent over the tools of an MCP server. What the server says of its tools is its own word: it can make a call
// stricter, never looser, and a tool that is not declared here runs only when a person allows the very call.
//
//   npm install ai @modelcontextprotocol/sdk
//   AI_GATEWAY_API_KEY=... TURNSTONE_AGENTS=src/examples/mcp-tools.ts npm start
//
// With NOTES_URL it speaks to a server over streamable HTTP, otherwise to the one beside it over stdio.
import { fileURLToPath } from 'node:url';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { gateway, generateText, isStepCount, wrapLanguageModel } from 'ai';
import type { AgentHost } from 'turnstone';
import { defineTurnAgent } from 'turnstone';
import { modelEffects } from 'turnstone/ai-sdk';
import { type McpServer, mcpServer, mcpTools } from 'turnstone/mcp';
import * as v from 'valibot';

type Model = Parameters<typeof wrapLanguageModel>[0]['model'];

/** The notes server: over HTTP where there is an address, else started beside this process. */
export function notesServer(url: string | undefined, file: string): McpServer {
  const beside = fileURLToPath(new URL('notes-server.ts', import.meta.url));
  const transport = (): Transport =>
    url === undefined
      ? new StdioClientTransport({ command: 'node', args: [beside, file] })
      : (new StreamableHTTPClientTransport(new URL(url)) as Transport);
  return mcpServer({ name: 'notes', transport });
}

export function notekeeper(language: Model, server: McpServer) {
  return defineTurnAgent({
    name: 'notekeeper',
    input: v.object({ task: v.string() }),
    run: async (context, input) => {
      const { task } = input as { task: string };
      const { tools } = await mcpTools(context, server, {
        list_notes: { mutates: false },
        add_note: { recovery: 'operator' },
        // clear_notes is not declared: it mutates, and a person must allow each call.
      });
      const model = wrapLanguageModel({ model: language, middleware: modelEffects(context) });
      const asked = { model, tools, prompt: task, stopWhen: isStepCount(12) };
      return (await generateText(asked)).text;
    },
  });
}

export const agents = ({ env }: AgentHost) => [
  notekeeper(
    gateway(env.MODEL ?? 'openai/gpt-5-mini'),
    notesServer(env.NOTES_URL, env.NOTES_FILE ?? 'notes.json'),
  ),
];
