// Budgets: the ceilings a caller may set for a turn and the tally of what journaled records spent.
//   T11, BU-1  a verdict reads journaled figures only, so every pass decides alike.
import { TurnstoneError } from './errors.ts';
import type { RecordBody, Spend } from './record.ts';

export const budgetFields = [
  'steps',
  'effects',
  'tokens',
  'minorUnits',
  'replans',
  'denials',
  'wallClockMs',
  'parallel',
  'egressBytes',
] as const;
export type BudgetField = (typeof budgetFields)[number];
/** Ceilings by name; an absent one means the platform's limits only (ruling 26). */
export type Budget = Readonly<Partial<Record<BudgetField, number>>>;

const zeroIsLegal: ReadonlySet<BudgetField> = new Set(['replans', 'denials', 'egressBytes']);

/** Checks a budget; throws `invalid_request` naming the field, what was expected and what came. */
export function parseBudget(value: Readonly<Record<string, unknown>>): Budget {
  const known: readonly string[] = budgetFields;
  const budget: Partial<Record<BudgetField, number>> = {};
  for (const [name, figure] of Object.entries(value)) {
    const least = zeroIsLegal.has(name as BudgetField) ? 0 : 1;
    if (!known.includes(name))
      throw invalid(name, `one of ${known.join(', ')}`, 'an unknown field');
    if (typeof figure !== 'number' || !Number.isSafeInteger(figure) || figure < least) {
      throw invalid(
        name,
        `an integer of at least ${least}`,
        JSON.stringify(figure) ?? typeof figure,
      );
    }
    budget[name as BudgetField] = figure;
  }
  return budget;
}

function invalid(field: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError(
    'invalid_request',
    `budget.${field}: expected ${expected}, got ${got}`,
    {
      retry: 'never',
      details: { field: `budget.${field}`, expected, got },
    },
  );
}

/** What a journal has spent; the same from every pass (BU-5). */
export interface Tally {
  readonly steps: number;
  readonly effects: number;
  readonly attempts: number;
  readonly tokens: number;
  readonly minorUnits: number;
}

/** Tally of a journal: one announcement, one attempt; failed attempts and probes bill their spend. */
export function tallyOf(bodies: Iterable<RecordBody>): Tally {
  const steps = new Set<string>();
  let attempts = 0;
  let spend: Spend = { tokens: 0, minorUnits: 0 };
  const sites = new Set<string>();
  for (const body of bodies) {
    if (body.kind === 'StepFinished') steps.add(body.step);
    if (body.kind === 'EffectStarted') {
      attempts += 1;
      sites.add(JSON.stringify([body.site.step, body.site.phase, body.site.ordinal]));
    }
    if (
      body.kind === 'EffectDone' ||
      body.kind === 'EffectFailed' ||
      body.kind === 'EffectReconciled'
    ) {
      spend = addSpend(spend, body.spend);
    }
  }
  return { steps: steps.size, effects: sites.size, attempts, ...spend };
}

/** Saturating sum of two spends (BU-4). */
export function addSpend(left: Spend, right: Partial<Spend>): Spend {
  return {
    tokens: saturate(left.tokens + figure(right.tokens)),
    minorUnits: saturate(left.minorUnits + figure(right.minorUnits)),
  };
}

function figure(value: number | undefined): number {
  if (value === undefined || Number.isNaN(value) || value <= 0) return 0;
  return Math.floor(value);
}

function saturate(value: number): number {
  return Math.min(value, Number.MAX_SAFE_INTEGER);
}
