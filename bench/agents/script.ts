// The agent every contender runs: five tools, five completions, and what the model says after each.
//
// A model never says the same twice: tool calls get a new id with each completion, as from a real provider.
import { randomUUID } from 'node:crypto';

export const tools = ['search', 'reserve', 'ship', 'charge', 'mail'] as const;
export type Tool = (typeof tools)[number];

/** Tools that change something; a search is harmless to repeat. */
export const acts: readonly Tool[] = ['reserve', 'ship', 'charge', 'mail'];

/** Tools whose provider recognises the key it is sent. The other acts can only be asked about, by that key. */
export const keyed: readonly Tool[] = ['reserve', 'charge'];

/** What the model answers, by how many answers it has given before; the last one is words. */
export const talk: readonly (readonly Tool[])[] = [
  ['search'],
  ['reserve', 'ship'],
  ['charge'],
  ['mail'],
  [],
];

export const answerText = 'All done.';
export const prompt = 'Sell one lamp.';
export const tokensPerCompletion = 15;
export const callCount = talk.length + tools.length;

/** Where a call stands: completions at even stages, the calls they ask for right after. */
export function stageOf(path: string): number {
  const [, kind, name = ''] = path.split('/');
  if (kind === 'model') return 2 * Number(name);
  return 2 * talk.findIndex((asked) => asked.some((tool) => tool === name)) + 1;
}

export interface ToolCall {
  readonly id: string;
  readonly tool: Tool;
}

/** The calls of the completion number `turn`, each under an id of its own. */
export function callsOf(turn: number): readonly ToolCall[] {
  const asked = talk[turn];
  if (asked === undefined) throw new Error(`the script has no completion ${turn}`);
  return asked.map((tool) => ({ id: `call_${randomUUID()}`, tool }));
}

/** Asks the provider; `key` is whatever the contender can send. */
export async function ask(
  provider: string,
  path: string,
  key: string,
  signal?: AbortSignal,
): Promise<{ id: string }> {
  const response = await fetch(`${provider}${path}`, {
    method: 'POST',
    headers: { 'idempotency-key': key },
    ...(signal === undefined ? {} : { signal }),
  });
  if (!response.ok) throw new Error(`${path} answered ${response.status}`);
  return (await response.json()) as { id: string };
}

/** What a contender's process is started with. */
export interface Started {
  readonly data: string;
  readonly provider: string;
  /** Milliseconds that have passed since the process before it died. */
  readonly laterMs: number;
}

export function started(): Started {
  const [data = '', provider = '', later = '0'] = process.argv.slice(2);
  if (data === '' || provider === '')
    throw new Error('expected a data folder and the address of a provider');
  return { data, provider, laterMs: Number(later) };
}
