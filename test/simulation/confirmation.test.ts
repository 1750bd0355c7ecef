// Confirmation of writes (cases/confirmation.md, C): consent is to one frozen call, strict, and spent once.

import * as v from 'valibot';
import { expect } from 'vitest';
import type { Capability, Policy } from '../../src/agent/kernel/capability.ts';
import { onEachStore } from '../stores.ts';
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
};

async function cancelDesk(open: Parameters<Parameters<typeof onEachStore>[1]>[0], more = {}) {
  const world = new DeskWorld();
  const model = reader({ ...readings, ...more });
  const capabilities = [
    world.write('cancel', orderInput),
    world.write('transfer', amountInput),
    world.write('delete', noInput),
    hours,
  ];
  const talk = await Talking.open(open, desk(model, capabilities));
  return { world, model, talk };
}

onEachStore(
  'K-42 K-43 a write is asked for first, frozen; a yes in another turn runs it once [T10 T2]',
  async (open) => {
    const { world, talk } = await cancelDesk(open);
    const question = asked(await talk.say('cancel 7'));
    expect(question).toMatchObject({ kind: 'confirmation', owner: 'cancel', input: { order: 7 } });
    expect([world.calls, world.runs]).toEqual([[], []]);
    talk.restart();
    const done = await talk.yes(question.id);
    expect(done).toMatchObject({ reply: 'cancel is done', interaction: null });
    expect(world.calls).toEqual([['cancel', { order: 7 }]]);
    expect(await talk.strict(talk.lastTurn)).toMatchObject({ verdict: 'verified' });
    expect(
      await talk.conclude(talk.lastTurn, {
        input: { confirm: { interactionId: question.id, value: true } },
      }),
    ).toMatchObject({ replayed: true, result: done });
    expect(world.count('cancel')).toBe(1);
  },
);

onEachStore(
  'T40 a no removes question and work, runs nothing, and a later yes finds nothing [T10]',
  async (open) => {
    const { world, talk } = await cancelDesk(open);
    const { id } = asked(await talk.say('cancel 7'));
    const declined = await talk.tell({ confirm: { interactionId: id, value: false } });
    expect(declined).toMatchObject({
      steps: [{ capability: 'cancel', status: 'rejected', code: 'confirmation_declined' }],
      interaction: null,
    });
    const late = await talk.fails({ confirm: { interactionId: id, value: true } });
    expect(late).toBe('interaction_selection_mismatch');
    expect(world.runs).toEqual([]);
  },
);

onEachStore(
  'T41 only a strict true is a yes: everything else changes nothing [T10]',
  async (open) => {
    const { world, talk } = await cancelDesk(open);
    const { id } = asked(await talk.say('cancel 7'));
    for (const value of ['true', 1, 'yes', {}, null, { action: 'confirm' }, [true], 'false', 0]) {
      const sent = { confirm: { interactionId: id, value } };
      expect([value, await talk.fails(sent)]).toEqual([value, 'answer_not_boolean']);
    }
    expect(world.runs).toEqual([]);
    await talk.yes(id);
    expect(world.count('cancel')).toBe(1);
  },
);

onEachStore(
  'T42 an unrelated question is answered and its facts kept; the same question stands, then a yes runs it once [T10]',
  async (open) => {
    const { world, talk } = await cancelDesk(open);
    const question = asked(await talk.say('cancel 7'));
    const meanwhile = await talk.say('when are you open?');
    expect(meanwhile.reply).toContain('We are open nine to five.');
    expect(asked(meanwhile)).toEqual(question);
    const again = await talk.say('when are you open?', question.id);
    expect(asked(again)).toEqual(question);
    await talk.yes(question.id);
    expect(world.calls).toEqual([['cancel', { order: 7 }]]);
  },
);

onEachStore(
  'T44 a model that restates the input otherwise while accepting cannot change what the yes was for [T10]',
  async (open) => {
    const { world, talk } = await cancelDesk(open, {
      yes: {
        answer: { accepts: true, evidence: ['yes'] },
        intentions: [wants('transfer', { amount: 999 }, 'yes')],
      },
      'yes, but 20': {
        answer: { accepts: true, evidence: ['yes'] },
        intentions: [wants('transfer', { amount: 20 }, 'but 20')],
      },
    });
    const first = asked(await talk.say('transfer 10'));
    await talk.say('yes', first.id);
    expect(world.calls).toEqual([['transfer', { amount: 10 }]]);
    const second = asked(await talk.say('transfer 10'));
    const torn = asked(await talk.say('yes, but 20', second.id));
    expect(torn.kind).toBe('choice');
    expect(world.count('transfer')).toBe(1);
  },
);

onEachStore(
  'T45 a permission revoked between question and yes is a refusal: nothing runs and nothing is left to answer [T10]',
  async (open) => {
    const world = new DeskWorld();
    let allowed = true;
    const rights: Policy = {
      id: 'rights',
      decide: async ({ read }) =>
        (await read({ args: null, perform: async () => allowed }))
          ? { kind: 'allow' }
          : { kind: 'deny', message: 'you may not' },
    };
    const agent = desk(reader(readings), [world.write('cancel', orderInput)], {
      policies: [rights],
    });
    const talk = await Talking.open(open, agent);
    const { id } = asked(await talk.say('cancel 7'));
    allowed = false;
    expect(await talk.yes(id)).toMatchObject({
      reply: 'you may not',
      steps: [{ status: 'rejected', code: 'policy_denied' }],
      interaction: null,
    });
    expect(world.runs).toEqual([]);
    expect(await talk.strict(talk.lastTurn)).toMatchObject({ verdict: 'verified' });
  },
);

/** A price that a quote publishes and a repricing makes void. */
function priced(world: DeskWorld) {
  let price = 5;
  const quote: Capability = {
    id: 'quote',
    description: 'Quote the price.',
    effect: 'read',
    ...noInput,
    output: anyOutput,
    provides: { 'price@1': v.number() },
    run: async (context) => {
      const value = await context.read({ args: null, perform: async () => price });
      return { kind: 'completed', output: value, facts: [{ fact: 'price@1', value }] };
    },
  };
  const reprice: Capability = {
    id: 'reprice',
    description: 'Prices change.',
    effect: 'none',
    ...noInput,
    output: anyOutput,
    provides: { 'market@1': v.number() },
    invalidates: ['price@1'],
    run: () => ({ kind: 'completed', output: null, facts: [{ fact: 'market@1', value: 1 }] }),
  };
  const buy: Capability = { ...world.write('buy', noInput), requires: ['price@1'] };
  const readings = {
    quote: { intentions: [wants('quote')] },
    buy: { intentions: [wants('buy')] },
    reprice: { intentions: [wants('reprice')] },
  };
  return {
    agent: desk(reader(readings), [quote, reprice, buy]),
    setPrice: (value: number) => {
      price = value;
    },
  };
}

onEachStore(
  'T46 a required fact that is void by the time of the yes: nothing runs, and it is asked again when the fact is back [T10]',
  async (open) => {
    const world = new DeskWorld();
    const { agent } = priced(world);
    const talk = await Talking.open(open, agent);
    await talk.say('quote');
    const first = asked(await talk.say('buy'));
    expect(asked(await talk.say('reprice'))).toEqual(first);
    expect(await talk.yes(first.id)).toMatchObject({
      steps: [{ status: 'waiting', code: 'missing_required_facts' }],
      interaction: null,
    });
    const second = asked(await talk.say('quote'));
    expect(second.id).not.toBe(first.id);
    expect(world.runs).toEqual([]);
    await talk.yes(second.id);
    expect(world.count('buy')).toBe(1);
  },
);

onEachStore(
  'K-46 a required fact that reads otherwise by the time of the yes is shown again first [T10]',
  async (open) => {
    const world = new DeskWorld();
    const { agent, setPrice } = priced(world);
    const talk = await Talking.open(open, agent);
    await talk.say('quote');
    const first = asked(await talk.say('buy'));
    setPrice(6);
    await talk.say('quote');
    const again = await talk.yes(first.id);
    expect(again.steps).toMatchObject([{ status: 'asked', code: 'facts_changed' }]);
    expect(world.runs).toEqual([]);
    await talk.yes(asked(again).id);
    expect(world.count('buy')).toBe(1);
  },
);

onEachStore(
  'T47 a yes together with another write: neither runs, one choice; the yes is spent only when its own work is picked [T10]',
  async (open) => {
    const words = {
      answer: { accepts: true, evidence: ['Yes'] },
      intentions: [wants('delete', {}, 'delete my account')],
    };
    for (const pick of ['cancel', 'delete']) {
      const { world, talk } = await cancelDesk(open, { 'Yes, and also delete my account': words });
      const { id } = asked(await talk.say('cancel 7'));
      const torn = await talk.say('Yes, and also delete my account', id);
      const choice = asked(torn);
      expect(choice.kind).toBe('choice');
      expect(torn.steps.map(({ code }) => code)).toEqual(['write_conflict', 'write_conflict']);
      expect(world.calls).toEqual([]);
      const option = choice.options?.find(([, text]) => text.startsWith(pick))?.[0];
      const picked = await talk.tell({ select: { interactionId: choice.id, option } });
      expect(world.calls.map(([name]) => name)).toEqual(pick === 'cancel' ? ['cancel'] : []);
      // Whichever is left is asked for by itself.
      expect(asked(picked)).toMatchObject({ kind: 'confirmation', owner: 'delete' });
      const last = await talk.yes(asked(picked).id);
      if (pick === 'cancel') expect(last.interaction).toBe(null);
      else expect(asked(last)).toMatchObject({ kind: 'confirmation', owner: 'cancel' });
      expect(world.count('delete')).toBe(1);
    }
  },
);

onEachStore('T48 a yes whose words restate the request is one run [T10]', async (open) => {
  const { world, talk } = await cancelDesk(open, {
    'Yes, cancel it': {
      answer: { accepts: true, evidence: ['Yes, cancel it'] },
      intentions: [wants('cancel', { order: 7 }, 'cancel it')],
    },
  });
  const { id } = asked(await talk.say('cancel 7'));
  expect(await talk.say('Yes, cancel it', id)).toMatchObject({ interaction: null });
  expect(world.calls).toEqual([['cancel', { order: 7 }]]);
});

onEachStore(
  'T49 a second request in words of its own is not folded into the first [T10]',
  async (open) => {
    const { world, talk } = await cancelDesk(open, {
      'Yes. And cancel order 9 too': {
        answer: { accepts: true, evidence: ['Yes'] },
        intentions: [wants('cancel', { order: 9 }, 'cancel order 9 too')],
      },
    });
    const { id } = asked(await talk.say('cancel 7'));
    const choice = asked(await talk.say('Yes. And cancel order 9 too', id));
    expect(choice.options?.map(([, text]) => text)).toEqual([
      'cancel {"order":7}',
      'cancel {"order":9}',
    ]);
    expect(world.calls).toEqual([]);
    const first = choice.options?.[0]?.[0];
    const rest = await talk.tell({ select: { interactionId: choice.id, option: first } });
    expect(asked(rest).input).toEqual({ order: 9 });
    await talk.yes(asked(rest).id);
    expect(world.calls).toEqual([
      ['cancel', { order: 7 }],
      ['cancel', { order: 9 }],
    ]);
  },
);

onEachStore(
  'T50 a yes at the very deadline is too late, one millisecond before it counts; no timer is needed [T10]',
  async (open) => {
    for (const early of [1, 0]) {
      const world = new DeskWorld();
      const agent = desk(reader(readings), [world.write('cancel', orderInput)], {
        limits: { confirmationMs: 60_000 },
      });
      const talk = await Talking.open(open, agent);
      const { id, expiresAt } = asked(await talk.say('cancel 7'));
      talk.world.clock.advance(Date.parse(expiresAt ?? '') - talk.world.clock.now() - early);
      const answer = await talk.yes(id);
      expect(world.count('cancel')).toBe(early);
      if (early === 1) continue;
      expect(answer).toMatchObject({
        steps: [{ status: 'rejected', code: 'confirmation_expired' }],
        interaction: null,
      });
      expect(asked(await talk.say('cancel 7')).id).not.toBe(id);
    }
  },
);
