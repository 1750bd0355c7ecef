// Ceilings against what journaled records have spent: the verdict before an attempt or a step (page 01, 3).
//   T11, BU-1  only journaled figures count, so every pass decides alike; BU-2 every attempt is admitted.
//   F41  a declared cost is reserved at its announcement and stays charged while its outcome is unknown.
import type { Budget, BudgetField } from './budget.ts';
import { addSpend } from './budget.ts';
import type { RecordBody, Spend } from './record.ts';

const nothing: Spend = { tokens: 0, minorUnits: 0 };

/** A ceiling that refuses, with the figures that made it. */
export interface Refusal {
  readonly limit: BudgetField;
  readonly ceiling: number;
  readonly consumed: number;
}

/** Counts records as they are added; one a pass. */
export class Meter {
  readonly #reserved = new Map<string, Spend>();
  #attempts = 0;
  #spend: Spend = nothing;
  #egressBytes = 0;
  #denials = 0;

  /** Refusals by policy so far. */
  get denials(): number {
    return this.#denials;
  }

  /** Counts one record. `bytes` is the outbound size of an announcement. */
  add(body: RecordBody, bytes = 0): void {
    if (body.kind === 'PolicyDenied' && body.by === 'policy') this.#denials += 1;
    if (body.kind === 'EffectStarted') {
      this.#attempts += 1;
      this.#egressBytes += bytes;
      this.#reserved.set(body.key, body.cost ?? nothing);
      return;
    }
    if (
      body.kind === 'EffectDone' ||
      body.kind === 'EffectFailed' ||
      body.kind === 'EffectReconciled'
    ) {
      this.#reserved.delete(body.key);
      this.#spend = addSpend(this.#spend, body.spend);
    }
  }

  /**
   * What an attempt would be refused for, or null. Takes nothing (BU-6). `beside` counts attempts that were let
   * through with it and are not announced yet.
   */
  attempt(budget: Budget | null, cost: Spend, bytes: number, beside = 0): Refusal | null {
    if (budget === null) return null;
    const charged = [...this.#reserved.values()].reduce(addSpend, this.#spend);
    return (
      over('effects', budget.effects, this.#attempts + beside, this.#attempts + beside + 1) ??
      over('tokens', budget.tokens, charged.tokens, charged.tokens + Math.max(1, cost.tokens)) ??
      over(
        'minorUnits',
        budget.minorUnits,
        charged.minorUnits,
        charged.minorUnits + Math.max(1, cost.minorUnits),
      ) ??
      over('egressBytes', budget.egressBytes, this.#egressBytes, this.#egressBytes + bytes)
    );
  }

  /** What a step would be refused for, or null. `started` counts steps admitted before it. */
  step(budget: Budget | null, started: number, elapsedMs: number): Refusal | null {
    if (budget === null) return null;
    return (
      over('steps', budget.steps, started, started + 1) ??
      over('wallClockMs', budget.wallClockMs, elapsedMs, elapsedMs + 1)
    );
  }
}

function over(
  limit: BudgetField,
  ceiling: number | undefined,
  consumed: number,
  wanted: number,
): Refusal | null {
  return ceiling !== undefined && wanted > ceiling ? { limit, ceiling, consumed } : null;
}
