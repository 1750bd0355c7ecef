// Goal: two processes die one after the other, each at any of its calls, while two effects are on their way together.
// Method: every pair of calls. (A soak found that a verdict "did not happen" that stood alone let a third process
// send again what the second one had sent.)
import { expect, test } from 'vitest';
import type { Recovery } from '../../src/protocol/effect-decision.ts';
import { cancelTurn } from '../../src/runtime/cancel-turn.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import type { FaultKind, Process } from '../../src/testing/process.ts';
import { ScriptedProvider } from '../../src/testing/scripted-provider.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const recoveries: readonly Recovery[] = ['reconcile', 'idempotent', 'operator'];

test.each(recoveries)(
  'T5 T6 two deaths: a %s effect lands at most once, and is never lost without a doubt',
  async (recovery) => {
    for (let first = 1; first < 12; first += 1) {
      for (let second = 1; second < 16; second += 1) {
        const provider = new ScriptedProvider();
        let current: Process | null = null;
        const call = (kind: string, how: Recovery) => ({
          kind,
          args: { kind },
          recovery: how,
          perform: async ({ idempotencyKey }: { idempotencyKey: string }) => {
            const process = current as Process;
            return process.provider(kind, async () => {
              const answer = provider.call(kind, idempotencyKey, { dedup: how === 'idempotent' });
              // It landed; while the answer is on its way the sibling's writes go on.
              if (kind === 'charge')
                for (let n = 0; n < 12; n += 1) await new Promise(setImmediate);
              return answer;
            });
          },
          probe: async ({ idempotencyKey }: { idempotencyKey: string }) => {
            const process = current as Process;
            return process.provider(`probe.${kind}`, async () =>
              provider.probe(kind, idempotencyKey),
            );
          },
        });
        const scene = new Scene(
          memoryStore(),
          agentOf((context) =>
            Promise.all([
              context.step('a', {}, (step) => step.effect(call('charge', recovery))),
              context.step('b', {}, async (step) => {
                await step.effect(call('look', 'idempotent'));
                return step.effect(call('mail', 'idempotent'));
              }),
            ]),
          ),
        );
        const kindOf = (n: number): FaultKind => (n % 2 === 0 ? 'doneButUnheard' : 'lostBefore');
        for (const n of [first, second]) {
          current = scene.world.start({ call: n, kind: kindOf(n) });
          await scene.world.settle(current, withTurn(current.runtime, scene.request()));
          scene.world.clock.advance(11_000);
        }
        for (let round = 0; round < 3; round += 1) {
          current = scene.world.start();
          await scene.world.settle(current, withTurn(current.runtime, scene.request()));
          scene.world.clock.advance(11_000);
        }
        const turn = await scene.view();
        const at = `${recovery} ${first} ${second}`;
        expect(provider.landed('charge'), at).toBeLessThanOrEqual(1);
        expect(provider.landed('mail'), at).toBeLessThanOrEqual(1);
        if (turn.status === 'succeeded') {
          expect(provider.landed('charge'), at).toBe(1);
          expect(await scene.strict(), at).toMatchObject({ verdict: 'verified' });
        } else {
          expect(recovery, at).toBe('operator');
          expect(turn, at).toMatchObject({
            status: 'quarantined',
            undecided: [{ kind: 'charge' }],
          });
        }
      }
    }
  },
);

onEachStore(
  'E342 a stop of a turn with a probeable doubt asks first: landed is undone, what never happened is not sent [T6 T8]',
  async (open) => {
    for (const verdict of ['landed', 'did_not_happen', 'inconclusive'] as const) {
      const outside = new Outside();
      const undone: unknown[] = [];
      let probes = 0;
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          await context.step(
            'a',
            {
              compensation: 'compensatable',
              undo: (undo, output) =>
                undo.effect({
                  kind: 'refund',
                  args: output ?? null,
                  recovery: 'idempotent',
                  perform: async () => undone.push(output),
                }),
            },
            (step) =>
              step.effect(
                outside.effect({
                  recovery: 'reconcile',
                  probe: async () => {
                    probes += 1;
                    return verdict === 'landed'
                      ? { outcome: 'landed', output: 'found' }
                      : { outcome: verdict };
                  },
                  perform: () => {
                    outside.requests += 1;
                    return new Promise(() => undefined);
                  },
                }),
              ),
          );
        }),
      );
      const first = scene.world.start();
      void withTurn(first.runtime, scene.request());
      while (outside.requests === 0) await new Promise(setImmediate);
      await cancelTurn(scene.world.start().runtime, scene.ref(), 'stop', 'olga');
      first.kill();
      await scene.world.recover();
      expect(probes).toBe(1);
      expect(outside.requests).toBe(1);
      const view = await scene.view();
      expect(view.status).toBe(verdict === 'inconclusive' ? 'quarantined' : 'cancelled');
      expect(undone).toEqual(verdict === 'landed' ? ['found'] : []);
    }
  },
);
