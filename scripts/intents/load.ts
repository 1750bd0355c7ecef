// The turns of a soak of acts, and a provider that refuses, hangs, fails and cuts connections.
import type { Behaviour, ProviderServer } from '../../src/testing/provider-server.ts';
import { providerServer } from '../../src/testing/provider-server.ts';
import type { Reply, Site } from './site.ts';
import { pause } from './site.ts';

export const recoveries = ['idempotent', 'reconcile', 'operator'] as const;

export interface Load {
  readonly threads: number;
  readonly turnsPerThread: number;
  readonly actsPerTurn: number;
  /** How long an act waits for its answer, milliseconds; some answers come later. */
  readonly timeoutMs: number;
}

export const turnsOf = ({ threads, turnsPerThread }: Load): number => threads * turnsPerThread;

/** Turns of a thread follow each other; threads go side by side. */
export const pathOf = (load: Load, n: number): string =>
  `/v1/threads/soak-${n % load.threads}/turns`;

export const recoveryOf = (n: number, act: number) => recoveries[(n + act) % 3] ?? 'operator';

/** A provider of which three in ten requests are treated badly. */
export async function oddProvider(load: Load, random: () => number): Promise<ProviderServer> {
  const behaviours: readonly (() => Behaviour)[] = [
    () => ({ status: 409, applies: false }),
    () => ({ status: 429, applies: false }),
    () => ({ status: 500, applies: random() < 0.5 }),
    () => ({ reset: true, applies: random() < 0.5 }),
    // A getter: the wait begins when the request comes, not when it was planned.
    () => ({
      get holdAfter() {
        return pause(3 * load.timeoutMs);
      },
    }),
  ];
  const provider = await providerServer();
  provider.dedup('/idempotent');
  const each = (turnsOf(load) * load.actsPerTurn * 2) / recoveries.length;
  for (const recovery of recoveries) {
    for (let n = 0; n < each; n += 1) {
      const make = behaviours[Math.floor(random() * behaviours.length)];
      provider.next(`/${recovery}`, random() < 0.3 && make !== undefined ? make() : {});
    }
  }
  return provider;
}

/** A turn that stages all its acts at once and then hears what came of each. */
export function planOf(load: Load, world: string, n: number) {
  const acts = Array.from({ length: load.actsPerTurn }, (_, act) => ({
    name: `a${act}`,
    recovery: recoveryOf(n, act),
  }));
  const send = acts.map(({ name, recovery }) => ({
    act: {
      kind: recovery,
      request: { method: 'POST', url: `\${vars.world}/${recovery}` },
      recovery,
      probe: { method: 'GET', url: '${vars.world}/probe/${idempotencyKey}' },
      timeoutMs: load.timeoutMs,
      retry: { maxAttempts: 4, initialMs: 20, maxMs: 100 },
    },
    as: name,
  }));
  const hear = acts.map(({ name }) => ({
    wait: { event: 'act.result', correlation: `\${${name}}` },
    as: `${name}-result`,
  }));
  return {
    vars: { world },
    steps: [{ id: 'send', do: [...send, ...hear] }],
    reply: Object.fromEntries(acts.map(({ name }) => [name, `\${${name}-result.status}`])),
  };
}

/** Sends a turn until it is taken; throws when the site refuses it for good. */
export async function deliver(site: Site, load: Load, world: string, n: number): Promise<Reply> {
  const end = Date.now() + 300_000;
  for (;;) {
    const input = planOf(load, world, n);
    const answer = await site.call('POST', pathOf(load, n), {
      turnId: `t${n}`,
      agent: 'plan',
      input,
    });
    if (answer?.status === 202 || answer?.status === 200) return answer;
    if (Date.now() > end) {
      throw new Error(`turn ${n} was not taken within five minutes: ${JSON.stringify(answer)}`);
    }
    await pause(100);
  }
}

/** Runs `work` for every number below `count`, `lanes` at a time, in order. */
export async function inLanes(
  count: number,
  lanes: number,
  work: (n: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let n = next++; n < count; n = next++) await work(n);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}
