// What a probe must be able to tell, as a suite over an effect and the provider behind it: for whoever writes one.
// Needs no test framework: a case throws when a promise is broken.
//   T6, RE-1  a probe names its call by an identity that every attempt shares, never by time or likeness.
import { deepEqual, equal } from 'node:assert/strict';
import type { Effect, EffectCall, ProbeAnswer } from '../runtime/turn-context.ts';

export interface ProbeCase {
  readonly title: string;
  /** `open` gives an effect with its probe over a provider that nobody has called yet. */
  run(open: () => Promise<Effect<unknown>>): Promise<void>;
}

/** A call of the effect under an identity of its own; its arguments are always the same. */
function callOf(name: string, attempt = 1): EffectCall {
  return {
    idempotencyKey: name.padEnd(43, '_'),
    effectKey: `${name}-${attempt}`.padEnd(43, '_'),
    attempt,
    signal: new AbortController().signal,
    bill: () => undefined,
  };
}

async function asked(effect: Effect<unknown>, call: EffectCall): Promise<ProbeAnswer> {
  if (effect.probe === undefined) throw new TypeError(`effect ${effect.kind} has no probe`);
  return effect.probe(call);
}

export const probeCases: readonly ProbeCase[] = [
  {
    title: 'E64 a twin that landed a moment earlier is not taken for a call that never left [T6]',
    run: async (open) => {
      const effect = await open();
      await effect.perform(callOf('twin'));
      equal((await asked(effect, callOf('never-sent'))).outcome, 'did_not_happen');
    },
  },
  {
    title:
      'a call is found under its own identity with its own output, whatever landed after it [T6]',
    run: async (open) => {
      const effect = await open();
      const mine = await effect.perform(callOf('mine'));
      await effect.perform(callOf('later'));
      const answer = await asked(effect, callOf('mine'));
      equal(answer.outcome, 'landed');
      deepEqual(answer.outcome === 'landed' ? answer.output : null, mine);
    },
  },
  {
    title: 'every attempt of one effect is found by the identity they share [T6]',
    run: async (open) => {
      const effect = await open();
      await effect.perform(callOf('mine', 1));
      equal((await asked(effect, callOf('mine', 2))).outcome, 'landed');
    },
  },
  {
    title: 'asking changes nothing: twice the same answer, and what was not sent stays so [T6]',
    run: async (open) => {
      const effect = await open();
      for (const name of ['never-sent', 'never-sent'])
        equal((await asked(effect, callOf(name))).outcome, 'did_not_happen');
      await effect.perform(callOf('mine'));
      const first = await asked(effect, callOf('mine'));
      deepEqual(await asked(effect, callOf('mine')), first);
      equal((await asked(effect, callOf('never-sent'))).outcome, 'did_not_happen');
    },
  },
];
