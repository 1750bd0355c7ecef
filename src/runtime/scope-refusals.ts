// What a context refuses before anything is announced, by name.
import { TurnstoneError } from '../protocol/errors.ts';
import type { GroupScope } from './groups.ts';

export function besideGroup(group: GroupScope, what: string): TurnstoneError {
  return new TurnstoneError(
    'invalid_effect',
    `${what}: expected nothing that mutates beside the open group "${group.name}"`,
    { retry: 'never', details: { group: group.name } },
  );
}

export function refusedEffect(field: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError('invalid_effect', `effect.${field}: expected ${expected}, got ${got}`, {
    retry: 'never',
    details: { field: `effect.${field}`, expected, got },
  });
}
