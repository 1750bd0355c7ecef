// A loopback HTTP/2 server that answers like Bedrock's Converse, so that the real client parses what it says.
import type { ServerHttp2Stream } from 'node:http2';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { crc32 } from 'node:zlib';

/** What one request gets. Event streams are `[event type, body]`; `!` before a type makes it an exception. */
export type Reply =
  | { readonly body: unknown }
  | { readonly error: string; readonly status: number; readonly headers?: Record<string, string> }
  | { readonly events: readonly (readonly [type: string, body: unknown])[]; readonly cut?: boolean }
  /** The stream is reset before anything is answered. */
  | { readonly reset: true }
  | { readonly raw: string };

export interface ConverseServer {
  readonly url: string;
  /** Requests as they came: path and body. */
  readonly seen: readonly { readonly path: string; readonly body: unknown }[];
  /** Queues the answer of the next request. */
  next(...replies: readonly Reply[]): void;
  close(): Promise<void>;
}

export async function converseServer(): Promise<ConverseServer> {
  const replies: Reply[] = [];
  const seen: { path: string; body: unknown }[] = [];
  const server = createServer();
  server.on('stream', (stream, headers) => {
    // A client that leaves, or a reset of ours, ends the stream with an error nobody else hears.
    stream.on('error', () => undefined);
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => {
      const text = Buffer.concat(chunks).toString('utf8');
      seen.push({ path: String(headers[':path']), body: JSON.parse(text) });
      answer(stream, replies.shift() ?? { error: 'NoReplyQueued', status: 500 });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    next: (...more) => void replies.push(...more),
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

function answer(stream: ServerHttp2Stream, reply: Reply): void {
  const json = { 'content-type': 'application/json' };
  if ('reset' in reply) return stream.close(2);
  if ('raw' in reply) {
    stream.respond({ ':status': 200, ...json });
    return void stream.end(reply.raw);
  }
  if ('error' in reply) {
    const type = { 'x-amzn-errortype': `${reply.error}:http://internal.amazon.com/coral/` };
    stream.respond({ ':status': reply.status, ...json, ...type, ...reply.headers });
    return void stream.end(JSON.stringify({ message: `${reply.error} was said` }));
  }
  if ('body' in reply) {
    stream.respond({ ':status': 200, ...json });
    return void stream.end(JSON.stringify(reply.body));
  }
  stream.respond({ ':status': 200, 'content-type': 'application/vnd.amazon.eventstream' });
  const frames = Buffer.concat(reply.events.map(([type, body]) => frame(type, body)));
  if (reply.cut !== true) return void stream.end(frames);
  stream.write(frames, () => stream.close(2));
}

/** One message of an event stream: prelude, headers, payload, each under its checksum. */
function frame(type: string, body: unknown): Buffer {
  const exception = type.startsWith('!');
  const headers = Buffer.concat([
    header(':message-type', exception ? 'exception' : 'event'),
    header(exception ? ':exception-type' : ':event-type', exception ? type.slice(1) : type),
    header(':content-type', 'application/json'),
  ]);
  const payload = Buffer.from(JSON.stringify(body));
  const prelude = Buffer.alloc(12);
  prelude.writeUInt32BE(headers.length + payload.length + 16, 0);
  prelude.writeUInt32BE(headers.length, 4);
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8);
  const message = Buffer.concat([prelude, headers, payload]);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(message), 0);
  return Buffer.concat([message, sum]);
}

function header(name: string, value: string): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(Buffer.byteLength(value), 0);
  return Buffer.concat([
    Buffer.from([Buffer.byteLength(name)]),
    Buffer.from(name),
    Buffer.from([7]),
    length,
    Buffer.from(value),
  ]);
}

export const recordedUsage = { inputTokens: 12, outputTokens: 7, totalTokens: 19 };

/** A response of Converse. */
export function converseBody(
  content: readonly unknown[],
  stopReason = 'end_turn',
  usage: unknown = recordedUsage,
): Reply {
  const output = { message: { role: 'assistant', content } };
  return { body: { output, stopReason, usage, metrics: { latencyMs: 301 } } };
}

/** Events of ConverseStream that say a text in pieces. */
export function textEvents(...pieces: readonly string[]): (readonly [string, unknown])[] {
  return [
    ['messageStart', { role: 'assistant' }],
    ...pieces.map(
      (text) => ['contentBlockDelta', { delta: { text }, contentBlockIndex: 0 }] as const,
    ),
    ['contentBlockStop', { contentBlockIndex: 0 }],
  ];
}

export const ending = (stopReason = 'end_turn'): (readonly [string, unknown])[] => [
  ['messageStop', { stopReason }],
  ['metadata', { usage: recordedUsage, metrics: { latencyMs: 400 } }],
];
