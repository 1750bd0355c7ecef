// Tools of a real MCP server, over stdio and over streamable HTTP, as effects of turns.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { McpServer as SdkServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { agents, notekeeper, notesServer } from '../../src/examples/mcp-tools.ts';
import { type McpServer, type McpTreatment, mcpTools } from '../../src/integrations/mcp/index.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { handleInboxBatch } from '../../src/runtime/drive.ts';
import type { Process } from '../../src/testing/process.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';
import { type Line, Talk } from './talk.ts';

const cleanups: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean();
});

/** Calls go through the process of the scene, so that its clock stands while one is on its way. */
function counted(server: McpServer, current: () => Process): McpServer {
  return {
    name: server.name,
    list: (signal) => current().provider('mcp.list', () => server.list(signal)),
    call: (tool, args, ask) =>
      current().provider(`mcp.${tool}`, () => server.call(tool, args, ask)),
    close: () => server.close(),
  };
}

/** The notes server of the example, as a process of its own. */
function stdioNotes(): { server: McpServer; notes: () => unknown } {
  const folder = mkdtempSync(join(tmpdir(), 'turnstone-notes-'));
  const file = join(folder, 'notes.json');
  writeFileSync(file, '[]');
  const server = notesServer(undefined, file);
  cleanups.push(() => rmSync(folder, { recursive: true }));
  cleanups.push(() => server.close());
  return { server, notes: () => JSON.parse(readFileSync(file, 'utf8')) };
}

function sceneOf(
  store: ConstructorParameters<typeof Scene>[0],
  server: McpServer,
  run: (bound: McpServer) => ReturnType<typeof agentOf>,
): Scene {
  const bound = counted(server, () => scene.process);
  const scene: Scene = new Scene(store, run(bound));
  return scene;
}

async function decide(scene: Scene, decision: 'approve' | 'deny', action: unknown): Promise<void> {
  const { runtime } = scene.process;
  const { tenant } = scene.ref();
  const asked = { status: 'pending', limit: 10, cursor: null } as const;
  const [only, ...others] = (await listApprovals(runtime, tenant, asked)).items;
  if (only === undefined || others.length > 0) throw new Error('expected one approval');
  expect(only.action).toEqual(action);
  const given = { decision, digest: only.digest, note: null };
  await answerApproval(runtime, tenant, only.id, given, 'bob');
  scene.restart();
  const messages = scene.world.queues.inbox.take();
  const batch = messages.map(({ body }, index) => ({ id: `${index}`, body, receives: 1 }));
  await scene.world.settle(scene.process, handleInboxBatch(scene.process.runtime, batch, {}));
}

const lines: readonly Line[] = [
  { calls: [['add_note', { text: 'milk' }]] },
  { calls: [['list_notes', {}]] },
  { calls: [['clear_notes', {}]] },
  { text: 'Done.' },
];
const clearing = { tool: 'clear_notes', input: {} };

onEachStore(
  'mcp: declared tools run, an undeclared one waits for a person, and none runs twice [T5 T7 T10]',
  async (open) => {
    const { server, notes } = stdioNotes();
    const talk = new Talk(lines);
    const scene = sceneOf(await open(), server, (bound) => notekeeper(talk.model, bound));
    const input = { task: 'Note the milk, then clear.' };
    await scene.suspend('t1', { input });
    expect(notes()).toEqual(['milk']);
    await decide(scene, 'approve', clearing);
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'Done.' });
    expect([notes(), talk.seen.length]).toEqual([[], 4]);
    expect(JSON.stringify(talk.seen[2]?.prompt.at(-1))).toContain('"value":"milk"');
    const kinds = (await scene.journal()).flatMap((body) =>
      body.kind === 'EffectStarted' ? [body.effect] : [],
    );
    expect(kinds.filter((kind) => kind.startsWith('mcp.'))).toEqual([
      'mcp.notes.list',
      'mcp.notes.add_note',
      'mcp.notes.list_notes',
      'mcp.notes.clear_notes',
    ]);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

test('mcp: a denied call never reached the server, and the model hears so [T10]', async () => {
  const { server, notes } = stdioNotes();
  const talk = new Talk(lines);
  const scene = sceneOf(memoryStore(), server, (bound) => notekeeper(talk.model, bound));
  await scene.suspend('t1', { input: { task: 'Clear.' } });
  await decide(scene, 'deny', clearing);
  expect(await scene.view()).toMatchObject({ status: 'succeeded' });
  expect(notes()).toEqual(['milk']);
  expect(JSON.stringify(talk.seen[3]?.prompt.at(-1))).toContain('it was denied');
});

/** A server over streamable HTTP whose tools are given; it answers each request on its own. */
async function httpNotes(
  register: (server: SdkServer) => void,
): Promise<{ url: string; http: Server }> {
  const http = createServer((request, response) => {
    const server = new SdkServer({ name: 'notes', version: '1.0.0' });
    register(server);
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    server.connect(transport as Transport).then(
      () => transport.handleRequest(request, response),
      (error: unknown) => response.destroy(error as Error),
    );
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => new Promise<void>((resolve) => http.close(() => resolve())));
  cleanups.push(() => http.closeAllConnections());
  return { url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`, http };
}

const text = (said: string) => ({ content: [{ type: 'text' as const, text: said }] });

/** A turn of plain code that calls one tool. */
const calling =
  (tool: string, treatments: Readonly<Record<string, McpTreatment>>) => (server: McpServer) =>
    agentOf(async (context) => {
      const { call } = await mcpTools(context, server, treatments);
      return call(tool, { text: 'milk' });
    });

test('mcp: over HTTP a call carries its key, and a tool that says no is an answer, not a doubt [T5]', async () => {
  const keys: unknown[] = [];
  const { url } = await httpNotes((server) => {
    server.registerTool('add', { inputSchema: { text: z.string() } }, async (_, { _meta }) => {
      keys.push(_meta?.['turnstone/idempotency-key']);
      return { ...text('the book is full'), isError: true };
    });
  });
  const server = notesServer(url, '');
  cleanups.push(() => server.close());
  const scene = sceneOf(memoryStore(), server, calling('add', { add: {} }));
  expect(await scene.conclude()).toMatchObject({
    status: 'succeeded',
    result: { isError: true, content: [{ type: 'text', text: 'the book is full' }] },
  });
  expect(keys).toEqual([expect.stringMatching(/^[\w-]{43}$/)]);
  expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
});

test('mcp: a connection that closes under a call leaves a doubt, and is not tried again [T6]', async () => {
  let called = 0;
  const { url, http } = await httpNotes((server) => {
    server.registerTool('add', { inputSchema: { text: z.string() } }, async () => {
      called += 1;
      http.closeAllConnections();
      return text('added');
    });
  });
  const server = notesServer(url, '');
  cleanups.push(() => server.close());
  const scene = sceneOf(memoryStore(), server, calling('add', { add: {} }));
  expect(await scene.conclude()).toMatchObject({
    status: 'quarantined',
    undecided: [{ kind: 'mcp.notes.add' }],
  });
  expect(called).toBe(1);
});

test('mcp: a server that changes its tools under a waiting turn changes nothing of it [T7]', async () => {
  let destructive: boolean | undefined = true;
  const added: string[] = [];
  const { url } = await httpNotes((server) => {
    const annotations = destructive === undefined ? {} : { destructiveHint: destructive };
    const config = { inputSchema: { text: z.string() }, annotations };
    server.registerTool('add', config, async ({ text: note }) => {
      added.push(note);
      return text('added');
    });
  });
  const server = notesServer(url, '');
  cleanups.push(() => server.close());
  const scene = sceneOf(memoryStore(), server, calling('add', { add: { approval: false } }));
  await scene.suspend();
  expect(added).toEqual([]);
  destructive = undefined;
  await decide(scene, 'approve', { tool: 'add', input: { text: 'milk' } });
  expect(await scene.view()).toMatchObject({ status: 'succeeded' });
  expect(added).toEqual(['milk']);
});

test('mcp: a treatment of a tool that the server does not have is refused before any call [T11]', async () => {
  const { server } = stdioNotes();
  const scene = sceneOf(memoryStore(), server, calling('add_note', { add_notes: {} }));
  expect(await scene.conclude()).toMatchObject({
    status: 'failed',
    error: {
      message:
        'mcpTools: treatment of "add_notes": expected a tool of server "notes" (list_notes, add_note, clear_notes)',
    },
  });
});

test('mcp: a server that cannot be started did nothing: the turn fails, and no person is asked [T6]', async () => {
  const server = notesServer('http://127.0.0.1:1/mcp', '');
  const scene = sceneOf(memoryStore(), server, calling('add_note', { add_note: {} }));
  expect(await scene.conclude()).toMatchObject({
    status: 'failed',
    error: { code: 'mcp_not_connected' },
    spend: { attempts: 3 },
  });
});

test('mcp: the module offers its agent to a host', () => {
  const http = { call: () => Promise.reject(new Error('not used')) };
  expect(agents({ http, env: {} }).map(({ name }) => name)).toEqual(['notekeeper']);
});
