// An HTTP effect of a plan: its identity is the request with its references resolved (page 05).
import type { HttpCaller } from '../../ports/http-caller.ts';
import { encode } from '../../protocol/canonical.ts';
import type { Effect, EffectCall } from '../../runtime/turn-context.ts';
import type { EffectRequest } from '../http-effect.ts';
import { performHttp, probeHttp } from '../http-effect.ts';
import type { PlanEffect } from './plan-language.ts';
import type { Roots } from './references.ts';
import { resolve } from './references.ts';

const placeholder = '${idempotencyKey}';

function withKey(roots: Roots, idempotencyKey: string): Roots {
  return new Map([...roots, ['idempotencyKey', idempotencyKey]]);
}

/** An effect of a plan as the runtime takes it. */
export function httpEffect(effect: PlanEffect, roots: Roots, http: HttpCaller): Effect<unknown> {
  const args = resolve(effect.request, withKey(roots, placeholder));
  const bind = (value: unknown, key: string): unknown => resolve(value, withKey(roots, key));
  const key = effect.key === undefined ? undefined : textOf(resolve(effect.key, roots));
  return { kind: effect.kind, args, ...defined({ key }), ...treatment(effect, bind, http) };
}

/** The whole of an act, resolved now: nothing of the plan is at hand when the effector performs it. */
export function actArgs(act: PlanEffect, roots: Roots): unknown {
  const { request, probe, kind: _, ...rest } = act;
  return defined({
    ...rest,
    request: resolve(request, withKey(roots, placeholder)),
    probe: probe === undefined ? undefined : resolve(probe, withKey(roots, placeholder)),
  });
}

/** Performs an act from the arguments `actArgs` made. */
export function actEffect(kind: string, args: unknown, http: HttpCaller): Effect<unknown> {
  const effect = { kind, ...(args as Omit<PlanEffect, 'kind'>) };
  return { kind, args, ...treatment(effect, filled, http) };
}

/** Puts the key where an act that is resolved already wants it. */
function filled(value: unknown, key: string): unknown {
  if (typeof value === 'string') return value.replaceAll(placeholder, key);
  if (Array.isArray(value)) return value.map((item) => filled(item, key));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, filled(item, key)]));
}

function treatment(
  effect: PlanEffect,
  bind: (value: unknown, key: string) => unknown,
  http: HttpCaller,
): Omit<Effect<unknown>, 'kind' | 'args'> {
  const mutates = effect.mutates ?? true;
  const { probe } = effect;
  return {
    mutates,
    ...(effect.recovery === undefined ? {} : { recovery: effect.recovery }),
    ...(effect.retry === undefined ? {} : { retry: defined(effect.retry) }),
    ...(effect.timeoutMs === undefined ? {} : { timeoutMs: effect.timeoutMs }),
    ...(effect.cost === undefined ? {} : { cost: defined(effect.cost) }),
    perform: async (call) => {
      const request = bind(effect.request, call.idempotencyKey) as EffectRequest;
      return performHttp(http, request, mutates, call);
    },
    ...(probe === undefined
      ? {}
      : {
          probe: (call: EffectCall) =>
            probeHttp(http, textOf(bind(probe.url, call.idempotencyKey)), call),
        }),
  };
}

/** An object without its undefined members. */
export function defined<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

/** Text of a resolved value: itself, or its canonical form. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : encode(value);
}
