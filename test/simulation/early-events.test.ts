// Events that are there before their wait, and passes that die before they look (page 09, rule 7; waits.md).
import { expect } from 'vitest';
import { handleInboxBatch } from '../../src/runtime/drive.ts';
import { publishEvent } from '../../src/runtime/events.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const paid = (scene: Scene, id: string, correlation: unknown) =>
  publishEvent(scene.world.start().runtime, {
    tenant: scene.ref().tenant,
    source: 'bank',
    id,
    type: 'paid',
    correlation,
    data: { id },
  });

onEachStore(
  'E226 E230 dying at any call of the pass that asks: an event that came before the wait still wakes the turn [T10]',
  async (open) => {
    for (let call = 1; ; call += 1) {
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          const got = await context.event({ type: 'paid', correlation: 1 });
          return got.kind === 'event' ? got.data : got.kind;
        }),
      );
      await paid(scene, 'e1', 1);
      const kind = call % 2 === 0 ? 'doneButUnheard' : 'lostBefore';
      const process = scene.restart({ call, kind });
      await scene.deliver();
      await scene.world.recover();
      scene.restart();
      await scene.deliver();
      await scene.world.recover();
      expect(await scene.view(), `call ${call} ${process.fired}`).toMatchObject({
        status: 'succeeded',
        result: { id: 'e1' },
      });
      if (process.fired === null) break;
    }
  },
);

onEachStore(
  'E226 E230 dying at any call of a pass that goes from one wait to the next: the second event, come early, is not missed [T10]',
  async (open) => {
    for (let call = 1; ; call += 1) {
      const outside = new Outside();
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          await context.event({ type: 'paid', correlation: 1 });
          await context.effect(outside.effect({ recovery: 'idempotent' }));
          const got = await context.event({ type: 'paid', correlation: 2 });
          return got.kind === 'event' ? got.data : got.kind;
        }),
      );
      await scene.suspend();
      await paid(scene, 'e2', 2);
      await paid(scene, 'e1', 1);
      const kind = call % 2 === 0 ? 'doneButUnheard' : 'lostBefore';
      const process = scene.world.start({ call, kind });
      const batch = scene.world.queues.inbox
        .take()
        .map(({ body }, index) => ({ id: `${index}`, body, receives: 1 }));
      await scene.world.settle(process, handleInboxBatch(process.runtime, batch, {}));
      await scene.world.recover();
      expect(await scene.view(), `call ${call} ${process.fired}`).toMatchObject({
        status: 'succeeded',
        result: { id: 'e2' },
      });
      expect(new Set(outside.keys).size).toBe(1);
      if (process.fired === null) break;
    }
  },
);
