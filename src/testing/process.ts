// A process that can die between any two port calls: a Runtime whose ports are counted, faulted and cut.
//
// Owns: numbering every store, queue and provider call; losing it before, doing it unheard, or doing
// it twice; and death, after which nothing of the process is heard of again.

import type { Clock } from '../ports/clock.ts';
import type { Policy } from '../ports/policy.ts';
import type { Queue, Queues } from '../ports/queue.ts';
import type { TurnStore } from '../ports/store.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { Vault } from '../ports/vault.ts';
import type { EpochMs } from '../protocol/ids.ts';
import type { AgentDefinition } from '../runtime/agent-definition.ts';
import { never } from '../runtime/never.ts';
import type { Runtime, RuntimeSettings } from '../runtime/runtime.ts';

/** What happens at one numbered call; the process dies there (except `deliveredTwice` with `lives`). */
export type FaultKind = 'lostBefore' | 'doneButUnheard' | 'deliveredTwice';

export interface Fault {
  /** 1-based number of the call that is hit. */
  readonly call: number;
  readonly kind: FaultKind;
  /** Whether the process dies at that call. Default true. */
  readonly dies?: boolean;
}

export interface WorldParts {
  readonly store: TurnStore;
  readonly vault: Vault;
  readonly queues: Queues;
  readonly clock: Clock;
  readonly agents: ReadonlyMap<string, AgentDefinition>;
  readonly settings: RuntimeSettings;
  readonly policy?: Policy;
  readonly telemetry?: Telemetry;
}

export class Process {
  readonly runtime: Runtime;
  readonly #fault: Fault | null;
  #calls = 0;
  #inFlight = 0;
  #dead = false;
  #fired: string | null = null;
  readonly names: string[] = [];
  readonly #died: Promise<'died'>;
  #signalDeath: () => void = () => undefined;

  constructor(parts: WorldParts, owner: string, fault: Fault | null = null) {
    this.#fault = fault;
    this.#died = new Promise((resolve) => {
      this.#signalDeath = () => resolve('died');
    });
    let entropy = 0;
    this.runtime = {
      store: this.#wrap('store', parts.store),
      vault: parts.vault,
      queues: {
        inbox: this.#wrap<Queue>('inbox', parts.queues.inbox),
        events: this.#wrap<Queue>('events', parts.queues.events),
        intents: this.#wrap<Queue>('intents', parts.queues.intents),
        errors: this.#wrap<Queue>('errors', parts.queues.errors),
      },
      clock: this.#mortalClock(parts.clock),
      entropy: {
        bytes: (count) => {
          entropy += 1;
          return seeded(`${owner}:${entropy}`, count);
        },
      },
      telemetry: parts.telemetry ?? { emit: () => undefined },
      agents: parts.agents,
      owner,
      settings: parts.settings,
      ...(parts.policy === undefined ? {} : { policy: parts.policy }),
      later: (work) => work(),
    };
  }

  get dead(): boolean {
    return this.#dead;
  }

  get died(): Promise<'died'> {
    return this.#died;
  }

  /** Name of the call the fault hit, or null when it was never reached. */
  get fired(): string | null {
    return this.#fired;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get calls(): number {
    return this.#calls;
  }

  /** SIGKILL: nothing of this process is heard of again. */
  kill(): void {
    this.#dead = true;
    this.#signalDeath();
  }

  /** Runs a provider call under the same numbering and faults. */
  provider<T>(name: string, call: () => Promise<T>): Promise<T> {
    return this.#call(`provider.${name}`, call);
  }

  #wrap<T extends object>(label: string, port: T): T {
    const call = (name: string, run: () => unknown): unknown =>
      this.#call(`${label}.${name}`, async () => run());
    return new Proxy(port, {
      get(target, name, receiver) {
        const member: unknown = Reflect.get(target, name, receiver);
        if (typeof member !== 'function' || typeof name !== 'string') return member;
        return (...given: unknown[]) => call(name, () => Reflect.apply(member, target, given));
      },
    });
  }

  async #call<T>(name: string, run: () => Promise<T>): Promise<T> {
    if (this.#dead) return never();
    this.#calls += 1;
    this.names.push(name);
    const hit = this.#fault !== null && this.#fault.call === this.#calls ? this.#fault : null;
    if (hit !== null) this.#fired = name;
    const dies = hit !== null && hit.dies !== false;
    if (hit?.kind === 'lostBefore' && dies) {
      this.kill();
      return never();
    }
    this.#inFlight += 1;
    try {
      const answer = await run();
      if (hit?.kind === 'deliveredTwice') await run();
      if (dies) this.kill();
      return this.#dead ? await never<T>() : answer;
    } finally {
      this.#inFlight -= 1;
    }
  }

  #mortalClock(clock: Clock): Clock {
    return {
      now: (): EpochMs => clock.now(),
      monotonicMs: () => clock.monotonicMs(),
      sleep: (ms, signal) =>
        clock.sleep(ms, signal).then(() => (this.#dead ? never<void>() : undefined)),
      timer: (ms, fire) => clock.timer(ms, () => (this.#dead ? undefined : fire())),
    };
  }
}

function seeded(text: string, count: number): Uint8Array {
  let state = 2166136261;
  for (const char of text) state = Math.imul(state ^ char.charCodeAt(0), 16777619) >>> 0;
  return Uint8Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  });
}
