// What a refused transaction of a pass means: ours already, displaced, announced before, or a head that moved.
//   T4  the standing item of the position decides first; only then the head (page 09, rule 3).

import type {
  AnnotateWrite,
  Appended,
  AppendWrite,
  Claimed,
  ClaimWrite,
  Head,
  ParkWrite,
  TakeoverWrite,
} from '../../ports/store.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import type { Refusal, WriteOp } from './driver.ts';
import { announcedBefore, announcedTwice, witness } from './position-witness.ts';
import type { TableContext } from './table-context.ts';
import { headIn } from './turn-codec.ts';

/** Where the head and the position stand in every transaction of a pass. */
export const headOp = 0;
export const positionOp = 1;

export async function claimed(
  table: TableContext,
  write: ClaimWrite | TakeoverWrite,
  seen: Head | null,
  ops: readonly WriteOp[],
): Promise<Claimed> {
  const twice = announcedBefore(write.batch, new Set());
  if (twice !== undefined) throw announcedTwice(twice);
  const outcome = await table.driver.write(ops);
  if (outcome.kind !== 'lost') return outcome;
  const stands = witness(outcome.refused, positionOp, write.writer, write.batch);
  if (stands.kind === 'mine') return { kind: 'done' };
  if (stands.kind === 'announced') throw announcedTwice(stands.effectKey);
  const head = refusedHead(outcome.refused);
  return {
    kind: 'lost',
    head: head === undefined ? seen : head,
    position: stands.kind === 'taken' ? stands.position : null,
  };
}

export function appended(
  refused: readonly Refusal[],
  op: number,
  write: AppendWrite | ParkWrite | AnnotateWrite,
): Appended {
  const stands = witness(refused, op, write.writer, write.batch);
  switch (stands.kind) {
    case 'mine':
      return { kind: 'done' };
    case 'announced':
      return { kind: 'lost', reason: 'already_announced', effectKey: stands.effectKey };
    case 'taken':
      return { kind: 'lost', reason: 'fenced', position: stands.position };
    case 'free': {
      const head = refusedHead(refused);
      if (head === undefined) throw unexplained('append');
      return { kind: 'lost', reason: 'moved', head };
    }
  }
}

/** The head as a refused head operation found it; undefined when that operation was not refused. */
export function refusedHead(refused: readonly Refusal[]): Head | null | undefined {
  const refusal = refused.find((one) => one.op === headOp);
  if (refusal === undefined) return undefined;
  return refusal.item === null ? null : headIn(refusal.item);
}

export function unexplained(verb: string): TurnstoneError {
  return new TurnstoneError('store_rejected', `${verb} was refused by none of its conditions`, {
    retry: 'never',
    details: { verb },
  });
}
