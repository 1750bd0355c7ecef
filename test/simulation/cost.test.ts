// What a turn costs, counted: requests by the store's own observer, units by the calculator of page 04.
//   1 read round + N + 1 writes for N sequential effects, + 1 for each that a crash would put in doubt.
import { expect } from 'vitest';
import { withTurn } from '../../src/runtime/with-turn.ts';
import type { OpenStore } from '../stores.ts';
import { onEachStore } from '../stores.ts';
import type { Run } from './scene.ts';
import { agentOf, Scene } from './scene.ts';

interface Cost {
  readonly reads: number;
  readonly writes: number;
  readonly units: number;
  /** Reads and writes of the relay, after the answer. */
  readonly relay: readonly string[];
}

/** Runs a turn on a warm tenant and counts its requests; the relay's are counted apart. */
async function costOf(open: OpenStore, run: Run): Promise<Cost> {
  const seen: { reads: number; writes: number; units: number }[] = [];
  const relay: string[] = [];
  let afterwards = false;
  const store = await open((info) => {
    if (afterwards) {
      relay.push(info.op);
      if (info.writes > 0) seen.push({ reads: 0, writes: 0, units: info.units });
      return;
    }
    seen.push({
      reads: info.writes === 0 ? 1 : 0,
      writes: info.writes > 0 ? 1 : 0,
      units: info.writes > 0 ? info.units : 0,
    });
  });
  const scene = new Scene(store, agentOf(run));
  await scene.conclude('warm');
  seen.length = 0;
  relay.length = 0;
  afterwards = false;
  const { runtime } = scene.process;
  const counted = {
    ...runtime,
    later: (work: () => Promise<void>) => {
      afterwards = true;
      return work();
    },
  };
  const answer = await scene.world.settle(scene.process, withTurn(counted, scene.request('t1')));
  expect(answer).toMatchObject({ kind: 'concluded', turn: { status: 'succeeded' } });
  const sum = (name: 'reads' | 'writes' | 'units') =>
    seen.reduce((total, one) => total + one[name], 0);
  return { reads: sum('reads'), writes: sum('writes'), units: sum('units'), relay };
}

const sequence =
  (count: number, recovery: 'idempotent' | 'operator'): Run =>
  async (context) => {
    for (let n = 0; n < count; n += 1) {
      await context.effect({
        kind: 'charge',
        args: { sku: 'lamp', n },
        recovery,
        perform: async () => ({ id: `ch_${n}` }),
      });
    }
  };

onEachStore('cost: N sequential effects take exactly 1 read and N + 1 writes', async (open) => {
  for (const count of [0, 1, 3, 10]) {
    const cost = await costOf(open, sequence(count, 'idempotent'));
    expect({ count, reads: cost.reads, writes: cost.writes }).toEqual({
      count,
      reads: 1,
      writes: count + 1,
    });
    expect(cost.relay).toHaveLength(2);
  }
});

onEachStore('cost: each effect a crash would put in doubt takes one write more', async (open) => {
  for (const count of [1, 3, 10]) {
    const cost = await costOf(open, sequence(count, 'operator'));
    expect({ count, reads: cost.reads, writes: cost.writes }).toEqual({
      count,
      reads: 1,
      writes: 2 * count + 1,
    });
  }
});

onEachStore('cost: twenty free reads started together take at most 4 writes', async (open) => {
  const cost = await costOf(open, (context) =>
    Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        context.effect({ kind: 'look', args: { n }, mutates: false, perform: async () => n }),
      ),
    ),
  );
  expect(cost.reads).toBe(1);
  expect(cost.writes).toBeLessThanOrEqual(4);
});

onEachStore(
  'cost: a ten-effect turn with small payloads takes at most 30 write units, the relay included',
  async (open) => {
    const cost = await costOf(open, sequence(10, 'idempotent'));
    expect(cost.units).toBeLessThanOrEqual(30);
  },
);

onEachStore('cost: a replayed turn takes one read', async (open) => {
  const requests: string[] = [];
  const scene = new Scene(
    await open((info) => requests.push(info.op)),
    agentOf(sequence(3, 'idempotent')),
  );
  await scene.conclude();
  requests.length = 0;
  scene.restart();
  await scene.conclude();
  expect(requests).toHaveLength(1);
});

onEachStore('F37 no timer sits between effects', async (open) => {
  const timers: number[] = [];
  const scene = new Scene(await open(), agentOf(sequence(5, 'idempotent')), { renew: false });
  const { clock } = scene.process.runtime;
  const counted = {
    ...scene.process.runtime,
    clock: {
      ...clock,
      now: () => clock.now(),
      monotonicMs: () => clock.monotonicMs(),
      sleep: async (ms: number) => {
        timers.push(ms);
      },
      timer: (ms: number, fire: () => void) => clock.timer(ms, fire),
    },
  };
  const before = scene.world.clock.now();
  await scene.world.settle(scene.process, withTurn(counted, scene.request()));
  expect(timers).toEqual([]);
  expect(scene.world.clock.now()).toBe(before);
});
