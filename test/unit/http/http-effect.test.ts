// HTTP effects over real sockets: each way a call can end has the class page 05 gives it.

import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { allowList } from '../../../src/adapters/http/allow-list.ts';
import { NodeHttpCaller } from '../../../src/adapters/http/node-http-caller.ts';
import type { HttpRequest } from '../../../src/ports/http-caller.ts';
import type { ProviderServer } from '../../../src/testing/provider-server.ts';
import { providerServer } from '../../../src/testing/provider-server.ts';

let provider: ProviderServer;
beforeAll(async () => {
  provider = await providerServer();
});
afterAll(() => provider.close());

const caller = new NodeHttpCaller(allowList([], { loopback: true }));
const post = (url: string, changes: Partial<HttpRequest> = {}): HttpRequest => ({
  method: 'POST',
  url,
  headers: {},
  body: { a: 1 },
  mutates: true,
  ...changes,
});
const call = (
  url: string,
  changes: Partial<HttpRequest> = {},
  signal = AbortSignal.timeout(5_000),
) => caller.call(post(url, changes), signal);

test('a 2xx with JSON is done with status, a few headers and the parsed body', async () => {
  provider.next('/a', {
    headers: { 'content-type': 'application/json', etag: '"1"', 'set-cookie': 'x=1' },
  });
  expect(await call(`${provider.url}/a`)).toEqual({
    kind: 'done',
    answer: {
      status: 200,
      headers: { 'content-type': 'application/json', etag: '"1"' },
      body: { id: 'a-1' },
    },
  });
});

test('a body that is not JSON is a string', async () => {
  provider.next('/t', { body: 'plain', headers: { 'content-type': 'text/plain' } });
  expect(await call(`${provider.url}/t`)).toMatchObject({
    kind: 'done',
    answer: { body: 'plain' },
  });
});

test('a refused connection and an unknown name did not happen [T6]', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  expect(await call(`http://127.0.0.1:${port}/x`)).toMatchObject({
    kind: 'failed',
    disposition: 'did_not_happen',
    code: 'econnrefused',
  });
  const named = new NodeHttpCaller(allowList(['nowhere.invalid'], { loopback: true }));
  expect(
    await named.call(post('http://nowhere.invalid/x'), AbortSignal.timeout(5_000)),
  ).toMatchObject({ kind: 'failed', disposition: 'did_not_happen' });
});

test('a reset or a silence after the request was written is in doubt [T6]', async () => {
  provider.next('/r', { reset: true });
  expect(await call(`${provider.url}/r`)).toMatchObject({
    kind: 'failed',
    disposition: 'in_doubt',
    permanent: false,
  });
  const gate = Promise.withResolvers<void>();
  provider.next('/h', { holdAfter: gate.promise });
  expect(await call(`${provider.url}/h`, {}, AbortSignal.timeout(150))).toMatchObject({
    kind: 'failed',
    disposition: 'in_doubt',
  });
  gate.resolve();
});

test('declared JSON that does not parse, and an answer over 4 MiB, have landed [T6]', async () => {
  provider.next('/g', { body: '{"a":', applies: true });
  expect(await call(`${provider.url}/g`)).toMatchObject({
    kind: 'failed',
    disposition: 'landed',
    code: 'http_body_unparsable',
  });
  provider.next('/big', {
    body: 'x'.repeat(4 * 1024 * 1024 + 1),
    headers: { 'content-type': 'text/plain' },
  });
  expect(await call(`${provider.url}/big`)).toMatchObject({
    kind: 'failed',
    disposition: 'landed',
    code: 'http_body_too_large',
  });
});

test('redirects are not followed: landed for a mutation, did not happen for a read', async () => {
  provider.next('/m', { status: 302, headers: { location: `${provider.url}/elsewhere` } });
  expect(await call(`${provider.url}/m`)).toMatchObject({ kind: 'failed', disposition: 'landed' });
  provider.next('/m', { status: 302, headers: { location: `${provider.url}/elsewhere` } });
  expect(await call(`${provider.url}/m`, { method: 'GET', mutates: false })).toMatchObject({
    kind: 'failed',
    disposition: 'did_not_happen',
  });
  expect(provider.asked('/elsewhere')).toBe(0);
});

test('Retry-After of a 429 is carried', async () => {
  provider.next('/w', { status: 429, headers: { 'retry-after': '3' } });
  expect(await call(`${provider.url}/w`)).toMatchObject({
    kind: 'failed',
    disposition: 'did_not_happen',
    permanent: false,
    adviceMs: 3_000,
  });
});

test.each([
  'http://example.com/',
  'http://169.254.169.254/latest/meta-data',
  'http://[::ffff:169.254.169.254]/',
  'http://[fe80::1]/',
  'http://0.0.0.0:80/',
  'ftp://127.0.0.1/',
  'http://user:pw@127.0.0.1/',
  'not a url',
])('%s is refused before anything is sent', async (url) => {
  expect(await call(url)).toMatchObject({
    kind: 'failed',
    disposition: 'did_not_happen',
    permanent: true,
  });
});

test('a metadata address stays refused though it is listed, and nothing is allowed by default on AWS', async () => {
  const listed = new NodeHttpCaller(allowList(['169.254.169.254'], { loopback: false }));
  expect(
    await listed.call(post('http://169.254.169.254/x'), AbortSignal.timeout(5_000)),
  ).toMatchObject({ kind: 'failed', disposition: 'did_not_happen' });
  const aws = new NodeHttpCaller(allowList([], { loopback: false }));
  expect(await aws.call(post(`${provider.url}/a`), AbortSignal.timeout(5_000))).toMatchObject({
    kind: 'failed',
    code: 'host_not_allowed',
  });
  const one = new NodeHttpCaller(allowList([new URL(provider.url).host], { loopback: false }));
  expect(await one.call(post(`${provider.url}/a`), AbortSignal.timeout(5_000))).toMatchObject({
    kind: 'done',
  });
});
