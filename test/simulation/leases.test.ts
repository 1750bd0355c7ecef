// Leases, takeover, redelivery and the AWS port (cases of leases.md and the lock reports).
import { expect } from 'vitest';
import type { Appended, AppendWrite } from '../../src/ports/store.ts';
import type { Vault } from '../../src/ports/vault.ts';
import { TurnstoneError } from '../../src/protocol/errors.ts';
import type { EpochMs } from '../../src/protocol/ids.ts';
import { subjectId } from '../../src/protocol/ids.ts';
import { acceptTurn } from '../../src/runtime/accept-turn.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { drive, handleInboxBatch } from '../../src/runtime/drive.ts';
import { sweep } from '../../src/runtime/sweep.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import { verifyTurn } from '../../src/runtime/verify-turn.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import { MemoryVault } from '../../src/testing/memory-vault.ts';
import type { OpenStore } from '../stores.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

/** A scene whose turn stands inside one call until the gate opens. */
async function insideCall(
  open: OpenStore,
  options: { renew: boolean; recovery?: 'idempotent' | 'operator' },
) {
  const outside = new Outside();
  const gate = Promise.withResolvers<void>();
  const scene = new Scene(
    await open(),
    agentOf(async (context: TurnContext) => {
      const first = await context.effect(
        outside.effect({
          recovery: options.recovery ?? 'operator',
          timeoutMs: 900_000,
          perform: async () => {
            outside.requests += 1;
            if (outside.requests === 1) await gate.promise;
            return outside.requests;
          },
        }),
      );
      return [
        first,
        await context.effect(outside.effect({ kind: 'mail', recovery: 'idempotent' })),
      ];
    }),
    { renew: options.renew, turnTimeoutMs: 900_000 },
  );
  const pass = withTurn(scene.process.runtime, scene.request());
  while (outside.requests === 0) await new Promise(setImmediate);
  return { scene, outside, gate, pass };
}

/** Turns the clock in small steps, letting timers and their store calls run. */
async function turn(scene: Scene, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 1_000) {
    scene.world.clock.advance(1_000);
    for (let tick = 0; tick < 3 || scene.process.inFlight > 0; tick += 1)
      await new Promise(setImmediate);
  }
}

onEachStore(
  'E209 F9 a call of three leases with renewals keeps its epoch and is never taken over [T4]',
  async (open) => {
    const { scene, outside, gate, pass } = await insideCall(open, { renew: true });
    await turn(scene, 3 * scene.world.settings.leaseMs);
    const other = scene.world.start();
    expect(await withTurn(other.runtime, scene.request())).toMatchObject({ kind: 'pending' });
    gate.resolve();
    expect(await scene.world.settle(scene.process, pass)).toMatchObject({
      kind: 'concluded',
      turn: { status: 'succeeded' },
    });
    expect(new Set((await scene.journal()).map((body) => body.epoch))).toEqual(new Set([1]));
    expect(outside.requests).toBe(2);
  },
);

onEachStore(
  'E210 F9 a frozen owner that thaws with an answer writes nothing after the takeover and does not retry [T4]',
  async (open) => {
    const { scene, outside, gate, pass } = await insideCall(open, { renew: false });
    scene.world.clock.advance(2 * scene.world.settings.leaseMs);
    const other = scene.world.start();
    const taken = await scene.world.settle(other, withTurn(other.runtime, scene.request()));
    expect(taken).toMatchObject({
      kind: 'concluded',
      turn: { status: 'quarantined', undecided: [{ kind: 'charge' }] },
    });
    const before = await scene.kinds();
    gate.resolve();
    expect(await scene.world.settle(scene.process, pass)).toMatchObject({
      kind: 'concluded',
      replayed: true,
    });
    expect(await scene.kinds()).toEqual(before);
    expect(outside.requests).toBe(1);
  },
);

onEachStore(
  'E217 an owner past its lease that nobody displaced may still write; it records what it did not send [T4]',
  async (open) => {
    const { scene, outside, gate, pass } = await insideCall(open, {
      renew: false,
      recovery: 'operator',
    });
    scene.world.clock.advance(scene.world.settings.leaseMs + 1);
    gate.resolve();
    const answer = await scene.world.settle(scene.process, pass);
    expect(answer).toMatchObject({ kind: 'concluded', turn: { status: 'succeeded' } });
    const kinds = (await scene.kinds()).filter((kind) => /^E/.test(kind));
    expect(kinds).toEqual(['ES(a1)', 'ED', 'ES(a1)', 'EF(did_not_happen)', 'ES(a2)', 'ED']);
    expect(outside.requests).toBe(2);
  },
);

onEachStore(
  'E212 E213 the holder cannot claim again; a late or older renewal is refused and claims nothing [T4]',
  async (open) => {
    const { scene, gate, pass } = await insideCall(open, { renew: false });
    const { store, clock } = scene.world;
    const head = await store.head(scene.ref());
    if (head?.open == null) throw new Error('no open turn');
    const now = clock.now();
    const writer = {
      token: 'x'.repeat(22),
      owner: head.open.owner,
      epoch: head.epoch + 1,
      cancelsSeen: 0,
    };
    const batch = { index: 9, records: [], announces: [] };
    const again = await store
      .claim({
        ref: scene.ref(),
        agent: scene.agent.name,
        seen: head,
        writer,
        batch,
        leaseUntil: (now + 5_000) as EpochMs,
        now,
      })
      .catch((error: unknown) => error);
    expect(again instanceof Error || (again as { kind: string }).kind === 'lost').toBe(true);
    const mine = { ...writer, epoch: head.epoch };
    const late = (now + scene.world.settings.leaseMs + 1) as EpochMs;
    expect(await store.renew(scene.ref(), mine, (late + 5_000) as EpochMs, late)).toMatchObject({
      kind: 'lost',
    });
    const older = { ...mine, epoch: head.epoch - 1 };
    expect(await store.renew(scene.ref(), older, (now + 5_000) as EpochMs, now)).toMatchObject({
      kind: 'lost',
    });
    expect(await store.head(scene.ref())).toEqual(head);
    gate.resolve();
    await scene.world.settle(scene.process, pass);
  },
);

onEachStore(
  'E214 after a release the next claim has the next epoch, never the first again [T4]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) => context.effect(outside.effect())),
    );
    await scene.conclude('t1');
    await scene.conclude('t2');
    expect((await scene.journal('t1'))[0]?.epoch).toBe(1);
    expect((await scene.journal('t2'))[0]?.epoch).toBeGreaterThan(1);
  },
);

onEachStore(
  'E216 a strict pass of a turn that runs elsewhere touches nothing [T13]',
  async (open) => {
    const { scene, gate, pass } = await insideCall(open, { renew: false });
    const head = await scene.world.store.head(scene.ref());
    const reader = scene.world.start();
    expect(await verifyTurn(reader.runtime, scene.ref())).toMatchObject({
      verdict: 'cannot_replay',
      reason: 'not_concluded',
    });
    expect(await scene.world.store.head(scene.ref())).toEqual(head);
    expect(
      reader.names.every((name) => /^store\.(begin|journal|thread|key|snapshot)$/.test(name)),
    ).toBe(true);
    gate.resolve();
    await scene.world.settle(scene.process, pass);
  },
);

onEachStore('E218 two processes of one configuration have different owners [T4]', async (open) => {
  const scene = new Scene(
    await open(),
    agentOf(async () => 1),
  );
  expect(scene.world.start().runtime.owner).not.toBe(scene.world.start().runtime.owner);
});

onEachStore(
  'E220 F1 a sweep asks for the stranded turn only; a live or concluded one is left alone [T4]',
  async (open) => {
    const { scene, outside, gate } = await insideCall(open, {
      renew: false,
      recovery: 'idempotent',
    });
    const early = await sweep(scene.world.start().runtime);
    expect(early).toMatchObject({ stranded: 0 });
    scene.process.kill();
    const redelivered = scene.world.start();
    const told = await drive(redelivered.runtime, scene.ref(), {});
    expect(told).toMatchObject({ kind: 'later' });
    await scene.world.recover();
    gate.resolve();
    scene.restart();
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
    expect(outside.requests).toBe(3);
    expect(await sweep(scene.world.start().runtime)).toMatchObject({ rows: 0 });
  },
);

onEachStore(
  'E221 a resume under another authority quarantines once with the reason; a worker without the agent leaves it [T7]',
  async (open) => {
    const { scene, outside } = await insideCall(open, { renew: false });
    scene.process.kill();
    scene.world.clock.advance(2 * scene.world.settings.leaseMs);
    scene.world.deploy([]);
    const stranger = scene.world.start();
    expect(await drive(stranger.runtime, scene.ref(), {})).toMatchObject({
      kind: 'later',
      reason: 'no agent "shop" here',
    });
    scene.deploy(agentOf(async () => 1, { authority: 'other' }));
    await scene.world.recover();
    scene.restart();
    const turned = await scene.world.settle(
      scene.process,
      drive(scene.process.runtime, scene.ref(), {}),
    );
    expect(turned).toEqual({ kind: 'done' });
    expect((await scene.kinds()).filter((kind) => kind.startsWith('RC'))).toEqual([
      'RC(quarantined)',
    ]);
    const end = await scene.conclude();
    expect(end).toMatchObject({ status: 'quarantined', error: { code: 'fingerprint_mismatch' } });
    expect(outside.requests).toBe(1);
  },
);

onEachStore(
  'E224 an empty or hostile turnId is refused before anything is written [T2]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async () => 1),
    );
    for (const id of ['', '.', '..', 'a/b', 'x'.repeat(257)]) {
      expect(() => scene.ref(id)).toThrow(TurnstoneError);
    }
  },
);

onEachStore(
  'E321 LE-7 a refused announcement, for whatever reason, is no failure of its effect: no record of one, no next attempt [T4 T5]',
  async (open) => {
    for (const reason of ['fenced', 'already_announced', 'moved'] as const) {
      const outside = new Outside();
      const store = await open();
      let refuse = true;
      let refused = 0;
      const refusing = new Proxy(store, {
        get: (target, name) => {
          const member: unknown = Reflect.get(target, name);
          if (typeof member !== 'function') return member;
          if (name !== 'append') return member.bind(target);
          return async (write: AppendWrite): Promise<Appended> => {
            const [effectKey] = write.batch.announces;
            if (!refuse || effectKey === undefined) return target.append(write);
            refused += 1;
            if (reason === 'already_announced') return { kind: 'lost', reason, effectKey };
            return reason === 'fenced'
              ? { kind: 'lost', reason, position: null }
              : { kind: 'lost', reason, head: null };
          };
        },
      });
      const scene = new Scene(
        refusing,
        agentOf(async (context) => {
          await context.effect(outside.effect({ kind: 'first', recovery: 'idempotent' }));
          return context.effect(outside.effect({ recovery: 'idempotent' }));
        }),
      );
      const answer = await scene.deliver().catch((error: unknown) => error);
      expect(answer).toMatchObject(
        reason === 'already_announced'
          ? { code: 'already_announced', retry: 'never' }
          : { kind: 'pending', turn: { status: 'running' } },
      );
      expect([refused, outside.requests]).toEqual([1, 1]);
      const kinds = (await scene.kinds()).filter((kind) => /^E/.test(kind));
      expect(kinds.filter((kind) => kind.startsWith('EF'))).toEqual([]);
      expect(kinds.filter((kind) => kind.startsWith('ES'))).toEqual(['ES(a1)']);
      refuse = false;
      await scene.world.recover();
      scene.restart();
      expect(await scene.conclude()).toMatchObject({
        status: 'succeeded',
        spend: { effects: 2, attempts: 2 },
      });
      expect((await scene.kinds()).filter((kind) => /^E[SF]/.test(kind))).toEqual([
        'ES(a1)',
        'ES(a1)',
      ]);
    }
  },
);

onEachStore(
  'E324 EP-2 a host that ends a pass inside a call is a crash like any other: an orphan, a lease that lapses by time, the recovery decides [T4 T6]',
  async (open) => {
    const journals: unknown[] = [];
    for (const end of ['time limit', 'kill'] as const) {
      for (const recovery of ['operator', 'idempotent'] as const) {
        const outside = new Outside();
        const scene = new Scene(
          await open(),
          agentOf((context) =>
            context.effect(
              outside.effect({
                recovery,
                timeoutMs: 900_000,
                perform: async () => {
                  outside.requests += 1;
                  return outside.requests === 1 ? new Promise(() => undefined) : 'sent';
                },
              }),
            ),
          ),
          { renew: false },
        );
        const { clock, store, settings } = scene.world;
        const limit = 5_000;
        const bound = end === 'kill' ? {} : { deadlineAt: (clock.now() + limit) as EpochMs };
        void withTurn(scene.process.runtime, scene.request('t1', bound));
        while (outside.requests === 0) await new Promise(setImmediate);
        // The stop signal comes a reserve before the limit; the call does not heed it, and the host ends it.
        await turn(scene, limit);
        scene.process.kill();
        const head = await store.head(scene.ref());
        expect(head?.open).toMatchObject({ turn: 't1', owner: scene.process.runtime.owner });
        scene.restart();
        expect(await scene.deliver()).toMatchObject({ kind: 'pending' });
        expect(outside.requests).toBe(1);
        clock.advance(settings.leaseMs - limit);
        expect(clock.now()).toBeGreaterThanOrEqual(head?.open?.leaseUntil ?? Number.NaN);
        await scene.world.recover();
        scene.restart();
        const status = recovery === 'operator' ? 'quarantined' : 'succeeded';
        expect(await scene.conclude()).toMatchObject({ status });
        expect(outside.requests).toBe(recovery === 'operator' ? 1 : 2);
        expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: status });
        journals.push(await scene.kinds());
      }
    }
    expect(journals.slice(0, 2)).toEqual(journals.slice(2));
  },
);

onEachStore(
  'E326 a lease, a wait and a fact past their time count as past while their rows still stand [T4 T10]',
  async (open) => {
    const outside = new Outside();
    const hour = 3_600_000;
    const subject = subjectId('subject', 'ann-smith');
    const scene = new Scene(
      await open(),
      agentOf(async (context, input) => {
        if (input === 'remember') {
          await context.remember({ id: 'a', purpose: 'p', content: 1, expiresInMs: hour });
          return context.recall({ purpose: 'p' }).then((found) => found.length);
        }
        if (input === 'recall')
          return context.recall({ purpose: 'p' }).then((found) => found.length);
        if (input === 'ask') return context.approval({ action: 'pay', expiresInMs: hour });
        if (input === 'hang') {
          await context.effect(
            outside.effect({
              recovery: 'idempotent',
              timeoutMs: 900_000,
              perform: async () => {
                outside.requests += 1;
                return outside.requests === 1 ? new Promise(() => undefined) : 'sent';
              },
            }),
          );
        }
        return 'fine';
      }),
      { renew: false },
    );
    const { clock, store, settings } = scene.world;
    const { tenant } = scene.ref();
    expect(await scene.conclude('t1', { input: 'remember', subject })).toMatchObject({ result: 1 });
    const asked = await scene.suspend('t2', { input: 'ask' });
    void withTurn(scene.process.runtime, scene.request('t3', { input: 'hang' }));
    while (outside.requests === 0) await new Promise(setImmediate);
    scene.process.kill();
    // Nothing sweeps: every row is as it was written, only the clock is past it.
    const before = await store.head(scene.ref());
    clock.advance(settings.leaseMs + 1);
    expect(await store.head(scene.ref())).toEqual(before);
    scene.restart();
    expect(await scene.conclude('t3', { input: 'hang' })).toMatchObject({ status: 'succeeded' });
    clock.advance(hour);
    const [row] = (
      await listApprovals(scene.process.runtime, tenant, { status: 'all', limit: 10, cursor: null })
    ).items;
    expect(row?.id).toBe(asked.waits[0]?.id);
    const late = answerApproval(
      scene.process.runtime,
      tenant,
      row?.id ?? '',
      { decision: 'approve', digest: row?.digest ?? '', note: null },
      'bob',
    );
    await expect(late).rejects.toMatchObject({ code: 'expired' });
    expect(
      (await store.memories(await store.subjectScope(tenant, subject))).length,
    ).toBeGreaterThan(0);
    expect(await scene.conclude('t4', { input: 'recall', subject })).toMatchObject({ result: 0 });
  },
);

onEachStore(
  'E330 ER-5 a key service that throttles is a fault to retry: nothing is called absent or erased, and the same turn goes on later [T12]',
  async (open) => {
    const subject = subjectId('subject', 'ann-smith');
    const vault = new MemoryVault();
    let throttled = false;
    let asked = 0;
    const throttling: Vault = {
      create: (...given) => vault.create(...given),
      sealer: async (tenant, row) => {
        asked += 1;
        if (!throttled || !row.scope.startsWith('s')) return vault.sealer(tenant, row);
        const cause = new Error('ThrottlingException: Rate exceeded');
        throw new TurnstoneError('key_service_unavailable', 'the key service cannot be used', {
          retry: 'now',
          cause,
        });
      },
    };
    const scene = new Scene(
      await open(),
      agentOf(async (context, input) => {
        if (input === 'remember')
          return context.remember({ id: 'a', purpose: 'p', content: 'vegan' });
        return (await context.recall({ purpose: 'p' })).map(({ content }) => content);
      }),
      {},
      { vault: throttling },
    );
    await scene.conclude('t1', { input: 'remember', subject });
    throttled = true;
    const error = await scene
      .deliver('t2', { input: 'recall', subject })
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'key_service_unavailable', retry: 'now' });
    // A turn that stands is not shown as erased either.
    await expect(scene.view('t1')).rejects.toMatchObject({ code: 'key_service_unavailable' });
    expect(asked).toBeGreaterThan(1);
    throttled = false;
    scene.restart();
    expect(await scene.conclude('t2', { input: 'recall', subject })).toMatchObject({
      status: 'succeeded',
      result: ['vegan'],
    });
    expect(await scene.view('t1')).not.toHaveProperty('erased');
  },
);

onEachStore(
  'E322 a renewal that comes after the conclusion is refused and revives no lease [T4]',
  async (open) => {
    const { scene, gate, pass } = await insideCall(open, { renew: true });
    const head = await scene.world.store.head(scene.ref());
    gate.resolve();
    await scene.world.settle(scene.process, pass);
    const now = scene.world.clock.now();
    const writer = {
      token: 'x'.repeat(22),
      owner: scene.process.runtime.owner,
      epoch: head?.epoch ?? 0,
      cancelsSeen: 0,
    };
    expect(
      await scene.world.store.renew(scene.ref(), writer, (now + 5_000) as EpochMs, now),
    ).toMatchObject({ kind: 'lost' });
    expect(await scene.world.store.head(scene.ref())).toMatchObject({ open: null });
  },
);

onEachStore(
  'E325 of ten messages only the one whose thread is held comes back [T3]',
  async (open) => {
    const { scene, gate, pass } = await insideCall(open, { renew: false });
    const { runtime } = scene.world.start();
    const quick = agentOf(async () => 1);
    scene.world.deploy([quick]);
    const worker = scene.world.start();
    const threads = ['order-7', ...Array.from({ length: 9 }, (_, n) => `other-${n}`)];
    for (const thread of threads)
      await acceptTurn(
        runtime,
        scene.request('q1', { ref: scene.ref('q1', thread), agent: quick }),
      );
    const batch = scene.world.queues.inbox
      .take()
      .map(({ body }, index) => ({ id: `m${index}`, body, receives: 1 }));
    const outcomes = await scene.world.settle(worker, handleInboxBatch(worker.runtime, batch, {}));
    if (outcomes === 'died') throw new Error('died');
    expect(batch).toHaveLength(10);
    expect([...outcomes.values()].filter((outcome) => outcome.kind === 'done')).toHaveLength(9);
    expect(outcomes.get('m0')).toMatchObject({ kind: 'later' });
    gate.resolve();
    await scene.world.settle(scene.process, pass);
  },
);

onEachStore(
  'F27 a message that fails for ever is parked after a bounded number of tries and blocks no other thread [T11]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async () => 1),
    );
    const { runtime } = scene.process;
    await acceptTurn(runtime, scene.request());
    const [message] = scene.world.queues.inbox.take();
    scene.deploy({
      ...agentOf(async () => 1),
      parseInput: () => {
        throw new TurnstoneError('invalid_plan', 'no such plan', { retry: 'never' });
      },
    });
    const batch = [{ id: 'm', body: message?.body ?? '', receives: 1 }];
    const outcomes = await scene.world.settle(
      scene.process,
      handleInboxBatch(scene.process.runtime, batch, {}),
    );
    expect(outcomes === 'died' ? null : outcomes.get('m')).toEqual({ kind: 'done' });
    const [row] = await scene.world.store.workOf(scene.ref());
    expect(row).toMatchObject({ parkedReason: 'no such plan' });
  },
);

onEachStore(
  'F3 a host that has no time left parks before it announces; the lease has a finite end [T4]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) => context.effect(outside.effect())),
    );
    for (const left of [0, -5_000]) {
      const deadlineAt = (scene.world.clock.now() + left) as EpochMs;
      const error = await scene.deliver('t1', { deadlineAt }).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'shutting_down' });
    }
    expect(outside.requests).toBe(0);
    expect(await scene.world.store.head(scene.ref())).toBeNull();
  },
);

onEachStore(
  'drain rule: below the reserve a pass parks with its work done and goes on by its inbox message [T4]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.effect(
          outside.effect({
            perform: async () => {
              outside.requests += 1;
              scene.world.clock.advance(4_500);
              return 1;
            },
          }),
        );
        return context.effect(outside.effect({ kind: 'mail' }));
      }),
    );
    const deadlineAt = (scene.world.clock.now() + 5_000) as EpochMs;
    expect(await scene.deliver('t1', { deadlineAt })).toMatchObject({ kind: 'pending' });
    expect(outside.requests).toBe(1);
    const [message] = scene.world.queues.inbox.take();
    scene.restart();
    const batch = [{ id: 'm', body: message?.body ?? '', receives: 1 }];
    await scene.world.settle(scene.process, handleInboxBatch(scene.process.runtime, batch, {}));
    expect(await scene.conclude()).toMatchObject({
      status: 'succeeded',
      replayed: true,
      spend: { attempts: 2 },
    });
    expect(outside.requests).toBe(2);
  },
);

onEachStore(
  'ruling 4: a new turn on a thread whose owner died first finishes the open turn [T3]',
  async (open) => {
    const { scene, outside, gate } = await insideCall(open, {
      renew: false,
      recovery: 'idempotent',
    });
    scene.process.kill();
    gate.resolve();
    scene.restart();
    expect(await scene.deliver('t2')).toMatchObject({ kind: 'busy', holder: 't1' });
    scene.world.clock.advance(2 * scene.world.settings.leaseMs);
    expect(await scene.conclude('t2')).toMatchObject({ status: 'succeeded', revision: 2 });
    expect(await scene.conclude('t1')).toMatchObject({
      status: 'succeeded',
      revision: 1,
      replayed: true,
    });
    expect(outside.requests).toBe(5);
  },
);

onEachStore(
  'F7 decision 26: a quarantine lets the thread go on, unless its agent blocks [T3]',
  async (open) => {
    for (const onQuarantine of ['continue', 'block'] as const) {
      const run = async (context: TurnContext, input: unknown): Promise<unknown> =>
        input === 'bad'
          ? context.effect({
              kind: 'charge',
              args: 1,
              perform: async () => {
                throw new Error('reset');
              },
            })
          : 'fine';
      const scene = new Scene(await open(), agentOf(run, { onQuarantine }));
      expect(await scene.conclude('t1', { input: 'bad' })).toMatchObject({ status: 'quarantined' });
      const next = await scene.deliver('t2', { input: 'good' });
      expect(next).toMatchObject(
        onQuarantine === 'block' ? { kind: 'busy', holder: 't1' } : { kind: 'concluded' },
      );
    }
  },
);
