// A tenant's ceiling per period: what it may spend in all of its turns, and the period an instant belongs to.
//   T11, BU-10  fed by journaled spend alone; exact only up to what other turns have in flight (B19).
import { addSpend } from './budget.ts';
import { TurnstoneError } from './errors.ts';
import type { Spend } from './record.ts';

const periods = ['day', 'month'] as const;

/** What every tenant of a deployment may spend in one period, UTC; an absent ceiling refuses nothing. */
export interface TenantBudget {
  readonly period: (typeof periods)[number];
  readonly tokens?: number;
  readonly minorUnits?: number;
}

/** Name of a ceiling as refusals and errors carry it. */
export type TenantLimit = 'tenant.tokens' | 'tenant.minorUnits';

/** Spend that one rest of a turn adds to its tenant's ledger. */
export interface CountedSpend extends Spend {
  readonly period: string;
}

/** The period of an instant: `2026-12-07` or `2026-12`. */
export function periodOf(budget: TenantBudget, at: number): string {
  return new Date(at).toISOString().slice(0, budget.period === 'day' ? 10 : 7);
}

/** What would go over a ceiling, or null: `charged` is the ledger with this turn's own part, `cost` the next attempt. */
export function tenantRefusal(
  budget: TenantBudget,
  charged: Spend,
  cost: Spend,
): { readonly limit: TenantLimit; readonly ceiling: number; readonly consumed: number } | null {
  const wanted = addSpend(charged, {
    tokens: Math.max(1, cost.tokens),
    minorUnits: Math.max(1, cost.minorUnits),
  });
  for (const name of ['tokens', 'minorUnits'] as const) {
    const ceiling = budget[name];
    if (ceiling !== undefined && wanted[name] > ceiling) {
      return { limit: `tenant.${name}`, ceiling, consumed: charged[name] };
    }
  }
  return null;
}

/**
 * Reads `month,tokens=1000000,minorUnits=50000` as a host's setting has it; `field` names it in the refusal.
 * Throws `invalid_request` naming the field, what was expected and what came.
 */
export function parseTenantBudget(field: string, text: string): TenantBudget {
  const [first = '', ...ceilings] = text.split(',').map((part) => part.trim());
  const period = periods.find((known) => known === first);
  if (period === undefined) throw invalid(field, `one of ${periods.join(', ')} first`, first);
  const budget: { tokens?: number; minorUnits?: number } = {};
  for (const part of ceilings) {
    const [, name, digits] = /^(tokens|minorUnits)=([0-9]{1,15})$/.exec(part) ?? [];
    if (name !== 'tokens' && name !== 'minorUnits') {
      throw invalid(field, 'tokens=<integer> or minorUnits=<integer>', part);
    }
    if (Number(digits) < 1) throw invalid(field, `${name} of at least 1`, part);
    if (budget[name] !== undefined) throw invalid(field, `${name} once`, part);
    budget[name] = Number(digits);
  }
  if (ceilings.length === 0) throw invalid(field, 'at least one ceiling after the period', text);
  return { period, ...budget };
}

function invalid(field: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError('invalid_request', `${field}: expected ${expected}, got "${got}"`, {
    retry: 'never',
    details: { field, expected, got },
  });
}
