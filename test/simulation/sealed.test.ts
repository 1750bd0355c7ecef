// What may follow an ending, what an audit finds in it, and what is too large to be a record (section Q of operator.md).
import { expect } from 'vitest';
import { auditTurn } from '../../src/operator/audit.ts';
import { AgentError, TurnstoneError } from '../../src/protocol/errors.ts';
import { limits } from '../../src/protocol/limits.ts';
import { answerReceipt } from '../../src/runtime/answer-receipt.ts';
import { readAttention } from '../../src/runtime/attention.ts';
import { cancelTurn } from '../../src/runtime/cancel-turn.ts';
import {
  abandonTurn,
  assertFact,
  reopenTurn,
  resumeByPerson,
} from '../../src/runtime/person-acts.ts';
import { listReceipts } from '../../src/runtime/receipts.ts';
import { EffectFailure } from '../../src/runtime/turn-context.ts';
import type { OpenStore } from '../stores.ts';
import { onEachStore } from '../stores.ts';
import type { Run } from './scene.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const keyed = { recovery: 'idempotent' as const };
const noChange = { reason: null, budget: null };

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    (value) => value,
    (thrown: unknown) => thrown,
  );
  return error instanceof TurnstoneError ? error.code : 'no refusal';
}

/** A call that hangs up while `broken.on`. */
function hangingUp(outside: Outside, broken: { on: boolean }, key?: string): Run {
  return (context) =>
    context.effect(
      outside.effect({
        ...(key === undefined ? {} : { key }),
        perform: async () => {
          outside.requests += 1;
          if (broken.on) throw new Error('socket hang up');
          return { sent: outside.requests };
        },
      }),
    );
}

async function endedAs(open: OpenStore, status: string): Promise<{ scene: Scene; key: string }> {
  const outside = new Outside();
  const broken = { on: true };
  const runs: Readonly<Record<string, Run>> = {
    succeeded: (context) => context.effect(outside.effect(keyed)),
    cancelled: async (context) => {
      await context.sleep(60_000);
    },
    failed: async () => {
      throw new Error('the till is closed');
    },
    exhausted: async (context) => {
      for (const n of [1, 2]) await context.effect(outside.effect({ ...keyed, args: n }));
    },
  };
  const scene = new Scene(await open(), agentOf(runs[status] ?? hangingUp(outside, broken)));
  await scene.deliver('t1', { budget: status === 'exhausted' ? { effects: 1 } : null });
  const { runtime } = scene.world.start();
  const view = await scene.view();
  if (status === 'cancelled') await cancelTurn(runtime, scene.ref(), 'stop', 'olga', {});
  if (status === 'abandoned') await abandonTurn(runtime, scene.ref(), 'written off', 'olga');
  expect(await scene.view()).toMatchObject({ status });
  return { scene, key: view.undecided[0]?.effectKey ?? '' };
}

onEachStore(
  'E306 CH-5 nothing is appended after succeeded, cancelled or abandoned, whoever asks; an open ending takes more [T2 T13]',
  async (open) => {
    for (const status of ['succeeded', 'cancelled', 'abandoned']) {
      const { scene, key } = await endedAs(open, status);
      const before = await scene.kinds();
      expect(before.at(-1)).toBe(`RC(${status})`);
      const { runtime } = scene.world.start();
      const ref = scene.ref();
      const fact = { outcome: 'landed' as const, output: 1, note: 'seen' };
      expect(await codeOf(assertFact(runtime, ref, key, fact, 'olga'))).toMatch(
        status === 'abandoned' ? 'not_quarantined' : 'not_found',
      );
      expect(await codeOf(reopenTurn(runtime, ref, 'why', 'olga', {}))).toBe('not_quarantined');
      expect(await codeOf(abandonTurn(runtime, ref, 'why', 'olga'))).toBe('not_quarantined');
      expect(await codeOf(resumeByPerson(runtime, ref, noChange, 'olga', {}))).toBe(
        'not_resumable',
      );
      const stop = cancelTurn(runtime, ref, 'why', 'olga', {});
      if (status === 'cancelled') expect(await stop).toMatchObject({ recorded: false });
      else expect(await codeOf(stop)).toBe('concluded');
      expect(await scene.conclude()).toMatchObject({ status, replayed: true });
      await scene.world.recover();
      expect(await scene.kinds()).toEqual(before);
    }
    for (const [status, next] of [
      ['failed', 'cancelled'],
      ['exhausted', 'succeeded'],
      ['quarantined', 'abandoned'],
    ] as const) {
      const { scene } = await endedAs(open, status);
      const before = await scene.kinds();
      const { runtime } = scene.world.start();
      const ref = scene.ref();
      if (next === 'cancelled') await cancelTurn(runtime, ref, 'why', 'olga', {});
      if (next === 'abandoned') await abandonTurn(runtime, ref, 'why', 'olga');
      if (next === 'succeeded')
        await resumeByPerson(runtime, ref, { reason: null, budget: { effects: 2 } }, 'olga', {});
      const after = await scene.kinds();
      expect(after.slice(0, before.length)).toEqual(before);
      expect(after.at(-1)).toBe(`RC(${next})`);
    }
  },
);

onEachStore(
  'E306 a business key of a turn that was written off is settled in its receipt, and the sealed journal stays as it is [T6 T13]',
  async (open) => {
    for (const outcome of ['landed', 'did_not_happen'] as const) {
      const outside = new Outside();
      const broken = { on: true };
      const scene = new Scene(await open(), agentOf(hangingUp(outside, broken, 'order-7')));
      await scene.conclude('t1');
      const { runtime } = scene.world.start();
      const { tenant, thread } = scene.ref();
      await abandonTurn(runtime, scene.ref(), 'written off', 'olga');
      const before = await scene.kinds();
      const of = { thread, status: null };
      const [receipt] = await listReceipts(runtime, tenant, of);
      expect(receipt).toMatchObject({ status: 'uncertain' });
      const id = receipt?.receiptId ?? '';
      const fact =
        outcome === 'landed'
          ? { outcome, output: { sent: 'seen' }, note: 'in the ledger' }
          : { outcome, note: 'no trace' };
      const status = outcome === 'landed' ? 'completed' : 'failed';
      const answers = await Promise.allSettled(
        ['olga', 'otto'].map((actor) => answerReceipt(runtime, tenant, id, fact, actor)),
      );
      expect(answers.filter((answer) => answer.status === 'fulfilled')).toHaveLength(1);
      expect(answers.find((answer) => answer.status === 'rejected')).toMatchObject({
        reason: { code: 'not_undecided' },
      });
      expect(await listReceipts(runtime, tenant, of)).toMatchObject([{ status }]);
      expect(await codeOf(answerReceipt(runtime, tenant, id, fact, 'olga'))).toBe('not_undecided');
      expect(await scene.kinds()).toEqual(before);
      expect(await auditTurn(runtime, scene.ref())).toMatchObject({
        findings: [{ finding: 'effect_undecided', kind: 'charge' }],
      });
      broken.on = false;
      expect(await scene.conclude('t2')).toMatchObject({
        status: 'succeeded',
        result: { sent: outcome === 'landed' ? 'seen' : 2 },
      });
      expect(outside.requests).toBe(outcome === 'landed' ? 1 : 2);
      expect(await scene.strict('t2')).toMatchObject({ verdict: 'verified' });
    }
  },
);

onEachStore(
  'E110 E313 QA-6 an abandoned turn keeps its finding for ever; one that was answered and succeeded has none [T13]',
  async (open) => {
    const outside = new Outside();
    const broken = { on: true };
    const scene = new Scene(await open(), agentOf(hangingUp(outside, broken)));
    for (const turn of ['t1', 't2']) {
      await scene.conclude(turn);
      const { runtime } = scene.world.start();
      const quarantined = await auditTurn(runtime, scene.ref(turn));
      expect(quarantined?.findings).toEqual([]);
    }
    const { runtime } = scene.world.start();
    await abandonTurn(runtime, scene.ref('t1'), 'written off', 'olga');
    const key = (await scene.view('t2')).undecided[0]?.effectKey ?? '';
    const fact = { outcome: 'landed' as const, output: 1, note: 'seen' };
    await assertFact(runtime, scene.ref('t2'), key, fact, 'olga');
    await reopenTurn(runtime, scene.ref('t2'), 'answered', 'olga', {});
    for (let times = 0; times < 2; times += 1) {
      expect(await auditTurn(runtime, scene.ref('t1'))).toMatchObject({
        findings: [{ finding: 'effect_undecided', kind: 'charge', doubt: 'inconclusive' }],
        notChecked: expect.arrayContaining(['transparency log']),
      });
    }
    expect((await auditTurn(runtime, scene.ref('t2')))?.findings).toEqual([]);
    expect(await scene.strict('t2')).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
    expect(await auditTurn(runtime, scene.ref('unknown'))).toBeNull();
  },
);

onEachStore(
  'E308 CH-4 arguments over the ceiling are refused whole before anything is announced or sent, counted in bytes [T11]',
  async (open) => {
    for (const args of [
      'x'.repeat(limits.payloadBytesMax),
      '😀'.repeat(limits.payloadBytesMax / 4),
    ]) {
      const outside = new Outside();
      const scene = new Scene(
        await open(),
        agentOf((context) => context.effect(outside.effect({ ...keyed, args }))),
      );
      expect(await scene.conclude()).toMatchObject({
        status: 'failed',
        error: {
          code: 'invalid_effect',
          message: expect.stringMatching(/args: expected at most 5242880 bytes, got 52428\d\d/),
        },
        spend: { attempts: 0 },
      });
      expect(outside.requests).toBe(0);
      expect(await scene.kinds()).toEqual(['RunAdmitted', 'RC(failed)']);
      expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
    }
  },
);

onEachStore(
  'E308 an error code or a probe that says too much never keeps an outcome from its record [T5 T6]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.effect(
          outside.effect({
            perform: async () => {
              outside.requests += 1;
              const code = 'c'.repeat(1_000_000);
              throw new EffectFailure('no', { code, disposition: 'landed' });
            },
          }),
        ),
      ),
    );
    const turn = await scene.conclude();
    expect(turn).toMatchObject({ status: 'failed' });
    expect(turn.error?.code.length).toBeLessThan(limits.errorTextBytes);
    expect(await scene.kinds()).toEqual(['RunAdmitted', 'ES(a1)', 'EF(landed)', 'RC(failed)']);
    const wordy = new Scene(
      await open(),
      agentOf(async () => {
        throw new AgentError('closed', { code: 'c'.repeat(1_000_000) });
      }),
    );
    expect(await wordy.conclude()).toMatchObject({ status: 'failed' });
    for (const answer of [
      { outcome: 'landed' as const, output: 'x'.repeat(limits.effectAnswerBytes) },
      { outcome: 'inconclusive' as const, detail: 'x'.repeat(limits.payloadBytesMax) },
    ]) {
      const probed = new Scene(
        await open(),
        agentOf((context) =>
          context.effect(
            outside.effect({
              recovery: 'reconcile',
              perform: async () => {
                throw new Error('socket hang up');
              },
              probe: async () => answer,
            }),
          ),
        ),
      );
      expect(await probed.conclude()).toMatchObject({
        status: 'quarantined',
        undecided: [{ doubt: 'inconclusive' }],
      });
      expect((await probed.kinds()).slice(-2)).toEqual(['ER(in_doubt)', 'RC(quarantined)']);
    }
  },
);

onEachStore(
  'E318 AT-1 a turn that failed past a pivot, with all that came after it undone, is not listed: nothing can be done [T8 T13]',
  async (open) => {
    const outside = new Outside();
    const step =
      (kind: string): Run =>
      async (context) =>
        context.step(
          kind,
          kind === 'pivot'
            ? { compensation: 'pivot' }
            : {
                compensation: 'compensatable',
                undo: (undo) => undo.effect(outside.effect({ ...keyed, kind: `undo-${kind}` })),
              },
          (inside) => inside.effect(outside.effect({ ...keyed, kind })),
        );
    const listed = async (scene: Scene) =>
      (await readAttention(scene.world.start().runtime, scene.ref().tenant)).items;
    const scene = new Scene(
      await open(),
      agentOf(async (context, input) => {
        await step('pivot')(context, input);
        await step('after')(context, input);
        throw new Error('closed');
      }),
    );
    expect(await scene.conclude()).toMatchObject({ status: 'failed' });
    expect((await scene.kinds()).filter((kind) => kind.startsWith('SC'))).toEqual(['SC(after,ok)']);
    expect(await listed(scene)).toEqual([]);
    // What landed outside any declaration is still listed.
    const bare = new Scene(
      await open(),
      agentOf(async (context, input) => {
        await step('pivot')(context, input);
        await context.effect(outside.effect({ ...keyed, kind: 'bare' }));
        throw new Error('closed');
      }),
    );
    expect(await bare.conclude()).toMatchObject({ status: 'failed' });
    expect(await listed(bare)).toMatchObject([
      { condition: 'turn.failed_with_landed_work', count: 1 },
    ]);
  },
);
