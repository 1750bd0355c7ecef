// HTTP effects over node:http and node:https, on a fresh connection each: a reused one could lose a
// request in a way nobody can class honestly.
//   T6  "nothing happened" is said only while no connection was made; from then on silence is in doubt.
import { lookup } from 'node:dns';
import * as http from 'node:http';
import * as https from 'node:https';
import type { LookupFunction, Socket } from 'node:net';
import type { HttpAnswer, HttpCaller, HttpRequest, HttpResult } from '../../ports/http-caller.ts';
import { describeError } from '../../protocol/errors.ts';
import { classifyHttp, classifyTransport } from '../../protocol/http-outcome.ts';
import { limits } from '../../protocol/limits.ts';
import type { AllowList } from './allow-list.ts';

const keptHeaders = [
  'content-type',
  'location',
  'etag',
  'retry-after',
  'x-request-id',
  'request-id',
  'idempotency-replayed',
];

/** Why a call ended before an answer. */
class HostRefused extends Error {
  readonly code = 'host_not_allowed';
}

export class NodeHttpCaller implements HttpCaller {
  readonly #allow: AllowList;

  constructor(allow: AllowList) {
    this.#allow = allow;
  }

  async call(request: HttpRequest, signal: AbortSignal): Promise<HttpResult> {
    const url = URL.parse(request.url);
    if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
      return refused(
        'invalid_url',
        `expected an http or https URL, got ${JSON.stringify(request.url)}`,
      );
    }
    if (url.username !== '' || url.password !== '') {
      return refused('invalid_url', 'expected a URL without credentials in it');
    }
    if (!this.#allow.listed(url)) {
      return refused(
        'host_not_allowed',
        `host ${url.host} is not in the allow-list (TURNSTONE_HTTP_ALLOW)`,
      );
    }
    return new Promise((resolve) => this.#send(url, request, signal, resolve));
  }

  #send(
    url: URL,
    request: HttpRequest,
    signal: AbortSignal,
    resolve: (result: HttpResult) => void,
  ): void {
    const state = { phase: 'before_write' as 'before_write' | 'after_write' };
    let sent: http.ClientRequest;
    try {
      sent = (url.protocol === 'https:' ? https : http).request(url, {
        method: request.method,
        headers: headersOf(request),
        agent: false,
        lookup: this.#lookup(url),
      });
    } catch (error) {
      return resolve(refused('invalid_request', describeError(error).message));
    }
    const stop = (): void => {
      sent.destroy(
        signal.reason instanceof Error ? signal.reason : new Error('the call was stopped'),
      );
    };
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    const finish = (result: HttpResult): void => {
      signal.removeEventListener('abort', stop);
      resolve(result);
    };
    sent.on('socket', (socket) => this.#watch(socket, url, state, sent));
    sent.on('response', (response) => void readAnswer(response, request, finish));
    sent.on('error', (error) => finish(transportFailure(error, state.phase)));
    sent.end(bodyOf(request));
  }

  #watch(socket: Socket, url: URL, state: { phase: string }, sent: http.ClientRequest): void {
    const ready = url.protocol === 'https:' ? 'secureConnect' : 'connect';
    socket.once('connect', () => {
      const address = socket.remoteAddress ?? '';
      if (!this.#allow.reachable(url, address))
        sent.destroy(new HostRefused(`address ${address} is refused`));
    });
    socket.once(ready, () => {
      state.phase = 'after_write';
    });
  }

  /** Names resolve through the allow-list, so that a refused address is never connected to. */
  #lookup(url: URL): LookupFunction {
    return (hostname, options, callback) => {
      lookup(hostname, { ...options, all: true }, (error, addresses) => {
        if (error !== null) return callback(error, '', 0);
        const allowed = addresses.filter(({ address }) => this.#allow.reachable(url, address));
        const [first] = allowed;
        if (first === undefined) {
          return callback(new HostRefused(`no address of ${hostname} may be reached`), '', 0);
        }
        if (options.all === true) return callback(null, allowed);
        return callback(null, first.address, first.family);
      });
    };
  }
}

function headersOf(request: HttpRequest): http.OutgoingHttpHeaders {
  const headers: http.OutgoingHttpHeaders = {};
  for (const [name, value] of Object.entries(request.headers)) headers[name.toLowerCase()] = value;
  const body = bodyOf(request);
  if (body !== undefined) {
    if (headers['content-type'] === undefined && typeof request.body !== 'string') {
      headers['content-type'] = 'application/json';
    }
    headers['content-length'] = Buffer.byteLength(body);
  }
  headers.connection = 'close';
  return headers;
}

function bodyOf(request: HttpRequest): string | undefined {
  if (request.body === undefined) return undefined;
  return typeof request.body === 'string' ? request.body : JSON.stringify(request.body);
}

async function readAnswer(
  response: http.IncomingMessage,
  request: HttpRequest,
  finish: (result: HttpResult) => void,
): Promise<void> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response) {
      const part: Buffer = Buffer.from(chunk);
      bytes += part.byteLength;
      if (bytes > limits.effectAnswerBytes) {
        response.destroy();
        return finish(judged(response, request, { kind: 'too_large' }));
      }
      chunks.push(part);
    }
  } catch (error) {
    return finish(transportFailure(error, 'after_write'));
  }
  finish(judged(response, request, parsed(response, Buffer.concat(chunks).toString('utf8'))));
}

type Body = { kind: 'ok'; value: unknown } | { kind: 'unparsable' } | { kind: 'too_large' };

function parsed(response: http.IncomingMessage, text: string): Body {
  const type = response.headers['content-type'] ?? '';
  if (!/^application\/(?:[\w.+-]+\+)?json\b/i.test(type)) return { kind: 'ok', value: text };
  try {
    return { kind: 'ok', value: JSON.parse(text) };
  } catch {
    return { kind: 'unparsable' };
  }
}

function judged(response: http.IncomingMessage, request: HttpRequest, body: Body): HttpResult {
  const status = response.statusCode ?? 0;
  const retryAfter = response.headers['retry-after'];
  const seconds =
    retryAfter !== undefined && /^\d+$/.test(retryAfter)
      ? { retryAfterSeconds: Number(retryAfter) }
      : {};
  const outcome = classifyHttp({ status, body: body.kind, mutates: request.mutates, ...seconds });
  if (outcome.kind === 'done' && body.kind === 'ok') {
    return { kind: 'done', answer: { status, headers: kept(response), body: body.value } };
  }
  if (outcome.kind === 'done') throw new Error('an unusable body is never done');
  const { disposition, permanent, code, adviceMs } = outcome;
  const message = `${request.method} ${shortUrl(request.url)} answered ${status}${reasonFor(code)}`;
  const advice = adviceMs === undefined ? {} : { adviceMs };
  return { kind: 'failed', disposition, permanent, code, message, ...advice };
}

function reasonFor(code: string): string {
  if (code === 'http_body_unparsable') return ' with a body that is not the JSON it declares';
  if (code === 'http_body_too_large') return ` with a body over ${limits.effectAnswerBytes} bytes`;
  return '';
}

function kept(response: http.IncomingMessage): HttpAnswer['headers'] {
  const headers: Record<string, string> = {};
  for (const name of keptHeaders) {
    const value = response.headers[name];
    if (typeof value === 'string') headers[name] = value;
  }
  return headers;
}

function transportFailure(error: unknown, phase: 'before_write' | 'after_write'): HttpResult {
  const { message, code } = describeError(error);
  if (error instanceof HostRefused) return refused('host_not_allowed', message);
  const outcome = classifyTransport({ phase, code: (code ?? 'no_answer').toLowerCase() });
  const { disposition, permanent } = outcome;
  return { kind: 'failed', disposition, permanent, code: outcome.code, message };
}

function refused(code: string, message: string): HttpResult {
  return { kind: 'failed', disposition: 'did_not_happen', permanent: true, code, message };
}

/** A URL without its query, which may carry what a journal of codes should not repeat. */
function shortUrl(url: string): string {
  const [path] = url.split('?');
  return path ?? url;
}
