// The crash explorer: every store, queue and provider call of a scenario is, in turn, lost before,
// done but unheard, delivered twice, and followed by the death of the process. Then the world recovers
// and the promises are checked from stored state and the provider's ledger alone.
//   T1 T2 T4 T5 T6 T7

import type { TurnRef, TurnStore } from '../ports/store.ts';
import { genesisHash, verifyChain } from '../protocol/chain.ts';
import type { RecordBody } from '../protocol/record.ts';
import { decodeBody } from '../protocol/record-codec.ts';
import type { TurnStatus } from '../protocol/turn-status.ts';
import type { AgentDefinition } from '../runtime/agent-definition.ts';
import type { RuntimeSettings } from '../runtime/runtime.ts';
import type { TurnRequest } from '../runtime/turn-request.ts';
import type { TurnView } from '../runtime/turn-view.ts';
import { verifyTurn } from '../runtime/verify-turn.ts';
import { withTurn } from '../runtime/with-turn.ts';
import type { Fault, FaultKind, Process } from './process.ts';
import { World } from './world.ts';

/** What an act of a scenario may use. */
export interface Stage {
  readonly world: World;
  readonly process: Process;
  readonly request: TurnRequest;
}

/** A scenario: agents whose effects call the provider through `current()`, and one turn. */
export interface Scenario<P> {
  readonly name: string;
  readonly provider: () => P;
  readonly agents: (
    provider: P,
    current: () => Process,
    world: () => World,
  ) => readonly AgentDefinition[];
  readonly request: (agents: readonly AgentDefinition[]) => TurnRequest;
  /** Settings that differ from the world's own. Default none. */
  readonly settings?: Partial<RuntimeSettings>;
  /**
   * What the process is asked to do after the delivery, one act after another: answers, stops, messages. The
   * process of the fault does them until it dies; after the recovery a healthy one does all of them again, so an
   * act must bear repetition. Default none.
   */
  readonly acts?: readonly ((stage: Stage) => Promise<unknown>)[];
  /** What must hold of the ended turn and the provider, whatever died. */
  readonly check: (end: ExploredEnd<P>) => void | Promise<void>;
}

export interface ExploredEnd<P> {
  readonly provider: P;
  readonly turn: TurnView;
  readonly journal: readonly RecordBody[];
  readonly store: TurnStore;
  /** The call the fault hit and how, or null in the run without a fault. */
  readonly fault: { readonly call: number; readonly kind: FaultKind; readonly name: string } | null;
}

export interface Explored {
  readonly runs: number;
  readonly statuses: Readonly<Partial<Record<TurnStatus, number>>>;
}

export const faultKinds: readonly FaultKind[] = ['lostBefore', 'doneButUnheard', 'deliveredTwice'];

/** Explores a scenario; throws at the first broken promise, naming the fault. */
export async function exploreCrashes<P>(
  scenario: Scenario<P>,
  openStore: () => Promise<TurnStore> | TurnStore,
  kinds: readonly FaultKind[] = faultKinds,
): Promise<Explored> {
  const statuses: Partial<Record<TurnStatus, number>> = {};
  let runs = 0;
  for (const kind of kinds) {
    for (let call = 1; ; call += 1) {
      const end = await exploreOne(scenario, openStore, { call, kind });
      runs += 1;
      statuses[end.turn.status] = (statuses[end.turn.status] ?? 0) + 1;
      if (end.fault === null) break;
    }
  }
  return { runs, statuses };
}

async function exploreOne<P>(
  scenario: Scenario<P>,
  openStore: () => Promise<TurnStore> | TurnStore,
  fault: Fault,
): Promise<ExploredEnd<P>> {
  const provider = scenario.provider();
  const store = await openStore();
  const holder: { process: Process | null; world: World | null } = { process: null, world: null };
  const agents = scenario.agents(
    provider,
    () => running(holder.process),
    () => running(holder.world),
  );
  const world = new (class extends World {
    override start(hit: Fault | null = null): Process {
      const process = super.start(hit);
      holder.process = process;
      return process;
    }
  })({ store, agents, settings: scenario.settings ?? {} });
  holder.world = world;
  const request = scenario.request(agents);
  const first = world.start(fault);
  await perform(world, request, first, scenario.acts ?? []);
  first.kill();
  await world.recover();
  if (scenario.acts !== undefined) {
    await perform(world, request, world.start(), scenario.acts);
    await world.recover();
  }
  const end = await redeliver(world, request, provider, first, fault);
  try {
    await checkPromises(world, request.ref, end);
    await scenario.check(end);
  } catch (error) {
    const where =
      end.fault === null
        ? 'without a fault'
        : `${fault.kind} at call ${fault.call} (${first.fired})`;
    throw new Error(
      `${scenario.name}, ${where}: ${error instanceof Error ? error.message : String(error)}`,
      {
        cause: error,
      },
    );
  } finally {
    await store.close();
  }
  return end;
}

function running<T>(part: T | null): T {
  if (part === null) throw new Error('no process runs');
  return part;
}

/** Delivers the turn and does the acts, as far as the process lives. */
async function perform(
  world: World,
  request: TurnRequest,
  process: Process,
  acts: readonly ((stage: Stage) => Promise<unknown>)[],
): Promise<void> {
  const deliver = ({ process: by }: Stage) => withTurn(by.runtime, request);
  for (const act of [deliver, ...acts]) {
    const done = await world.settle(process, act({ world, process, request }));
    if (done === 'died' || process.dead) return;
  }
}

async function redeliver<P>(
  world: World,
  request: TurnRequest,
  provider: P,
  first: Process,
  fault: Fault,
): Promise<ExploredEnd<P>> {
  const process = world.start();
  const answer = await world.settle(process, withTurn(process.runtime, request));
  if (answer === 'died' || answer.kind !== 'concluded') {
    throw new Error(`the turn did not conclude: ${answer === 'died' ? answer : answer.kind}`);
  }
  await world.recover();
  const again = world.start();
  const replay = await world.settle(again, withTurn(again.runtime, request));
  if (replay === 'died' || replay.kind !== 'concluded' || !replay.replayed) {
    throw new Error('T2: a redelivery of a concluded turn was not a replay');
  }
  if (again.names.some((name) => name.startsWith('provider.')))
    throw new Error('T2: a replay called the provider');
  const hit =
    first.fired === null ? null : { call: fault.call, kind: fault.kind, name: first.fired };
  const { store } = world;
  return {
    provider,
    store,
    turn: replay.turn,
    journal: await bodies(world, request.ref),
    fault: hit,
  };
}

async function bodies(world: World, ref: TurnRef): Promise<readonly RecordBody[]> {
  const positions = await world.store.journal(ref);
  return positions.flatMap((position) => position.records.map((record) => decodeBody(record.body)));
}

async function checkPromises<P>(world: World, ref: TurnRef, end: ExploredEnd<P>): Promise<void> {
  const positions = await world.store.journal(ref);
  const stored = positions.flatMap((position) => position.records);
  let prevHash = genesisHash;
  const links = stored.map((record, index) => {
    const link = { ...record, seq: index + 1, prevHash };
    prevHash = record.hash;
    return link;
  });
  demand(verifyChain(links).ok, 'T13: the chain verifies');
  demand(
    positions.every((position, index) => position.index === index),
    'T4: positions have no gap',
  );
  const epochs = positions.map((position) => position.epoch);
  demand(
    epochs.every((epoch, index) => index === 0 || epoch >= (epochs[index - 1] ?? 0)),
    'T4: epochs never regress',
  );
  const announced = end.journal.flatMap((body) =>
    body.kind === 'EffectStarted' ? [body.key] : [],
  );
  demand(new Set(announced).size === announced.length, 'T5: no effect key is announced twice');
  const conclusions = end.journal.filter((body) => body.kind === 'RunConcluded');
  demand(conclusions.length === 1, `T2: exactly one conclusion, got ${conclusions.length}`);
  const head = await world.store.head(ref);
  const succeeded = end.turn.status === 'succeeded';
  demand((head?.revision ?? 0) === (succeeded ? 1 : 0), 'T1: the revision counts successes');
  demand(head?.open == null, 'T3: a concluded turn holds no thread');
  const committed = new Set(
    world.queues.events.accepted.flatMap(({ body, dedupId }) =>
      body.includes('"turn.committed"') ? [dedupId] : [],
    ),
  );
  demand(
    committed.size === (succeeded ? 1 : 0),
    'T1: one committed event for a success, none otherwise',
  );
  demand((await world.store.workOf(ref)).length === 0, 'T1: no work is left behind');
  const strict = await verifyTurn(world.start().runtime, ref);
  demand(strict?.verdict !== 'diverged', `T7: a strict pass agrees, got ${JSON.stringify(strict)}`);
}

function demand(holds: boolean, promise: string): void {
  if (!holds) throw new Error(promise);
}
