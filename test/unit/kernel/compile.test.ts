// What a definition may not be: every mistake is named before any turn (K-72 to K-75).

import * as v from 'valibot';
import { expect, test } from 'vitest';
import * as z from 'zod';
import type { Capability } from '../../../src/agent/kernel/capability.ts';
import type { KernelAgentOptions } from '../../../src/agent/kernel/define-agent.ts';
import { defineAgent } from '../../../src/agent/kernel/define-agent.ts';
import { TurnstoneError } from '../../../src/protocol/errors.ts';
import { ScriptedModel } from '../../../src/testing/scripted-model.ts';

const model = new ScriptedModel(() => '{}');

const look: Capability = {
  id: 'look',
  description: 'Look.',
  effect: 'read',
  input: v.object({}),
  inputJson: { type: 'object' },
  output: v.unknown(),
  run: () => ({ kind: 'completed', output: null }),
};

function agent(capabilities: readonly Capability[], more: Partial<KernelAgentOptions> = {}) {
  return defineAgent({ name: 'desk', model, capabilities, ...more });
}

function problemOf(define: () => unknown): unknown {
  try {
    define();
  } catch (error) {
    if (error instanceof TurnstoneError && error.code === 'invalid_agent') {
      return error.details['problem'];
    }
    throw error;
  }
  return null;
}

const fact = (id: string, more: Partial<Capability>): Capability => ({ ...look, id, ...more });
const numbers = (...keys: string[]) => Object.fromEntries(keys.map((key) => [key, v.number()]));
const unknownMode = (mode: unknown): Capability =>
  ({ ...look, effect: 'write', confirmation: mode }) as Capability;

const mistakes: readonly (readonly [string, string, () => unknown])[] = [
  [
    'T53 a write without a confirmation',
    'write_confirmation_required',
    () => agent([{ ...look, effect: 'write', confirmation: 'none' }]),
  ],
  [
    'T53 a write that leaves it out',
    'write_confirmation_required',
    () => agent([{ ...look, effect: 'write' }]),
  ],
  [
    'T53 a write with a misspelt mode',
    'write_confirmation_required',
    () => agent([unknownMode('requird')]),
  ],
  [
    'T53 K-75 a write without one, whatever policies would ask',
    'write_confirmation_required',
    () =>
      agent([{ ...look, effect: 'write' }], {
        policies: [{ id: 'ask', decide: () => ({ kind: 'confirm' }) }],
      }),
  ],
  [
    'T61 two providers of one fact',
    'ambiguous_fact_provider',
    () => agent([fact('a', { provides: numbers('x@1') }), fact('b', { provides: numbers('x@1') })]),
  ],
  [
    'T61 a fact nobody provides',
    'missing_fact_provider',
    () => agent([fact('a', { requires: ['x@1'] })]),
  ],
  [
    'T61 a fact of another version',
    'missing_fact_provider',
    () => agent([fact('a', { requires: ['x@2'] }), fact('b', { provides: numbers('x@1') })]),
  ],
  [
    'T61 a cycle',
    'capability_dependency_cycle',
    () =>
      agent([
        fact('a', { requires: ['y@1'], provides: numbers('x@1') }),
        fact('b', { requires: ['x@1'], provides: numbers('y@1') }),
      ]),
  ],
  ['K-73 one id twice', 'duplicate_capability', () => agent([look, look])],
  ['K-73 no capability', 'no_capability', () => agent([])],
  [
    'K-73 an input that cannot say its JSON Schema',
    'model_schema_required',
    () => {
      const { inputJson: _, ...silent } = look;
      return agent([silent]);
    },
  ],
  [
    'K-73 no output schema',
    'model_schema_required',
    () => agent([{ ...look, output: undefined } as unknown as Capability]),
  ],
  ['K-72 an id in upper case', 'invalid_capability_id', () => agent([{ ...look, id: 'Look' }])],
  ['K-72 an id with a blank', 'invalid_capability_id', () => agent([{ ...look, id: 'a b' }])],
  ['K-72 a version of 0', 'invalid_capability_version', () => agent([{ ...look, version: 0 }])],
  ['K-72 a version of 1.5', 'invalid_capability_version', () => agent([{ ...look, version: 1.5 }])],
  [
    'K-72 no description',
    'invalid_capability_description',
    () => agent([{ ...look, description: ' ' }]),
  ],
  [
    'K-72 an effect nobody knows',
    'invalid_capability_effect',
    () => agent([{ ...look, effect: 'reed' } as unknown as Capability]),
  ],
  [
    'K-72 a read that asks for itself',
    'invalid_capability_confirmation',
    () => agent([{ ...look, confirmation: 'capability' }]),
  ],
  [
    'K-83 a fact without a version',
    'invalid_fact',
    () => agent([fact('a', { provides: numbers('x') })]),
  ],
  [
    'K-73 a write that runs by itself',
    'invalid_automation',
    () => agent([{ ...look, effect: 'write', confirmation: 'required', automatic: () => ({}) }]),
  ],
  ['K-73 an agent version of 0', 'invalid_agent_version', () => agent([look], { version: 0 })],
  [
    'K-73 a policy twice',
    'invalid_policy',
    () => {
      const policy = { id: 'p', decide: () => ({ kind: 'allow' as const }) };
      return agent([look], { policies: [policy, policy] });
    },
  ],
  [
    'K-89 a redaction of two characters',
    'invalid_guidance',
    () => agent([look], { redactions: ['ab'] }),
  ],
  [
    'K-73 a limit below what it may be',
    'invalid_kernel_limit',
    () => agent([look], { limits: { steps: 0 } }),
  ],
];

test.each(mistakes)('%s is refused as %s when the agent is defined', (_, problem, define) => {
  expect(problemOf(define)).toBe(problem);
});

test('T66 the order of registration does not change the fingerprint; a schema does', () => {
  const a = fact('a', {});
  const b = fact('b', {});
  const { authority } = agent([a, b]);
  expect(agent([b, a]).authority).toBe(authority);
  expect(agent([a, fact('b', { version: 2 })]).authority).not.toBe(authority);
  const other = fact('b', { inputJson: { type: 'object', properties: { x: {} } } });
  expect(agent([a, other]).authority).not.toBe(authority);
});

test('K-64 words and models are presentation, not authority', () => {
  const first = agent([look], { guidance: 'Be brief.' });
  const second = agent([look], {
    guidance: 'Be kind.',
    model: new ScriptedModel(() => '{}', { id: 'other' }),
  });
  expect(second.authority).toBe(first.authority);
  expect(second.presentation).not.toBe(first.presentation);
});

test('K-74 what is changed after the definition has no effect', () => {
  const capabilities = [{ ...look }];
  const defined = agent(capabilities);
  const { authority } = defined;
  (capabilities[0] as { effect: string }).effect = 'write';
  capabilities.push(fact('other', {}));
  expect(defined.authority).toBe(authority);
  expect(defined.declares('other.read')).toBe(false);
  expect(defined.declares('look.read')).toBe(true);
  expect(defined.declares('look')).toBe(false);
});

test('K-73 a schema that says its own JSON Schema needs no second one', () => {
  const { inputJson: _, ...silent } = look;
  const defined = agent([{ ...silent, input: z.object({ order: z.number() }) }]);
  expect(defined.name).toBe('desk');
});
