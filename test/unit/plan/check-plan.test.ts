import fc from 'fast-check';
import { expect, test } from 'vitest';
import { checkPlan } from '../../../src/agent/plan/check-plan.ts';
import { holds } from '../../../src/agent/plan/conditions.ts';
import { lookUp, resolve } from '../../../src/agent/plan/references.ts';
import { TurnstoneError } from '../../../src/protocol/errors.ts';

const effect = (url = 'http://127.0.0.1:1/a') => ({
  effect: { kind: 'a', request: { method: 'POST', url } },
});
const step = (changes: object = {}) => ({ id: 's', do: [], ...changes });

test('the smallest and a full plan are accepted', () => {
  expect(checkPlan({ steps: [] }).steps).toEqual([]);
  const plan = {
    vars: { w: 'http://127.0.0.1:1' },
    steps: [
      step({
        id: 'a',
        compensation: 'pivot',
        do: [
          { ...effect('${vars.w}/x?k=${idempotencyKey}'), as: 'one' },
          { note: 'n ${one.body}' },
        ],
        undo: [effect('${vars.w}/${output.id}')],
        output: '${one}',
      }),
      step({
        id: 'b',
        needs: ['a'],
        do: [{ fail: 'no', when: { left: '${one.status}', op: 'ne', right: 200 } }],
      }),
    ],
    reply: { a: '${steps.a}', lit: '$${vars.unknown}' },
  };
  expect(checkPlan(plan).steps.map(({ id }) => id)).toEqual(['a', 'b']);
});

test.each<[string, unknown, string]>([
  ['not an object', 7, 'input'],
  ['an unknown field', { steps: [], extra: 1 }, 'input.extra'],
  ['an unknown field of a step', { steps: [step({ doo: 1 })] }, 'input.steps[0].doo'],
  ['an unknown operation', { steps: [step({ do: [{ efect: {} }] })] }, 'input.steps[0].do[0]'],
  [
    'two operations in one',
    { steps: [step({ do: [{ note: 'x', fail: 'y' }] })] },
    'input.steps[0].do[0]',
  ],
  [
    'an unknown field of an effect',
    {
      steps: [
        step({
          do: [{ effect: { kind: 'a', request: { method: 'POST', url: 'http://x' }, retries: 1 } }],
        }),
      ],
    },
    'effect.retries',
  ],
  [
    'an unknown enum word',
    {
      steps: [
        step({
          do: [
            {
              effect: {
                kind: 'a',
                request: { method: 'POST', url: 'http://x' },
                recovery: 'maybe',
              },
            },
          ],
        }),
      ],
    },
    'effect.recovery',
  ],
  [
    'an unknown compensation',
    { steps: [step({ compensation: 'undoable' })] },
    'input.steps[0].compensation',
  ],
  [
    'a cycle',
    { steps: [step({ id: 'a', needs: ['b'] }), step({ id: 'b', needs: ['a'] })] },
    'needs',
  ],
  ['a need nobody meets', { steps: [step({ needs: ['zz'] })] }, 'input.steps[0].needs[0]'],
  ['a double id', { steps: [step(), step()] }, 'input.steps[1].id'],
  [
    'a double as',
    {
      steps: [
        step({
          do: [
            { ...effect(), as: 'x' },
            { ...effect(), as: 'x' },
          ],
        }),
      ],
    },
    'input.steps[0].do[1].as',
  ],
  [
    'an unknown reference',
    { steps: [step({ do: [{ note: '${zz.y}' }] })] },
    'input.steps[0].do[0].note',
  ],
  [
    'a reference to a later as',
    { steps: [step({ do: [{ note: '${x}' }, { ...effect(), as: 'x' }] })] },
    'do[0].note',
  ],
  [
    'a reference into a step not needed',
    { steps: [step({ id: 'a' }), step({ id: 'b', do: [{ note: '${steps.a}' }] })] },
    'input.steps[1].do[0].note',
  ],
  [
    'an unknown var',
    { vars: { a: 1 }, steps: [step({ output: '${vars.b}' })] },
    'input.steps[0].output',
  ],
  ['input as a root', { steps: [], reply: '${input.x}' }, 'input.reply'],
  [
    'idempotencyKey outside an effect',
    { steps: [step({ do: [{ note: '${idempotencyKey}' }] })] },
    'note',
  ],
  ['output outside an undo', { steps: [step({ do: [{ note: '${output}' }] })] }, 'note'],
  [
    '101 steps',
    { steps: Array.from({ length: 101 }, (_, n) => step({ id: `s${n}` })) },
    'input.steps',
  ],
  ['an empty note', { steps: [step({ do: [{ note: '' }] })] }, 'note'],
])('%s is refused naming its path', (_name, input, path) => {
  expect(() => checkPlan(input)).toThrow(TurnstoneError);
  expect(() => checkPlan(input)).toThrow(path);
});

test('a reference that is the whole string keeps the type; embedded it is text; a literal stays', () => {
  const roots = new Map<string, unknown>([['a', { n: 7, list: [{ x: true }], s: 't' }]]);
  expect(resolve('${a.n}', roots)).toBe(7);
  expect(resolve('${a.list[0].x}', roots)).toBe(true);
  expect(resolve('${a.list.0.x}', roots)).toBe(true);
  expect(resolve('n=${a.n} ${a.s} ${a.list}', roots)).toBe('n=7 t [{"x":true}]');
  expect(resolve('$${a.n}', roots)).toBe('${a.n}');
  expect(resolve({ deep: ['${a.s}'] }, roots)).toEqual({ deep: ['t'] });
});

test('hostile paths find own members only', () => {
  const roots = new Map<string, unknown>([['a', {}]]);
  for (const path of ['a.__proto__', 'a.constructor', 'a.toString', 'a.', '.a', 'a..b', '']) {
    expect(() => lookUp(path, roots), path).toThrow('unknown reference');
  }
});

test('text without references is never changed', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      fc.pre(!text.includes('${'));
      expect(resolve(text, new Map())).toBe(text);
    }),
  );
});

test('conditions compare by value, order only like with like', () => {
  const test = (left: unknown, op: 'eq' | 'ne' | 'lt' | 'le' | 'gt' | 'ge', right: unknown) =>
    holds({ left, op, right }, new Map());
  expect([
    test(1, 'eq', 1),
    test({ a: [1] }, 'eq', { a: [1] }),
    test(1, 'ne', '1'),
    test(1, 'lt', 2),
    test('b', 'ge', 'a'),
    test(2, 'le', 1),
  ]).toEqual([true, true, true, true, true, false]);
  expect(() => test(1, 'lt', '2')).toThrow('cannot compare');
});
