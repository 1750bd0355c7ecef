// The budget a turn goes on under: what was admitted, with the fields later resumes named (ruling 26).
import type { TurnRef } from '../ports/store.ts';
import type { Sealer } from '../ports/vault.ts';
import type { Budget } from '../protocol/budget.ts';
import type { History } from './history.ts';
import { openRecord } from './history.ts';
import type { Runtime } from './runtime.ts';

/** The admitted budget with the fields later resumes named (ruling 26). */
export async function budgetOf(
  runtime: Runtime,
  ref: TurnRef,
  of: { readonly history: History; readonly sealer: Sealer },
  admitted: Budget | null,
): Promise<Budget | null> {
  let budget = admitted;
  for (const record of of.history.records) {
    if (record.body.kind !== 'RunResumed') continue;
    const payload = await openRecord(runtime.store, of.sealer, ref, record);
    if (typeof payload !== 'object' || payload === null || !('budget' in payload)) continue;
    if (payload.budget !== null) budget = { ...budget, ...(payload.budget as Budget) };
  }
  return budget;
}
