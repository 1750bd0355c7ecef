// Tools of an MCP server as effects of a turn, for the AI SDK's loops and for plain code.
//
//   T7   what the server offered is recorded once a turn: a server that changes its tools under a waiting turn
//        changes neither what its model may call nor how a call is treated.
//   T10  what no agent declared needs a person.
import { dynamicTool, type JSONSchema7, jsonSchema, type ToolSet } from 'ai';
import { AgentError } from '../../protocol/errors.ts';
import type { TurnContext } from '../../runtime/turn-context.ts';
import { effectCall, toolEffects } from '../ai-sdk/tool-effects.ts';
import type { McpResult, McpServer, McpToolFacts } from './mcp-server.ts';
import { type McpTreatment, strictest } from './mcp-treatment.ts';

export interface McpToolsOptions {
  /** What becomes of tools nobody declared: asked a person for (default), or not offered. */
  readonly undeclared?: 'person' | 'hide';
  /** Put before the names the model sees, where servers share names. Default none. */
  readonly prefix?: string;
}

export interface McpTools {
  /** For `generateText({ tools })`. */
  readonly tools: ToolSet;
  /** Calls a tool from code, under the same treatment. */
  call(tool: string, args: Readonly<Record<string, unknown>>): Promise<McpResult>;
}

/** Asks a server for its tools and binds them to a turn; throws for a treatment of a tool it does not have. */
export async function mcpTools(
  context: TurnContext,
  server: McpServer,
  treatments: Readonly<Record<string, McpTreatment>> = {},
  { undeclared = 'person', prefix = '' }: McpToolsOptions = {},
): Promise<McpTools> {
  const listed = await context.effect({
    kind: `mcp.${server.name}.list`,
    args: null,
    mutates: false,
    perform: ({ signal }) => server.list(signal),
  });
  checkNames(server, listed, treatments);
  const offered = listed.filter(
    ({ name }) => undeclared === 'person' || Object.hasOwn(treatments, name),
  );
  const bound = Object.fromEntries(
    offered.map((facts) => [`${prefix}${facts.name}`, boundTool(server, facts)]),
  );
  const treated = Object.fromEntries(
    offered.map(({ name, hints }) => {
      const declared = Object.hasOwn(treatments, name) ? treatments[name] : undefined;
      const kind = `mcp.${server.name}.${name}`;
      return [`${prefix}${name}`, { ...strictest(declared, hints), kind }];
    }),
  );
  const tools: ToolSet = toolEffects<ToolSet>(context, bound, treated);
  return { tools, call: (name, args) => callFromCode(tools, `${prefix}${name}`, args, server) };
}

function checkNames(
  server: McpServer,
  listed: readonly McpToolFacts[],
  treatments: Readonly<Record<string, McpTreatment>>,
): void {
  const names = new Set(listed.map(({ name }) => name));
  if (names.size !== listed.length)
    throw new AgentError(`mcp server "${server.name}": expected each tool once, got one twice`);
  for (const name of Object.keys(treatments)) {
    if (names.has(name)) continue;
    const expected = `a tool of server "${server.name}" (${[...names].join(', ')})`;
    throw new AgentError(`mcpTools: treatment of "${name}": expected ${expected}`, {
      code: 'invalid_effect',
    });
  }
}

function boundTool(server: McpServer, facts: McpToolFacts) {
  return dynamicTool({
    description: facts.description,
    inputSchema: jsonSchema(facts.inputSchema as JSONSchema7),
    execute: (input, options) => server.call(facts.name, input, effectCall(options)),
    toModelOutput: ({ output }) => shown(output as McpResult),
  });
}

/** What the model reads of an answer: its text, or all of it where it is more than text. */
function shown(result: McpResult) {
  const texts = result.content.map(({ type, text }) => (type === 'text' ? String(text) : null));
  const plain = texts.every((text) => text !== null);
  const value = plain ? texts.join('\n') : JSON.stringify(result.content);
  return { type: result.isError ? ('error-text' as const) : ('text' as const), value };
}

async function callFromCode(
  tools: ToolSet,
  name: string,
  args: Readonly<Record<string, unknown>>,
  server: McpServer,
): Promise<McpResult> {
  const execute = Object.hasOwn(tools, name) ? tools[name]?.execute : undefined;
  if (execute === undefined)
    throw new AgentError(`mcp server "${server.name}": expected one of its tools, got "${name}"`);
  const options = { toolCallId: 'code', messages: [], context: undefined };
  return (await execute(args, options)) as McpResult;
}
