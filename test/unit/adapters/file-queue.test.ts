import { expect, test } from 'vitest';
import { FileQueue } from '../../../src/adapters/local/file-queue.ts';
import type { Handled } from '../../../src/ports/queue.ts';
import { TurnedClock } from '../../../src/testing/turned-clock.ts';

const message = (group: string, id: string) => ({ group, dedupId: id, body: id });
const ticks = async (): Promise<void> => {
  for (let tick = 0; tick < 10; tick += 1) await new Promise(setImmediate);
};

function queueOf(handle: (id: string) => Handled, triesMax = 3) {
  const clock = new TurnedClock();
  const queue = new FileQueue({ clock, path: ':memory:', name: 'q', triesMax, retryMs: 100 });
  const handled: string[] = [];
  queue.consume(async (messages) => {
    const outcomes = new Map<string, Handled>();
    let stopped: Handled | null = null;
    for (const { id } of messages) {
      const outcome: Handled = stopped ?? handle(id);
      if (stopped === null) handled.push(id);
      if (outcome.kind !== 'done') stopped = outcome;
      outcomes.set(id, outcome);
    }
    return outcomes;
  });
  return { clock, queue, handled };
}

test('a group is handled in order, groups side by side, an id once within five minutes [T3]', async () => {
  const { clock, queue, handled } = queueOf(() => ({ kind: 'done' }));
  await queue.send([
    message('a', 'a1'),
    message('b', 'b1'),
    message('a', 'a2'),
    message('a', 'a1'),
  ]);
  await ticks();
  expect(handled.filter((id) => id.startsWith('a'))).toEqual(['a1', 'a2']);
  expect(handled).toHaveLength(3);
  await queue.send([message('a', 'a1')]);
  await ticks();
  expect(handled).toHaveLength(3);
  clock.advance(300_001);
  await queue.send([message('a', 'a1')]);
  await ticks();
  expect(handled).toHaveLength(4);
  expect(queue.depth).toBe(0);
});

test('F25 a message that fails keeps its place before those behind it and blocks no other group [T3]', async () => {
  let broken = true;
  const { clock, queue, handled } = queueOf((id) =>
    id === 'a1' && broken ? { kind: 'failed', reason: 'x' } : { kind: 'done' },
  );
  await queue.send([message('a', 'a1'), message('a', 'a2'), message('b', 'b1')]);
  await ticks();
  expect([...handled].sort()).toEqual(['a1', 'b1']);
  broken = false;
  clock.advance(100);
  await ticks();
  expect(handled.filter((id) => id.startsWith('a'))).toEqual(['a1', 'a1', 'a2']);
});

test('F27 poison is parked with its reason after a bounded number of tries; waiting burns none [T11]', async () => {
  let waits = 5;
  const { clock, queue } = queueOf(() => {
    waits -= 1;
    return waits >= 0
      ? { kind: 'later', afterMs: 50, reason: 'busy' }
      : { kind: 'failed', reason: 'always' };
  });
  await queue.send([message('a', 'a1')]);
  for (let turn = 0; turn < 12; turn += 1) {
    await ticks();
    clock.advance(100);
  }
  expect(queue.parked).toMatchObject([{ dedupId: 'a1', reason: 'always' }]);
  expect(waits).toBe(-3);
  expect(queue.depth).toBe(0);
});
