// Deferred acts and the effector (intents.md G, T72 to T79 of turns.md).
import { expect } from 'vitest';
import type { Policy, PolicyQuestion } from '../../src/ports/policy.ts';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import { intentId } from '../../src/protocol/keys.ts';
import type { ActPerformer } from '../../src/runtime/agent-definition.ts';
import { handleIntentBatch, performIntent } from '../../src/runtime/effector.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import type { Fault } from '../../src/testing/process.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';

const hour = 3_600_000;

class Post {
  requests = 0;
  readonly keys: string[] = [];
  next: (() => Promise<unknown>) | null = null;
  probe: 'landed' | 'did_not_happen' | 'inconclusive' = 'inconclusive';

  act(options: Partial<ReturnType<ActPerformer>> = {}): ActPerformer {
    return () => ({
      recovery: 'operator',
      perform: async (call) => {
        this.requests += 1;
        this.keys.push(call.idempotencyKey);
        const next = this.next;
        this.next = null;
        if (next !== null) return next();
        return { sent: this.requests };
      },
      probe: async () =>
        this.probe === 'landed' ? { outcome: 'landed', output: 'found' } : { outcome: this.probe },
      ...options,
    });
  }
}

/** Sends, then waits for what came of it. */
const sending =
  (expiresInMs = hour) =>
  async (context: TurnContext) => {
    const id = await context.act({ kind: 'mail', args: { to: 'ann' }, expiresInMs });
    const answer = await context.event({ type: 'act.result', correlation: id });
    return answer.kind === 'event' ? answer.data : answer.kind;
  };

async function effect(scene: Scene, fault: Fault | null = null): Promise<string | null> {
  const process = scene.world.start(fault);
  const messages = scene.world.queues.intents
    .take()
    .map(({ body }, index) => ({ id: `${index}`, body, receives: 1 }));
  await scene.world.settle(process, handleIntentBatch(process.runtime, messages, {}));
  return process.fired;
}

/** Lets claims lapse, sweeps, and lets the effector and the inbox run until nothing is left to do. */
async function rest(scene: Scene): Promise<void> {
  for (let round = 0; round < 6; round += 1) {
    scene.world.queues.intents.forgetIds();
    await scene.passTime(40_000);
    await effect(scene);
    await scene.inbox();
  }
}

const make = async (open: () => Promise<never>, post: Post, options = {}, expiresInMs = hour) =>
  new Scene(await open(), agentOf(sending(expiresInMs), { acts: { mail: post.act(options) } }));

onEachStore(
  'T72 T79 an act leaves with the suspension, is performed once under its own id, and its result comes back [T1 T10]',
  async (open) => {
    const post = new Post();
    const scene = await make(open as never, post);
    await scene.suspend();
    expect(post.requests).toBe(0);
    await effect(scene);
    await scene.inbox();
    expect(await scene.view()).toMatchObject({
      status: 'succeeded',
      result: { status: 'completed', output: { sent: 1 } },
    });
    const id = intentId({
      tenant: 'acme',
      agent: 'shop',
      thread: 'order-7',
      turnId: 't1',
      step: '',
      phase: 'forward',
      ordinal: 0,
    });
    expect(post.keys).toEqual([id]);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
    await rest(scene);
    expect(post.requests).toBe(1);
  },
);

onEachStore(
  'B-01 T73 a failing turn sends nothing; a commit that dies is made again with the same ids [T1]',
  async (open) => {
    const post = new Post();
    const failing = new Scene(
      await open(),
      agentOf(
        async (context) => {
          await context.act({ kind: 'mail', args: 1 });
          throw new Error('no');
        },
        { acts: { mail: post.act() } },
      ),
    );
    await failing.conclude();
    await rest(failing);
    expect(post.requests).toBe(0);
    for (let call = 1; call < 10; call += 1) {
      const again = new Post();
      const scene = new Scene(
        await open(),
        agentOf(
          async (context) => [
            await context.act({ kind: 'mail', args: 1 }),
            await context.act({ kind: 'mail', args: 1 }),
          ],
          { acts: { mail: again.act() } },
        ),
      );
      scene.restart({ call, kind: call % 2 === 0 ? 'doneButUnheard' : 'lostBefore' });
      await scene.deliver();
      await scene.world.recover();
      scene.restart();
      const { result } = await scene.conclude();
      expect(new Set(result as string[]).size).toBe(2);
      await rest(scene);
      expect(again.requests, `call ${call}`).toBe(2);
      expect(again.keys.toSorted()).toEqual((result as string[]).toSorted());
    }
  },
);

onEachStore(
  'T76 T78 other arguments at the same place diverge; a deferred kind is refused inline, an unknown one at staging [T7 T11]',
  async (open) => {
    const post = new Post();
    const acts = { mail: post.act() };
    const scene = new Scene(await open(), agentOf(sending(), { acts }));
    await scene.suspend();
    scene.deploy(
      agentOf(
        async (context) => {
          await context.act({ kind: 'mail', args: { to: 'bob' } });
        },
        { acts },
      ),
    );
    await effect(scene);
    await scene.inbox();
    expect(await scene.view()).toMatchObject({
      status: 'quarantined',
      error: { code: 'divergence' },
    });
    for (const [run, code] of [
      [
        (c: TurnContext) => c.effect({ kind: 'mail', args: 1, perform: async () => 1 }),
        'invalid_effect',
      ],
      [(c: TurnContext) => c.act({ kind: 'fax', args: 1 }), 'invalid_effect'],
      [(c: TurnContext) => c.act({ kind: 'mail', args: { intent: 'x' } }), 'invalid_effect'],
      [(c: TurnContext) => c.act({ kind: 'mail', args: 1, expiresInMs: 0 }), 'invalid_effect'],
    ] as const) {
      const bad = new Scene(await open(), agentOf(run, { acts }));
      expect(await bad.conclude()).toMatchObject({ status: 'failed', error: { code } });
    }
    expect(post.requests).toBe(1);
  },
);

onEachStore(
  'T92 T97 T98 an act past its time is refused as expired for ever, whoever comes with whatever clock [T10]',
  async (open) => {
    const post = new Post();
    const scene = await make(open as never, post, {}, 60_000);
    await scene.suspend();
    scene.world.clock.advance(60_000);
    await effect(scene);
    await scene.inbox();
    expect(await scene.view()).toMatchObject({ result: { status: 'expired' } });
    scene.world.clock.skew(-3_000_000);
    await rest(scene);
    expect(post.requests).toBe(0);
  },
);

onEachStore(
  'T93 T94 dying at any call of the effector: an operator act is performed at most once and its doubt is told [T6 T10]',
  async (open) => {
    for (const recovery of ['operator', 'idempotent', 'reconcile'] as const) {
      for (let call = 1; call < 16; call += 1) {
        const post = new Post();
        const scene = await make(open as never, post, { recovery });
        await scene.suspend();
        post.probe = 'landed';
        const kind = call % 2 === 0 ? 'doneButUnheard' : 'lostBefore';
        const fired = await effect(scene, { call, kind });
        if (post.requests === 0) post.probe = 'did_not_happen';
        await rest(scene);
        const view = await scene.view();
        const at = `${recovery} ${call} ${fired}`;
        expect(view.status, at).toBe('succeeded');
        const { status } = view.result as { status: string };
        if (recovery === 'operator') {
          expect(post.requests, at).toBeLessThanOrEqual(1);
          expect(['completed', 'uncertain'], at).toContain(status);
        } else {
          expect(status, at).toBe('completed');
          expect(new Set(post.keys).size).toBeLessThanOrEqual(1);
        }
      }
    }
  },
);

onEachStore(
  'T101 T102 what never ran is refused; what failed after it started is uncertain [T6]',
  async (open) => {
    for (const [error, recovery, status, requests] of [
      [new EffectNotAppliedError('closed'), 'operator', 'refused', 3],
      [new Error('hang up'), 'operator', 'uncertain', 1],
      [new Error('hang up'), 'idempotent', 'completed', 2],
    ] as const) {
      const post = new Post();
      const fails = async (): Promise<never> => {
        if (error instanceof EffectNotAppliedError) post.next = fails;
        throw error;
      };
      post.next = fails;
      const scene = await make(open as never, post, { recovery });
      await scene.suspend();
      await rest(scene);
      expect(await scene.view()).toMatchObject({ result: { status } });
      expect(post.requests).toBe(requests);
    }
  },
);

onEachStore('T96 a worker that lost its claim neither settles nor tells [T4 T10]', async (open) => {
  const post = new Post();
  const gate = Promise.withResolvers<void>();
  const scene = await make(open as never, post, { recovery: 'idempotent' });
  await scene.suspend();
  post.next = async () => {
    await gate.promise;
    return 'slow';
  };
  const [message] = scene.world.queues.intents.take();
  const { intent } = JSON.parse(message?.body ?? '{}') as { intent: string };
  const { store } = scene.world;
  const row = await store.intent(scene.ref().tenant, intent);
  if (row === null) throw new Error('no intent');
  const slow = scene.world.start();
  const first = performIntent(slow.runtime, row, {});
  while (post.requests === 0) await new Promise(setImmediate);
  const held = await store.intent(scene.ref().tenant, intent);
  if (held?.claim == null) throw new Error('no claim');
  const later = (held.claim.until + 1) as typeof held.createdAt;
  const other = { token: 'other', until: (later + 60_000) as typeof later };
  expect(await store.claimIntent(held, other, later)).toEqual({ kind: 'done' });
  gate.resolve();
  expect(await scene.world.settle(slow, first)).toMatchObject({ kind: 'later' });
  expect((await store.intent(scene.ref().tenant, intent))?.outcome).toBeNull();
  expect(await scene.view()).toMatchObject({ status: 'suspended' });
  scene.world.clock.advance(other.until - scene.world.clock.now());
  await rest(scene);
  expect(await scene.view()).toMatchObject({ result: { status: 'completed' } });
  expect(new Set(post.keys)).toEqual(new Set([intent]));
});

onEachStore(
  'T100 an act whose arguments were tampered with is neither performed nor answered',
  async (open) => {
    const post = new Post();
    const scene = await make(open as never, post);
    await scene.suspend();
    const [message] = scene.world.queues.intents.take();
    const { intent } = JSON.parse(message?.body ?? '{}') as { intent: string };
    const row = await scene.world.store.intent(scene.ref().tenant, intent);
    if (row === null) throw new Error('no intent');
    const { runtime } = scene.world.start();
    expect(
      await performIntent(runtime, { ...row, argsDigest: 'x', expiresAt: 1 as never }, {}),
    ).toEqual({
      kind: 'done',
    });
    expect(post.requests).toBe(0);
    expect((await scene.world.store.intent(scene.ref().tenant, intent))?.outcome).toBeNull();
  },
);

class Rules implements Policy {
  readonly digest = 'rules';
  readonly asked: PolicyQuestion[] = [];
  allow = true;

  async decide(question: PolicyQuestion) {
    this.asked.push(question);
    return this.allow ? { allow: true as const } : { allow: false as const, reason: 'not today' };
  }
}

onEachStore(
  'GA-1 the policy in force is asked when the effector performs an act, once an attempt, with who sent it and where [T11]',
  async (open) => {
    const post = new Post();
    const rules = new Rules();
    const scene = await make(open as never, post, { recovery: 'idempotent' });
    scene.world.policy = rules;
    scene.restart();
    await scene.suspend();
    expect(rules.asked).toEqual([]);
    post.next = async () => {
      throw new EffectNotAppliedError('busy');
    };
    await effect(scene);
    await rest(scene);
    expect(post.requests).toBe(2);
    expect(rules.asked.map(({ kind, attempt }) => [kind, attempt])).toEqual([
      ['mail', 1],
      ['mail', 2],
    ]);
    expect(rules.asked[0]).toMatchObject({
      tenant: 'acme',
      actor: 'ann',
      agent: 'shop',
      mutates: true,
      recovery: 'idempotent',
      step: '',
      phase: 'forward',
      subject: null,
    });
    expect(await scene.view()).toMatchObject({ result: { status: 'completed' } });
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
    expect(rules.asked).toHaveLength(2);
  },
);

onEachStore(
  'GA-2 an act denied when it is due is refused before it acts, for ever, and its turn hears why [T11]',
  async (open) => {
    const post = new Post();
    const rules = new Rules();
    const scene = await make(open as never, post);
    scene.world.policy = rules;
    scene.restart();
    await scene.suspend();
    rules.allow = false;
    await effect(scene);
    rules.allow = true;
    await rest(scene);
    expect(post.requests).toBe(0);
    expect(rules.asked).toHaveLength(1);
    expect(await scene.view()).toMatchObject({
      status: 'succeeded',
      result: {
        status: 'refused',
        error: { code: 'policy_denied', message: 'mail was refused by the policy: not today' },
      },
    });
  },
);

onEachStore(
  'ruling 1 a denial after a send in doubt leaves the act uncertain; a send a crash left open is repeated unasked [T6 T11]',
  async (open) => {
    const post = new Post();
    const rules = new Rules();
    const scene = await make(open as never, post, { recovery: 'idempotent' });
    scene.world.policy = rules;
    scene.restart();
    await scene.suspend();
    post.next = async () => {
      throw new Error('hung up');
    };
    await effect(scene);
    rules.allow = false;
    await rest(scene);
    expect(post.requests).toBe(1);
    expect(await scene.view()).toMatchObject({
      result: { status: 'uncertain', error: { code: 'policy_denied' } },
    });
    const crashed = new Post();
    const again = await make(open as never, crashed, { recovery: 'idempotent' });
    const engine = new Rules();
    again.world.policy = engine;
    again.restart();
    await again.suspend();
    crashed.next = async () => {
      again.process.kill();
      dying.kill();
      return 'unheard';
    };
    const dying = again.world.start();
    const messages = again.world.queues.intents
      .take()
      .map(({ body }, index) => ({ id: `${index}`, body, receives: 1 }));
    await again.world.settle(dying, handleIntentBatch(dying.runtime, messages, {}));
    engine.allow = false;
    await rest(again);
    expect(crashed.requests).toBe(2);
    expect(new Set(crashed.keys).size).toBe(1);
    expect(engine.asked).toHaveLength(1);
    expect(await again.view()).toMatchObject({ result: { status: 'completed' } });
  },
);
