// Labels through a turn: sources, sinks, releases, memory, groups (memory.md N; groups.md E160).
import { expect } from 'vitest';
import type { Policy, PolicyQuestion } from '../../src/ports/policy.ts';
import { subjectId } from '../../src/protocol/ids.ts';
import type { AgentOptions } from '../../src/runtime/agent-definition.ts';
import { memoriesOf } from '../../src/runtime/subjects.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import type { OpenStore } from '../stores.ts';
import { onEachStore } from '../stores.ts';
import type { Run } from './scene.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const ann = subjectId('subject', 'ann-smith');
const about = { subject: ann };

const pay = { trusted: ['to'], ceiling: 'internal' as const };

async function sceneOf(
  open: OpenStore,
  run: Run,
  options: Partial<AgentOptions> = {},
  policy?: Policy,
): Promise<Scene> {
  const scene = new Scene(await open(), agentOf(run, { sinks: { pay }, ...options }));
  if (policy === undefined) return scene;
  scene.world.policy = policy;
  scene.restart();
  return scene;
}

/** Allows everything but what `denies` names, and keeps what it was asked. */
function judge(
  denies: (question: PolicyQuestion) => boolean,
): Policy & { asked: PolicyQuestion[] } {
  const asked: PolicyQuestion[] = [];
  return {
    digest: 'judge',
    asked,
    decide: (question) => {
      asked.push(question);
      return Promise.resolve(
        denies(question) ? { allow: false, reason: 'not for this one' } : { allow: true },
      );
    },
  };
}

const refused = { status: 'failed', error: { code: 'label_refused' } };

onEachStore(
  'E241 ME-3 what a model said is remembered untrusted with its origin, whatever the caller writes [T13]',
  async (open) => {
    const outside = new Outside();
    const scene = await sceneOf(open, async (context) => {
      const said = await context.labelled(
        outside.effect({
          kind: 'model.ask',
          mutates: false,
          perform: async () => 'ann is a vegan',
          label: { source: 'model:fake-1', sensitivity: 'confidential' },
        }),
      );
      const forged = { trust: 'trusted', trusted: true } as object;
      await context.remember({ id: 'diet', purpose: 'care', content: said, ...forged });
      await context.remember({ id: 'seen', purpose: 'care', content: 'from all that was seen' });
      return null;
    });
    expect(await scene.conclude('t1', about)).toMatchObject({ status: 'succeeded' });
    const { runtime } = scene.world.start();
    const items = await memoriesOf(runtime, { tenant: scene.ref().tenant, subject: ann }, null);
    const byId = new Map(items.map((item) => [item.id, item]));
    expect(byId.get('diet')).toMatchObject({
      content: 'ann is a vegan',
      trust: 'untrusted',
      sensitivity: 'confidential',
      sources: ['model:fake-1'],
    });
    expect(byId.get('seen')).toMatchObject({ trust: 'untrusted', sources: ['input'] });
    expect(await scene.strict('t1')).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'E254 ME-11 a poisoned fact stays untrusted however often it is recalled and stored again; a payment refuses it each time [T11]',
  async (open) => {
    const outside = new Outside();
    const payTo = (to: unknown) => outside.effect({ kind: 'pay', args: { to, sum: 1 } });
    const scene = await sceneOf(open, async (context, input) => {
      const { say, how } = input as { say?: string; how?: string };
      if (say !== undefined) {
        await context.remember({ id: 'account', purpose: 'care', content: say });
        return null;
      }
      const [item] = await context.recall({ purpose: 'care' });
      if (item === undefined) throw new Error('expected a fact');
      if (how === 'again')
        await context.remember({
          id: 'account',
          purpose: 'care',
          content: item.content,
          derivedFrom: [item],
        });
      if (how === 'pay') await context.effect(payTo(item.content));
      if (how === 'release') {
        const to = await context.release(item.content, {
          trust: 'trusted',
          reason: 'ann confirmed it by phone',
        });
        await context.effect(payTo(to));
      }
      return item.trust;
    });
    await scene.conclude('t0', { ...about, input: { say: 'attacker' } });
    for (let round = 0; round < 10; round += 1) {
      expect(
        await scene.conclude(`again-${round}`, { ...about, input: { how: 'again' } }),
      ).toMatchObject({ status: 'succeeded', result: 'untrusted' });
      expect(
        await scene.conclude(`pay-${round}`, { ...about, input: { how: 'pay' } }),
      ).toMatchObject(refused);
    }
    expect(outside.requests).toBe(0);
    expect(await scene.kinds('pay-3')).not.toContain('ES(a1) pay');
    expect(await scene.conclude('ok', { ...about, input: { how: 'release' } })).toMatchObject({
      status: 'succeeded',
    });
    expect(outside.requests).toBe(1);
    expect(await scene.strict('ok')).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'ME-11 a release is journaled, asked of the policy with both labels, and refused by it or by an agent that does not declare it [T11]',
  async (open) => {
    const outside = new Outside();
    const run: Run = async (context, input) => {
      const to = await context.release((input as { to: string }).to, {
        trust: 'trusted',
        reason: 'checked',
      });
      return context.effect(outside.effect({ kind: 'pay', args: { to } }));
    };
    const policy = judge(({ kind, actor }) => kind === 'label.release' && actor !== 'ann');
    const scene = await sceneOf(open, run, {}, policy);
    const input = { to: 'bob' };
    expect(await scene.conclude('t1', { input })).toMatchObject({ status: 'succeeded' });
    expect(policy.asked[0]).toMatchObject({
      kind: 'label.release',
      facts: { trustBefore: 'untrusted', trustAfter: 'trusted', reason: 'checked' },
    });
    expect(await scene.conclude('t2', { input, actor: 'eve' })).toMatchObject({
      status: 'failed',
      error: { code: 'policy_denied' },
    });
    const asked = policy.asked.length;
    expect(await scene.strict('t1')).toMatchObject({ verdict: 'verified' });
    expect(policy.asked).toHaveLength(asked);
    const bare = await sceneOf(open, run, { effects: ['pay'] });
    expect(await bare.conclude('t1', { input })).toMatchObject({ status: 'failed' });
    expect(outside.requests).toBe(1);
  },
);

onEachStore(
  'ME-16 a sink that may see little refuses what the turn has seen, and the journal keeps a label over a later declaration [T11 T7]',
  async (open) => {
    const outside = new Outside();
    const run =
      (sensitivity: 'public' | 'restricted'): Run =>
      async (context) => {
        const file = outside.effect({
          kind: 'read.file',
          mutates: false,
          label: { trust: 'trusted', sensitivity, source: 'file:contract' },
        });
        const read = await context.labelled(file);
        await context.sleep(1_000);
        return context.effect(outside.effect({ kind: 'pay', args: { to: read, sum: 2 } }));
      };
    const inputLabel = { trust: 'trusted', sensitivity: 'public' } as const;
    const scene = await sceneOf(open, run('public'), { inputLabel });
    await scene.suspend('t1');
    // A new build says that the file is restricted: what was read before stays what it was.
    scene.deploy(agentOf(run('restricted'), { sinks: { pay }, inputLabel }));
    await scene.passTime(1_000);
    expect(await scene.view('t1')).toMatchObject({ status: 'succeeded' });
    const requests = outside.requests;
    await scene.suspend('t2');
    await scene.passTime(1_000);
    expect(await scene.view('t2')).toMatchObject(refused);
    expect(outside.requests).toBe(requests + 1);
  },
);

onEachStore(
  'E160 a reversal that binds what must be trusted is refused: the group is quarantined, never called aborted [T9 T11]',
  async (open) => {
    const outside = new Outside();
    const scene = await sceneOf(open, (context: TurnContext) =>
      context.step('sale', {}, async (step) => {
        const group = step.openGroup('sale', ['stock']);
        await group.reversible(outside.effect({ kind: 'hold' }), 'stock', (output) =>
          outside.effect({ kind: 'pay', args: { to: output } }),
        );
        await group.abort('changed our mind');
      }),
    );
    expect(await scene.conclude('t1')).toMatchObject({ status: 'quarantined' });
    const settled = (await scene.journal('t1')).filter(({ kind }) => kind === 'GroupSettled');
    expect(settled).toMatchObject([{ outcome: 'quarantined' }]);
    expect(outside.requests).toBe(1);
  },
);

onEachStore(
  'E273 ME-25 a policy that denies recall or remembering of a person: nothing is read, nothing is selected [T11]',
  async (open) => {
    const policy = judge(
      ({ kind, subject, facts }) =>
        kind.startsWith('memory.') && subject === 'ann-smith' && facts.purpose === 'care',
    );
    const scene = await sceneOf(
      open,
      async (context, input) => {
        const { say } = input as { say?: string };
        if (say === undefined) return context.recall({ purpose: 'care' });
        await context.remember({ id: 'a', purpose: 'care', content: say });
        return null;
      },
      {},
      policy,
    );
    for (const [turn, input] of [
      ['t1', { say: 'x' }],
      ['t2', {}],
    ] as const) {
      expect(await scene.conclude(turn, { ...about, input })).toMatchObject({
        status: 'failed',
        error: { code: 'policy_denied' },
      });
      expect((await scene.journal(turn)).map(({ kind }) => kind)).not.toContain('EffectDone');
    }
    expect(policy.asked.map(({ kind, facts }) => [kind, facts.purpose, facts.trust])).toEqual([
      ['memory.remember', 'care', 'untrusted'],
      ['memory.recall', 'care', undefined],
    ]);
  },
);
