// Atomic members of a group (groups.md E172..E178, collisions.md E332): rows of the user's own tables in the journal's transaction.
import { expect } from 'vitest';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { cancelTurn } from '../../src/runtime/cancel-turn.ts';
import type { Effect, EffectGroup, TurnContext } from '../../src/runtime/turn-context.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import type { FaultKind } from '../../src/testing/process.ts';
import { ScriptedProvider } from '../../src/testing/scripted-provider.ts';
import type { Lending } from '../lenders.ts';
import { onEachLender } from '../lenders.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';

class Shop {
  readonly calls: string[] = [];
  readonly refuses = new Set<string>();

  effect(kind: string, options: Partial<Effect<unknown>> = {}): Effect<unknown> {
    return {
      kind,
      args: { kind },
      recovery: 'operator',
      retry: { maxAttempts: 1 },
      perform: async () => {
        this.calls.push(kind);
        if (this.refuses.has(kind)) throw new EffectNotAppliedError('no');
        return `${kind}!`;
      },
      ...options,
    };
  }

  hold(group: EffectGroup): Promise<unknown> {
    return group.reversible(this.effect('hold'), 'stock', () => this.effect('release'));
  }
}

const post = (lending: Lending, group: EffectGroup, id: string, amount = 1): void =>
  group.atomic(
    { kind: 'ledger.post', args: { id, amount }, entries: lending.post(id, amount) },
    'ledger',
  );

function sceneOf(lending: Lending, body: (step: TurnContext) => Promise<unknown>): Scene {
  return new Scene(
    lending.store,
    agentOf((context) => context.step('s', {}, body)),
  );
}

const open = (step: TurnContext): EffectGroup => step.openGroup('checkout', ['stock', 'ledger']);

onEachStore(
  'E172 an atomic member is refused at registration where the store lends nothing, has no entries, or over 99 [T9 T11]',
  async (openStore) => {
    const shop = new Shop();
    const messages: string[] = [];
    const store = await openStore();
    const engine = store.lender ?? 'sqlite';
    const scene = new Scene(
      new Proxy(store, {
        get: (target, name) => {
          const member: unknown = Reflect.get(target, name);
          if (name === 'lender') return lends ? engine : null;
          return typeof member === 'function' ? member.bind(target) : member;
        },
      }),
      agentOf((context) =>
        context.step('s', {}, async (step) => {
          const group = open(step);
          const refused = (count: number): void => {
            try {
              const entries = { [engine]: Array.from({ length: count }, () => ({ sql: 'x' })) };
              group.atomic({ kind: 'ledger.post', args: null, entries }, 'ledger');
              messages.push('taken');
            } catch (error) {
              messages.push((error as Error).message);
            }
          };
          lends = false;
          refused(1);
          lends = true;
          refused(0);
          refused(60);
          refused(40);
          await group.abort();
        }),
      ),
    );
    let lends = true;
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
    expect(messages).toEqual([
      'group.atomic: expected a store that lends its transaction, got one that cannot',
      `group.atomic.entries.${engine}: expected at least one entry, got none`,
      'taken',
      `group.atomic.entries.${engine}: expected at most 99 in a group, got 100`,
    ]);
    expect(shop.calls).toEqual([]);
  },
);

onEachStore(
  'E329 entries and records that no transaction could carry are refused at registration, by name, before an eager member ran [T9 T11]',
  async (openStore) => {
    const messages: string[] = [];
    const order: string[] = [];
    const store = await openStore();
    const engine = store.lender ?? 'sqlite';
    const lending = new Proxy(store, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name);
        if (name === 'lender') return engine;
        return typeof member === 'function' ? member.bind(target) : member;
      },
    });
    const scene = new Scene(
      lending,
      agentOf((context) =>
        context.step('s'.repeat(250), {}, async (step) => {
          const group = open(step);
          const register = (entries: readonly string[], args: unknown): void => {
            const written = entries.map((value) =>
              engine === 'sqlite'
                ? { sql: 'x', params: [value] }
                : { Put: { Item: { v: { S: value } } } },
            );
            try {
              group.atomic(
                { kind: 'k'.repeat(250), args, entries: { [engine]: written } },
                'ledger',
              );
              messages.push('taken');
            } catch (error) {
              messages.push((error as Error).message);
            }
          };
          const big = 'x'.repeat(390_000);
          register(['x'.repeat(410_000)], null);
          register(
            Array.from({ length: 11 }, () => big),
            null,
          );
          register(
            Array.from({ length: 9 }, () => big),
            null,
          );
          register([big], null);
          for (let n = 0; messages.at(-1) !== 'full' && n < 90; n += 1) {
            register(['y'], { n, pad: '😀'.repeat(700) });
            if (messages.at(-1) === 'taken') messages.pop();
            else messages.push('full');
          }
          order.push('registered');
          await group.reversible(
            {
              kind: 'hold',
              args: null,
              recovery: 'idempotent',
              perform: async () => order.push('hold'),
            },
            'stock',
            () => ({ kind: 'free', args: null, recovery: 'idempotent', perform: async () => null }),
          );
          await group.abort();
        }),
      ),
    );
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
    const field = `group.atomic.entries.${engine}`;
    expect(messages).toEqual([
      expect.stringMatching(
        `${field}: expected at most 409600 bytes an entry \\(itemBytes\\), got 41`,
      ),
      expect.stringMatching(
        `${field}: expected at most 3887104 bytes in a group \\(transactionBytes less its records\\), got 42`,
      ),
      'taken',
      expect.stringMatching(
        `${field}: expected at most 3887104 bytes in a group \\(transactionBytes less its records\\), got 39`,
      ),
      expect.stringMatching(
        `${field}: expected at most 307200 bytes of records in a group \\(batchBytes\\)`,
      ),
      'full',
    ]);
    expect(order).toEqual(['registered', 'hold']);
  },
);

onEachLender(
  'E329 as many members as are taken at registration are written in one transaction, behind a batch that is nearly full [T9 T11]',
  async (openLending) => {
    const lending = await openLending();
    const scene = sceneOf(lending, async (step) => {
      for (let n = 0; n < 60; n += 1) step.note('n'.repeat(4_000));
      const group = open(step);
      for (let n = 10; n < 99; n += 1) {
        const args = { n, pad: 'x'.repeat(1_900) };
        group.atomic({ kind: 'ledger.post', args, entries: lending.post(`r${n}`, n) }, 'ledger');
      }
      return (await group.commit()).length;
    });
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded', result: 0 });
    expect(await lending.rows()).toHaveLength(89);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

onEachLender(
  'E173 atomic members, their announcements and records stand together; the settlement is later; replay applies nothing [T9]',
  async (openLending) => {
    const lending = await openLending();
    const shop = new Shop();
    const scene = sceneOf(lending, async (step) => {
      const group = open(step);
      await shop.hold(group);
      post(lending, group, 'a', 5);
      post(lending, group, 'b', -5);
      group.deferred(shop.effect('mail'), 'stock');
      return group.commit([{ name: 'balanced', holds: true }]);
    });
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded', result: ['mail!'] });
    expect(await lending.rows()).toEqual(['a:5', 'b:-5']);
    expect(shop.calls).toEqual(['hold', 'mail']);
    const positions = await lending.store.journal(scene.ref());
    const records = (await scene.journal()).filter((body) => body.kind !== 'RunConcluded');
    const posted = records.flatMap((body) =>
      body.kind === 'EffectStarted' && body.effect === 'ledger.post' ? [body.seq] : [],
    );
    expect(posted).toHaveLength(2);
    const at = (seq: number): number => {
      let before = 0;
      for (const { index, records: held } of positions) {
        before += held.length;
        if (seq <= before) return index;
      }
      return -1;
    };
    const [first = 0, second = 0] = posted;
    expect([at(first + 1), at(second), at(second + 1)]).toEqual([at(first), at(first), at(first)]);
    const settled = records.find((body) => body.kind === 'GroupSettled')?.seq ?? 0;
    expect(at(settled)).toBeGreaterThan(at(first));
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded', replayed: true });
    expect(await lending.rows()).toEqual(['a:5', 'b:-5']);
  },
);

onEachLender(
  'E174 a transaction the server refuses leaves no records and no row; what was held is taken back [T9]',
  async (openLending) => {
    const lending = await openLending();
    const shop = new Shop();
    let id = 'taken';
    const scene = new Scene(
      lending.store,
      agentOf(async (context) => {
        const other = context.step('beside', {}, async (step) => {
          await step.effect(shop.effect('beside', { mutates: false, recovery: 'retry' }));
          return step.effect(shop.effect('beside2', { mutates: false, recovery: 'retry' }));
        });
        const posted = context.step('s', {}, async (step) => {
          const group = open(step);
          await shop.hold(group);
          post(lending, group, 'fresh');
          post(lending, group, id);
          group.deferred(shop.effect('mail'), 'stock');
          return group.commit();
        });
        await Promise.allSettled([other, posted]);
        return posted;
      }),
    );
    const before = sceneOf(lending, async (step) => {
      const group = open(step);
      post(lending, group, 'taken');
      await group.commit();
    });
    expect(await before.conclude('t0')).toMatchObject({ status: 'succeeded' });
    expect(await scene.conclude('t1')).toMatchObject({
      status: 'failed',
      error: { code: 'transaction_refused', step: 's' },
    });
    expect(await lending.rows()).toEqual(['taken:1']);
    expect([...shop.calls].sort()).toEqual(['beside', 'beside2', 'hold', 'release']);
    const journal = await scene.journal('t1');
    expect(
      journal.filter((body) => body.kind === 'EffectStarted' && body.effect === 'ledger.post'),
    ).toEqual([]);
    expect((await scene.kinds('t1')).filter((kind) => kind.startsWith('G'))).toEqual([
      'GroupOpened',
      'GS(aborted)',
    ]);
    expect(await scene.strict('t1')).toMatchObject({ verdict: 'verified', outcome: 'failed' });
    id = 'free';
    expect(await scene.strict('t1')).toMatchObject({ verdict: 'verified', outcome: 'failed' });
  },
);

onEachLender(
  'E176 a deferred member that fails after the transaction quarantines: nothing is taken back [T9]',
  async (openLending) => {
    const lending = await openLending();
    const shop = new Shop();
    shop.refuses.add('mail');
    const scene = sceneOf(lending, async (step) => {
      const group = open(step);
      await shop.hold(group);
      post(lending, group, 'a');
      group.deferred(shop.effect('mail'), 'stock');
      await group.commit();
    });
    expect(await scene.conclude()).toMatchObject({ status: 'quarantined' });
    expect(await lending.rows()).toEqual(['a:1']);
    expect(shop.calls).toEqual(['hold', 'mail']);
    expect(await scene.kinds()).toContain('GS(quarantined)');
  },
);

onEachLender(
  'E177 a gate that refuses the second member refuses before the transaction opens: neither row is written [T9 T11]',
  async (openLending) => {
    for (const by of ['policy', 'budget'] as const) {
      const lending = await openLending();
      const shop = new Shop();
      const scene = sceneOf(lending, async (step) => {
        const group = open(step);
        await shop.hold(group);
        post(lending, group, 'a');
        group.atomic(
          { kind: 'ledger.forbidden', args: {}, entries: lending.post('b', 1) },
          'ledger',
        );
        group.deferred(shop.effect('mail'), 'stock');
        await group.commit();
      });
      if (by === 'policy') {
        scene.world.policy = {
          digest: 'p',
          decide: async ({ kind }) =>
            kind === 'ledger.forbidden' ? { allow: false, reason: 'not here' } : { allow: true },
        };
        scene.restart();
      }
      const budget = by === 'budget' ? { effects: 2 } : null;
      const view = await scene.conclude('t1', { budget });
      expect(view).toMatchObject(
        by === 'policy'
          ? { status: 'failed', error: { code: 'policy_denied' } }
          : { status: 'exhausted' },
      );
      expect(await lending.rows()).toEqual([]);
      expect(shop.calls).toEqual(['hold', 'release']);
      expect((await scene.kinds()).filter((kind) => kind.startsWith('GS'))).toEqual([
        'GS(aborted)',
      ]);
    }
  },
);

onEachLender(
  'E178 E332 wherever its process dies around the transaction, rows are written once and the deferred member goes once [T9 T4]',
  async (openLending) => {
    const kinds: readonly FaultKind[] = ['lostBefore', 'doneButUnheard', 'deliveredTwice'];
    let reached = true;
    for (let call = 1; reached; call += 1) {
      for (const kind of kinds) {
        const lending = await openLending();
        const provider = new ScriptedProvider();
        let process = null as Scene['process'] | null;
        const effect = (name: string): Effect<unknown> => ({
          kind: name,
          args: { name },
          recovery: 'idempotent',
          perform: ({ idempotencyKey }) =>
            (process as Scene['process']).provider(name, async () =>
              provider.call(name, idempotencyKey, { dedup: true }),
            ),
        });
        const scene = sceneOf(lending, async (step) => {
          const group = open(step);
          await group.reversible(effect('hold'), 'stock', () => effect('release'));
          post(lending, group, 'a', 5);
          post(lending, group, 'b', -5);
          group.deferred(effect('mail'), 'stock');
          await group.commit();
          return 'done';
        });
        process = scene.restart({ call, kind });
        await scene.deliver().catch(() => 'died');
        reached = scene.process.fired !== null;
        process = scene.restart();
        for (let round = 0; round < 4; round += 1) {
          scene.world.clock.advance(11_000);
          await scene.world.settle(process, withTurn(process.runtime, scene.request()));
        }
        const at = `${kind} at call ${call}`;
        expect(await lending.rows(), at).toEqual(['a:5', 'b:-5']);
        expect(
          [provider.landed('hold'), provider.landed('mail'), provider.landed('release')],
          at,
        ).toEqual([1, 1, 0]);
        expect(await scene.view(), at).toMatchObject({ status: 'succeeded' });
        expect(
          (await scene.kinds()).filter((one) => one.startsWith('GS')),
          at,
        ).toEqual(['GS(committed)']);
        expect(await scene.strict(), at).toMatchObject({ verdict: 'verified' });
      }
    }
  },
);

onEachLender(
  'a stop that comes between the transaction and the deferred members lets the group finish [T8 T9]',
  async (openLending) => {
    const lending = await openLending();
    const shop = new Shop();
    const scene = new Scene(
      lending.store,
      agentOf(async (context) => {
        await context.step(
          's',
          { compensation: 'compensatable', undo: (undo) => undo.effect(shop.effect('undo')) },
          async (step) => {
            const group = open(step);
            await shop.hold(group);
            post(lending, group, 'a');
            group.deferred(
              shop.effect('first', {
                recovery: 'idempotent',
                perform: async () => {
                  shop.calls.push('first');
                  if (shop.calls.length === 2) {
                    await cancelTurn(scene.world.start().runtime, scene.ref(), 'stop it', 'op');
                    scene.process.kill();
                  }
                  return 'first!';
                },
              }),
              'stock',
            );
            group.deferred(shop.effect('second'), 'stock');
            await group.commit();
          },
        );
        await context.effect(shop.effect('later'));
      }),
    );
    expect(await scene.deliver()).toBe('died');
    await scene.passTime(11_000);
    expect(await scene.view()).toMatchObject({ status: 'cancelled' });
    expect(shop.calls).toEqual(['hold', 'first', 'first', 'second', 'undo']);
    expect((await scene.kinds()).filter((kind) => kind.startsWith('GS'))).toEqual([
      'GS(committed)',
    ]);
  },
);

onEachLender(
  "an atomic member over the store's own tables, or of a wrong form, is refused and nothing of the turn is lost [T9]",
  async (openLending) => {
    const lending = await openLending();
    const engine = lending.store.lender;
    const shop = new Shop();
    const wrong: readonly object[] =
      engine === 'sqlite'
        ? [
            { sql: 'DELETE FROM data' },
            { sql: 'UPDATE keyfile.keys SET body = NULL' },
            { sql: 'DROP TABLE postings' },
            { sql: 'PRAGMA user_version = 9' },
            { sql: 'COMMIT' },
            { sql: 'INSERT INTO nowhere VALUES (1)' },
            { sql: 'UPDATE postings SET amount = 0' },
          ]
        : [{ Put: { TableName: 'nowhere', Item: { id: { S: 'x' } } } }, { Put: { Item: {} } }, {}];
    for (const [index, entry] of wrong.entries()) {
      const scene = sceneOf(lending, async (step) => {
        const group = open(step);
        await shop.hold(group);
        group.atomic(
          { kind: 'ledger.post', args: { index }, entries: { [engine as string]: [entry] } },
          'ledger',
        );
        await group.commit();
      });
      expect(await scene.conclude(`t${index}`), JSON.stringify(entry)).toMatchObject({
        status: 'failed',
        error: { code: 'transaction_refused' },
      });
      expect((await scene.kinds(`t${index}`)).filter((kind) => kind.startsWith('GS'))).toEqual([
        'GS(aborted)',
      ]);
    }
    expect(await lending.rows()).toEqual([]);
  },
);

onEachLender(
  'E181 a group with an atomic member spans a wait: rebuilt, then written once with the answer [T9 T10]',
  async (openLending) => {
    const lending = await openLending();
    const shop = new Shop();
    const scene = sceneOf(lending, async (step) => {
      const group = open(step);
      await shop.hold(group);
      post(lending, group, 'a');
      const { decision } = await step.approval({ action: 'post it' });
      if (decision === 'approved') await group.commit();
      else await group.abort();
      return decision;
    });
    await scene.suspend();
    expect(await lending.rows()).toEqual([]);
    const { runtime } = scene.world.start();
    const { tenant } = scene.ref();
    const [one] = (
      await listApprovals(runtime, tenant, { status: 'pending', limit: 10, cursor: null })
    ).items;
    if (one === undefined) throw new Error('no approval');
    const answer = { decision: 'approve' as const, digest: one.digest, note: null };
    await answerApproval(runtime, tenant, one.id, answer, 'bob');
    await scene.inbox();
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'approved' });
    expect(await lending.rows()).toEqual(['a:1']);
    expect(shop.calls).toEqual(['hold']);
  },
);
