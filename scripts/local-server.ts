// Starting and killing the embedded server as a user's shell would, for the demo, the tests and the soak.

import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const entry = fileURLToPath(new URL('../src/local/main.ts', import.meta.url));

export interface LocalServer {
  readonly url: string;
  readonly child: ChildProcess;
  /** Resolves with the exit code, or null after a signal. */
  readonly exited: Promise<number | null>;
  kill(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null>;
}

/** Starts a server over a data folder on a free port; resolves at its ready line. */
export function startServer(
  data: string,
  env: Readonly<Record<string, string>> = {},
): Promise<LocalServer> {
  const child = spawn(process.execPath, [entry], {
    env: { ...process.env, PORT: '0', TURNSTONE_DATA: data, TURNSTONE_LEASE_MS: '2000', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  let said = '';
  child.stderr?.on('data', (chunk) => {
    said = `${said}${chunk}`.slice(-4_000);
  });
  return new Promise((resolve, reject) => {
    void exited.then((code) =>
      reject(new Error(`the server ended with ${code} before it was ready: ${said}`)),
    );
    let line = '';
    child.stdout?.on('data', (chunk) => {
      line += chunk;
      const [first, ...rest] = line.split('\n');
      if (rest.length === 0 || first === undefined) return;
      const ready: { url: string } = JSON.parse(first);
      resolve({
        url: ready.url,
        child,
        exited,
        kill: (signal) => {
          child.kill(signal);
          return exited;
        },
      });
    });
  });
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}

/** One call of the HTTP API under a development token. */
export async function callApi(
  url: string,
  method: string,
  path: string,
  options: {
    body?: unknown;
    token?: string | null;
    headers?: Readonly<Record<string, string>>;
    /** Longest time to wait for the answer; default without end. */
    timeoutMs?: number;
  } = {},
): Promise<Reply> {
  const token = options.token === undefined ? 'dev:acme:ann:operator' : options.token;
  const answer = await fetch(`${url}${path}`, {
    method,
    ...(options.timeoutMs === undefined ? {} : { signal: AbortSignal.timeout(options.timeoutMs) }),
    headers: {
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...options.headers,
    },
    ...(options.body === undefined
      ? {}
      : { body: typeof options.body === 'string' ? options.body : JSON.stringify(options.body) }),
  });
  const text = await answer.text();
  const isJson = /json/.test(answer.headers.get('content-type') ?? '');
  const body: Record<string, unknown> = isJson ? JSON.parse(text) : { text };
  return { status: answer.status, headers: answer.headers, body };
}
