// Conditions of a plan (page 05).
import { encode } from '../../protocol/canonical.ts';
import { AgentError } from '../../protocol/errors.ts';
import type { Condition } from './plan-language.ts';
import type { Roots } from './references.ts';
import { resolve } from './references.ts';

/** Compares two values: equality by canonical form, order for two numbers or two texts. */
export function holds(condition: Condition, roots: Roots): boolean {
  const left = resolve(condition.left, roots);
  const right = resolve(condition.right, roots);
  if (condition.op === 'eq') return encode(left) === encode(right);
  if (condition.op === 'ne') return encode(left) !== encode(right);
  const comparable =
    (typeof left === 'number' && typeof right === 'number') ||
    (typeof left === 'string' && typeof right === 'string');
  if (!comparable) {
    throw new AgentError(`cannot compare ${typeof left} ${condition.op} ${typeof right}`, {
      code: 'not_comparable',
    });
  }
  switch (condition.op) {
    case 'lt':
      return left < right;
    case 'le':
      return left <= right;
    case 'gt':
      return left > right;
    case 'ge':
      return left >= right;
  }
}
