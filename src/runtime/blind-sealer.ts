// What stands in for the sealer of an erased subject: records of its turns carry no payload any more.
//   T12  nothing is sealed, opened or compared; ruling 20: such a doubt can only be abandoned.
import type { Sealer } from '../ports/vault.ts';
import { TurnstoneError } from '../protocol/errors.ts';

function erased(): never {
  throw new TurnstoneError('subject_erased', 'the subject of this turn was erased', {
    retry: 'never',
  });
}

export function blindSealer(scope: string): Sealer {
  return {
    blind: true,
    scope,
    generation: 0,
    seal: () => new Uint8Array(0),
    open: erased,
    mac: erased,
  };
}
