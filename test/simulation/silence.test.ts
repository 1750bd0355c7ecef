// Silence under a policy, and the error stream that tells of it (waits.md T109, T110; state.md T122).
import { expect } from 'vitest';
import type { ExpiryPolicy } from '../../src/protocol/expiry-policy.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { approveUnder } from '../../src/runtime/approve-under.ts';
import { handleInboxBatch } from '../../src/runtime/drive.ts';
import type { Runtime } from '../../src/runtime/runtime.ts';
import { sweep } from '../../src/runtime/sweep.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const hour = 3_600_000;
const asked = { action: { pay: 10 }, expiresInMs: hour };

const asking = (outside: Outside, onExpiry: ExpiryPolicy) => async (context: TurnContext) => {
  if (context.turn !== 't1') return context.turn;
  const { decision } = await approveUnder(context, asked, { onExpiry });
  if (decision === 'approved') await context.effect(outside.effect({ recovery: 'idempotent' }));
  return decision;
};

async function requests(scene: Scene, status: 'pending' | 'all') {
  const page = { status, limit: 10, cursor: null } as const;
  return (await listApprovals(scene.world.start().runtime, scene.ref().tenant, page)).items;
}

onEachStore(
  'T109 an escalation is asked once however often its deadline fires; the second silence denies [T7 T10]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(await open(), agentOf(asking(outside, () => ({ kind: 'escalate' }))));
    const first = (await scene.suspend()).waits[0]?.id;
    for (let again = 0; again < 3; again += 1) await scene.passTime(again === 0 ? hour : 1_000);
    const all = await requests(scene, 'all');
    expect(all.map(({ status }) => status).sort()).toEqual(['expired', 'pending']);
    const second = all.find(({ status }) => status === 'pending')?.id;
    expect(second).not.toBe(first);
    expect((await scene.view()).waits.map(({ id }) => id)).toEqual([second]);
    for (let again = 0; again < 3; again += 1) await scene.passTime(again === 0 ? hour : 1_000);
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'expired' });
    expect(await requests(scene, 'all')).toHaveLength(2);
    expect(outside.requests).toBe(0);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'T109 dying at any call of the pass a deadline woke: one escalation, under the same id [T5 T10]',
  async (open) => {
    const ids = new Set<string>();
    for (let call = 1; call < 12; call += 1) {
      const scene = new Scene(
        await open(),
        agentOf(asking(new Outside(), () => ({ kind: 'escalate', expiresInMs: 9 * hour }))),
      );
      await scene.suspend();
      scene.world.clock.advance(hour);
      await sweep(scene.world.start().runtime);
      const kind = call % 2 === 0 ? 'doneButUnheard' : 'lostBefore';
      const process = scene.world.start({ call, kind });
      const batch = scene.world.queues.inbox
        .take()
        .map(({ body }, index) => ({ id: `${index}`, body, receives: 1 }));
      await scene.world.settle(process, handleInboxBatch(process.runtime, batch, {}));
      await scene.world.recover();
      const all = await requests(scene, 'all');
      expect(all, `call ${call} ${process.fired}`).toHaveLength(2);
      for (const { id, status } of all) if (status === 'pending') ids.add(id);
    }
    expect(ids.size).toBe(1);
  },
);

interface Heard {
  readonly name: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** The scene's next runtime, with what it puts on the error stream. */
function listening(scene: Scene): { runtime: Runtime; heard: Heard[] } {
  const heard: Heard[] = [];
  const emit = (name: string, fields: Heard['fields']): void => {
    if (name.startsWith('error.')) heard.push({ name, fields });
  };
  return { runtime: { ...scene.world.start().runtime, telemetry: { emit } }, heard };
}

async function inboxUnder(scene: Scene, runtime: Runtime): Promise<void> {
  await sweep(runtime);
  const batch = scene.world.queues.inbox
    .take()
    .map(({ body }, index) => ({ id: `${index}`, body, receives: 1 }));
  await handleInboxBatch(runtime, batch, {});
}

onEachStore(
  'T110 T116 a policy that throws drops the turn as hitl_timeout with policy_error; late and unknown answers are orphans; the thread goes on [T10]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(
        asking(outside, () => {
          throw new Error('no rota');
        }),
      ),
    );
    const id = (await scene.suspend()).waits[0]?.id ?? '';
    const { digest = '' } = (await requests(scene, 'pending'))[0] ?? {};
    scene.world.clock.advance(hour);
    const { runtime, heard } = listening(scene);
    await inboxUnder(scene, runtime);
    const view = await scene.view();
    expect(view).toMatchObject({ status: 'cancelled', error: { code: 'policy_error' } });
    expect(view.error?.message).toContain('no rota');
    const answer = { decision: 'approve', digest, note: null } as const;
    const { tenant } = scene.ref();
    await expect(answerApproval(runtime, tenant, id, answer, 'bob')).rejects.toThrow('expired');
    await expect(answerApproval(runtime, tenant, 'nobody', answer, 'bob')).rejects.toThrow(
      'not known',
    );
    expect(heard).toMatchObject([
      { name: 'error.hitl_timeout', fields: { turnId: 't1', detail: 'policy_error' } },
      { name: 'error.orphaned_result', fields: { id, detail: 'expired' } },
      { name: 'error.orphaned_result', fields: { id: 'nobody', detail: 'unknown_wait' } },
    ]);
    expect(JSON.stringify(heard)).not.toContain('no rota');
    expect(await scene.conclude('t2')).toMatchObject({ status: 'succeeded', result: 't2' });
    expect(outside.requests).toBe(0);
  },
);

onEachStore(
  'B-61 the stream tells each failure once: failed and exhausted turns, never a replay or a success [T2]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context, input) => {
        if (input === 'fails') throw new Error('private words');
        if (input === 'spends') {
          for (const n of [1, 2]) await context.effect(outside.effect({ args: n }));
        }
        return 'fine';
      }),
    );
    const { runtime, heard } = listening(scene);
    const what = ['fine', 'fails', 'spends', 'fails', 'fine'];
    for (const round of [1, 2]) {
      for (const [index, input] of what.entries()) {
        const budget = input === 'spends' ? { effects: 1 } : null;
        const answer = await withTurn(runtime, scene.request(`t${index}`, { input, budget }));
        expect(answer).toMatchObject({ kind: 'concluded', replayed: round === 2 });
      }
    }
    expect(heard.map(({ name }) => name)).toEqual([
      'error.activation_error',
      'error.budget_exceeded',
      'error.activation_error',
    ]);
    expect(JSON.stringify(heard)).not.toContain('private');
  },
);
