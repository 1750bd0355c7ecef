// The pause that a refused effect or step is stopped with: not a failure (BU-7) [T11].
import { BudgetExhaustedError } from './turn-context.ts';

/** The pause a refused effect or step is stopped with. */
export function exhausted(limit: string, step: string): BudgetExhaustedError {
  const [whose, name] = limit.startsWith('tenant.')
    ? ['tenant', limit.slice('tenant.'.length)]
    : ['turn', limit];
  return new BudgetExhaustedError(limit, step, `the ${whose}'s budget is exhausted: ${name}`);
}
