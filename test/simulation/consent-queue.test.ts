// What happens to a consent, and to work beside it, while something else is asked.
import { expect, test } from 'vitest';
import type { Capability } from '../../src/agent/kernel/capability.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import {
  anyOutput,
  asked,
  DeskWorld,
  desk,
  hours,
  noInput,
  reader,
  Talking,
  wants,
} from './desk.ts';

const words = {
  a: { intentions: [wants('a', {}, 'a')] },
  b: { intentions: [wants('b', {}, 'b')] },
  'b and c': { intentions: [wants('b', {}, 'b'), wants('c', {}, 'c')] },
  paint: { intentions: [wants('paint', {}, 'paint')] },
  when: { intentions: [wants('hours', {}, 'when')] },
};

const minute = 60_000;

function writes(world: DeskWorld): Capability[] {
  return ['a', 'b', 'c'].map((id) => world.write(id, noInput));
}

onEachStore(
  'K-50 K-81 two writes beside a pending question neither run nor replace it; each is asked for in its turn [T10]',
  async (open) => {
    const world = new DeskWorld();
    const talk = await Talking.open(open, desk(reader(words), writes(world)));
    const first = asked(await talk.say('a'));
    expect(asked(await talk.say('b and c'))).toEqual(first);
    expect(world.calls).toEqual([]);
    let question = first;
    for (const id of ['b', 'c']) {
      question = asked(await talk.yes(question.id));
      expect(question).toMatchObject({ kind: 'confirmation', owner: id });
    }
    await talk.yes(question.id);
    expect(world.calls.map(([id]) => id)).toEqual(['a', 'b', 'c']);
  },
);

test('K-52 a question that lapsed holds nobody up: another takes its place, and its yes finds nothing [T10]', async () => {
  const world = new DeskWorld();
  const options = { limits: { confirmationMs: minute } };
  const agent = desk(reader(words), [...writes(world), hours], options);
  const talk = await Talking.open(async () => memoryStore(), agent);
  const first = asked(await talk.say('a'));
  talk.world.clock.advance(minute);
  // A message that asks for nothing new leaves it as it is: its late answer is told what it is.
  expect(asked(await talk.say('when')).id).toBe(first.id);
  const second = asked(await talk.say('b'));
  expect(second.owner).toBe('b');
  expect(await talk.fails({ confirm: { interactionId: first.id, value: true } })).toBe(
    'interaction_selection_mismatch',
  );
  await talk.yes(second.id);
  expect(world.calls.map(([id]) => id)).toEqual(['b']);
});

/** A write that asks for a detail after its yes. */
function painting(world: DeskWorld): Capability {
  return {
    id: 'paint',
    description: 'Paint.',
    effect: 'write',
    confirmation: 'required',
    ...noInput,
    output: anyOutput,
    run: async (context) => {
      const option = context.resumed?.option ?? null;
      if (option === null) {
        const options = [['r', 'red'] as const, ['b', 'blue'] as const];
        return { kind: 'needs_input', question: { text: 'Which?', options } };
      }
      const call = { args: option, perform: () => world.land('paint', option) };
      return { kind: 'completed', output: await context.write('wall', call) };
    },
  };
}

onEachStore(
  'K-87 a yes stands while the write asks for a detail, until its own deadline; then it is asked for again [T10]',
  async (open) => {
    for (const waits of [minute - 1, minute]) {
      const world = new DeskWorld();
      const options = { limits: { confirmationMs: minute } };
      const talk = await Talking.open(open, desk(reader(words), [painting(world)], options));
      const { id } = asked(await talk.say('paint'));
      const detail = asked(await talk.yes(id));
      expect(detail.kind).toBe('input');
      talk.world.clock.advance(waits);
      const answer = await talk.tell({ select: { interactionId: detail.id, option: 'b' } });
      const inTime = waits < minute;
      expect(world.calls).toEqual(inTime ? [['paint', 'b']] : []);
      expect(answer.interaction?.kind ?? null).toBe(inTime ? null : 'confirmation');
    }
  },
);

test('K-64 a choice of an earlier authority is dissolved: each of its works is asked for by itself [T10]', async () => {
  const world = new DeskWorld();
  const model = reader(words);
  const old = desk(model, [...writes(world), hours]);
  const talk = await Talking.open(async () => memoryStore(), old);
  const choice = asked(await talk.say('b and c'));
  expect(choice.kind).toBe('choice');
  const continues = { [old.authority]: 'ask_again' as const };
  talk.deploy(desk(model, [...writes(world), hours], { version: 2, continues }));
  const option = choice.options?.[1]?.[0];
  const answer = await talk.tell({ select: { interactionId: choice.id, option } });
  expect(answer.steps[0]).toMatchObject({ code: 'authority_changed' });
  const next = asked(await talk.yes(asked(answer).id));
  expect([world.calls.map(([id]) => id), next.owner]).toEqual([['b'], 'c']);
});
