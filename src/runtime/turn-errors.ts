// Errors as a turn shows them: a stable code, a text without secrets, and the place they come from.

import { AgentError, describeError, TurnstoneError } from '../protocol/errors.ts';
import type { Site } from '../protocol/record.ts';
import type { Divergence } from './resume-point.ts';
import { BudgetExhaustedError, EffectError, TurnDroppedError } from './turn-context.ts';
import type { TurnError } from './turn-view.ts';

/** An error of agent code, an effect or a ceiling as a turn shows it. */
export function errorOf(error: unknown): TurnError {
  const { message, code = 'agent_failed' } = describeError(error);
  if (error instanceof EffectError)
    return errorAt(error.code, message, error.step, error.effectKey);
  const step = stepOf(error);
  if (
    error instanceof AgentError ||
    error instanceof TurnstoneError ||
    error instanceof BudgetExhaustedError ||
    error instanceof TurnDroppedError
  ) {
    return errorAt(code, message, step);
  }
  return errorAt('agent_failed', message, step);
}

function stepOf(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('step' in error)) return '';
  return typeof error.step === 'string' ? error.step : '';
}

/** An error with its place. */
export function errorAt(
  code: string,
  message: string,
  step: string,
  effectKey?: string,
): TurnError {
  return {
    code,
    message,
    ...(step === '' ? {} : { step }),
    ...(effectKey === undefined ? {} : { effectKey }),
  };
}

/** What a divergence is told as: what was recorded, what is asked, which part moved. */
export function divergenceError(divergence: Divergence): TurnError {
  const { site, recorded, asked } = divergence;
  const was = recorded === null ? 'nothing more' : `${recorded.kind} (${recorded.key})`;
  const is = asked === null ? 'nothing' : `${asked.kind} (${asked.key})`;
  const message = `${describeSite(site)}: the journal holds ${was}, the code asks for ${is}; moved: ${divergence.moved}`;
  return errorAt('divergence', message, site.step, recorded?.key);
}

/** Text of a site for people: `step reserve, effect 2`. */
export function describeSite(site: Site): string {
  const where = site.step === '' ? 'outside a step' : `step ${site.step}`;
  const phase = site.phase === 'forward' ? '' : ' (undo)';
  return `${where}${phase}, effect ${site.ordinal}`;
}
