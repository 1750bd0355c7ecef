// A scene: one agent, one world, and the few verbs most tests need.

import type { TurnRef, TurnStore } from '../../src/ports/store.ts';
import { tenantId, threadId, turnId } from '../../src/protocol/ids.ts';
import type { RecordBody } from '../../src/protocol/record.ts';
import type { AgentDefinition, AgentOptions } from '../../src/runtime/agent-definition.ts';
import { defineTurnAgent } from '../../src/runtime/agent-definition.ts';
import { handleInboxBatch } from '../../src/runtime/drive.ts';
import { readJournal, readTurn } from '../../src/runtime/read-turn.ts';
import type { RuntimeSettings } from '../../src/runtime/runtime.ts';
import { sweep } from '../../src/runtime/sweep.ts';
import type { Effect, TurnContext } from '../../src/runtime/turn-context.ts';
import type { HostBounds, TurnRequest } from '../../src/runtime/turn-request.ts';
import type { TurnAnswer, TurnView } from '../../src/runtime/turn-view.ts';
import { verifyTurn } from '../../src/runtime/verify-turn.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import type { Fault, Process } from '../../src/testing/process.ts';
import type { WorldOptions } from '../../src/testing/world.ts';
import { World } from '../../src/testing/world.ts';

export type Run = (context: TurnContext, input: unknown) => Promise<unknown>;

export function agentOf(run: Run, options: Partial<AgentOptions> = {}): AgentDefinition {
  return defineTurnAgent({ name: 'shop', ...options, run });
}

export class Scene {
  readonly world: World;
  agent: AgentDefinition;
  process: Process;

  constructor(
    store: TurnStore,
    agent: AgentDefinition,
    settings: Partial<RuntimeSettings> = {},
    parts: Pick<WorldOptions, 'vault' | 'clock'> = {},
  ) {
    this.world = new World({ store, agents: [agent], settings, ...parts });
    this.agent = agent;
    this.process = this.world.start();
  }

  ref(turn = 't1', thread = 'order-7'): TurnRef {
    return {
      tenant: tenantId('tenant', 'acme'),
      thread: threadId('thread', thread),
      turn: turnId('turn', turn),
    };
  }

  request(turn = 't1', changes: Partial<TurnRequest> = {}): TurnRequest {
    const ref = this.ref(turn);
    return {
      ref,
      agent: this.agent,
      input: { order: 7 },
      subject: null,
      budget: null,
      actor: 'ann',
      ...changes,
    };
  }

  /** Replaces the agent, as a new build does, and starts a process of it. */
  deploy(agent: AgentDefinition): void {
    this.agent = agent;
    this.world.deploy([agent]);
    this.restart();
  }

  restart(fault: Fault | null = null): Process {
    this.process = this.world.start(fault);
    return this.process;
  }

  deliver(turn = 't1', changes: Partial<TurnRequest> = {}): Promise<TurnAnswer | 'died'> {
    return this.world.settle(
      this.process,
      withTurn(this.process.runtime, this.request(turn, changes)),
    );
  }

  /** Delivers and insists on a conclusion. */
  async conclude(
    turn = 't1',
    changes: Partial<TurnRequest> = {},
  ): Promise<TurnView & { replayed: boolean }> {
    const answer = await this.deliver(turn, changes);
    if (answer === 'died' || answer.kind !== 'concluded') {
      throw new Error(`expected a conclusion, got ${answer === 'died' ? answer : answer.kind}`);
    }
    return { ...answer.turn, replayed: answer.replayed };
  }

  /** The turn as a caller reads it. */
  async view(turn = 't1'): Promise<TurnView> {
    const view = await readTurn(this.world.start().runtime, this.ref(turn));
    if (view === null) throw new Error(`turn ${turn} is not known`);
    return view;
  }

  /** Delivers and insists that the turn rests. */
  async suspend(turn = 't1', changes: Partial<TurnRequest> = {}): Promise<TurnView> {
    const answer = await this.deliver(turn, changes);
    if (answer === 'died' || answer.kind !== 'pending' || answer.turn.status !== 'suspended') {
      throw new Error(`expected a suspension, got ${JSON.stringify(answer)}`);
    }
    return answer.turn;
  }

  /** Handles what waits in the inbox, without turning the clock past a lease; `bounds` is asked per batch. */
  async inbox(bounds: () => HostBounds = () => ({})): Promise<void> {
    for (let round = 0; round < 20; round += 1) {
      const messages = this.world.queues.inbox.take();
      if (messages.length === 0) return;
      const batch = messages.map(({ body }, index) => ({ id: `${index}`, body, receives: 1 }));
      const process = this.world.start();
      await this.world.settle(process, handleInboxBatch(process.runtime, batch, bounds()));
    }
    throw new Error('the inbox does not empty');
  }

  /** Turns the clock, then sweeps and handles the inbox. */
  async passTime(ms: number, bounds?: () => HostBounds): Promise<void> {
    this.world.clock.advance(ms);
    this.world.queues.inbox.forgetIds();
    const process = this.world.start();
    await this.world.settle(process, sweep(process.runtime));
    await this.inbox(bounds);
  }

  async strict(turn = 't1'): Promise<unknown> {
    const { runtime } = this.world.start();
    return verifyTurn(runtime, this.ref(turn));
  }

  async journal(turn = 't1'): Promise<readonly RecordBody[]> {
    const page = await readJournal(this.world.start().runtime, this.ref(turn), {
      after: 0,
      limit: 10_000,
    });
    if (page === null) return [];
    if (page.verified !== true)
      throw new Error(`the chain does not verify: ${JSON.stringify(page.verified)}`);
    return page.records.map((record) => record.body);
  }

  /** Kinds of the journal in order, announcements with their attempt. */
  async kinds(turn = 't1'): Promise<readonly string[]> {
    return (await this.journal(turn)).map((body) => {
      if (body.kind === 'EffectStarted') return `ES(a${body.attempt})`;
      if (body.kind === 'EffectFailed') return `EF(${body.disposition})`;
      if (body.kind === 'EffectReconciled') return `ER(${body.disposition})`;
      if (body.kind === 'EffectDone') return 'ED';
      if (body.kind === 'RunConcluded') return `RC(${body.outcome})`;
      if (body.kind === 'StepCompensated') return `SC(${body.step},${body.outcome})`;
      if (body.kind === 'GroupSettled') return `GS(${body.outcome})`;
      return body.kind;
    });
  }
}

/** Counts what the outside world saw. */
export class Outside {
  requests = 0;
  readonly keys: string[] = [];

  /** An effect whose every call is one request. */
  effect(
    options: Partial<Effect<unknown>> & { kind?: string; args?: unknown } = {},
  ): Effect<unknown> {
    return {
      kind: 'charge',
      args: { amount: 10 },
      perform: async (call) => {
        this.requests += 1;
        this.keys.push(call.idempotencyKey);
        return { id: this.requests };
      },
      ...options,
    };
  }
}
