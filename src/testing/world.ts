// A world for one scenario: store, vault, queues and a hand-turned clock that outlive processes.
//
// Owns: starting and killing processes over it, turning the clock when everybody waits, recovering.

import type { Policy } from '../ports/policy.ts';
import type { TurnStore } from '../ports/store.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { Vault } from '../ports/vault.ts';
import type { AgentDefinition } from '../runtime/agent-definition.ts';
import { handleInboxBatch } from '../runtime/drive.ts';
import { handleIntentBatch } from '../runtime/effector.ts';
import type { RuntimeSettings } from '../runtime/runtime.ts';
import { sweep } from '../runtime/sweep.ts';
import type { HeldQueues } from './held-queue.ts';
import { heldQueues } from './held-queue.ts';
import { MemoryVault } from './memory-vault.ts';
import type { Fault } from './process.ts';
import { Process } from './process.ts';
import { TurnedClock } from './turned-clock.ts';

export interface WorldOptions {
  readonly store: TurnStore;
  readonly agents: readonly AgentDefinition[];
  readonly settings?: Partial<RuntimeSettings>;
  readonly clock?: TurnedClock;
  readonly vault?: Vault;
}

export const testSettings: RuntimeSettings = {
  leaseMs: 10_000,
  turnTimeoutMs: 60_000,
  reserveMs: 1_000,
  renew: true,
};

/** Turns of the event loop without a port call after which everybody waits: longer than any replay from memory. */
const idleTurns = 200;

export class World {
  readonly store: TurnStore;
  readonly clock: TurnedClock;
  readonly vault: Vault;
  readonly queues: HeldQueues = heldQueues();
  readonly settings: RuntimeSettings;
  /** Policies of processes started from now on. */
  policy: Policy | null = null;
  /** What processes started from now on tell. */
  telemetry: Telemetry | null = null;
  #agents: ReadonlyMap<string, AgentDefinition>;
  readonly #processes: Process[] = [];

  constructor(options: WorldOptions) {
    this.store = options.store;
    this.clock = options.clock ?? new TurnedClock();
    this.vault = options.vault ?? new MemoryVault();
    this.settings = { ...testSettings, ...options.settings };
    this.#agents = byName(options.agents);
  }

  /** Replaces the agents of processes started from now on, as a deployment does. */
  deploy(agents: readonly AgentDefinition[]): void {
    this.#agents = byName(agents);
  }

  /** A new process over this world; `fault` hits one of its calls. */
  start(fault: Fault | null = null): Process {
    const { store, vault, queues, clock, settings } = this;
    const policy = this.policy === null ? {} : { policy: this.policy };
    const telemetry = this.telemetry === null ? {} : { telemetry: this.telemetry };
    const parts = {
      store,
      vault,
      queues,
      clock,
      agents: this.#agents,
      settings,
      ...policy,
      ...telemetry,
    };
    const process = new Process(parts, `process-${this.#processes.length + 1}`, fault);
    this.#processes.push(process);
    return process;
  }

  /**
   * Waits for `work`, turning the clock to the next timer whenever nothing else moves.
   * Answers 'died' when the process died first.
   */
  async settle<T>(process: Process, work: Promise<T>): Promise<T | 'died'> {
    let open = true;
    const ended = Promise.race([work, process.died]).finally(() => {
      open = false;
    });
    ended.catch(() => undefined);
    let idle = 0;
    let seen = -1;
    while (open) {
      await new Promise(setImmediate);
      const calls = this.#calls();
      idle = this.#busy() || calls !== seen ? 0 : idle + 1;
      seen = calls;
      if (idle < idleTurns || !open) continue;
      idle = 0;
      const next = this.clock.untilNext();
      if (next !== null) this.clock.advance(next);
    }
    return ended;
  }

  /** Port calls of all processes so far: while it grows, something moves. */
  #calls(): number {
    return this.#processes.reduce((sum, process) => sum + process.calls, 0);
  }

  /** Whether any process that lives waits for a port. */
  #busy(): boolean {
    return this.#processes.some((process) => !process.dead && process.inFlight > 0);
  }

  /** Lets leases lapse, sweeps and handles the inbox with fresh processes until no work is left. */
  async recover(rounds = 12): Promise<void> {
    for (let round = 0; round < rounds; round += 1) {
      this.clock.advance(this.settings.leaseMs + 1_000);
      const process = this.start();
      const report = await this.settle(process, sweep(process.runtime));
      const messages = this.queues.inbox.take();
      if (messages.length > 0) {
        const batch = messages.map((message, index) => ({
          id: `${index}`,
          body: message.body,
          receives: 1,
        }));
        await this.settle(process, handleInboxBatch(process.runtime, batch, {}));
      }
      const intents = this.queues.intents.take();
      if (intents.length > 0) {
        const batch = intents.map(({ body }, index) => ({ id: `${index}`, body, receives: 1 }));
        await this.settle(process, handleIntentBatch(process.runtime, batch, {}));
      }
      const quiet = messages.length === 0 && intents.length === 0;
      if (report !== 'died' && report.rows === 0 && quiet) return;
      this.queues.inbox.forgetIds();
      this.queues.intents.forgetIds();
    }
    throw new Error('the world did not come to rest');
  }
}

function byName(agents: readonly AgentDefinition[]): ReadonlyMap<string, AgentDefinition> {
  return new Map(agents.map((agent) => [agent.name, agent]));
}
