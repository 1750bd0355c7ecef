// Everything a pass needs from outside, in one value made by a composition root.
import type { Clock, Entropy } from '../ports/clock.ts';
import type { Policy } from '../ports/policy.ts';
import type { Queues } from '../ports/queue.ts';
import type { TurnRef, TurnStore } from '../ports/store.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { Vault } from '../ports/vault.ts';
import type { EpochMs } from '../protocol/ids.ts';
import type { TenantBudget } from '../protocol/tenant-budget.ts';
import type { AgentDefinition } from './agent-definition.ts';

export interface RuntimeSettings {
  /** Lease length, milliseconds; at least 2000 (LE-4). */
  readonly leaseMs: number;
  /** Longest time without journal progress before a pass fails with `turn_timeout` (ruling 8). */
  readonly turnTimeoutMs: number;
  /** Below this much remaining time no new effect is announced (drain rule). */
  readonly reserveMs: number;
  /** False where the host bounds a pass and the lease outlives that bound (Lambda). */
  readonly renew: boolean;
  /** What each tenant may spend in a period; absent means no ceiling and no ledger. */
  readonly tenantBudget?: TenantBudget;
}

export interface Runtime {
  readonly store: TurnStore;
  readonly vault: Vault;
  readonly queues: Queues;
  readonly clock: Clock;
  readonly entropy: Entropy;
  readonly telemetry: Telemetry;
  readonly agents: ReadonlyMap<string, AgentDefinition>;
  /** The policy engine in front of live attempts; absent means that declarations and budgets alone decide. */
  readonly policy?: Policy;
  /** Identifies this process or invocation, never an agent (LE-6). */
  readonly owner: string;
  readonly settings: RuntimeSettings;
  /** Wakes a suspended turn at its deadline, where the host can; the sweeper does it everywhere. */
  alarm?(ref: TurnRef, at: EpochMs): Promise<void>;
  /** Runs work that need not delay an answer: awaited where the host freezes after it (Lambda), tracked elsewhere. */
  later(work: () => Promise<void>): Promise<void>;
}
