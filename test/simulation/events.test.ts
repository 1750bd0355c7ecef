// Events of a turn: gapless, caused by each other, on their way with the commit or not at all.
import { expect, test } from 'vitest';
import type { Capability } from '../../src/agent/kernel/capability.ts';
import { limits } from '../../src/protocol/limits.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { anyOutput, asked, DeskWorld, desk, noInput, reader, Talking, wants } from './desk.ts';
import { agentOf, Scene } from './scene.ts';

interface Told {
  readonly id: string;
  readonly type: string;
  readonly sequence: number;
  readonly stepId?: string;
  readonly causationId?: string;
}

/** What left for the outside so far, once each. */
function told(scene: Scene): readonly Told[] {
  const bodies = scene.world.queues.events.take().map(({ body }) => JSON.parse(body) as Told);
  return [...new Map(bodies.map((body) => [body.id, body])).values()];
}

const looking = (id: string): Capability => ({
  id,
  description: `Look at ${id}.`,
  effect: 'read',
  ...noInput,
  output: anyOutput,
  run: async (context) => {
    context.emit('began');
    const output = await context.read({ args: id, perform: async () => `secret of ${id}` });
    context.emit('found');
    return { kind: 'completed', output };
  },
});

onEachStore(
  'T68 two reads side by side tell what they do in one gapless sequence and two chains of causes, the commit last [T1]',
  async (open) => {
    const model = reader({ both: { intentions: [wants('left'), wants('right')] } });
    const talk = await Talking.open(open, desk(model, [looking('left'), looking('right')]));
    await talk.say('both');
    const events = told(talk);
    expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
    expect(events.at(-1)?.type).toBe('turn.committed');
    const byId = new Map(events.map((event) => [event.id, event]));
    for (const id of ['left', 'right']) {
      const step = events.find(({ type }) => type === `${id}.began`)?.stepId;
      const own = events.filter(({ stepId }) => stepId === step);
      expect(own.map(({ type }) => type)).toEqual([
        `${id}.began`,
        `${id}.found`,
        'capability.completed',
      ]);
      expect(own.map(({ causationId }) => byId.get(causationId ?? '')?.type)).toEqual([
        undefined,
        `${id}.began`,
        `${id}.found`,
      ]);
    }
    expect(JSON.stringify(events)).not.toContain('secret');
    expect(await talk.strict('t1')).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'K-68 a turn that dies and goes on tells the same events under the same ids; one that fails tells none [T1]',
  async (open) => {
    let dies = true;
    const agent = agentOf(async (context, input) => {
      const first = context.emit({ type: 'order.seen' });
      await context.effect({
        kind: 'look',
        args: null,
        mutates: false,
        perform: async () => {
          if (dies) scene.process.kill();
          return null;
        },
      });
      context.emit({ type: 'order.done', category: 'audit', causation: first });
      if (input === 'fail') throw new Error('no use');
      return first;
    });
    const scene = new Scene(await open(), agent);
    expect(await scene.deliver()).toBe('died');
    expect(told(scene)).toEqual([]);
    dies = false;
    await scene.world.recover();
    scene.restart();
    const turn = await scene.conclude();
    await scene.world.recover();
    const events = told(scene);
    expect(events).toMatchObject([
      { id: turn.result, type: 'order.seen', sequence: 1 },
      { type: 'order.done', sequence: 2, causationId: turn.result, category: 'audit' },
      { type: 'turn.committed', sequence: 3 },
    ]);
    expect(await scene.conclude('t2', { input: 'fail' })).toMatchObject({ status: 'failed' });
    await scene.world.recover();
    expect(told(scene)).toEqual([]);
  },
);

test('K-58 K-67 what a person answers is told by name', async () => {
  const world = new DeskWorld();
  const model = reader({ pay: { intentions: [wants('pay', {}, 'pay')] } });
  const talk = await Talking.open(
    async () => memoryStore(),
    desk(model, [world.write('pay', noInput)]),
  );
  const ends = [
    [(id: string) => ({ confirm: { interactionId: id, value: false } }), ['confirmation.declined']],
    [(id: string) => ({ cancel: { interactionId: id } }), ['agenda.item.cancelled']],
    [
      (id: string) => ({ confirm: { interactionId: id, value: true } }),
      ['confirmation.accepted', 'capability.completed'],
    ],
  ] as const;
  for (const [answer, types] of ends) {
    const { id } = asked(await talk.say('pay'));
    expect(told(talk).map(({ type }) => type)).toEqual(['interaction.asked', 'turn.committed']);
    await talk.tell(answer(id));
    expect(told(talk).map(({ type }) => type)).toEqual([...types, 'turn.committed']);
  }
});

const wrong = [
  ['too many events', 'limit', limits.eventsPerTurnMax + 1, undefined],
  ['a cause that is no event of the turn', 'causation', 1, 'elsewhere'],
] as const;

test.each(wrong)(
  'K-67 %s are refused, and nothing is told [T11]',
  async (_, __, count, causation) => {
    const agent = agentOf(async (context) => {
      for (let index = 0; index < count; index += 1) {
        context.emit({ type: 'x', ...(causation === undefined ? {} : { causation }) });
      }
    });
    const scene = new Scene(memoryStore(), agent);
    expect(await scene.conclude()).toMatchObject({
      status: 'failed',
      error: { code: 'invalid_request', message: expect.stringMatching(/^event/) },
    });
    expect(told(scene)).toEqual([]);
  },
);
