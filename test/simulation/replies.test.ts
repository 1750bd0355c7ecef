// Replies: every result once, cited where a model words them, protected text past every model.
import { expect, test } from 'vitest';
import type { Capability } from '../../src/agent/kernel/capability.ts';
import type { ModelRequest } from '../../src/ports/model.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { asked, DeskWorld, desk, hours, noInput, reader, Talking, wants } from './desk.ts';

const readings = {
  pay: { intentions: [wants('pay', {}, 'pay')] },
  when: { intentions: [wants('hours')] },
  code: { intentions: [wants('code')] },
};

const parts = (...said: [text: string, ...cites: string[]][]) =>
  JSON.stringify({ parts: said.map(([text, ...cites]) => ({ text, cites })) });

const grounded = (supported: boolean) => JSON.stringify({ supported });

function phases(requests: readonly ModelRequest[]): string[] {
  return requests.map(({ schema }) => String(schema?.title));
}

onEachStore(
  'K-90 a wording that cites and is supported is the reply; the review is journaled like any effect [T7]',
  async (open) => {
    const model = reader(readings, {
      reply: () => parts(['Come between nine and five!', 'r1']),
      grounding: () => grounded(true),
    });
    const talk = await Talking.open(open, desk(model, [hours], { wording: 'model' }));
    const answer = await talk.say('when');
    expect(answer).toMatchObject({ reply: 'Come between nine and five!', wording: 'model' });
    expect(phases(model.requests)).toEqual(['interpretation', 'reply', 'grounding']);
    expect(await talk.strict('t1')).toMatchObject({ verdict: 'verified' });
  },
);

const faults: readonly (readonly [string, string, string])[] = [
  ['a part without evidence', parts(['Refunded!']), grounded(true)],
  ['evidence that is not there', parts(['Refunded!', 'r9']), grounded(true)],
  ['a result told twice', parts(['We are open.', 'r1'], ['Nine to five.', 'r1']), grounded(true)],
  ['no part at all', parts(), grounded(true)],
  ['words that are no answer', 'Refunded!', grounded(true)],
  ['a review that says no', parts(['Refunded!', 'r1']), grounded(false)],
  ['a review that cannot be read', parts(['Refunded!', 'r1']), 'sure'],
];

test.each(faults)(
  'K-90 K-91 %s: worded once more, then the results speak for themselves',
  async (_, wording, review) => {
    const model = reader(readings, { reply: () => wording, grounding: () => review });
    const talk = await Talking.open(
      async () => memoryStore(),
      desk(model, [hours], { wording: 'model' }),
    );
    const answer = await talk.say('when');
    expect(answer).toMatchObject({ reply: 'We are open nine to five.', wording: 'results' });
    expect(phases(model.requests).filter((phase) => phase === 'reply')).toHaveLength(2);
  },
);

onEachStore(
  'K-16 a write that landed is committed whatever its wording comes to, and the same turn answers the same [T1 T2]',
  async (open) => {
    const world = new DeskWorld();
    const model = reader(readings, { reply: () => 'no wording' });
    const agent = desk(model, [world.write('pay', noInput)], { wording: 'model' });
    const talk = await Talking.open(open, agent);
    const { id } = asked(await talk.say('pay'));
    const done = await talk.yes(id);
    expect(done).toMatchObject({ reply: 'pay is done', wording: 'results', interaction: null });
    const before = model.requests.length;
    const again = await talk.conclude('t2', {
      input: { confirm: { interactionId: id, value: true } },
    });
    expect(again).toMatchObject({ replayed: true, result: done });
    expect([world.count('pay'), model.requests.length]).toEqual([1, before]);
  },
);

test('K-91 what was told in an earlier turn creates no duty in this one', async () => {
  const replies: string[] = [];
  const model = reader(
    { ...readings, hello: {} },
    {
      reply: ({ instructions }) => {
        replies.push(instructions ?? '');
        return parts(['Nine to five.', 'r1']);
      },
      grounding: () => grounded(true),
    },
  );
  const talk = await Talking.open(
    async () => memoryStore(),
    desk(model, [hours], { wording: 'model' }),
  );
  await talk.say('when');
  expect(await talk.say('hello')).toMatchObject({ reply: '', steps: [] });
  expect(replies).toHaveLength(1);
});

onEachStore('K-92 protected text reaches the person as it is, and no model ever', async (open) => {
  const code: Capability = {
    id: 'code',
    description: 'Tell the code.',
    effect: 'none',
    ...noInput,
    output: noInput.input,
    run: () => ({ kind: 'completed', output: {}, protectedMessage: 'Your code is 4711.' }),
  };
  const model = reader(readings, {
    reply: () => parts(['Nine to five.', 'r1']),
    grounding: () => grounded(true),
  });
  const talk = await Talking.open(open, desk(model, [code, hours], { wording: 'model' }));
  expect((await talk.say('code')).reply).toBe('Your code is 4711.');
  await talk.say('when');
  expect(JSON.stringify(model.requests)).not.toContain('4711');
  expect(JSON.stringify(model.requests)).toContain('(protected)');
});

test('K-89 facts are shown to models in full, as known, or not at all', async () => {
  const knows = (id: string, visibility: 'full' | 'presence' | 'hidden'): Capability => ({
    ...hours,
    id,
    visibility,
    provides: { [`${id}@1`]: noInput.input },
    run: () => ({ kind: 'completed', output: null, facts: [{ fact: `${id}@1`, value: {} }] }),
  });
  const capabilities = [knows('open', 'full'), knows('there', 'presence'), knows('dark', 'hidden')];
  const all = { intentions: capabilities.map(({ id }) => wants(id)) };
  const model = reader({ all, after: {} });
  const talk = await Talking.open(async () => memoryStore(), desk(model, capabilities));
  await talk.say('all');
  await talk.say('after');
  const guide = model.requests.at(-1)?.instructions ?? '';
  expect(guide).toContain('Known facts: {"open@1":{},"there@1":"known"}');
});
