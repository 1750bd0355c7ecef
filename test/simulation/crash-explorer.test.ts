// Goal: for a three-effect turn nothing is lost, doubled or guessed wherever the process dies.
// Method: the explorer enumerates every port call and every way it can go wrong.
import { expect } from 'vitest';
import type { Recovery } from '../../src/protocol/effect-decision.ts';
import { tenantId, threadId, turnId } from '../../src/protocol/ids.ts';
import { defineTurnAgent } from '../../src/runtime/agent-definition.ts';
import type { Effect, TurnContext } from '../../src/runtime/turn-context.ts';
import type { ExploredEnd, Scenario } from '../../src/testing/crash-explorer.ts';
import { exploreCrashes } from '../../src/testing/crash-explorer.ts';
import type { Process } from '../../src/testing/process.ts';
import { ScriptedProvider } from '../../src/testing/scripted-provider.ts';
import { onEachStore } from '../stores.ts';

const ref = {
  tenant: tenantId('tenant', 'acme'),
  thread: threadId('thread', 'order-7'),
  turn: turnId('turn', 't1'),
};

interface Call {
  readonly kind: string;
  readonly recovery: Recovery;
  readonly mutates: boolean;
}

function effect(
  call: Call,
  provider: ScriptedProvider,
  current: () => Process,
): Effect<{ id: string }> {
  const dedup = call.recovery === 'idempotent';
  return {
    kind: call.kind,
    args: { amount: 10 },
    mutates: call.mutates,
    recovery: call.recovery,
    perform: ({ idempotencyKey }) =>
      current().provider(call.kind, async () =>
        provider.call(call.kind, idempotencyKey, { dedup }),
      ),
    probe: async ({ idempotencyKey }) =>
      current().provider(`probe.${call.kind}`, async () =>
        provider.probe(call.kind, idempotencyKey),
      ),
  };
}

function sequence(
  name: string,
  calls: readonly Call[],
  together: boolean,
): Scenario<ScriptedProvider> {
  return {
    name,
    provider: () => new ScriptedProvider(),
    agents: (provider, current) => [
      defineTurnAgent({
        name: 'shop',
        run: async (context: TurnContext) => {
          const start = (call: Call) =>
            context.step(call.kind, {}, (step) => step.effect(effect(call, provider, current)));
          context.state.add('turns', 1);
          if (together) return Promise.all(calls.map(start));
          const outputs = [];
          for (const call of calls) outputs.push(await start(call));
          return outputs;
        },
      }),
    ],
    request: ([agent]) => {
      if (agent === undefined) throw new Error('a scenario has an agent');
      return { ref, agent, input: { order: 7 }, subject: null, budget: null, actor: 'ann' };
    },
    check: (end) => checkLedger(end, calls),
  };
}

function checkLedger(end: ExploredEnd<ScriptedProvider>, calls: readonly Call[]): void {
  const twice = end.fault?.kind === 'deliveredTwice' ? end.fault.name : null;
  for (const call of calls) {
    const landed = end.provider.landed(call.kind);
    const sentTwice = twice === `provider.${call.kind}`;
    if (
      call.mutates &&
      call.recovery !== 'retry' &&
      !(sentTwice && call.recovery !== 'idempotent')
    ) {
      expect(landed, `T5/T6: ${call.kind} landed at most once`).toBeLessThanOrEqual(1);
    }
    if (end.turn.status === 'succeeded')
      expect(landed, `${call.kind} landed`).toBeGreaterThanOrEqual(1);
  }
  if (end.turn.status === 'quarantined') {
    expect(end.turn.undecided.map((doubt) => doubt.kind)).toEqual(
      calls
        .filter((call) => call.recovery === 'operator' && call.mutates)
        .map((call) => call.kind)
        .filter((kind) => end.turn.undecided.some((doubt) => doubt.kind === kind)),
    );
    expect(end.turn.undecided.length, 'T6: a quarantine names its doubt').toBeGreaterThan(0);
  } else expect(end.turn.status).toBe('succeeded');
}

const read = (kind: string): Call => ({ kind, recovery: 'retry', mutates: false });
const keyed = (kind: string): Call => ({ kind, recovery: 'idempotent', mutates: true });
const asked = (kind: string): Call => ({ kind, recovery: 'reconcile', mutates: true });
const doubtful = (kind: string): Call => ({ kind, recovery: 'operator', mutates: true });

const scenarios = [
  sequence('three keyed calls', [keyed('reserve'), keyed('charge'), keyed('mail')], false),
  sequence('read, ask, keyed', [read('look'), asked('charge'), keyed('mail')], false),
  sequence(
    'three operator calls',
    [doubtful('reserve'), doubtful('charge'), doubtful('mail')],
    false,
  ),
  sequence('three together', [asked('reserve'), keyed('charge'), doubtful('mail')], true),
  sequence('no effects', [], false),
];

for (const scenario of scenarios) {
  onEachStore(
    `crash explorer: ${scenario.name}: dying at any port call keeps every promise [T1 T2 T4 T5 T6 T7]`,
    async (open) => {
      const explored = await exploreCrashes(scenario, () => open());
      expect(explored.runs).toBeGreaterThan(9);
      const doubts = scenario.name.includes('operator') || scenario.name.includes('together');
      expect((explored.statuses.quarantined ?? 0) > 0).toBe(doubts);
      expect(explored.statuses.succeeded ?? 0).toBeGreaterThan(3);
    },
  );
}
