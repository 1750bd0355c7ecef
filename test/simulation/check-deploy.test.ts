// The check before a deployment: what it says of a build is what that build then does (deploy part of field.md).
import { expect } from 'vitest';
import type { DeployOutcome } from '../../src/operator/check-deploy.ts';
import { checkDeploy } from '../../src/operator/check-deploy.ts';
import { deployLines, painter } from '../../src/operator/render.ts';
import type { TurnStore } from '../../src/ports/store.ts';
import type { AgentDefinition, AgentOptions } from '../../src/runtime/agent-definition.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const reads = new Set<PropertyKey>([
  'archived',
  'attention',
  'begin',
  'due',
  'dueWork',
  'getParts',
  'intent',
  'journal',
  'key',
  'owedIntents',
  'scopeOf',
  'snapshot',
  'thread',
  'threads',
]);

/** The store with every verb but reads refused. */
function readOnly(store: TurnStore): TurnStore {
  return new Proxy(store, {
    get: (target, name) => {
      if (!reads.has(name)) throw new Error(`a check may not call ${String(name)}`);
      const verb: unknown = Reflect.get(target, name);
      return typeof verb === 'function' ? verb.bind(target) : verb;
    },
  });
}

const report = (scene: Scene) => {
  const { runtime } = scene.world.start();
  return checkDeploy({ ...runtime, store: readOnly(runtime.store) });
};

const outside = new Outside();
const acts = { mail: () => ({ recovery: 'idempotent' as const, perform: async () => 'sent' }) };

/** One effect, one act, then a person; a thread at rest besides. */
const run =
  (kind = 'charge', ending: 'done' | 'throws' = 'done') =>
  async (context: TurnContext): Promise<unknown> => {
    context.state.add('n', 1);
    if (context.turn === 'rest') return 'rest';
    await context.step('pay', {}, (step) =>
      step.effect(outside.effect({ kind, recovery: 'idempotent' })),
    );
    if (ending === 'throws') throw new TypeError('x is not a function');
    await context.act({ kind: 'mail', args: { to: 'ann' }, expiresInMs: 86_400_000 });
    const said = await context.approval({ action: 'go' });
    await context.effect(outside.effect({ kind: 'ship', recovery: 'idempotent' }));
    return said.decision;
  };

async function scene(open: () => Promise<TurnStore>, options: Partial<AgentOptions> = {}) {
  const made = new Scene(await open(), agentOf(run(), { acts, ...options }));
  await made.conclude('rest');
  await made.suspend('t1');
  return made;
}

async function approve(made: Scene): Promise<void> {
  const { runtime } = made.world.start();
  const { tenant } = made.ref();
  const page = { status: 'pending', limit: 10, cursor: null } as const;
  const [item] = (await listApprovals(runtime, tenant, page)).items;
  const answer = { decision: 'approve', digest: item?.digest ?? '', note: null } as const;
  await answerApproval(runtime, tenant, item?.id ?? '', answer, 'bob');
}

interface Build {
  readonly what: string;
  readonly agent: AgentDefinition;
  readonly first?: Partial<AgentOptions>;
  readonly thread: DeployOutcome;
  readonly turn: DeployOutcome;
  readonly act: DeployOutcome;
  readonly code?: string;
  /** What the turn comes to when this build is deployed and the approval is answered. */
  readonly status: string;
}

const renamed = { 1: ({ n }: Readonly<Record<string, unknown>>) => ({ n, total: n }) };
const broken = {
  1: (): Record<string, unknown> => {
    throw new Error('no such field');
  },
};
const plain = agentOf(run(), { acts });
const fine = { thread: 'goes_on', turn: 'goes_on', act: 'goes_on', status: 'succeeded' } as const;
const builds: readonly Build[] = [
  { ...fine, what: 'the same', agent: plain },
  {
    ...fine,
    what: 'other words',
    agent: agentOf(run(), { acts, presentation: 'kind' }),
    code: 'presentation_changed',
  },
  {
    ...fine,
    what: 'a later revision',
    agent: agentOf(run(), { acts, schema: 2, migrations: renamed }),
    thread: 'migrates',
    code: 'schema_older',
  },
  {
    ...fine,
    what: 'an earlier revision',
    first: { schema: 2, migrations: renamed },
    agent: plain,
    thread: 'held',
    turn: 'held',
    code: 'schema_from_future',
    status: 'suspended',
  },
  {
    ...fine,
    what: 'another authority',
    agent: agentOf(run(), { acts, authority: 'more' }),
    thread: 'refused',
    turn: 'refused',
    code: 'fingerprint_mismatch',
    status: 'quarantined',
  },
  {
    ...fine,
    what: 'another authority that accepts the first',
    agent: agentOf(run(), { acts, authority: 'more', accepts: [plain.authority] }),
  },
  {
    ...fine,
    what: 'another call',
    agent: agentOf(run('invoice'), { acts }),
    turn: 'diverges',
    code: 'divergence',
    status: 'quarantined',
  },
  {
    ...fine,
    what: 'code that throws',
    agent: agentOf(run('charge', 'throws'), { acts }),
    turn: 'diverges',
    code: 'divergence',
    status: 'quarantined',
  },
  {
    ...fine,
    what: 'an act less',
    agent: agentOf(run(), {}),
    turn: 'diverges',
    act: 'refused',
    code: 'unknown_act',
    status: 'quarantined',
  },
  {
    ...fine,
    what: 'no such agent',
    agent: agentOf(run(), { acts, name: 'other' }),
    thread: 'refused',
    turn: 'held',
    act: 'held',
    code: 'agent_unknown',
    status: 'suspended',
  },
];

onEachStore(
  'F29 K-63 what the check says of a build is what the build then does; it only reads [T7]',
  async (open) => {
    for (const build of builds) {
      const made = await scene(open, build.first);
      const before = outside.requests;
      made.deploy(build.agent);
      const said = await report(made);
      expect(outside.requests, build.what).toBe(before);
      const of = (what: string) =>
        said.findings.find((finding) => finding.what === what)?.outcome ?? 'goes_on';
      expect([of('thread'), of('turn'), of('act')], build.what).toEqual([
        build.thread,
        build.turn,
        build.act,
      ]);
      expect(said.checked, build.what).toEqual({ threads: 1, turns: 1, acts: 1 });
      const codes = said.findings.map(({ code }) => code);
      if (build.code === undefined) expect(codes, build.what).toEqual([]);
      else expect(codes, build.what).toContain(build.code);
      await approve(made);
      await made.inbox();
      expect(await made.view('t1'), build.what).toMatchObject({ status: build.status });
    }
  },
);

onEachStore(
  'F29 a divergence names the record, its place, what was recorded and what the build asks for [T13]',
  async (open) => {
    const made = await scene(open);
    made.deploy(agentOf(run('invoice'), { acts }));
    const said = await report(made);
    const [line, figures] = deployLines(said, painter(false));
    expect(line).toMatch(
      /^diverges +turn order-7\/t1 \(suspended\): divergence: record \d+, .*step "?pay.*recorded "charge", this build asks for "invoice" \(kind\)$/,
    );
    expect(figures).toBe(
      '1 threads, 1 open turns, 1 acts: 2 goes_on, 0 migrates, 0 held, 0 refused, 1 diverges, 0 fails, 0 unreadable',
    );
  },
);

onEachStore(
  'a migration that throws on the state of a thread is found before the deployment [T1]',
  async (open) => {
    const made = await scene(open);
    made.deploy(agentOf(run(), { acts, schema: 2, migrations: broken }));
    expect((await report(made)).findings).toMatchObject([
      { what: 'thread', outcome: 'refused', code: 'migration_failed', detail: 'no such field' },
      { what: 'turn' },
    ]);
  },
);

onEachStore(
  'a turn whose process died is checked like one that waits; one that concluded is not [T7]',
  async (open) => {
    const build = (kind: string, throws = false) =>
      agentOf(async (context) => {
        if (context.turn === 'rest') return 'rest';
        await context.effect(outside.effect({ kind }));
        if (throws) throw new TypeError('x is not a function');
        return (await context.approval({ action: 1 })).decision;
      });
    const made = new Scene(await open(), build('charge'));
    await made.conclude('rest');
    let open1 = '';
    for (let call = 3; open1 === '' && call < 12; call += 1) {
      made.restart({ call, kind: call % 2 === 0 ? 'lostBefore' : 'doneButUnheard' });
      await made.deliver(`t${call}`);
      if ((await made.kinds(`t${call}`)).at(-1) === 'ED') open1 = `t${call}`;
      else await made.world.recover();
    }
    expect(open1).not.toBe('');
    const said: unknown[] = [];
    for (const agent of [build('charge'), build('invoice'), build('charge', true)]) {
      made.deploy(agent);
      const { findings } = await report(made);
      const own = findings.find(({ turn }) => turn === open1);
      said.push([own?.status, own?.outcome, own?.code]);
    }
    expect(said).toEqual([
      [undefined, undefined, undefined],
      ['running', 'diverges', 'divergence'],
      ['running', 'fails', 'agent_failed'],
    ]);
  },
);
