// Gates in front of live attempts (section F of budgets.md, E142, E177 without atomic members, E273, E340).
import { expect } from 'vitest';
import { CedarPolicy } from '../../src/adapters/policy/cedar-policy.ts';
import type { Policy, PolicyQuestion } from '../../src/ports/policy.ts';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import { subjectId } from '../../src/protocol/ids.ts';
import { reopenTurn, resumeByPerson } from '../../src/runtime/person-acts.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

class Rules implements Policy {
  readonly digest: string;
  readonly asked: PolicyQuestion[] = [];
  readonly #allow: (question: PolicyQuestion) => boolean;

  constructor(digest: string, allow: (question: PolicyQuestion) => boolean) {
    this.digest = digest;
    this.#allow = allow;
  }

  async decide(question: PolicyQuestion) {
    this.asked.push(question);
    if (this.#allow(question)) return { allow: true as const };
    return { allow: false as const, reason: `no ${question.kind}` };
  }
}

const keyed = { recovery: 'idempotent' as const };

onEachStore(
  'E74 GA-1 an undeclared kind is refused by the declaration: no engine, no announcement, no slot [T11]',
  async (open) => {
    const outside = new Outside();
    const rules = new Rules('p1', () => true);
    const scene = new Scene(
      await open(),
      agentOf((context) => context.effect(outside.effect(keyed)), { effects: ['mail'] }),
    );
    scene.world.policy = rules;
    scene.restart();
    expect(await scene.conclude()).toMatchObject({
      status: 'failed',
      error: { code: 'effect_undeclared' },
      spend: { attempts: 0 },
    });
    expect(rules.asked).toEqual([]);
    expect(outside.requests).toBe(0);
    expect(await scene.kinds()).toEqual(['RunAdmitted', 'PolicyDenied', 'RC(failed)']);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'E76 E77 E78 the engine is asked per live attempt, and never over history; a denial takes the place of its attempt [T7 T11]',
  async (open) => {
    const outside = new Outside();
    const rules = new Rules('p1', ({ kind, attempt }) => kind !== 'charge' || attempt < 2);
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.effect(outside.effect({ ...keyed, kind: 'first' }));
        return context.effect(
          outside.effect({
            ...keyed,
            perform: async () => {
              outside.requests += 1;
              throw new EffectNotAppliedError('busy');
            },
          }),
        );
      }),
    );
    scene.world.policy = rules;
    scene.restart();
    expect(await scene.conclude()).toMatchObject({
      status: 'failed',
      error: { code: 'policy_denied' },
    });
    expect((await scene.kinds()).slice(-4)).toEqual([
      'ES(a1)',
      'EF(did_not_happen)',
      'PolicyDenied',
      'RC(failed)',
    ]);
    expect(rules.asked.map(({ kind, attempt }) => [kind, attempt])).toEqual([
      ['first', 1],
      ['charge', 1],
      ['charge', 2],
    ]);
    const denyAll = new Rules('p1', () => false);
    scene.world.policy = denyAll;
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
    const { runtime } = scene.world.start();
    await resumeByPerson(runtime, scene.ref(), { reason: null, budget: null }, 'olga', {});
    expect(denyAll.asked).toEqual([]);
    expect(outside.requests).toBe(2);
  },
);

onEachStore(
  'E80 a third denial exhausts a turn whose ceiling is two; a fourth request never reaches the engine [T11]',
  async (open) => {
    const outside = new Outside();
    const rules = new Rules('p1', () => false);
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        for (let n = 0; n < 10; n += 1) {
          await context.effect(outside.effect({ ...keyed, args: n })).catch(() => null);
        }
        return 'never';
      }),
    );
    scene.world.policy = rules;
    scene.restart();
    await scene.conclude('t1', { budget: { denials: 2 } });
    expect(rules.asked).toHaveLength(3);
    const denied = (await scene.journal()).filter((body) => body.kind === 'PolicyDenied');
    expect(denied.map((body) => body.kind === 'PolicyDenied' && body.exhausts)).toEqual([
      false,
      false,
      true,
    ]);
    expect(outside.requests).toBe(0);
    const plain = new Scene(
      await open(),
      agentOf(async (context) => {
        for (let n = 0; n < 3; n += 1) {
          const call = context.effect(outside.effect({ ...keyed, args: n }));
          if (n < 2) await call.catch(() => null);
          else await call;
        }
      }),
    );
    plain.world.policy = rules;
    plain.restart();
    expect(await plain.conclude('t1', { budget: { denials: 2 } })).toMatchObject({
      status: 'exhausted',
      error: { message: expect.stringContaining('denials') },
    });
    expect(await plain.strict()).toMatchObject({ verdict: 'verified', outcome: 'exhausted' });
  },
);

onEachStore(
  'E142 GA-3 policy denies the refund: recorded in the undo, the walk stops, quarantined [T8]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.step(
          'a',
          {
            compensation: 'compensatable',
            undo: (undo) => undo.effect(outside.effect({ ...keyed, kind: 'refund' })),
          },
          (step) => step.effect(outside.effect(keyed)),
        );
        await context.step('b', {}, async () => {
          throw new Error('b broke');
        });
      }),
    );
    scene.world.policy = new Rules('p1', ({ kind }) => kind !== 'refund');
    scene.restart();
    expect(await scene.conclude('t1', { budget: { effects: 1 } })).toMatchObject({
      status: 'quarantined',
      error: { code: 'undo_failed', step: 'a' },
    });
    expect(outside.requests).toBe(1);
    const denied = (await scene.journal()).find((body) => body.kind === 'PolicyDenied');
    expect(denied).toMatchObject({ site: { phase: 'compensating' } });
  },
);

onEachStore(
  'E340 RG-2 a turn admitted under other policies is not gone on with; under the right ones it is [T11]',
  async (open) => {
    const outside = new Outside();
    let ill = true;
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.effect(outside.effect(keyed));
        if (ill) throw new Error('ill');
        return 'well';
      }),
    );
    scene.world.policy = new Rules('p1', () => true);
    scene.restart();
    await scene.conclude();
    ill = false;
    scene.world.policy = new Rules('p2', () => true);
    const other = scene.world.start();
    expect(
      await resumeByPerson(other.runtime, scene.ref(), { reason: null, budget: null }, 'olga', {}),
    ).toMatchObject({
      turn: { status: 'quarantined', error: { code: 'policy_changed' }, undecided: [] },
    });
    expect(await reopenTurn(other.runtime, scene.ref(), 'try', 'olga', {})).toMatchObject({
      turn: { status: 'quarantined' },
    });
    scene.world.policy = new Rules('p1', () => true);
    const right = scene.world.start();
    expect(await reopenTurn(right.runtime, scene.ref(), 'back', 'olga', {})).toMatchObject({
      turn: { status: 'succeeded', result: 'well' },
    });
    expect(outside.requests).toBe(1);
  },
);

onEachStore(
  'E273 a recall that policy denies reads nothing and selects nothing; Cedar denies what nothing permits [T11 T12]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.effect(new Outside().effect(keyed));
        return context.recall({ purpose: 'care' });
      }),
    );
    scene.world.policy = new CedarPolicy(
      'permit(principal == Actor::"ann", action, resource == Effect::"charge") when { context.attempt < 3 };',
    );
    const process = scene.restart();
    const turn = await scene.conclude('t1', { subject: subjectId('subject', 'sue') });
    expect(turn).toMatchObject({
      status: 'failed',
      error: { code: 'policy_denied', message: expect.stringContaining('no policy permits it') },
    });
    expect(process.names).not.toContain('store.memories');
    await expect(new CedarPolicy('permit(').check()).rejects.toMatchObject({
      code: 'invalid_request',
    });
  },
);
