// An effect's declaration, checked and completed with its defaults before anything is announced.

import type { EffectAsks } from '../ports/telemetry.ts';
import type { RetryPolicy } from '../protocol/backoff.ts';
import { parseRetryPolicy } from '../protocol/backoff.ts';
import { addSpend } from '../protocol/budget.ts';
import { encode } from '../protocol/canonical.ts';
import type { Recovery } from '../protocol/effect-decision.ts';
import { recordAtOnce } from '../protocol/effect-decision.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import { parseEffectKind } from '../protocol/ids.ts';
import { labelText, parseLabel } from '../protocol/labels.ts';
import { limits } from '../protocol/limits.ts';
import type { Spend } from '../protocol/record.ts';
import { type ReplayKey, replayKeyText } from '../protocol/replay-cache.ts';
import type { Effect, EffectCall, ProbeAnswer } from './turn-context.ts';

export interface DeclaredEffect {
  readonly kind: string;
  readonly argsText: string;
  readonly mutates: boolean;
  readonly recovery: Recovery;
  readonly retry: RetryPolicy;
  readonly timeoutMs: number;
  readonly cost: Spend;
  readonly declaredCost: boolean;
  /** Business key, or null. */
  readonly key: string | null;
  /** What makes another call an equal one for the replay cache, or null. */
  readonly cache: ReplayKey | null;
  /** The group it is a member or a reversal of, or null. */
  readonly group: string | null;
  /** A reversal: exempt from the budget's verdict, and from a stop (GA-3). */
  readonly reversal: boolean;
  /** Finishes a group that is past its frontier: like a reversal, a stop does not keep it from starting. */
  readonly finishes: boolean;
  /** What its output is labelled, for the record; empty when nothing is declared. */
  readonly label: { readonly label?: string };
  /** Facts for the policy beside its kind. */
  readonly policyFacts: Readonly<Record<string, string>>;
  /** What it asks, for telemetry, or null. */
  readonly asks: EffectAsks | null;
  /** Its outcome is written at once, not with the next write (ruling 3). */
  readonly atOnce: boolean;
  perform(call: EffectCall): Promise<unknown>;
  readonly probe: ((call: EffectCall) => Promise<ProbeAnswer>) | null;
}

const recoveries: readonly string[] = ['retry', 'idempotent', 'reconcile', 'operator'];

/** Completes a declaration; throws `invalid_effect` naming the field or CodecError for the arguments. */
export function declareEffect(effect: Effect<unknown>, args = effect.args): DeclaredEffect {
  const kind = parseEffectKind('effect.kind', effect.kind);
  const argsText = encode(args);
  const bytes = Buffer.byteLength(argsText);
  if (bytes > limits.payloadBytesMax) {
    throw refused('args', `at most ${limits.payloadBytesMax} bytes`, `${bytes} bytes`);
  }
  const mutates = effect.mutates ?? true;
  const recovery = effect.recovery ?? (mutates ? 'operator' : 'retry');
  if (!recoveries.includes(recovery))
    throw refused('recovery', recoveries.join(', '), String(recovery));
  if (typeof effect.perform !== 'function')
    throw refused('perform', 'a function', typeof effect.perform);
  const timeoutMs = effect.timeoutMs ?? limits.effectTimeoutMs;
  if (!Number.isSafeInteger(timeoutMs) || timeoutMs < 1) {
    throw refused('timeoutMs', 'a positive integer', String(timeoutMs));
  }
  const probe = effect.probe;
  const key = effect.key ?? null;
  if (key !== null && (typeof key !== 'string' || key.trim() === '')) {
    throw refused('key', 'text that is not blank', JSON.stringify(key) ?? typeof key);
  }
  if (key !== null && key.length > limits.businessKeyCharacters) {
    throw refused('key', `at most ${limits.businessKeyCharacters} characters`, `${key.length}`);
  }
  const declaredCost = effect.cost !== undefined;
  return {
    kind,
    argsText,
    mutates,
    recovery,
    retry: parseRetryPolicy(effect.retry ?? {}),
    timeoutMs,
    cost: addSpend({ tokens: 0, minorUnits: 0 }, effect.cost ?? {}),
    declaredCost,
    asks: effect.asks ?? null,
    key,
    cache: cacheOf(effect, mutates),
    group: null,
    reversal: false,
    finishes: false,
    label: labelOf(kind, effect.label),
    policyFacts: effect.policyFacts ?? {},
    atOnce: recordAtOnce({ mutates, recovery, declaredCost }),
    perform: (call) => effect.perform(call),
    probe: probe === undefined ? null : (call) => probe.call(effect, call),
  };
}

/** B-16: only what changes nothing may be answered by an earlier call; a business key has its own way of that. */
function cacheOf({ cache, key }: Effect<unknown>, mutates: boolean): ReplayKey | null {
  if (cache === undefined) return null;
  if (mutates) throw refused('cache', 'none on an effect that mutates', 'one');
  if (key !== undefined) throw refused('cache', 'none beside a business key', 'one');
  replayKeyText(cache, '', 0);
  return cache;
}

function labelOf(kind: string, declared: Effect<unknown>['label']): { readonly label?: string } {
  if (declared === undefined) return {};
  const { trust = 'untrusted', sensitivity = 'internal', source = `effect:${kind}` } = declared;
  const text = source.isWellFormed() ? labelText({ trust, sensitivity, sources: [source] }) : '';
  if (parseLabel(text) === null || source.length > limits.labelSourceCharacters) {
    const got = `${trust} ${sensitivity} ${source}`.slice(0, 200);
    throw refused('label', 'a trust, a sensitivity and a short source', got);
  }
  return { label: text };
}

function refused(field: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError('invalid_effect', `effect.${field}: expected ${expected}, got ${got}`, {
    retry: 'never',
    details: { field: `effect.${field}`, expected, got },
  });
}
