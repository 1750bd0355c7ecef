// A yes in words, killed at every store, queue, model and provider call: it pays once and the question is gone.

import * as v from 'valibot';
import { expect, test } from 'vitest';
import type { Capability } from '../../src/agent/kernel/capability.ts';
import type { KernelResult } from '../../src/agent/kernel/run-kernel-turn.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import { faultKinds } from '../../src/testing/crash-explorer.ts';
import type { FaultKind } from '../../src/testing/process.ts';
import { ScriptedModel } from '../../src/testing/scripted-model.ts';
import { memoryStore } from '../stores.ts';
import { asked, desk, noInput, Talking, wants } from './desk.ts';

const interpretations: Readonly<Record<string, unknown>> = {
  '[0] pay': { intentions: [wants('pay', {}, 'pay')] },
  '[2] yes': { intentions: [], answer: { accepts: true, evidence: ['yes'] } },
};

/** Proposes with a healthy process, answers with one that is hit; what stands after recovery. */
async function explore(kind: FaultKind, call: number) {
  const paid = new Set<string>();
  const pay: Capability = {
    id: 'pay',
    description: 'Pay.',
    effect: 'write',
    confirmation: 'required',
    ...noInput,
    output: v.unknown(),
    run: async (context) => {
      const output = await context.write('once', {
        args: null,
        recovery: 'idempotent',
        perform: ({ idempotencyKey }) =>
          talk.process.provider('pay', async () => {
            paid.add(idempotencyKey);
            return 'paid';
          }),
      });
      return { kind: 'completed', output };
    },
  };
  const model = new ScriptedModel(
    ({ schema, messages }) =>
      JSON.stringify(
        schema?.title === 'review'
          ? { supported: true }
          : interpretations[messages.at(-1)?.text ?? ''],
      ),
    { through: (name, answer) => talk.process.provider(name, answer) },
  );
  const talk: Talking = await Talking.open(async () => memoryStore(), desk(model, [pay]));
  const { id } = asked(await talk.say('pay'));
  const input = { message: 'yes', answering: id };
  const process = talk.restart({ kind, call });
  await talk.world.settle(process, withTurn(process.runtime, talk.request('t2', { input })));
  const { fired } = process;
  process.kill();
  talk.restart();
  await talk.world.recover();
  talk.restart();
  const turn = await talk.conclude('t2', { input });
  const asking = model.requests.map(({ messages }) => messages.at(-1)?.text);
  return { fired, paid: paid.size, turn, strict: await talk.strict('t2'), asking };
}

test.each(faultKinds)(
  '%s at every call of the answering turn: one payment, no question left [T1 T2 T5 T7 T10]',
  async (kind) => {
    for (let call = 1; ; call += 1) {
      const { fired, paid, turn, strict } = await explore(kind, call);
      const where = `${kind} at call ${call} (${fired})`;
      expect([where, turn.status, paid]).toEqual([where, 'succeeded', 1]);
      const { interaction, steps } = turn.result as KernelResult;
      expect([where, interaction, steps.map(({ status }) => status)]).toEqual([
        where,
        null,
        ['completed'],
      ]);
      expect([where, strict]).toMatchObject([where, { verdict: 'verified' }]);
      if (fired !== null) continue;
      expect(call).toBeGreaterThan(10);
      return;
    }
  },
);

test('without a fault the turn asks the model for the words and for their review, once each', async () => {
  const { asking } = await explore('lostBefore', 10_000);
  expect(asking).toHaveLength(3);
});
