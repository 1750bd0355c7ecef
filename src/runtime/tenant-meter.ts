// A tenant's ceiling beside one pass: the ledger as last read, and this turn's own part of what it lacks.
//   T11  asked when a turn is admitted and before every live attempt; a refusal is a pause like the turn's own budget.
//   B19  exact for the turn itself; what other turns have in flight, or spent since the last look, is not seen.

import type { TurnRef } from '../ports/store.ts';
import { addSpend } from '../protocol/budget.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import { type Meter, spendOfRest } from '../protocol/meter.ts';
import type { RecordBody, Spend } from '../protocol/record.ts';
import type { CountedSpend } from '../protocol/tenant-budget.ts';
import { periodOf, tenantRefusal } from '../protocol/tenant-budget.ts';
import { exhausted } from './budget-pause.ts';
import type { History } from './history.ts';
import type { Runtime } from './runtime.ts';
import { errorOf } from './turn-errors.ts';
import type { Verdict } from './verdict.ts';

const nothing: Spend = { tokens: 0, minorUnits: 0 };

export class TenantMeter {
  readonly #runtime: Runtime;
  readonly #ref: TurnRef;
  #looked: { readonly at: number; readonly spent: Spend } | null = null;

  constructor(runtime: Runtime, ref: TurnRef) {
    this.#runtime = runtime;
    this.#ref = ref;
  }

  /** Reads the ledger unless the last look is recent. Throws what the store throws. */
  async look(): Promise<void> {
    const { settings, clock, store } = this.#runtime;
    if (settings.tenantBudget === undefined) return;
    const at = clock.monotonicMs();
    if (this.#looked !== null && at - this.#looked.at < limits.ledgerLookMs) return;
    const period = periodOf(settings.tenantBudget, clock.now());
    this.#looked = { at, spent: await store.spentIn(this.#ref.tenant, period) };
  }

  /** What an attempt would be refused for as of the last look, or null. Takes nothing. */
  attempt(meter: Meter, cost: Spend): ReturnType<typeof tenantRefusal> {
    const { tenantBudget } = this.#runtime.settings;
    if (tenantBudget === undefined || this.#looked === null) return null;
    return tenantRefusal(tenantBudget, addSpend(this.#looked.spent, meter.uncounted), cost);
  }
}

/**
 * A turn whose tenant has nothing left is exhausted before its code runs. Null for one that may run, and for one
 * that ran before: its journal is replayed, and what it asks for next is refused at its own place.
 */
export async function tenantVerdict(
  runtime: Runtime,
  ref: TurnRef,
  history: History,
): Promise<Verdict | null> {
  const { tenantBudget } = runtime.settings;
  if (tenantBudget === undefined) return null;
  for (const body of history.bodies()) if ('site' in body || 'step' in body) return null;
  const spent = await runtime.store.spentIn(
    ref.tenant,
    periodOf(tenantBudget, runtime.clock.now()),
  );
  const refusal = tenantRefusal(tenantBudget, spent, nothing);
  if (refusal === null) return null;
  return { status: 'exhausted', error: errorOf(exhausted(refusal.limit, '')) };
}

/** What the rest of a turn adds to its tenant's ledger: its whole journal says so, not this pass (B19). */
export function ledgerSpend(
  runtime: Runtime,
  history: History,
  added: Iterable<RecordBody>,
  now: EpochMs,
): { readonly spend?: CountedSpend } {
  const { tenantBudget } = runtime.settings;
  if (tenantBudget === undefined) return {};
  const period = periodOf(tenantBudget, now);
  return { spend: { period, ...spendOfRest(history.bodies(), added) } };
}
