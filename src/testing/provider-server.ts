// A real HTTP provider for tests and the demo: a ledger, keys it recognises, and behaviours on demand.
//
// Paths: any. A request lands once per Idempotency-Key when `dedup` is on for its path, else each time.
// GET /probe/<key> answers what a key came to; GET /ledger shows everything that was asked.

import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** How one request is treated. `hold` waits for the promise before it answers. */
export interface Behaviour {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Body as sent; default `{"id": "<path>-<n>"}` as JSON. */
  readonly body?: string;
  /** Waits before applying. */
  readonly holdBefore?: Promise<unknown>;
  /** Waits after applying, before answering. */
  readonly holdAfter?: Promise<unknown>;
  /** Applies (unless `applies` is false) and then cuts the connection. */
  readonly reset?: boolean;
  /** False: nothing takes effect. Default: true for a 2xx, false otherwise. */
  readonly applies?: boolean;
}

export interface LedgerEntry {
  readonly path: string;
  readonly method: string;
  readonly key: string;
  readonly landed: boolean;
  readonly body: unknown;
}

export interface ProviderServer {
  readonly url: string;
  readonly ledger: readonly LedgerEntry[];
  /** Treats the next request to a path in a special way; several queue up. */
  next(path: string, behaviour: Behaviour): void;
  /** Recognises keys on this path from now on. */
  dedup(path: string): void;
  landed(path: string): number;
  asked(path: string): number;
  /** Resolves when a path was asked `count` times. */
  reached(path: string, count: number): Promise<void>;
  close(): Promise<void>;
}

/** Starts a provider on a free loopback port, or on `port`. */
export async function providerServer(port = 0): Promise<ProviderServer> {
  const state = new ProviderState();
  const server = createServer((request, response) => {
    state.serve(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return state.facade(server);
}

class ProviderState {
  readonly ledger: LedgerEntry[] = [];
  readonly #behaviours = new Map<string, Behaviour[]>();
  readonly #dedup = new Set<string>();
  readonly #answers = new Map<string, string>();
  #watchers: (() => void)[] = [];

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '/').split('?')[0] ?? '/';
    if (path === '/ledger') return send(response, 200, JSON.stringify(this.ledger));
    if (path.startsWith('/probe/')) return this.#probe(path.slice('/probe/'.length), response);
    const body = await bodyOf(request);
    const key = String(request.headers['idempotency-key'] ?? '');
    const behaviour = this.#behaviours.get(path)?.shift() ?? {};
    await behaviour.holdBefore;
    const answer = this.#apply(path, request.method ?? 'GET', key, body, behaviour);
    for (const watch of this.#watchers.splice(0)) watch();
    await behaviour.holdAfter;
    if (behaviour.reset === true) {
      response.socket?.resetAndDestroy();
      return;
    }
    send(response, behaviour.status ?? 200, behaviour.body ?? answer, behaviour.headers);
  }

  #apply(path: string, method: string, key: string, body: unknown, behaviour: Behaviour): string {
    const status = behaviour.status ?? 200;
    const applies = behaviour.applies ?? (status >= 200 && status < 300);
    const known = this.#answers.get(`${path} ${key}`);
    const repeated = this.#dedup.has(path) && known !== undefined;
    const landed = applies && !repeated;
    this.ledger.push({ path, method, key, landed, body });
    if (repeated) return known;
    const answer = JSON.stringify({
      id: `${path.slice(1)}-${this.ledger.filter((entry) => entry.path === path && entry.landed).length}`,
    });
    if (landed) this.#answers.set(`${path} ${key}`, answer);
    return answer;
  }

  #probe(key: string, response: ServerResponse): void {
    for (const [name, answer] of this.#answers) {
      if (!name.endsWith(` ${key}`)) continue;
      const output = { status: 200, headers: {}, body: JSON.parse(answer) };
      return send(response, 200, JSON.stringify({ outcome: 'landed', output }));
    }
    send(response, 200, JSON.stringify({ outcome: 'did_not_happen' }));
  }

  facade(server: Server): ProviderServer {
    const { port } = server.address() as AddressInfo;
    const asked = (path: string): number =>
      this.ledger.filter((entry) => entry.path === path).length;
    return {
      url: `http://127.0.0.1:${port}`,
      ledger: this.ledger,
      next: (path, behaviour) => {
        this.#behaviours.set(path, [...(this.#behaviours.get(path) ?? []), behaviour]);
      },
      dedup: (path) => {
        this.#dedup.add(path);
      },
      landed: (path) => this.ledger.filter((entry) => entry.path === path && entry.landed).length,
      asked,
      reached: async (path, count) => {
        while (asked(path) < count)
          await new Promise<void>((resolve) => this.#watchers.push(resolve));
      },
      close: () =>
        new Promise<void>((resolve) => {
          server.closeAllConnections();
          server.close(() => resolve());
        }),
    };
  }
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(Buffer.from(chunk));
  const text = Buffer.concat(chunks).toString('utf8');
  if (text === '') return null;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function send(
  response: ServerResponse,
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = { 'content-type': 'application/json' },
): void {
  response.writeHead(status, headers);
  response.end(body);
}
