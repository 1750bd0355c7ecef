// Goal: a stored record that this build does not know is refused by the name of its member, never reinterpreted; what
// only a newer build writes is told from what is broken (CH-3, decision 19).
import { expect, test } from 'vitest';
import { isForAnotherBuild, TurnstoneError } from '../../../src/protocol/errors.ts';
import { decodeBody } from '../../../src/protocol/record-codec.ts';

function refusal(text: string): TurnstoneError {
  try {
    decodeBody(text);
  } catch (error) {
    if (error instanceof TurnstoneError) return error;
    throw error;
  }
  throw new Error(`${text} was read`);
}

const step = (members: string): string => `{"k":"StepStarted","s":"a","v":1${members}}`;
const act = (members: string): string =>
  `{"k":"AtomicRefused","ek":"k","v":1${members === '' ? '' : `,${members}`}}`;
const admitted = (policy: string): string =>
  `{"ag":"a","au":"a","k":"RunAdmitted","pd":"d","pl":${policy},"pr":"p","sc":"s","tn":"t","v":1}`;
const paid = (spend: string): string => `{"ek":"k","k":"EffectDone","sp":${spend},"v":1}`;
const announced = (cost: string): string =>
  `{"cs":${cost},"ef":"e","ek":"k","k":"EffectStarted","r":"retry","v":1}`;

test.each([
  ['null', 'body', 'an object', 'null'],
  ['5', 'body', 'an object', 'number'],
  ['"text"', 'body', 'an object', 'string'],
  ['{"k":"StepStarted","v":1}', 's', 'text', 'undefined'],
  ['{"k":"StepStarted","s":7,"v":1}', 's', 'text', 'number'],
  [admitted('7'), 'pl', 'text', 'number'],
  [admitted('null'), 'pl', 'text', 'object'],
  [step(',"q":"1"'), 'q', 'an integer', 'string'],
  [step(',"t":1.5'), 't', 'an integer', 'number'],
  [step(',"e":null'), 'e', 'an integer', 'object'],
  [act('"s":7'), 's', 'text', 'number'],
  [act('"ph":"forward-ish"'), 'ph', 'a phase', 'forward-ish'],
  [act('"ph":7'), 'ph', 'a phase', '7'],
  [act('"o":"1"'), 'o', 'an integer', 'string'],
  [act('"o":0.5'), 'o', 'an integer', 'number'],
  [paid('7'), 'sp', 'two integers', 'number'],
  [paid('[7]'), 'sp', 'two integers', 'object'],
  [paid('[7,8,9]'), 'sp', 'two integers', 'object'],
  [paid('[1.5,0]'), 'sp', 'two integers', 'something else'],
  [paid('[0,"9"]'), 'sp', 'two integers', 'something else'],
  [announced('"dear"'), 'cs', 'two integers', 'string'],
  [announced('[0,0]').replace('"r"', '"m":true,"r"'), 'm', '1 or nothing', 'true'],
  [announced('[0,0]').replace('"r"', '"m":0,"r"'), 'm', '1 or nothing', '0'],
  [step(',"p":2'), 'p', 'a payload place', '2'],
  [step(',"p":["x","d",1]'), 'p', 'a payload place', '["x","d",1]'],
  [step(',"p":null'), 'p', 'a payload place', 'null'],
])('CH-3 a broken record %s is skew at %j [T13]', (text, member, expected, got) => {
  const error = refusal(text);
  expect(error).toMatchObject({
    code: 'record_skew',
    message: `journal record member "${member}": expected ${expected}, got ${got}`,
    retry: 'never',
    details: { member, expected, got, newer: false },
  });
  expect(isForAnotherBuild(error)).toBe(false);
});

test.each([
  ['{"k":"StepStarted","s":"a","v":2}', 'v', '1', '2'],
  ['{"k":"StepStarted","s":"a"}', 'v', '1', 'undefined'],
  ['{"k":"StepDreamt","v":1}', 'k', 'a known record kind', 'StepDreamt'],
  ['{"k":7,"v":1}', 'k', 'a known record kind', '7'],
  ['{"k":"toString","v":1}', 'k', 'a known record kind', 'toString'],
  [step(',"zz":1'), 'zz', 'a member of StepStarted', 'an unknown member'],
  [step(',"o":1'), 'o', 'a member of StepStarted', 'an unknown member'],
])(
  'E304 decision 19: a record %s is held for a newer build, at %j [T13]',
  (text, member, expected, got) => {
    const error = refusal(text);
    expect(error).toMatchObject({
      code: 'record_skew',
      message: `journal record member "${member}": expected ${expected}, got ${got}`,
      details: { member, expected, got, newer: true },
    });
    expect(isForAnotherBuild(error)).toBe(true);
  },
);

test('a flag is 1 or away; a cost that was not declared is none', () => {
  expect(decodeBody(announced('[0,0]'))).toMatchObject({ mutates: false, attempt: 0 });
  expect(decodeBody(announced('[3,4]').replace('"r"', '"m":1,"r"'))).toMatchObject({
    mutates: true,
    cost: { tokens: 3, minorUnits: 4 },
  });
  const undeclared = '{"ef":"e","ek":"k","k":"EffectStarted","r":"retry","v":1}';
  expect(decodeBody(undeclared)).not.toHaveProperty('cost');
  expect(decodeBody(paid('[5,6]'))).toMatchObject({ spend: { tokens: 5, minorUnits: 6 } });
});
