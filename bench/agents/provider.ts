// The provider of every contender: a real HTTP server that counts, recognises keys where it says so, answers probes,
// and has its caller killed at one of its calls.
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { keyed } from './script.ts';

/** `arrived`: the call was sent and nothing has happened yet. `landed`: it happened, and its answer is on the way. */
export type Instant = 'arrived' | 'landed';

export interface Kill {
  /** 1-based number of the call. */
  readonly call: number;
  readonly instant: Instant;
}

export interface Seen {
  readonly path: string;
  /** False when it was recognised by its key, or never happened. */
  readonly landed: boolean;
  /** True for calls of the process that was started after the kill. */
  readonly again: boolean;
}

export interface Provider {
  readonly url: string;
  readonly seen: readonly Seen[];
  /** The call that was hit, or null as long as none was. */
  readonly hit: Seen | null;
  close(): Promise<void>;
}

/** Serves on a free loopback port; `kill` resolves when the caller is dead. */
export async function provide(fault: Kill, kill: () => Promise<void>): Promise<Provider> {
  const seen: Seen[] = [];
  const answers = new Map<string, string>();
  let hit: Seen | null = null;
  const land = (path: string, key: string): { answer: string; landed: boolean } => {
    const name = path.split('/').at(-1) ?? '';
    const known = answers.get(`${path} ${key}`);
    const recognises = path.startsWith('/tool/') && keyed.some((tool) => tool === name);
    if (recognises && known !== undefined) return { answer: known, landed: false };
    const answer = JSON.stringify({ id: `${name}-${seen.length + 1}` });
    if (path.startsWith('/tool/')) answers.set(`${path} ${key}`, answer);
    return { answer, landed: true };
  };
  const serve = async (path: string, key: string, response: ServerResponse): Promise<void> => {
    if (path.startsWith('/probe/')) return send(response, probe(answers, path));
    const again = hit !== null;
    const hits = !again && seen.length + 1 === fault.call;
    if (hits && fault.instant === 'arrived') {
      hit = { path, landed: false, again };
      seen.push(hit);
      await kill();
      response.destroy();
      return;
    }
    const { answer, landed } = land(path, key);
    const entry = { path, landed, again };
    seen.push(entry);
    if (hits) {
      hit = entry;
      await kill();
    }
    send(response, answer);
  };
  const server = createServer((request, response) => {
    request.resume().once('end', () => {
      const key = String(request.headers['idempotency-key'] ?? '');
      serve(request.url ?? '/', key, response).catch((error: unknown) =>
        response.destroy(error as Error),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    get hit() {
      return hit;
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

function probe(answers: ReadonlyMap<string, string>, path: string): string {
  const key = path.slice('/probe/'.length);
  const found = [...answers].find(([name]) => name.endsWith(` ${key}`));
  if (found === undefined) return JSON.stringify({ outcome: 'did_not_happen' });
  return JSON.stringify({ outcome: 'landed', output: JSON.parse(found[1]) });
}

function send(response: ServerResponse, body: string): void {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(body);
}
