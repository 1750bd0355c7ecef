// Ceilings against what journaled records have spent: the verdict before an attempt or a step (page 01, 3).
//   T11, BU-1  only journaled figures count, so every pass decides alike; BU-2 every attempt is admitted.
//   BU-10  it also says what a rest of the turn adds to its tenant's ledger.
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
  #counted: Spend = nothing;
  /** Tokens of answers that were served again: nobody bills them, the ceiling counts them (B-22). */
  #unbilledTokens = 0;

  /** Refusals by policy so far. */
  get denials(): number {
    return this.#denials;
  }

  /**
   * What the tenant's ledger has not counted yet: charged now, less the most that was charged at a rest. It is never
   * negative: a reserve that came to nothing is used up by what the turn spends later.
   */
  get uncounted(): Spend {
    const { tokens, minorUnits } = this.#charged();
    return {
      tokens: Math.max(0, tokens - this.#counted.tokens),
      minorUnits: Math.max(0, minorUnits - this.#counted.minorUnits),
    };
  }

  /** Spend that was reported, and reserves of what is not known yet. */
  #charged(): Spend {
    return [...this.#reserved.values()].reduce(addSpend, this.#spend);
  }

  /** Counts one record. `bytes` is the outbound size of an announcement. */
  add(body: RecordBody, bytes = 0): void {
    if (body.kind === 'PolicyDenied' && body.by === 'policy') this.#denials += 1;
    if (body.kind === 'RunSuspended' || body.kind === 'RunConcluded') this.#rests();
    if (body.kind === 'AnswerCached') {
      this.#reserved.delete(body.key);
      this.#unbilledTokens += body.tokens;
    }
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

  /** Sets aside what a call was admitted with until its record is added. */
  reserve(key: string, cost: Spend): void {
    this.#reserved.set(key, cost);
  }

  /**
   * What an attempt would be refused for, or null. Takes nothing (BU-6). `beside` counts attempts that were let
   * through with it and are not announced yet.
   */
  attempt(budget: Budget | null, cost: Spend, bytes: number, beside = 0): Refusal | null {
    if (budget === null) return null;
    const billed = this.#charged();
    const charged = { ...billed, tokens: billed.tokens + this.#unbilledTokens };
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

  /** A rest wrote a row for what it had been charged more than at any rest before. */
  #rests(): void {
    const { tokens, minorUnits } = this.#charged();
    this.#counted = {
      tokens: Math.max(tokens, this.#counted.tokens),
      minorUnits: Math.max(minorUnits, this.#counted.minorUnits),
    };
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

/** What a rest adds to the ledger: `history` is what stood before this pass, `added` what it recorded, its rest too. */
export function spendOfRest(history: Iterable<RecordBody>, added: Iterable<RecordBody>): Spend {
  const meter = new Meter();
  for (const body of history) meter.add(body);
  for (const body of added) {
    if (body.kind !== 'RunSuspended' && body.kind !== 'RunConcluded') meter.add(body);
  }
  return meter.uncounted;
}
