// What an erasure or a forgetting does to turns that wait, to their unwinds, and to each other (collisions.md, erasure.md).
import { expect } from 'vitest';
import { completion } from '../../src/agent/model-effect.ts';
import { subjectId } from '../../src/protocol/ids.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { cancelTurn } from '../../src/runtime/cancel-turn.ts';
import { forgetMemory } from '../../src/runtime/forget.ts';
import { abandonTurn } from '../../src/runtime/person-acts.ts';
import { readJournal } from '../../src/runtime/read-turn.ts';
import { eraseSubject, erasureOf, memoriesOf } from '../../src/runtime/subjects.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import { ScriptedModel } from '../../src/testing/scripted-model.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const ann = subjectId('subject', 'ann-smith');
const about = { subject: ann };
const person = (scene: Scene) => ({ tenant: scene.ref().tenant, subject: ann });

async function approve(scene: Scene): Promise<void> {
  const { runtime } = scene.world.start();
  const { tenant } = scene.ref();
  const page = { status: 'pending', limit: 10, cursor: null } as const;
  const { items } = await listApprovals(runtime, tenant, page);
  for (const { id, digest } of items) {
    await answerApproval(runtime, tenant, id, { decision: 'approve', digest, note: null }, 'bob');
  }
  await scene.inbox();
}

onEachStore(
  'E336 a fact an undo had recalled is forgotten while the undo waits: the compensation failed, quarantined, and can be abandoned [T8 T12]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context: TurnContext, input) => {
        if ((input as { say?: string }).say !== undefined)
          return context.remember({ id: 'account', purpose: 'care', content: 'iban' });
        await context.step(
          'pay',
          {
            compensation: 'compensatable',
            undo: async (undo) => {
              const [item] = await undo.recall({ purpose: 'care' });
              await undo.approval({ action: { back: item?.content } });
              await undo.effect(outside.effect({ kind: 'refund', args: { to: item?.content } }));
            },
          },
          (step) => step.effect(outside.effect({ kind: 'pay' })),
        );
        throw new Error('no');
      }),
    );
    await scene.conclude('t0', { ...about, input: { say: 'x' } });
    await scene.suspend('t1', { ...about, input: {} });
    await forgetMemory(scene.world.start().runtime, person(scene), 'account');
    await approve(scene);
    expect(await scene.view('t1')).toMatchObject({ status: 'quarantined' });
    expect(await scene.kinds('t1')).toContain('SC(pay,failed)');
    expect(outside.requests).toBe(1);
    const { runtime } = scene.world.start();
    expect(await abandonTurn(runtime, scene.ref('t1'), 'refunded by hand', 'olga')).toMatchObject({
      turn: { status: 'abandoned' },
    });
  },
);

onEachStore(
  'E337 a waiting turn of a person who was erased is cancelled: quarantined, nothing undone on what cannot be read, abandoned; the chain verifies [T8 T12 T13]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context: TurnContext) => {
        await context.step(
          'pay',
          {
            compensation: 'compensatable',
            undo: (undo, output) =>
              undo.effect(outside.effect({ kind: 'refund', args: { of: output } })),
          },
          (step) => step.effect(outside.effect({ kind: 'pay' })),
        );
        await context.approval({ action: 'go on' });
      }),
    );
    await scene.suspend('t1', about);
    const { runtime } = scene.world.start();
    await eraseSubject(runtime, person(scene), 'dora');
    await cancelTurn(runtime, scene.ref('t1'), 'stop', 'olga');
    await scene.inbox();
    expect(await scene.view('t1')).toMatchObject({ status: 'quarantined', erased: true });
    expect(outside.requests).toBe(1);
    const page = await readJournal(runtime, scene.ref('t1'), { after: 0, limit: 100 });
    expect(page?.verified).toBe(true);
    expect(await abandonTurn(runtime, scene.ref('t1'), 'refunded by hand', 'olga')).toMatchObject({
      turn: { status: 'abandoned' },
    });
  },
);

onEachStore(
  'E286 ruling 21 there is no lock to hand over: two processes erase while a third remembers, and one erasure stands with no survivor [T12]',
  async (open) => {
    for (let round = 0; round < 4; round += 1) {
      const scene = new Scene(
        await open(),
        agentOf((context) => context.remember({ id: 'a', purpose: 'care', content: 'private' })),
      );
      await scene.conclude('t0', about);
      const [left, right] = [scene.world.start(), scene.world.start()];
      const erase = (process: typeof left, actor: string) =>
        eraseSubject(process.runtime, person(scene), actor);
      const late = scene.deliver('t1', about);
      for (let turn = 0; turn < round * 3; turn += 1) await new Promise(setImmediate);
      const [one, two] = await Promise.all([erase(left, 'dora'), erase(right, 'eva')]);
      await late.catch(() => null);
      expect(one.id).toBe(two.id);
      const { runtime } = scene.world.start();
      const stands = await erasureOf(runtime, person(scene));
      expect(stands).toMatchObject({ state: 'complete', generation: one.generation });
      expect(await memoriesOf(runtime, person(scene), null)).toEqual([]);
    }
  },
);

onEachStore(
  'E289 a fact of many parts: dying at any call of its erasure, the certificate is complete only when row and parts are gone [T12]',
  async (open) => {
    for (let call = 1; call < 14; call += 1) {
      const store = await open();
      const digests: { digest: string; count: number }[] = [];
      const scene = new Scene(
        store,
        agentOf((context) =>
          context.remember({ id: 'a', purpose: 'care', content: 'x'.repeat(90_000) }),
        ),
      );
      await scene.conclude('t0', about);
      const { tenant } = scene.ref();
      const scope = await store.subjectScope(tenant, ann);
      for (const { payload } of (await store.memoryLineage(scope)).versions)
        if (payload.kind === 'parts') digests.push(payload);
      expect(digests).toHaveLength(1);
      const process = scene.world.start({ call, kind: 'doneButUnheard' });
      await scene.world.settle(process, eraseSubject(process.runtime, person(scene), 'dora'));
      const { runtime } = scene.world.start();
      const gone = async () =>
        (await Promise.allSettled(digests.map((parts) => store.getParts(tenant, parts)))).every(
          ({ status }) => status === 'rejected',
        );
      const before = await erasureOf(runtime, person(scene));
      if (before?.state === 'complete') expect(await gone(), `call ${call}`).toBe(true);
      expect(await eraseSubject(runtime, person(scene), 'eva')).toMatchObject({
        state: 'complete',
      });
      expect(await gone(), `call ${call}`).toBe(true);
    }
  },
);

onEachStore(
  'E274 ME-1 what a provider compacted is part of the next request’s identity: another blob is another call [T7]',
  async (open) => {
    const model = new ScriptedModel((_, asked) => `answer ${asked}`);
    const scene = new Scene(
      await open(),
      agentOf(async (context, input) => {
        const { blob } = input as { blob: string };
        const request = { messages: [{ role: 'assistant' as const, text: blob }] };
        return (await context.effect(completion(model, request))).text;
      }),
    );
    const keyOf = async (turn: string, blob: string) => {
      await scene.conclude(turn, { input: { blob } });
      const started = (await scene.journal(turn)).find(({ kind }) => kind === 'EffectStarted');
      return started?.kind === 'EffectStarted' ? started.key : null;
    };
    const [one, same, other] = [
      await keyOf('t1', 'opaque-1'),
      await keyOf('t2', 'opaque-1'),
      await keyOf('t3', 'opaque-2'),
    ];
    expect(same).toBe(one);
    expect(other).not.toBe(one);
    expect(other).not.toBeNull();
  },
);

onEachStore(
  'E237 CS-3 a deadline keeps its instant when the calendar is edited, and the journal says which calendar it was [T13]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf((context, input) =>
        context.case({ id: 'claim', deadline: input as { name: string; at: string } }),
      ),
    );
    const due = (at: string, calendar: string) => ({ input: { name: 'reply', at, calendar } });
    await scene.conclude('t1', due('2027-01-04T09:00:00Z', 'holidays-2026'));
    await scene.conclude('t2', due('2027-01-05T09:00:00Z', 'holidays-2027'));
    const { readCase } = await import('../../src/runtime/cases.ts');
    const { runtime } = scene.world.start();
    const view = await readCase(runtime, scene.ref().tenant, 'claim');
    expect(view.deadlines.map(({ at }) => new Date(at).toISOString())).toEqual([
      '2027-01-04T09:00:00.000Z',
    ]);
    const page = await readJournal(runtime, scene.ref('t1'), { after: 0, limit: 100 });
    const started = page?.records.find(({ body }) => body.kind === 'EffectStarted');
    expect(JSON.stringify(started?.payload)).toContain('holidays-2026');
  },
);
