// Declaring effects and releasing values under labels: what a context does with them.
//   ME-11 a release is an effect of its own: gated, journaled, read back like any other.
import { TurnstoneError } from '../protocol/errors.ts';
import type { Label } from '../protocol/labels.ts';
import { limits } from '../protocol/limits.ts';
import type { DeclaredEffect } from './declared-effect.ts';
import { declareEffect } from './declared-effect.ts';
import type { Sink } from './labelled.ts';
import { bindArguments, Labelled, taken } from './labelled.ts';
import type { Pass } from './pass.ts';
import type { Effect, Release } from './turn-context.ts';

/** Checks an effect's arguments against its sinks, and completes its declaration. Throws `label_refused`. */
export function declareIn(pass: Pass, effect: Effect<unknown>): DeclaredEffect {
  return declareEffect(effect, bindFor(pass, effect.kind, effect.args, effect.sink));
}

/** Arguments without their wrappers, as the sinks of their kind let them in. */
export function bindFor(pass: Pass, kind: string, args: unknown, own?: Sink): unknown {
  const declared = pass.setup.agent.sinkOf(kind);
  const sinks = [declared, own].filter((sink) => sink != null);
  return bindArguments(kind, args, pass.labels.mark, sinks);
}

/** The effect that releases a value, and the value under its new label. */
export function releaseOf<T>(
  pass: Pass,
  value: T | Labelled<T>,
  to: Release,
): { readonly effect: Effect<unknown>; readonly released: Labelled<T> } {
  const from = taken(value, pass.labels.mark);
  const bytes = Buffer.byteLength(to.reason ?? '');
  if (bytes === 0 || bytes > limits.noteBytes) {
    throw new TurnstoneError(
      'invalid_request',
      `release.reason: expected 1 to ${limits.noteBytes} bytes, got ${bytes}`,
      { retry: 'never', details: { field: 'release.reason', limit: limits.noteBytes } },
    );
  }
  const label: Label = {
    trust: to.trust ?? from.label.trust,
    sensitivity: to.sensitivity ?? from.label.sensitivity,
    sources: from.label.sources,
  };
  const policyFacts = {
    trustBefore: from.label.trust,
    trustAfter: label.trust,
    sensitivityBefore: from.label.sensitivity,
    sensitivityAfter: label.sensitivity,
    reason: to.reason,
  };
  const effect: Effect<unknown> = {
    kind: 'label.release',
    args: { value: from.value, ...policyFacts, sources: label.sources },
    mutates: false,
    policyFacts,
    perform: () => Promise.resolve(null),
  };
  return { effect, released: new Labelled(from.value, label) };
}
