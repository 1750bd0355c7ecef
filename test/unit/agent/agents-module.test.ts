// Goal: a module of the user's agents and the input they take are refused by name when they are not what they must be.
import { expect, test } from 'vitest';
import type { AgentHost } from '../../../src/agent/agents-module.ts';
import { agentsOf } from '../../../src/agent/agents-module.ts';
import { TurnstoneError } from '../../../src/protocol/errors.ts';
import { defineTurnAgent } from '../../../src/runtime/agent-definition.ts';
import type { InputSchema } from '../../../src/runtime/input-schema.ts';
import { checkInput, refusedInput } from '../../../src/runtime/input-schema.ts';

const host: AgentHost = {
  http: { call: () => Promise.reject(new Error('no call is expected')) },
  env: {},
};
const shop = defineTurnAgent({ name: 'shop', run: () => Promise.resolve(null) });

test("agents of a module come after the house's own and are refused by name", () => {
  const own = [defineTurnAgent({ name: 'plan', run: () => Promise.resolve(null) })];
  const of = (module: unknown) => agentsOf(own, module, 'mine.ts', host);
  expect([...of({ agents: () => [shop] }).keys()]).toEqual(['plan', 'shop']);
  const refusals: readonly [unknown, string][] = [
    [undefined, 'mine.ts: expected an export "agents", a function, got undefined'],
    [{ agents: [] }, 'mine.ts: expected an export "agents", a function, got object'],
    [{ agents: () => shop }, 'mine.ts: expected "agents" to return an array, got object'],
    [{ agents: () => [null] }, 'mine.ts: expected agents made by defineTurnAgent, got object'],
    [{ agents: () => [shop, shop] }, 'mine.ts: agent "shop" is there twice'],
    [{ agents: () => [own[0]] }, 'mine.ts: agent "plan" is there twice'],
  ];
  for (const [module, why] of refusals) expect(() => of(module), why).toThrow(why);
});

/** A Standard Schema that answers as told, in this or in its own time. */
function schemaThat(
  answers: ReturnType<InputSchema['~standard']['validate']>,
): InputSchema<unknown> {
  return { '~standard': { version: 1, vendor: 'test', validate: () => answers } };
}

function caught(act: () => unknown): TurnstoneError {
  try {
    act();
  } catch (error) {
    if (error instanceof TurnstoneError) return error;
  }
  throw new Error('expected a refusal');
}

test('an input schema gives the parsed value or names the place that is wrong', () => {
  expect(checkInput(schemaThat({ value: { total: 3 } }), 'anything')).toEqual({ total: 3 });
  const path = ['lines', { key: 0 }, { key: 'total' }];
  const refused = caught(() =>
    checkInput(schemaThat({ issues: [{ message: 'expected a number', path }] }), {}),
  );
  expect(refused).toMatchObject({
    code: 'invalid_input',
    message: 'input.lines.0.total: expected a number',
    details: { field: 'input.lines.0.total' },
  });
  const slow = caught(() => checkInput(schemaThat(Promise.resolve({ value: 1 })), {}));
  expect(slow.message).toContain('a schema that checks at once');
});

test("a check of the user's own that throws is a refusal of the input", () => {
  expect(refusedInput(new RangeError('too much'))).toMatchObject({
    code: 'invalid_input',
    message: 'input: too much',
    details: { field: 'input' },
  });
  const own = new TurnstoneError('agent_unknown', 'no', { retry: 'never' });
  expect(refusedInput(own)).toBe(own);
});
