// Goal: sagas, groups, stops and siblings keep the rules of undoing wherever the process dies.
// Method: the crash explorer enumerates every port call and fault; each journal is held against the rules of
// page 01 by `undo-rules.ts`, which shares no code with the runtime, and against the provider's ledger.
import { expect, test } from 'vitest';
import { tenantId, threadId, turnId } from '../../src/protocol/ids.ts';
import { limits } from '../../src/protocol/limits.ts';
import { defineTurnAgent } from '../../src/runtime/agent-definition.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { cancelTurn } from '../../src/runtime/cancel-turn.ts';
import { handleInboxBatch } from '../../src/runtime/drive.ts';
import type { Effect, StepOptions, TurnContext } from '../../src/runtime/turn-context.ts';
import { EffectFailure } from '../../src/runtime/turn-context.ts';
import type { ExploredEnd, Scenario, Stage } from '../../src/testing/crash-explorer.ts';
import { exploreCrashes } from '../../src/testing/crash-explorer.ts';
import type { FaultKind, Process } from '../../src/testing/process.ts';
import { ScriptedProvider } from '../../src/testing/scripted-provider.ts';
import { brokenGroupRules, brokenUnwindRules } from '../../src/testing/undo-rules.ts';
import type { World } from '../../src/testing/world.ts';
import type { Lending } from '../lenders.ts';
import { onEachLender } from '../lenders.ts';
import { memoryStore, onEachStore } from '../stores.ts';

const ref = {
  tenant: tenantId('tenant', 'acme'),
  thread: threadId('thread', 'order-7'),
  turn: turnId('turn', 't1'),
};

type Ending = 'refused' | 'doubt' | 'landed';

/** A provider that knows keys, and refuses, hangs up or answers garbage where it is told to. */
class Shop extends ScriptedProvider {
  readonly ends: ReadonlyMap<string, Ending>;
  asked = false;
  #current: () => Process = () => {
    throw new Error('no process runs');
  };

  constructor(ends: Readonly<Record<string, Ending>> = {}) {
    super();
    this.ends = new Map(Object.entries(ends));
  }

  at(current: () => Process): this {
    this.#current = current;
    return this;
  }

  effect(kind: string, options: Partial<Effect<unknown>> = {}): Effect<unknown> {
    const ending = this.ends.get(kind);
    return {
      kind,
      args: { kind },
      recovery: 'reconcile',
      retry: { maxAttempts: 1 },
      perform: ({ idempotencyKey }) =>
        this.#current().provider(kind, async () => {
          if (ending === 'refused') throw failure('did_not_happen');
          if (ending === 'doubt') throw failure('in_doubt');
          const answer = this.call(kind, idempotencyKey, { dedup: true });
          if (ending === 'landed') throw failure('landed');
          return answer;
        }),
      probe: ({ idempotencyKey }) =>
        this.#current().provider(`probe.${kind}`, async () =>
          ending === 'doubt' || ending === 'landed'
            ? { outcome: 'inconclusive' as const }
            : this.probe(kind, idempotencyKey),
        ),
      ...options,
    };
  }

  /** A step that makes one call and is taken back by another. */
  step(
    context: TurnContext,
    name: string,
    body: (step: TurnContext) => Promise<unknown> = (step) => step.effect(this.effect(name)),
    undo: StepOptions['undo'] = (step) => step.effect(this.effect(`undo-${name}`)),
  ): Promise<unknown> {
    return context.step(name, { compensation: 'compensatable', undo }, body);
  }

  /** Kinds that landed, in order, of those whose name begins so. */
  order(prefix: string): readonly string[] {
    return this.requests
      .filter(({ kind, landed }) => landed && kind.startsWith(prefix))
      .map(({ kind }) => kind);
  }
}

function failure(disposition: 'did_not_happen' | 'in_doubt' | 'landed'): EffectFailure {
  const code = disposition === 'in_doubt' ? 'hung_up' : 'refused';
  return new EffectFailure(code, { code, disposition, permanent: true });
}

function scenario(
  name: string,
  ends: Readonly<Record<string, Ending>>,
  run: (context: TurnContext, shop: Shop, world: () => World) => Promise<unknown>,
  check: (end: ExploredEnd<Shop>) => void | Promise<void>,
  acts?: Scenario<Shop>['acts'],
): Scenario<Shop> {
  return {
    name,
    provider: () => new Shop(ends),
    agents: (shop, current, world) => {
      shop.at(current);
      return [defineTurnAgent({ name: 'shop', run: (context) => run(context, shop, world) })];
    },
    request: ([agent]) => {
      if (agent === undefined) throw new Error('a scenario has an agent');
      return { ref, agent, input: { order: 7 }, subject: null, budget: null, actor: 'ann' };
    },
    check: async (end) => {
      expect(brokenUnwindRules(end.journal)).toEqual([]);
      for (const { kind } of end.provider.requests)
        expect(end.provider.landed(kind), `T5 ${kind}`).toBeLessThanOrEqual(1);
      await check(end);
    },
    ...(acts === undefined ? {} : { acts }),
  };
}

/** Approves whatever waits, and handles the messages that follow, until nothing waits. */
async function approveAll({ world, process, request }: Stage): Promise<void> {
  const { runtime } = process;
  for (let round = 0; round < 6; round += 1) {
    const query = { status: 'pending' as const, limit: 10, cursor: null };
    const { items } = await listApprovals(runtime, request.ref.tenant, query);
    for (const { id, digest } of items) {
      const answer = { decision: 'approve' as const, digest, note: null };
      await answerApproval(runtime, request.ref.tenant, id, answer, 'bob');
    }
    const messages = world.queues.inbox.take();
    if (items.length === 0 && messages.length === 0) return;
    const batch = messages.map(({ body }, index) => ({ id: `${index}`, body, receives: 1 }));
    await handleInboxBatch(runtime, batch, {});
  }
}

const names = ['a', 'b', 'c', 'd'] as const;

function saga(failing: number, waits: boolean): Scenario<Shop> {
  const name = names[failing] as string;
  const undone = names.slice(0, failing).toReversed();
  return scenario(
    `a saga whose step ${name} fails${waits ? ', each undo asks a person' : ''}`,
    { [name]: 'refused' },
    async (context, shop) => {
      for (const step of names) {
        await shop.step(context, step, undefined, async (undo) => {
          if (waits) await undo.approval({ action: { undo: step } });
          await undo.effect(shop.effect(`undo-${step}`));
        });
      }
    },
    ({ turn, provider }) => {
      expect(turn.status).toBe('failed');
      expect(provider.order('undo-')).toEqual(undone.map((step) => `undo-${step}`));
      for (const step of names) expect(provider.landed(step)).toBe(undone.includes(step) ? 1 : 0);
    },
    waits ? [approveAll] : undefined,
  );
}

for (const failing of names.keys()) {
  for (const waits of [false, true]) {
    const title = `crash explorer: ${saga(failing, waits).name}: what stood is undone once, newest first [T8 T6]`;
    test(`${title} (sqlite)`, async () => {
      const { runs, statuses } = await exploreCrashes(saga(failing, waits), () => memoryStore());
      expect(statuses).toEqual({ failed: runs });
      expect(runs).toBeGreaterThan(12);
    });
  }
}

const unheard: readonly FaultKind[] = ['doneButUnheard'];

onEachStore(
  'crash explorer: a saga that fails at its last step, each undo asking a person, on either store [T8 T10]',
  async (open) => {
    const { runs, statuses } = await exploreCrashes(saga(3, true), () => open(), unheard);
    expect(statuses).toEqual({ failed: runs });
  },
);

function stopped(during: number): Scenario<Shop> {
  const done = names.slice(0, during + 1);
  return scenario(
    `a stop asked for during ${names[during]}`,
    {},
    async (context, shop, world) => {
      for (const step of names) {
        const effect = shop.effect(step);
        const perform: typeof effect.perform = async (call) => {
          const answer = await effect.perform(call);
          if (step !== names[during] || shop.asked) return answer;
          shop.asked = true;
          await cancelTurn(world().start().runtime, ref, 'enough', 'olga');
          world().clock.advance(limits.stopLookMs + 1);
          return answer;
        };
        await shop.step(context, step, (inner) => inner.effect({ ...effect, perform }));
      }
    },
    (end) => {
      const { turn, provider, journal } = end;
      const undone = done.toReversed().map((step) => `undo-${step}`);
      if (provider.asked) {
        expect(turn.status).toBe('cancelled');
        expect(provider.order('undo-')).toEqual(undone);
        expect(journal.filter(({ kind }) => kind === 'RunCancelled')).toHaveLength(1);
      } else {
        // The process died with the call; the probe found it, so nobody was there to ask.
        expect(turn.status).toBe('succeeded');
        expect(end.fault?.name).toBe(`provider.${names[during]}`);
      }
    },
  );
}

for (const during of names.keys()) {
  onEachStore(
    `E194 crash explorer: ${stopped(during).name}: it finishes, then everything is undone, newest first [T8]`,
    async (open) => {
      const some = during === 1 ? undefined : unheard;
      const { statuses } = await exploreCrashes(stopped(during), () => open(), some);
      expect(statuses.cancelled ?? 0).toBeGreaterThan(9);
      expect(statuses.succeeded ?? 0).toBeLessThan(4);
    },
  );
}

const sibling = ['ok', 'refused', 'landed', 'doubt', 'waits'] as const;
type Sibling = (typeof sibling)[number];

function siblings(first: Sibling, second: Sibling): Scenario<Shop> {
  const ends: Record<string, Ending> = {};
  const of = { x: first, y: second };
  for (const [name, how] of Object.entries(of)) {
    if (how === 'refused' || how === 'landed' || how === 'doubt') ends[`${name}-end`] = how;
  }
  const failing = [first, second].filter((how) => how === 'refused' || how === 'landed').length;
  const status = [first, second].includes('doubt')
    ? 'quarantined'
    : failing > 0
      ? 'failed'
      : 'succeeded';
  // The failing step alone opens no unwind (SA-6); interrupted ones come back first, newest first (SA-9).
  const incomplete = (how: Sibling): boolean => how !== 'ok';
  const all = [...(['y', 'x'] as const)];
  const undone =
    status === 'failed' && failing === 1
      ? [
          ...all.filter((name) => incomplete(of[name])),
          ...all.filter((name) => !incomplete(of[name])),
        ]
      : [];
  return scenario(
    `siblings that end ${first} and ${second}`,
    ends,
    async (context, shop) => {
      const start = (name: 'x' | 'y') =>
        shop.step(context, name, async (step) => {
          await step.effect(shop.effect(name));
          if (of[name] === 'waits') await step.approval({ action: { for: name } });
          else await step.effect(shop.effect(`${name}-end`));
        });
      await Promise.all([start('x'), start('y')]);
    },
    ({ turn, provider, fault }) => {
      if (turn.status !== status) {
        // An answer that died with the process leaves the doubt its probe cannot clear.
        expect(turn.status).toBe('quarantined');
        expect([first, second]).toContain('landed');
        expect(fault).not.toBeNull();
      }
      const expected = turn.status === status ? undone.map((name) => `undo-${name}`) : [];
      expect(provider.order('undo-')).toEqual(expected);
    },
    [approveAll],
  );
}

for (const first of sibling) {
  test(`CC-1 CC-2 crash explorer: siblings, one ${first}, the other in every ending: the most severe counts, what stood is undone [T8] (sqlite)`, async () => {
    for (const second of sibling) {
      const { runs } = await exploreCrashes(siblings(first, second), () => memoryStore());
      expect(runs).toBeGreaterThan(12);
    }
  });
}

onEachStore(
  'CC-2 crash explorer: a sibling that waits beside one that fails, on either store [T8]',
  async (open) => {
    await exploreCrashes(siblings('waits', 'refused'), () => open(), unheard);
  },
);

const members = ['r1', 'look', 'r2', 'row', 'd1', 'd2'] as const;
type GroupEnd = (typeof members)[number] | 'none' | 'invariant' | 'body';

const classOf = (effect: string) => {
  if (effect.startsWith('undo-')) return { reverses: effect.slice('undo-'.length) };
  if (effect === 'look') return 'read' as const;
  if (effect === 'row') return 'atomic' as const;
  return effect.startsWith('d') ? ('deferred' as const) : ('reversible' as const);
};

/** What a group with every class of member comes to when this place ends so (01, section 7, the table). */
function groupStatus(at: GroupEnd, how: Ending): 'succeeded' | 'failed' | 'quarantined' {
  if (at === 'none') return 'succeeded';
  if (at === 'd1' || at === 'd2') return 'quarantined';
  if (at === 'look' || at === 'row' || at === 'invariant' || at === 'body') return 'failed';
  return how === 'refused' ? 'failed' : 'quarantined';
}

function group(at: GroupEnd, how: Ending, lending: () => Lending): Scenario<Shop> {
  const expected = groupStatus(at, how);
  return scenario(
    `a group that ends ${at === 'none' ? 'well' : `with ${at} ${how}`}`,
    at === 'none' || at === 'invariant' || at === 'body' || at === 'row' ? {} : { [at]: how },
    async (context, shop) => {
      await shop.step(context, 'before');
      await context.step('checkout', {}, async (step) => {
        const open = step.openGroup('order', ['stock', 'ledger']);
        const hold = (kind: string) =>
          open.reversible(shop.effect(kind), 'stock', () => shop.effect(`undo-${kind}`));
        await hold('r1');
        await open.read(shop.effect('look', { mutates: false, recovery: 'retry' }), 'stock');
        await hold('r2');
        const entries = at === 'row' ? lending().refused() : lending().post('row', 5);
        open.atomic({ kind: 'row', args: { id: 'row' }, entries }, 'ledger');
        open.deferred(shop.effect('d1'), 'stock');
        open.deferred(shop.effect('d2'), 'stock');
        if (at === 'body') throw new Error('the body broke');
        return open.commit([{ name: 'sums', holds: at !== 'invariant' }]);
      });
    },
    async ({ turn, provider, journal, fault }) => {
      expect(brokenGroupRules(journal, classOf)).toEqual([]);
      if (turn.status !== expected) {
        // What a dead process heard of a landed answer is lost with it: a doubt its probe cannot clear.
        expect([turn.status, how, fault === null]).toEqual(['quarantined', 'landed', false]);
      }
      const rows = await lending().rows();
      if (turn.status === 'succeeded') {
        expect(rows).toEqual(['row:5']);
        expect(provider.order('d')).toEqual(['d1', 'd2']);
        expect(provider.order('undo-')).toEqual([]);
      }
      if (turn.status === 'quarantined') expect(provider.order('undo-')).toEqual([]);
      if (turn.status === 'failed') {
        expect(rows).toEqual([]);
        expect(provider.order('d')).toEqual([]);
        const held = provider.order('r').toReversed();
        const undone = [...held, 'before'].map((kind) => `undo-${kind}`);
        // The read fails as something that did not externalise: the step before is undone all the same.
        expect(provider.order('undo-')).toEqual(undone);
      }
    },
  );
}

async function exploreGroup(
  at: GroupEnd,
  how: Ending,
  openLending: () => Promise<Lending>,
  kinds?: readonly FaultKind[],
): Promise<void> {
  let lending: Lending | null = null;
  const current = (): Lending => {
    if (lending === null) throw new Error('no store is open');
    return lending;
  };
  const open = async () => {
    lending = await openLending();
    return lending.store;
  };
  const { runs } = await exploreCrashes(group(at, how, current), open, kinds);
  expect(runs).toBeGreaterThan(8);
}

const places: readonly (readonly [GroupEnd, readonly Ending[]])[] = [
  ['none', ['refused']],
  ['r1', ['refused', 'doubt', 'landed']],
  ['look', ['refused', 'doubt']],
  ['r2', ['refused', 'doubt', 'landed']],
  ['invariant', ['refused']],
  ['body', ['refused']],
  ['row', ['refused']],
  ['d1', ['refused', 'doubt', 'landed']],
  ['d2', ['refused', 'doubt', 'landed']],
];
/** The longest ways through a group also run on DynamoDB, one kind of fault. */
const onBoth: ReadonlySet<GroupEnd> = new Set(['none', 'r2', 'd2']);

for (const [at, hows] of places) {
  onEachLender(
    `crash explorer: a group with all classes of members, ${at === 'none' ? 'nothing fails' : `${at} fails`}: nothing, everything, or a named doubt [T9 T8]`,
    async (open) => {
      const probe = await open();
      const wire = probe.store.lender === 'dynamodb';
      await probe.store.close();
      if (wire) {
        const [how = 'refused'] = hows;
        if (onBoth.has(at)) await exploreGroup(at, how, open, unheard);
        else await exploreGroup(at, how, open, ['lostBefore']);
        return;
      }
      for (const how of hows) await exploreGroup(at, how, open);
    },
  );
}
