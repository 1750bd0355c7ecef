// The pause that a refused effect or step is stopped with: not a failure (BU-7) [T11].
import { BudgetExhaustedError } from './turn-context.ts';

/** The pause a refused effect or step is stopped with. */
export function exhausted(limit: string, step: string): BudgetExhaustedError {
  return new BudgetExhaustedError(limit, step, `the turn's budget is exhausted: ${limit}`);
}
