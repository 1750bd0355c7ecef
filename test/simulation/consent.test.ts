// Consent at its edges (cases/confirmation.md, C): own questions, words, doubts, deployments.

import * as v from 'valibot';
import { expect, test } from 'vitest';
import type { Capability, Policy } from '../../src/agent/kernel/capability.ts';
import { assertFact, reopenTurn } from '../../src/runtime/person-acts.ts';
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
  orderInput,
  reader,
  Talking,
  wants,
} from './desk.ts';

const readings = {
  'cancel 7': { intentions: [wants('cancel', { order: 7 }, 'cancel 7')] },
  'when are you open?': { intentions: [wants('hours', {}, 'when')] },
  'transfer 10': { intentions: [wants('transfer', { amount: 10 }, 'transfer 10')] },
  'make it 20': { intentions: [wants('transfer', { amount: 20 }, 'make it 20')] },
  yes: { answer: { accepts: true, evidence: ['yes'] } },
  no: { answer: { accepts: false, evidence: ['no'] } },
  'never mind': { cancels: { evidence: ['never mind'] } },
};

/** A write that gathers first and asks in its own words. */
function posting(world: DeskWorld, options: { readonly rash?: boolean } = {}): Capability {
  return {
    id: 'post',
    description: 'Post a note.',
    effect: 'write',
    confirmation: 'capability',
    ...noInput,
    output: anyOutput,
    run: async (context) => {
      world.runs.push(context.resumed === null ? 'first' : 'resumed');
      if (context.resumed === null && options.rash !== true) {
        const line = await context.read({ args: null, perform: async () => 'line 3' });
        return { kind: 'needs_confirmation', summary: `Post on ${line}?`, payload: { line } };
      }
      const output = await context.write('note', {
        args: context.resumed?.payload ?? null,
        perform: async () => world.land('post', context.resumed?.payload),
      });
      return { kind: 'completed', output };
    },
  };
}

onEachStore(
  'K-53 a capability that asks for itself runs first without writing, then goes on with its own question; a no never comes back to it [T10]',
  async (open) => {
    const world = new DeskWorld();
    const model = reader({ post: { intentions: [wants('post')] } });
    const talk = await Talking.open(open, desk(model, [posting(world)]));
    const first = asked(await talk.say('post'));
    expect(first).toMatchObject({ kind: 'confirmation', owner: 'post', text: 'Post on line 3?' });
    await talk.tell({ confirm: { interactionId: first.id, value: false } });
    expect(world.runs).toEqual(['first']);
    const second = asked(await talk.say('post'));
    talk.restart();
    await talk.yes(second.id);
    expect(world.runs).toEqual(['first', 'first', 'resumed']);
    expect(world.calls).toEqual([['post', { line: 'line 3' }]]);
  },
);

onEachStore(
  'T52 a capability that asks for itself may not write before its yes [T10]',
  async (open) => {
    const world = new DeskWorld();
    const model = reader({ post: { intentions: [wants('post')] } });
    const talk = await Talking.open(open, desk(model, [posting(world, { rash: true })]));
    expect(await talk.fails({ message: 'post' })).toBe('effect_consent_missing');
    expect(world.calls).toEqual([]);
    expect((await talk.view('t1')).revision).toBe(0);
  },
);

onEachStore('T54 a policy may ask before a read as well [T10]', async (open) => {
  const world = new DeskWorld();
  const look: Capability = {
    id: 'look',
    description: 'Look into the file.',
    effect: 'read',
    ...noInput,
    output: anyOutput,
    run: async (context) => ({
      kind: 'completed',
      output: await context.read({ args: null, perform: () => world.land('look', null) }),
    }),
  };
  const ask: Policy = { id: 'ask', decide: () => ({ kind: 'confirm', summary: 'Look?' }) };
  const never: Policy = {
    id: 'never',
    decide: () => {
      throw new Error('the first that does not allow wins');
    },
  };
  const model = reader({ look: { intentions: [wants('look')] } });
  const talk = await Talking.open(open, desk(model, [look], { policies: [ask, never] }));
  const question = asked(await talk.say('look'));
  expect(question).toMatchObject({ kind: 'confirmation', text: 'Look?' });
  expect(world.calls).toEqual([]);
  await talk.yes(question.id);
  expect(world.count('look')).toBe(1);
});

const reviews = [
  ['T56 is not JSON', 'of course!', 'yes'],
  ['T56 has the wrong shape', '{"supported":"true"}', 'yes'],
  ['T56 says no', '{"supported":false}', 'yes'],
  ['K-56 is never asked, because the words were not said', '{"supported":true}', 'si'],
] as const;

for (const [title, review, message] of reviews) {
  onEachStore(`${title}: a claimed yes whose review fails is no yes [T10]`, async (open) => {
    const world = new DeskWorld();
    const model = reader(
      { ...readings, si: { answer: { accepts: true, evidence: ['yes'] } } },
      { review: () => review },
    );
    const talk = await Talking.open(open, desk(model, [world.write('cancel', orderInput)]));
    const question = asked(await talk.say('cancel 7'));
    const answer = await talk.say(message, question.id);
    expect(answer.steps).toMatchObject([{ status: 'rejected', code: 'answer_unsupported' }]);
    expect(asked(answer)).toEqual(question);
    expect(world.runs).toEqual([]);
    await talk.yes(question.id);
    expect(world.count('cancel')).toBe(1);
  });
}

onEachStore(
  'K-45 words answer only the question they name; a dead or foreign id is refused and nothing moves [T10]',
  async (open) => {
    const world = new DeskWorld();
    const talk = await Talking.open(
      open,
      desk(reader(readings), [world.write('transfer', amountInput)]),
    );
    const first = asked(await talk.say('transfer 10'));
    const unbound = await talk.say('yes');
    expect(unbound.steps).toMatchObject([{ code: 'answer_unbound' }]);
    // K-51: asked anew, the old question is dead.
    const second = asked(await talk.say('make it 20'));
    expect(second.input).toEqual({ amount: 20 });
    expect(second.id).not.toBe(first.id);
    for (const sent of [
      { confirm: { interactionId: first.id, value: true } },
      { message: 'yes', answering: first.id },
      { cancel: { interactionId: first.id } },
      { select: { interactionId: first.id, option: 'x' } },
    ]) {
      expect(await talk.fails(sent)).toBe('interaction_selection_mismatch');
    }
    expect(world.runs).toEqual([]);
    await talk.say('yes', second.id);
    expect(world.calls).toEqual([['transfer', { amount: 20 }]]);
  },
);

onEachStore(
  'K-48 K-58 a no in words and a cancellation take the work away; both are told apart [T10]',
  async (open) => {
    const world = new DeskWorld();
    const talk = await Talking.open(
      open,
      desk(reader(readings), [world.write('cancel', orderInput)]),
    );
    const ends = [
      ['no', 'confirmation_declined'],
      ['never mind', 'agenda_item_cancelled'],
    ] as const;
    for (const [word, code] of ends) {
      const { id } = asked(await talk.say('cancel 7'));
      expect(await talk.say(word, id)).toMatchObject({ steps: [{ code }], interaction: null });
    }
    const { id } = asked(await talk.say('cancel 7'));
    expect(await talk.tell({ cancel: { interactionId: id } })).toMatchObject({
      steps: [{ status: 'cancelled' }],
      interaction: null,
    });
    expect(world.runs).toEqual([]);
  },
);

onEachStore(
  'K-50 a second write waits until the first question is answered, then it is asked for by itself [T10]',
  async (open) => {
    const world = new DeskWorld();
    const capabilities = [world.write('cancel', orderInput), world.write('transfer', amountInput)];
    const talk = await Talking.open(open, desk(reader(readings), capabilities));
    const first = asked(await talk.say('cancel 7'));
    expect(asked(await talk.say('transfer 10'))).toEqual(first);
    const next = asked(await talk.yes(first.id));
    expect(next).toMatchObject({ owner: 'transfer', input: { amount: 10 } });
    expect(world.calls).toEqual([['cancel', { order: 7 }]]);
    await talk.yes(next.id);
    expect(world.count('transfer')).toBe(1);
  },
);

onEachStore('T58 a click on an option cannot answer a confirmation [T10]', async (open) => {
  const world = new DeskWorld();
  const talk = await Talking.open(
    open,
    desk(reader(readings), [world.write('cancel', orderInput)]),
  );
  const { id } = asked(await talk.say('cancel 7'));
  for (const option of ['true', 'yes', id]) {
    const code = await talk.fails({ select: { interactionId: id, option } });
    expect(code).toBe('interaction_option_not_found');
  }
  expect(await talk.fails({ select: { interactionId: id, option: ' ' } })).toBe(
    'interaction_selection_empty',
  );
  expect(world.runs).toEqual([]);
  await talk.yes(id);
  expect(world.count('cancel')).toBe(1);
});

onEachStore(
  'T57 a yes whose write ends in doubt commits nothing; every further yes calls nothing until somebody has said, then it runs once [T6 T10]',
  async (open) => {
    const world = new DeskWorld();
    const talk = await Talking.open(
      open,
      desk(reader(readings), [world.write('cancel', orderInput), hours]),
    );
    const question = asked(await talk.say('cancel 7'));
    world.broken = true;
    const accept = { confirm: { interactionId: question.id, value: true } };
    await talk.doubts(accept);
    // Ruling 7: the turn is quarantined, and the checkpoint still holds the question.
    expect(asked(await talk.say('when are you open?'))).toEqual(question);
    await talk.doubts(accept);
    expect(world.count('cancel')).toBe(1);
    const { runtime } = talk.restart();
    const { tenant } = talk.ref();
    const [receipt] = await listReceipts(runtime, tenant, { thread: null, status: 'uncertain' });
    expect(receipt).toMatchObject({ kind: 'cancel', status: 'uncertain', turnId: 't2' });
    world.broken = false;
    const fact = { outcome: 'did_not_happen' as const, note: 'no trace' };
    await assertFact(runtime, talk.ref('t2'), receipt?.effectKey ?? '', fact, 'olga');
    const done = await talk.yes(question.id);
    expect(done).toMatchObject({ steps: [{ status: 'completed' }], interaction: null });
    // Of the turns in doubt, the first had its one attempt, which did not happen; the other finds the receipt.
    for (const [turn, status] of [
      ['t2', 'failed'],
      ['t4', 'succeeded'],
    ] as const) {
      const reopened = reopenTurn(runtime, talk.ref(turn), 'answered', 'olga', {});
      await talk.world.settle(talk.process, reopened);
      expect(await talk.view(turn)).toMatchObject({ status });
    }
    expect(world.count('cancel')).toBe(2);
    expect((await talk.say('when are you open?')).interaction).toBe(null);
  },
);

test('T57 T130 K-59 a doubt that the capability swallows is a doubt all the same, its receipt listed [T6]', async () => {
  const world = new DeskWorld();
  world.broken = true;
  const honest = world.write('cancel', orderInput);
  const swallowing: Capability = {
    ...honest,
    run: async (context) => {
      try {
        return await honest.run(context);
      } catch {
        return { kind: 'failed', code: 'later', message: 'try later' };
      }
    },
  };
  const talk = await Talking.open(async () => memoryStore(), desk(reader(readings), [swallowing]));
  const { id } = asked(await talk.say('cancel 7'));
  await talk.doubts({ confirm: { interactionId: id, value: true } });
  await talk.doubts({ confirm: { interactionId: id, value: true } });
  expect(world.count('cancel')).toBe(1);
  const { runtime } = talk.restart();
  const receipts = await listReceipts(runtime, talk.ref().tenant, { thread: null, status: null });
  expect(receipts).toMatchObject([{ kind: 'cancel', status: 'uncertain', turnId: 't2' }]);
});

onEachStore(
  'T60 a question outlives a restart and new wording; under another authority it is kept, asked again or dropped as declared, else refused [T10]',
  async (open) => {
    for (const carry of ['presentation', 'refuse', 'accept', 'ask_again', 'drop'] as const) {
      const world = new DeskWorld();
      const model = reader(readings);
      const capabilities = [world.write('cancel', orderInput), hours];
      const old = desk(model, capabilities, { guidance: 'Be brief.' });
      const talk = await Talking.open(open, old);
      const question = asked(await talk.say('cancel 7'));
      const accept = { confirm: { interactionId: question.id, value: true } };
      if (carry === 'presentation') {
        talk.deploy(desk(model, capabilities, { guidance: 'Be kind.' }));
        await talk.yes(question.id);
        expect(world.count('cancel')).toBe(1);
        continue;
      }
      const continues = carry === 'refuse' ? {} : { [old.authority]: carry };
      talk.deploy(desk(model, capabilities, { version: 2, continues }));
      if (carry === 'refuse') {
        await expect(talk.tell(accept)).rejects.toMatchObject({ code: 'fingerprint_mismatch' });
        expect(world.runs).toEqual([]);
        continue;
      }
      const answer = await talk.tell(accept);
      expect(world.count('cancel')).toBe(carry === 'accept' ? 1 : 0);
      if (carry === 'accept') continue;
      expect(answer.steps[0]).toMatchObject({ status: 'rejected', code: 'authority_changed' });
      if (carry === 'drop') {
        expect(answer.interaction).toBe(null);
        continue;
      }
      const again = asked(answer);
      expect(again.id).not.toBe(question.id);
      await talk.yes(again.id);
      expect(world.count('cancel')).toBe(1);
    }
  },
);

test('K-50 what waits is asked for in the order it came up, whatever it is called', async () => {
  const world = new DeskWorld();
  const ids = ['zeta', 'first', 'mid', 'alpha'];
  const words = Object.fromEntries(ids.map((id) => [id, { intentions: [wants(id, {}, id)] }]));
  const capabilities = ids.map((id) => world.write(id, noInput));
  const talk = await Talking.open(async () => memoryStore(), desk(reader(words), capabilities));
  let question = asked(await talk.say('first'));
  for (const id of ['zeta', 'alpha', 'mid']) {
    talk.world.clock.advance(1);
    expect(asked(await talk.say(id))).toEqual(question);
  }
  for (const next of ['zeta', 'alpha', 'mid']) {
    question = asked(await talk.yes(question.id));
    expect(question.owner).toBe(next);
  }
  expect((await talk.yes(question.id)).interaction).toBe(null);
  expect(world.calls.map(([id]) => id)).toEqual(['first', 'zeta', 'alpha', 'mid']);
});

test('K-46 an input is checked again when the yes comes, by the schema of that day [T10]', async () => {
  const world = new DeskWorld();
  const model = reader(readings);
  const old = desk(model, [world.write('cancel', orderInput)]);
  const talk = await Talking.open(async () => memoryStore(), old);
  const { id } = asked(await talk.say('cancel 7'));
  const stricter = { ...orderInput, input: v.object({ order: v.pipe(v.number(), v.minValue(8)) }) };
  const continues = { [old.authority]: 'accept' as const };
  talk.deploy(desk(model, [world.write('cancel', stricter)], { version: 2, continues }));
  expect((await talk.yes(id)).steps).toMatchObject([{ status: 'asked', code: 'invalid_input' }]);
  expect(world.runs).toEqual([]);
});
