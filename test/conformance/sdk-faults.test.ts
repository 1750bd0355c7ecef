// What the service and the network do and emulators never do, injected in the SDK's middleware: conflicts,
// throttles, lost replies, expired signatures, reset sockets, small pages, unprocessed keys.
// Goal: a turn over such a store ends as if nothing had happened, and no effect is announced or sent twice.
import { expect, inject, test } from 'vitest';
import { TurnstoneError } from '../../src/protocol/errors.ts';
import type { SdkFault, SdkFaultPlan } from '../../src/testing/sdk-faults.ts';
import { agentOf, Outside, Scene } from '../simulation/scene.ts';
import { dynamoStore, skipLoudly } from '../stores.ts';

const endpoint = inject('dynamodb').ministack;

function onFaults(
  title: string,
  body: (open: (plan: SdkFaultPlan) => ReturnType<typeof dynamoStore>) => Promise<void>,
): void {
  if ('url' in endpoint)
    test(title, () => body((plan) => dynamoStore(endpoint.url, undefined, plan)), 120_000);
  else skipLoudly(`${title}: no emulator: ${endpoint.unavailable}`, () => undefined);
}

async function turnUnder(
  open: (plan: SdkFaultPlan) => ReturnType<typeof dynamoStore>,
  plan: SdkFaultPlan,
) {
  const outside = new Outside();
  const scene = new Scene(
    await open(plan),
    agentOf(async (context) => {
      context.state.add('turns', 1);
      return [
        await context.effect(outside.effect()),
        await context.effect(outside.effect({ kind: 'mail' })),
      ];
    }),
    { renew: false },
  );
  const turn = await scene.conclude();
  return { turn, scene, outside };
}

/** Hits the n-th write request of the client once. */
function atWrite(n: number, fault: SdkFault): SdkFaultPlan {
  let writes = 0;
  return ({ command }) => {
    if (!/Put|Update|Transact|Delete/.test(command)) return undefined;
    writes += 1;
    return writes === n ? fault : undefined;
  };
}

const transient: readonly [string, SdkFault][] = [
  [
    'F23 a cancelled transaction with a conflict alone',
    { kind: 'cancelled', codes: ['TransactionConflict', 'None', 'None'] },
  ],
  [
    'F23 a cancelled transaction with a throttle and a conflict',
    { kind: 'cancelled', codes: ['ThrottlingError', 'TransactionConflict', 'None'] },
  ],
  ['F23 a plain write that meets a transaction', { kind: 'conflict' }],
  ['a throttled request', { kind: 'throttled' }],
  ['F35 an expired signature after a freeze', { kind: 'expired signature' }],
  ['F35 a socket reset before the write took place', { kind: 'reset', when: 'before' }],
  ['F35 a socket reset after the write took place', { kind: 'reset', when: 'after' }],
  ['E320 E3 a reply lost after the write took effect', { kind: 'lost reply' }],
  ['a 500 after the write took effect', { kind: 'server error', when: 'after' }],
  ['a 500 before it', { kind: 'server error', when: 'before' }],
];

for (const [name, fault] of transient) {
  onFaults(
    `${name}: at every write the turn ends whole, announced once, sent once [T1 T4 T5]`,
    async (open) => {
      for (let n = 1; n <= 9; n += 1) {
        const { turn, scene, outside } = await turnUnder(open, atWrite(n, fault));
        expect(turn, `write ${n}`).toMatchObject({ status: 'succeeded', revision: 1 });
        expect(outside.requests, `write ${n}`).toBe(2);
        expect(await scene.kinds(), `write ${n}`).toEqual([
          'RunAdmitted',
          'ES(a1)',
          'ED',
          'ES(a1)',
          'ED',
          'RC(succeeded)',
        ]);
        expect(scene.world.queues.events.accepted, `write ${n}`).toHaveLength(1);
      }
    },
  );
}

onFaults('F23 a validation error fails at once and is no lost race', async (open) => {
  let sends = 0;
  const plan: SdkFaultPlan = ({ command }) => {
    if (!/Transact/.test(command)) return undefined;
    sends += 1;
    return { kind: 'validation', message: 'one or more parameter values were invalid' };
  };
  const outside = new Outside();
  const scene = new Scene(
    await open(plan),
    agentOf((context) => context.effect(outside.effect())),
  );
  const error = await scene.deliver().catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(TurnstoneError);
  expect(sends).toBe(1);
  expect(outside.requests).toBe(0);
});

onFaults(
  'F23 a condition that failed beside a conflict is never reported as lost without a look',
  async (open) => {
    const fault: SdkFault = {
      kind: 'cancelled',
      codes: ['ConditionalCheckFailed', 'TransactionConflict', 'None'],
    };
    const { turn, outside } = await turnUnder(open, atWrite(2, fault));
    expect(turn).toMatchObject({ status: 'succeeded' });
    expect(outside.requests).toBe(2);
  },
);

onFaults(
  'a store that answers nothing ends the pass as unavailable: nothing acts without a confirmed announcement [T5]',
  async (open) => {
    const outside = new Outside();
    let down = false;
    const plan: SdkFaultPlan = ({ command }) =>
      down && /Put|Update|Transact/.test(command) ? { kind: 'reset', when: 'before' } : undefined;
    const scene = new Scene(
      await open(plan),
      agentOf((context) => context.effect(outside.effect())),
    );
    await scene.conclude('warm');
    down = true;
    const error = await scene.deliver('t1').catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'store_unavailable' });
    expect(outside.requests).toBe(1);
    down = false;
    expect(await scene.conclude('t1')).toMatchObject({ status: 'succeeded' });
  },
);

onFaults('small pages and unprocessed keys lose nothing of a journal [T7]', async (open) => {
  const plan: SdkFaultPlan = ({ command, number }) => {
    if (command.startsWith('Query')) return { kind: 'small page', items: 1 };
    if (command.startsWith('BatchGet') && number % 2 === 0) return { kind: 'unprocessed', keep: 1 };
    return undefined;
  };
  const { turn, scene } = await turnUnder(open, plan);
  expect(turn).toMatchObject({ status: 'succeeded' });
  expect(await scene.kinds()).toHaveLength(6);
  expect(await scene.conclude()).toMatchObject({ replayed: true });
});
