// A provider of the AI SDK with its real client, against recorded answers of its service over loopback HTTP.
import type { Server } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createGateway } from 'ai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aiSdkModel } from '../../../src/integrations/ai-sdk/ai-sdk-model.ts';

type Reply =
  | { readonly status: number; readonly body: string; readonly headers?: Record<string, string> }
  | 'reset'
  | 'silence';

const replies: Reply[] = [];
let asked = 0;
let server: Server;
let url = '';

beforeAll(async () => {
  server = createServer((request, response) => {
    request.resume().on('end', () => {
      asked += 1;
      const reply = replies.shift() ?? 'reset';
      if (reply === 'silence') return;
      if (reply === 'reset') return void request.socket.destroy();
      response.writeHead(reply.status, { 'content-type': 'application/json', ...reply.headers });
      response.end(reply.body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

function asking(options: { baseURL?: string; fetch?: typeof fetch; signal?: AbortSignal } = {}) {
  const { signal = new AbortController().signal, ...settings } = options;
  const gateway = createGateway({ apiKey: 'test', baseURL: url, ...settings });
  const call = { signal, idempotencyKey: 'k' };
  return aiSdkModel(gateway('acme/large'), () => 0).ask(
    { messages: [{ role: 'user', text: 'Hi' }] },
    call,
  );
}

const said = (status: number, type: string, headers: Record<string, string> = {}): Reply => ({
  status,
  headers,
  body: JSON.stringify({ error: { message: `${type} was said`, type } }),
});

const none = { kind: 'failed', disposition: 'did_not_happen', permanent: false } as const;
const never = { kind: 'failed', disposition: 'did_not_happen', permanent: true } as const;
const unknown = { kind: 'failed', disposition: 'in_doubt', permanent: false } as const;

test('an answer is heard with its bill', async () => {
  replies.push({
    status: 200,
    body: JSON.stringify({
      content: [{ type: 'text', text: 'Hello.' }],
      finishReason: { unified: 'stop', raw: 'end_turn' },
      usage: { inputTokens: { total: 12 }, outputTokens: { total: 7 } },
      warnings: [],
    }),
  });
  expect(await asking()).toMatchObject({
    kind: 'answered',
    answer: { text: 'Hello.', finish: 'stop' },
    usage: { inputTokens: 12, outputTokens: 7 },
  });
});

test.each([
  [400, 'invalid_request_error', { ...never, code: 'model_400' }],
  [401, 'authentication_error', { ...never, code: 'model_401' }],
  [403, 'forbidden', { ...never, code: 'model_403' }],
  [404, 'model_not_found', { ...never, code: 'model_404' }],
  [408, 'a_new_type', { ...none, code: 'model_408' }],
  [424, 'failed_dependency', { ...unknown, code: 'model_424' }],
  [429, 'rate_limit_exceeded', { ...none, code: 'model_429' }],
  [500, 'internal_server_error', { ...unknown, code: 'model_500' }],
  [502, 'a_new_type', { ...unknown, code: 'model_502' }],
  [503, 'a_new_type', { ...none, code: 'model_503' }],
] as const)('%i %s means %o and is asked once [T6]', async (status, type, means) => {
  const before = asked;
  replies.push(said(status, type));
  expect(await asking()).toMatchObject(means);
  expect(asked - before).toBe(1);
});

test('the wait a provider names comes through its wrapping (B-24)', async () => {
  replies.push(said(429, 'rate_limit_exceeded', { 'retry-after': '3' }));
  expect(await asking()).toMatchObject({ adviceMs: 3_000 });
});

test('a status that stands for no answer proves nothing: the time-out of the client is no 408 of the service [T6]', async () => {
  const timesOut = () =>
    Promise.reject(Object.assign(new Error('headers'), { code: 'UND_ERR_HEADERS_TIMEOUT' }));
  expect(await asking({ fetch: timesOut })).toMatchObject({ ...unknown, code: 'model_failed' });
  replies.push('reset');
  expect(await asking()).toMatchObject(unknown);
  replies.push({ status: 200, body: '{"content": [' });
  expect(await asking()).toMatchObject(unknown);
});

test('a connection that nobody takes is nothing sent [T6]', async () => {
  const gone = createServer();
  await new Promise<void>((resolve) => gone.listen(0, '127.0.0.1', resolve));
  const { port } = gone.address() as AddressInfo;
  await new Promise((resolve) => gone.close(resolve));
  const baseURL = `http://127.0.0.1:${port}`;
  expect(await asking({ baseURL })).toMatchObject({ ...none, code: 'effect_not_sent' });
});

test('an attempt that is stopped proves nothing [T6]', async () => {
  replies.push('silence');
  const stop = new AbortController();
  const outcome = asking({ signal: stop.signal });
  const before = asked;
  while (asked === before) await new Promise(setImmediate);
  stop.abort(new Error('stop'));
  expect(await outcome).toMatchObject(unknown);
});
