// One MCP server as turns reach it: connected on first use, connected again after it closed.
//
// Owns: the connection, and what an error of a call proves. Does not own: attempts, approvals, what is recorded.
//   T6   only the protocol's own refusals prove that a tool did not run; a closed pipe proves nothing.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { describeError } from '../../protocol/errors.ts';
import { limits } from '../../protocol/limits.ts';
import { EffectFailure } from '../../runtime/turn-context.ts';

/** What a server says of a tool; hints are its own word. */
export interface McpToolFacts {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of its arguments. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  readonly hints: McpHints;
}

export interface McpHints {
  readonly readOnly?: boolean;
  readonly destructive?: boolean;
  readonly idempotent?: boolean;
}

/** What a tool answered; `isError` is the tool's own verdict, an answer like any other. */
export interface McpResult {
  readonly content: readonly Readonly<Record<string, unknown>>[];
  readonly structuredContent?: Readonly<Record<string, unknown>>;
  readonly isError: boolean;
}

export interface McpAsk {
  readonly signal: AbortSignal;
  /** Sent as `_meta["turnstone/idempotency-key"]`; the same for every attempt of one call. */
  readonly idempotencyKey: string;
}

export interface McpServer {
  /** Part of its effect kinds: `mcp.<name>.<tool>`. */
  readonly name: string;
  list(signal: AbortSignal): Promise<readonly McpToolFacts[]>;
  /** Throws `EffectFailure` where the server proved that the tool did not run, anything else where nobody knows. */
  call(tool: string, args: unknown, ask: McpAsk): Promise<McpResult>;
  close(): Promise<void>;
}

/** A server behind a transport: stdio, streamable HTTP, or any other of the SDK. */
export function mcpServer(options: {
  readonly name: string;
  /** Makes a transport for each connection. */
  readonly transport: () => Transport;
}): McpServer {
  let open: Promise<Client> | null = null;
  const connected = (): Promise<Client> => {
    if (open !== null) return open;
    const forget = (): void => {
      if (open === opening) open = null;
    };
    const opening: Promise<Client> = connect(options.transport, forget).catch((error: unknown) => {
      forget();
      throw notSent(error);
    });
    open = opening;
    return opening;
  };
  return {
    name: options.name,
    list: async (signal) => listAll(await connected(), signal),
    call: async (tool, args, ask) => callOnce(await connected(), tool, args, ask),
    close: async () => {
      const closing = open;
      open = null;
      if (closing !== null) await (await closing).close();
    },
  };
}

async function connect(make: () => Transport, closed: () => void): Promise<Client> {
  const client = new Client({ name: 'turnstone', version: '1' });
  client.onclose = closed;
  await client.connect(make());
  return client;
}

/** Pages of one listing: a server that never ends it is cut off. */
const pagesMax = 100;

async function listAll(client: Client, signal: AbortSignal): Promise<readonly McpToolFacts[]> {
  const found: McpToolFacts[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < pagesMax; page += 1) {
    const { tools, nextCursor } = await client.listTools(cursor === undefined ? {} : { cursor }, {
      signal,
    });
    for (const { name, description = '', inputSchema, annotations = {} } of tools) {
      const { readOnlyHint, destructiveHint, idempotentHint } = annotations;
      const hints: McpHints = {
        ...(readOnlyHint === undefined ? {} : { readOnly: readOnlyHint }),
        ...(destructiveHint === undefined ? {} : { destructive: destructiveHint }),
        ...(idempotentHint === undefined ? {} : { idempotent: idempotentHint }),
      };
      found.push({ name, description, inputSchema, hints });
    }
    if (nextCursor === undefined) return found;
    cursor = nextCursor;
  }
  throw new EffectFailure(`the server lists its tools on more than ${pagesMax} pages`, {
    code: 'mcp_list_endless',
    disposition: 'landed',
    permanent: true,
  });
}

/** `client.callTool` checks outputs and reports a bad one as "invalid params", of a call that has landed: not used. */
async function callOnce(
  client: Client,
  name: string,
  args: unknown,
  { signal, idempotencyKey }: McpAsk,
): Promise<McpResult> {
  const params = {
    name,
    arguments: args as Record<string, unknown>,
    _meta: { 'turnstone/idempotency-key': idempotencyKey },
  };
  try {
    const result = await client.request({ method: 'tools/call', params }, CallToolResultSchema, {
      signal,
      timeout: limits.effectTimeoutMaxMs,
    });
    const { content, structuredContent, isError = false } = result;
    return {
      content: content as McpResult['content'],
      ...(structuredContent === undefined ? {} : { structuredContent }),
      isError,
    };
  } catch (error) {
    throw callFailure(error);
  }
}

/** JSON-RPC's refusals: parse error, invalid request, method not found, invalid params. */
const refusals: ReadonlySet<number> = new Set([-32_700, -32_600, -32_601, -32_602]);

/** What a call's error proves; one that proves nothing comes back as it is. */
export function callFailure(error: unknown): unknown {
  const code: unknown = Reflect.get(Object(error), 'code');
  const { name, message } = describeError(error);
  if (typeof code !== 'number') return error;
  const refused = refusals.has(code) || (name !== 'McpError' && code >= 400 && code < 500);
  if (!refused) return error;
  return new EffectFailure(message, {
    code: `mcp_${Math.abs(code)}`,
    disposition: 'did_not_happen',
    // A session that has ended is opened again; so is a server that is busy.
    permanent: ![404, 408, 425, 429].includes(code),
    cause: error,
  });
}

function notSent(error: unknown): EffectFailure {
  return new EffectFailure(`no connection: ${describeError(error).message}`, {
    code: 'mcp_not_connected',
    disposition: 'did_not_happen',
    cause: error,
  });
}
