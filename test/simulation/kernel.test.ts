// The kernel beside confirmation: what models may propose, how facts live, how far a turn goes by itself.

import * as v from 'valibot';
import { expect, test } from 'vitest';
import type {
  Capability,
  CapabilityContext,
  CapabilityResult,
} from '../../src/agent/kernel/capability.ts';
import type { KernelAgentOptions } from '../../src/agent/kernel/define-agent.ts';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import { listReceipts } from '../../src/runtime/receipts.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import {
  amountInput,
  anyOutput,
  asked,
  DeskWorld,
  desk,
  hours,
  noInput,
  type Reading,
  reader,
  Talking,
  wants,
} from './desk.ts';

type Run = (context: CapabilityContext) => Promise<CapabilityResult> | CapabilityResult;

const does = (id: string, run: Run, more: Partial<Capability> = {}): Capability => ({
  id,
  description: `Do ${id}.`,
  effect: 'none',
  ...noInput,
  output: anyOutput,
  run,
  ...more,
});

const done: CapabilityResult = { kind: 'completed', output: null };
const publishes = (fact: string, value: unknown): CapabilityResult => ({
  ...done,
  facts: [{ fact, value }],
});

/** One word for each capability, and whatever else is read. */
function talkOf(
  capabilities: readonly Capability[],
  more: Readonly<Record<string, Reading | string>> = {},
  options: Partial<KernelAgentOptions> = {},
  open: () => ReturnType<Parameters<typeof Talking.open>[0]> = async () => memoryStore(),
): Promise<Talking> {
  const words = capabilities.map(({ id }) => [id, { intentions: [wants(id)] }] as const);
  const model = reader({ ...Object.fromEntries(words), ...more });
  return Talking.open(open, desk(model, capabilities, options));
}

const steps = (result: {
  readonly steps: readonly { capability: string; status: string; code: string | null }[];
}) => result.steps.map(({ capability, status, code }) => `${capability} ${status} ${code}`);

onEachStore(
  'T21 T33 only a write may write, and a write that did not is not done: nothing is committed, no receipt is left [T1]',
  async (open) => {
    const world = new DeskWorld();
    const call = { args: null, perform: () => world.land('x', null) };
    const peeking = does('peek', async (c) => ({ ...done, output: await c.write('k', call) }), {
      effect: 'read',
    });
    const thinking = does('think', async (c) => ({ ...done, output: await c.read(call) }));
    const bypassing = does(
      'bypass',
      async () => ({ ...done, output: await world.land('y', null) }),
      {
        effect: 'write',
        confirmation: 'required',
      },
    );
    const talk = await talkOf([peeking, thinking, bypassing], {}, {}, open);
    expect(await talk.fails({ message: 'peek' })).toBe('effect_not_allowed');
    expect(await talk.fails({ message: 'think' })).toBe('effect_not_allowed');
    expect(world.calls).toEqual([]);
    const { id } = asked(await talk.say('bypass'));
    expect(await talk.fails({ confirm: { interactionId: id, value: true } })).toBe(
      'write_effect_not_coordinated',
    );
    const { runtime } = talk.restart();
    const { tenant, thread } = talk.ref();
    expect(await listReceipts(runtime, tenant, { thread, status: null })).toEqual([]);
    expect((await talk.view(talk.lastTurn)).revision).toBe(1);
  },
);

test('K-39 a failed write that was caught is not a write that was done [T1]', async () => {
  let landed = 0;
  const careless = does(
    'careless',
    async (c) => {
      await c.write('one', { args: null, perform: async () => ++landed });
      const call = {
        args: null,
        perform: async () => {
          throw new EffectNotAppliedError('refused');
        },
      };
      await c.write('two', { ...call, retry: { maxAttempts: 1 } }).catch(() => null);
      return done;
    },
    { effect: 'write', confirmation: 'required' },
  );
  const talk = await talkOf([careless]);
  const { id } = asked(await talk.say('careless'));
  const accept = { confirm: { interactionId: id, value: true } };
  expect(await talk.fails(accept)).toBe('write_effect_not_coordinated');
  // K-40: what landed stays in the ledger, and the next yes is answered from there.
  expect(await talk.fails(accept)).toBe('write_effect_not_coordinated');
  expect(landed).toBe(1);
});

onEachStore(
  'T62 a consumer of another version of a fact waits; it goes on by itself when its own comes',
  async (open) => {
    const talk = await talkOf(
      [
        does('first', () => publishes('order@1', 1), { provides: { 'order@1': v.number() } }),
        does('second', () => publishes('order@2', 2), { provides: { 'order@2': v.number() } }),
        does('use', (c) => ({ ...done, output: c.fact('order@2') ?? null }), {
          requires: ['order@2'],
        }),
      ],
      {},
      {},
      open,
    );
    expect(steps(await talk.say('first'))).toEqual(['first completed null']);
    expect(steps(await talk.say('use'))).toEqual(['use waiting missing_required_facts']);
    const served = await talk.say('second');
    expect(steps(served)).toEqual(['second completed null', 'use completed null']);
    expect(served.steps.at(-1)?.output).toBe(2);
  },
);

const lapses: readonly (readonly [string, string, Partial<Capability>, Run])[] = [
  ['T64 an undeclared fact', 'undeclared_fact', {}, () => publishes('x@1', 1)],
  [
    'T64 evidence nobody gave',
    'unknown_evidence',
    { provides: { 'x@1': v.number() } },
    () => ({
      ...done,
      facts: [{ fact: 'x@1', value: 1, evidence: ['e1'] }],
    }),
  ],
  ['T64 an output off its schema', 'invalid_capability_output', { output: v.string() }, () => done],
  [
    'T64 a fact off its schema',
    'invalid_capability_output',
    { provides: { 'x@1': v.number() } },
    () => publishes('x@1', 'one'),
  ],
  [
    'K-76 facts beside a question',
    'invalid_capability_interaction',
    {},
    () => ({ kind: 'needs_input', question: { text: '?' }, facts: [] }) as CapabilityResult,
  ],
  [
    'K-76 a confirmation nobody may ask',
    'invalid_capability_interaction',
    {},
    () => ({
      kind: 'needs_confirmation',
      summary: '?',
    }),
  ],
  [
    'K-85 a fact it may not make void',
    'undeclared_fact',
    {},
    () => ({
      kind: 'needs_input',
      question: { text: '?' },
      invalidates: ['x@1'],
    }),
  ],
  [
    'K-86 itself as what it needs',
    'dependency_on_itself',
    {},
    () => ({
      kind: 'needs_dependency',
      fact: 'x@1',
      capability: 'faulty',
      input: {},
    }),
  ],
  [
    'K-86 a provider that is not there',
    'capability_not_registered',
    {},
    () => ({
      kind: 'needs_dependency',
      fact: 'x@1',
      capability: 'nobody',
      input: {},
    }),
  ],
  [
    'K-86 a fact its provider does not have',
    'fact_not_provided',
    {},
    () => ({
      kind: 'needs_dependency',
      fact: 'x@1',
      capability: 'hours',
      input: {},
    }),
  ],
];

test.each(lapses)(
  '%s fails the turn as %s, and nothing is committed [T1]',
  async (_, code, more, run) => {
    const talk = await talkOf([does('faulty', run, more), hours]);
    expect(await talk.fails({ message: 'faulty' })).toBe(code);
    expect((await talk.view('t1')).revision).toBe(0);
  },
);

onEachStore(
  'K-61 K-62 a long thread keeps a small checkpoint, and the model sees the last messages under their own index [T11]',
  async (open) => {
    let bytes = 0;
    const store = await open();
    const conclude = store.conclude.bind(store);
    store.conclude = async (write) => {
      bytes = Math.max(bytes, JSON.stringify(write.checkpoint).length);
      return conclude(write);
    };
    const model = reader({ hello: {} });
    const agent = desk(model, [hours], { limits: { messages: 6 } });
    const talk = new Talking(store, agent);
    for (let turn = 0; turn < 60; turn += 1) await talk.say('hello');
    const { messages } = model.requests.at(-1) ?? { messages: [] };
    // Nothing was asked for, so nothing is replied: message 59 is the last, and 54 are left out.
    expect(messages.map(({ text }) => text)).toEqual([
      '[0..53] left out: 54 messages',
      ...[54, 55, 56, 57, 58, 59].map((index) => `[${index}] hello`),
    ]);
    expect(bytes).toBeLessThan(64 * 1024);
  },
);

test('K-79 an answer that cannot be used is repaired once, then the turn fails with nothing committed', async () => {
  const model = reader({
    'twice wrong': 'not JSON',
    'That answer cannot be used: it is not JSON. Answer again.': 'still not',
  });
  const talk = await Talking.open(async () => memoryStore(), desk(model, [hours]));
  expect(await talk.fails({ message: 'twice wrong' })).toBe('model_output_invalid');
  expect(model.requests).toHaveLength(2);
  expect((await talk.view('t1')).revision).toBe(0);
  const second = reader(
    {},
    {
      interpretation: ({ messages }) =>
        messages.length === 1
          ? '{"intentions":3}'
          : JSON.stringify({ intentions: [wants('hours')] }),
    },
  );
  const mended = await Talking.open(async () => memoryStore(), desk(second, [hours]));
  expect((await mended.say('once wrong')).reply).toContain('nine to five');
  expect(second.requests[1]?.messages.at(-1)?.text).toContain('intentions: ');
});

test('K-78 a capability the model invents is refused, and the rest of the turn goes on', async () => {
  const talk = await talkOf([hours], {
    both: { intentions: [wants('refund.all'), wants('hours')], unsupported: ['fly'] },
  });
  expect(steps(await talk.say('both'))).toEqual([
    'none rejected unsupported',
    'refund.all rejected capability_not_registered',
    'hours completed null',
  ]);
});

test('K-78 with many capabilities the model first selects by summary, then sees only those contracts', async () => {
  const others = Array.from({ length: 9 }, (_, index) => does(`other${index}`, () => done));
  const model = reader(
    { when: { intentions: [wants('hours')] } },
    {
      selection: (_, asked) =>
        JSON.stringify({ capabilities: asked === 0 ? ['nobody'] : ['hours'] }),
    },
  );
  const talk = await Talking.open(async () => memoryStore(), desk(model, [hours, ...others]));
  await talk.say('when');
  const [first, second, read] = model.requests;
  expect(first?.instructions).toContain('other3: Do other3.');
  expect(first?.instructions).not.toContain('"type"');
  expect(second?.messages.at(-1)?.text).toContain('there is no capability "nobody"');
  expect(read?.instructions).toContain('Tell the opening hours.');
  expect(read?.instructions).not.toContain('other3');
});

test('K-80 what would be denied is denied, not asked for', async () => {
  const world = new DeskWorld();
  const policies = [{ id: 'no', decide: () => ({ kind: 'deny' as const, message: 'never' }) }];
  const talk = await talkOf([world.write('pay', noInput)], {}, { policies });
  const answer = await talk.say('pay');
  expect(steps(answer)).toEqual(['pay rejected policy_denied']);
  expect(answer.interaction).toBe(null);
});

test('K-80 an input that does not fit is asked about, and the next words take its place', async () => {
  const world = new DeskWorld();
  const talk = await talkOf([world.write('pay', amountInput)], {
    'pay it': { intentions: [wants('pay', { amount: 'all' })] },
    'pay 5': { intentions: [wants('pay', { amount: 5 })] },
  });
  const question = asked(await talk.say('pay it'));
  expect(question).toMatchObject({ kind: 'input', text: expect.stringContaining('input.amount') });
  expect(asked(await talk.say('pay 5'))).toMatchObject({
    kind: 'confirmation',
    input: { amount: 5 },
  });
});

test('K-81 two writes in no order become a choice; in a declared order they run one after the other', async () => {
  const world = new DeskWorld();
  const first = world.write('book', noInput);
  const booking: Capability = {
    ...first,
    provides: { 'seat@1': v.number() },
    run: async (c) =>
      ({ ...(await first.run(c)), facts: [{ fact: 'seat@1', value: 1 }] }) as CapabilityResult,
  };
  const paying: Capability = { ...world.write('pay', noInput), requires: ['seat@1'] };
  const both = { intentions: [wants('pay'), wants('book')] };
  const talk = await talkOf([paying, booking, world.write('tip', noInput)], {
    both,
    torn: { intentions: [wants('book'), wants('tip')] },
  });
  const seat = asked(await talk.say('both'));
  expect(seat.owner).toBe('book');
  const pay = asked(await talk.yes(seat.id));
  expect(pay.owner).toBe('pay');
  await talk.yes(pay.id);
  expect(world.calls.map(([name]) => name)).toEqual(['book', 'pay']);
  const choice = asked(await talk.say('torn'));
  expect(choice).toMatchObject({ kind: 'choice' });
  expect(await talk.tell({ cancel: { interactionId: choice.id } })).toMatchObject({
    interaction: null,
    steps: [{ status: 'cancelled' }, { status: 'cancelled' }],
  });
  expect(world.calls).toHaveLength(2);
});

onEachStore(
  'K-82 K-83 a provider that may run by itself does, its consumer follows; when it fails the consumer is blocked',
  async (open) => {
    let price = 7;
    const quote = does(
      'quote',
      async (c) => {
        const value = await c.read({ args: null, perform: async () => price });
        if (value < 0) return { kind: 'failed', code: 'no_price', message: 'there is no price' };
        return {
          ...publishes('price@1', value),
          facts: [{ fact: 'price@1', value, evidence: [c.cite('list')] }],
        };
      },
      { effect: 'read', provides: { 'price@1': v.number() }, automatic: () => ({}) },
    );
    const tell = does('tell', (c) => ({ ...done, output: c.fact('price@1') ?? null }), {
      requires: ['price@1'],
    });
    const talk = await talkOf([quote, tell], {}, {}, open);
    const served = await talk.say('tell');
    expect(steps(served)).toEqual([
      'tell waiting missing_required_facts',
      'quote completed null',
      'tell completed null',
    ]);
    expect(served.steps.at(-1)?.output).toBe(7);
    expect(await talk.strict('t1')).toMatchObject({ verdict: 'verified' });
    price = -1;
    // K-85: a refresh that fails takes nothing away.
    expect(steps(await talk.say('quote'))).toEqual(['quote failed no_price']);
    expect((await talk.say('tell')).steps.at(-1)?.output).toBe(7);
    const other = await talkOf([quote, tell]);
    expect(steps(await other.say('tell'))).toEqual([
      'tell waiting missing_required_facts',
      'quote failed no_price',
      'tell failed dependency_not_completed',
    ]);
  },
);

test('K-85 a fact goes with all that was derived from it', async () => {
  let n = 0;
  const talk = await talkOf([
    does('base', () => publishes('base@1', ++n), { provides: { 'base@1': v.number() } }),
    does('mid', (c) => publishes('mid@1', c.fact('base@1')), {
      requires: ['base@1'],
      provides: { 'mid@1': v.number() },
    }),
    does('top', (c) => publishes('top@1', c.fact('mid@1')), {
      requires: ['mid@1'],
      provides: { 'top@1': v.number() },
    }),
    does('look', (c) => ({ ...done, output: [c.fact('mid@1') ?? null, c.fact('top@1') ?? null] })),
  ]);
  for (const word of ['base', 'mid', 'top']) await talk.say(word);
  expect((await talk.say('look')).steps[0]?.output).toEqual([1, 1]);
  await talk.say('base');
  expect((await talk.say('look')).steps[0]?.output).toEqual([null, null]);
});

test('K-19 two capabilities that need each other without end stop at the budget, with nothing committed [T11]', async () => {
  const needs =
    (fact: string, capability: string): Run =>
    () => ({
      kind: 'needs_dependency',
      fact,
      capability,
      input: {},
    });
  const talk = await talkOf([
    does('a', needs('b@1', 'b'), { provides: { 'a@1': v.number() } }),
    does('b', needs('a@1', 'a'), { provides: { 'b@1': v.number() } }),
  ]);
  expect(await talk.fails({ message: 'a' })).toBe('automatic_step_budget_exceeded');
  expect((await talk.view('t1')).revision).toBe(0);
  const many = Array.from({ length: 3 }, (_, index) => does(`d${index}`, () => done));
  const all = { intentions: many.map(({ id }) => wants(id)) };
  const crowd = await talkOf(many, { all }, { limits: { steps: 2 } });
  expect(await crowd.fails({ message: 'all' })).toBe('step_budget_exceeded');
});

test('K-40 reads of a round overlap, and when one fails the others have ended before the turn does [T1]', async () => {
  const log: string[] = [];
  const { promise: gate, resolve: go } = Promise.withResolvers<void>();
  const reading = (id: string, fails: boolean) =>
    does(
      id,
      async (c) => {
        await c.read({
          args: id,
          retry: { maxAttempts: 1 },
          perform: async () => {
            log.push(`${id} in`);
            if (log.length === 3) go();
            await gate;
            log.push(`${id} out`);
            if (fails) throw new Error('no');
            return null;
          },
        });
        return done;
      },
      { effect: 'read' },
    );
  const ids = ['x', 'y', 'z'];
  const all = { intentions: ids.map((id) => wants(id)) };
  const talk = await talkOf(
    ids.map((id) => reading(id, id === 'x')),
    { all },
  );
  await talk.fails({ message: 'all' });
  expect(log.slice(0, 3)).toEqual(['x in', 'y in', 'z in']);
  expect(log.slice(3).toSorted()).toEqual(['x out', 'y out', 'z out']);
});

test('K-87 a question with options goes on with the option, once, after a restart', async () => {
  const seen: unknown[] = [];
  const paint = does('paint', (c) => {
    seen.push(c.resumed);
    if (c.resumed !== null) return { ...done, output: c.resumed.option };
    const options = [
      ['r', 'red'],
      ['b', 'blue'],
    ] as const;
    return { kind: 'needs_input', question: { text: 'Which?', options, payload: { wall: 1 } } };
  });
  const talk = await talkOf([paint]);
  const question = asked(await talk.say('paint'));
  expect(question).toMatchObject({
    kind: 'input',
    options: [
      ['r', 'red'],
      ['b', 'blue'],
    ],
  });
  const click = (option: string) => ({ select: { interactionId: question.id, option } });
  expect(await talk.fails(click('g'))).toBe('interaction_option_not_found');
  expect(await talk.fails({ confirm: { interactionId: question.id, value: true } })).toBe(
    'interaction_selection_mismatch',
  );
  talk.restart();
  expect((await talk.tell(click('b'))).steps[0]?.output).toBe('b');
  expect(await talk.fails(click('b'))).toBe('interaction_selection_mismatch');
  expect(seen).toEqual([null, { accepted: false, option: 'b', payload: { wall: 1 } }]);
});

test('K-66 a capability cannot change a stored fact through its value', async () => {
  const talk = await talkOf([
    does('know', () => publishes('list@1', [1]), { provides: { 'list@1': v.array(v.number()) } }),
    does('meddle', (c) => {
      (c.fact('list@1') as number[]).push(2);
      return done;
    }),
    does('look', (c) => ({ ...done, output: c.fact('list@1') })),
  ]);
  await talk.say('know');
  await talk.fails({ message: 'meddle' });
  expect((await talk.say('look')).steps[0]?.output).toEqual([1]);
});
