// An effect that is one HTTP request: sent through the host's allow-list, its outcome classed honestly (page 05).
//   T6  what a status or a broken connection proves is decided in one place, for plans and for TypeScript agents.

import type { HttpAnswer, HttpCaller, HttpRequest } from '../ports/http-caller.ts';
import type { Effect, EffectCall, ProbeAnswer } from '../runtime/turn-context.ts';
import { EffectFailure } from '../runtime/turn-context.ts';

/** A request of an effect; the header `idempotency-key` is added to it. */
export interface EffectRequest {
  readonly method: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON unless it is a string; absent for none. */
  readonly body?: unknown;
}

/** How an HTTP effect is treated: an effect without what the request itself says. */
export type HttpTreatment = Omit<Effect<HttpAnswer>, 'args' | 'perform' | 'probe'> & {
  /** Address that is asked what a call came to; answers `{"outcome", "output"}` as page 05 says. */
  readonly probeUrl?: (idempotencyKey: string) => string;
};

/** An HTTP effect for `context.effect(...)`; its answer is status, a few headers and the body. */
export function httpCall(
  http: HttpCaller,
  request: EffectRequest,
  { probeUrl, ...treatment }: HttpTreatment,
): Effect<HttpAnswer> {
  return {
    ...treatment,
    args: request,
    perform: (call) => performHttp(http, request, treatment.mutates ?? true, call),
    ...(probeUrl === undefined
      ? {}
      : { probe: (call: EffectCall) => probeHttp(http, probeUrl(call.idempotencyKey), call) }),
  };
}

/** Sends one request; throws `EffectFailure` with the class of what went wrong. */
export async function performHttp(
  http: HttpCaller,
  { method, url, headers, body }: EffectRequest,
  mutates: boolean,
  call: EffectCall,
): Promise<HttpAnswer> {
  const request: HttpRequest = {
    method,
    url,
    headers: { ...headers, 'idempotency-key': call.idempotencyKey },
    mutates,
    ...(body === undefined ? {} : { body }),
  };
  const result = await http.call(request, call.signal);
  if (result.kind === 'done') return result.answer;
  const { message, code, disposition, permanent, adviceMs } = result;
  const advice = adviceMs === undefined ? {} : { adviceMs };
  throw new EffectFailure(message, { code, disposition, permanent, ...advice });
}

/** Asks what a call came to; anything but a clear answer is inconclusive (RE-4). */
export async function probeHttp(
  http: HttpCaller,
  url: string,
  call: EffectCall,
): Promise<ProbeAnswer> {
  const request: HttpRequest = { method: 'GET', url, headers: {}, mutates: false };
  const result = await http.call(request, call.signal);
  if (result.kind === 'failed') return { outcome: 'inconclusive', detail: result.message };
  const { status, body } = result.answer;
  if (status === 200 && typeof body === 'object' && body !== null && 'outcome' in body) {
    if (body.outcome === 'landed')
      return { outcome: 'landed', output: 'output' in body ? body.output : null };
    if (body.outcome === 'did_not_happen') return { outcome: 'did_not_happen' };
  }
  return { outcome: 'inconclusive', detail: `the probe answered ${status} without an outcome` };
}
