// The embedded HTTP server: node:http in, ApiRequest through, ApiResponse out.
//   T11  a body is cut off at its limit while it streams.

import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { ApiRequest, ApiResponse } from '../api/api-request.ts';
import { handle } from '../api/handle.ts';
import type { ApiHost } from '../api/handler.ts';
import { tooLarge } from '../api/parse-body.ts';
import { problemOf } from '../api/problem.ts';
import { limits } from '../protocol/limits.ts';
import { devIdentity } from './dev-token.ts';

/** A server over an API host; the caller listens and closes. */
export function httpServer(host: ApiHost): Server {
  const server = createServer(
    { keepAliveTimeout: 5_000, requestTimeout: 120_000 },
    (message, response) => {
      host.detach(answer(host, message, response));
    },
  );
  return server;
}

async function answer(
  host: ApiHost,
  message: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const body = await readBody(message);
  const result =
    body === 'too_large'
      ? await refuseLarge(message, response)
      : await handle(host, requestOf(message, body));
  if (response.destroyed) return;
  write(response, result, message.method === 'HEAD');
}

function refuseLarge(message: IncomingMessage, response: ServerResponse): ApiResponse {
  response.setHeader('connection', 'close');
  message.resume();
  const declared = Number(message.headers['content-length']);
  return problemOf(
    tooLarge(Number.isSafeInteger(declared) ? declared : limits.requestBodyBytes + 1),
  );
}

async function readBody(message: IncomingMessage): Promise<Uint8Array | null | 'too_large'> {
  if (Number(message.headers['content-length'] ?? 0) > limits.requestBodyBytes) return 'too_large';
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of message.iterator({ destroyOnReturn: false })) {
      const part: Buffer = Buffer.from(chunk);
      bytes += part.byteLength;
      if (bytes > limits.requestBodyBytes) return 'too_large';
      chunks.push(part);
    }
  } catch {
    return null;
  }
  return bytes === 0 ? null : Buffer.concat(chunks);
}

function requestOf(message: IncomingMessage, body: Uint8Array | null): ApiRequest {
  const [path = '/', ...query] = (message.url ?? '/').split('?');
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(message.headers)) {
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return {
    method: message.method === 'HEAD' ? 'GET' : (message.method ?? 'GET'),
    path,
    query: new URLSearchParams(query.join('?')),
    headers,
    body,
    identity: devIdentity(headers.authorization),
  };
}

const securityHeaders = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
};

function write(response: ServerResponse, result: ApiResponse, headOnly: boolean): void {
  response.writeHead(result.status, {
    ...securityHeaders,
    ...result.headers,
    'content-length': Buffer.byteLength(result.body),
  });
  response.end(headOnly ? undefined : result.body);
}
