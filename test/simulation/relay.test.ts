// Goal: what commits left in the outbox reaches the queue in order and whole, wherever a relay dies.
// Method: two commits whose relay never ran; then every call of the relay is, in turn, lost, done unheard, done
// twice, its process dying there; or the queue refuses one message; with and without the queue's memory of ids.
import { expect } from 'vitest';
import type { Queue } from '../../src/ports/queue.ts';
import { sendThread } from '../../src/runtime/relay.ts';
import type { RuntimeSettings } from '../../src/runtime/runtime.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import { faultKinds } from '../../src/testing/crash-explorer.ts';
import type { Fault } from '../../src/testing/process.ts';
import type { OpenStore } from '../stores.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';

const settings: Partial<RuntimeSettings> = { renew: false };
/** More events than one request to the queue takes. */
const eventsOf: Readonly<Record<string, number>> = { t1: 12, t2: 2 };

/** A world in which both turns are committed and nothing of their outboxes was sent. */
async function committed(open: OpenStore): Promise<Scene> {
  const scene = new Scene(
    await open(),
    agentOf(async (context, input) => {
      const { turn } = input as { turn: string };
      for (let n = 1; n <= (eventsOf[turn] ?? 0); n += 1) {
        context.emit({ type: `shop.told-${n}` });
      }
    }),
    settings,
  );
  const { runtime } = scene.process;
  const unrelayed = { ...runtime, later: async () => undefined };
  for (const turn of ['t1', 't2']) {
    const request = scene.request(turn, { input: { turn } });
    await scene.world.settle(scene.process, withTurn(unrelayed, request));
  }
  expect(scene.world.queues.events.accepted).toEqual([]);
  return scene;
}

/** Ids in the order in which they were first accepted. */
function firstSeen(scene: Scene): readonly string[] {
  return [...new Set(scene.world.queues.events.accepted.map(({ dedupId }) => dedupId))];
}

async function told(open: OpenStore): Promise<readonly string[]> {
  const scene = await committed(open);
  await scene.world.recover();
  const ids = firstSeen(scene);
  expect(ids).toHaveLength(12 + 1 + 2 + 1);
  expect(scene.world.queues.events.accepted).toHaveLength(ids.length);
  return ids;
}

/** Whether later messages of a thread may stand behind: every id once in order, every repeat the same message. */
async function demandWhole(scene: Scene, ids: readonly string[], where: string): Promise<void> {
  const { accepted } = scene.world.queues.events;
  expect(firstSeen(scene), where).toEqual(ids);
  const bodies = new Map(accepted.map(({ dedupId, body }) => [dedupId, body]));
  for (const { dedupId, body, group } of accepted) {
    expect(body, where).toBe(bodies.get(dedupId));
    expect(group, where).toBe(accepted[0]?.group);
  }
  expect(await scene.world.store.workOf(scene.ref()), where).toEqual([]);
}

for (const remembers of [true, false]) {
  onEachStore(
    `relay: dying at any call of it loses nothing, keeps the order and repeats only whole messages, ids ${remembers ? 'remembered' : 'forgotten'} by the queue [T1 T3]`,
    async (open) => {
      const ids = await told(open);
      const hit = new Set<string>();
      let repeats = 0;
      for (const kind of faultKinds) {
        for (let call = 1; ; call += 1) {
          const fault: Fault = { call, kind };
          const scene = await committed(open);
          const dying = scene.world.start(fault);
          await scene.world.settle(dying, sendThread(dying.runtime, scene.ref()));
          if (!remembers) scene.world.queues.events.forgetIds();
          await scene.world.recover();
          await demandWhole(scene, ids, `${kind} at call ${call} (${dying.fired})`);
          repeats += scene.world.queues.events.accepted.length - ids.length;
          await scene.world.store.close();
          if (dying.fired === null) break;
          hit.add(dying.fired);
        }
      }
      expect([...hit].toSorted()).toEqual(['events.send', 'store.markSent', 'store.workOf']);
      expect(repeats > 0).toBe(!remembers);
    },
  );
}

onEachStore(
  'relay: a message the queue refuses stops its thread there, and what follows waits for it [T3]',
  async (open) => {
    const ids = await told(open);
    for (let refused = 0; refused < ids.length; refused += 1) {
      const scene = await committed(open);
      const process = scene.world.start();
      const { events } = process.runtime.queues;
      const refusing: Queue = {
        ...events,
        send: async (messages) => {
          const at = messages.findIndex(({ dedupId }) => dedupId === ids[refused]);
          if (at < 0) return events.send(messages);
          const passed = await events.send(messages.slice(0, at));
          return [
            ...passed,
            ...messages.slice(at).map(() => ({ kind: 'refused' as const, reason: 'full' })),
          ];
        },
      };
      const runtime = {
        ...process.runtime,
        queues: { ...process.runtime.queues, events: refusing },
      };
      expect(await scene.world.settle(process, sendThread(runtime, scene.ref()))).toBe(false);
      expect(firstSeen(scene)).toEqual(ids.slice(0, refused));
      await scene.world.recover();
      await demandWhole(scene, ids, `refused ${refused}`);
      expect(scene.world.queues.events.accepted).toHaveLength(ids.length);
      await scene.world.store.close();
    }
  },
);

onEachStore(
  'relay: two relays of one thread side by side lose nothing and send nothing else [T1 T3]',
  async (open) => {
    const ids = await told(open);
    const scene = await committed(open);
    const relays = [scene.world.start(), scene.world.start(), scene.world.start()];
    await Promise.all(
      relays.map((process) =>
        scene.world.settle(process, sendThread(process.runtime, scene.ref())),
      ),
    );
    await scene.world.recover();
    await demandWhole(scene, ids, 'side by side');
  },
);
