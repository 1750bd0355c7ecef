// A small MCP server over stdio, for the example beside it: notes in one file, named as its first argument.
//
//   node src/examples/notes-server.ts notes.json
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { argv } from 'node:process';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import * as z from 'zod';

const file = argv[2] ?? 'notes.json';
const notes = (): string[] => (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : []);
const keep = (all: readonly string[]): void => writeFileSync(file, JSON.stringify(all));
const said = (text: string) => ({ content: [{ type: 'text' as const, text }] });

const server = new McpServer({ name: 'notes', version: '1.0.0' });

server.registerTool(
  'list_notes',
  { description: 'All notes', annotations: { readOnlyHint: true } },
  async () => said(notes().join('\n')),
);
server.registerTool(
  'add_note',
  { description: 'Adds a note', inputSchema: { text: z.string() } },
  async ({ text }) => {
    keep([...notes(), text]);
    return said(`note ${notes().length}`);
  },
);
server.registerTool(
  'clear_notes',
  { description: 'Deletes all notes', annotations: { destructiveHint: true } },
  async () => {
    keep([]);
    return said('all gone');
  },
);

await server.connect(new StdioServerTransport());
