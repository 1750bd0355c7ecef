// One step of a state migration: pure data in, pure data out (B-66).
//   T12  a step is given each subject's share of the state apart, so that what it makes of a share stays sealed
//        under that subject's key, and an erasure takes it along.
//   B16  where several shares make one value, lists and sums stay merges; of other values the last share's stands.
import type { FoldedState, StateChange } from './checkpoint.ts';
import { emptyState, foldShares, foldState, sharesOf, valuesOf } from './checkpoint.ts';

/** Makes the values of the next revision from the values of this one; changes nothing else. */
export type MigrationStep = (state: Readonly<Record<string, unknown>>) => Record<string, unknown>;

/** The state one revision further; `scope` takes what a step makes out of nothing. */
export function migrateState(state: FoldedState, step: MigrationStep, scope: string): FoldedState {
  const shares = sharesOf(state);
  if (shares.size === 0) return foldState(emptyState, scope, changesOf(step({}), false));
  let next: FoldedState = emptyState;
  for (const [owner, share] of shares) {
    const values = valuesOf(foldShares(new Map([[owner, share]])));
    next = foldState(next, owner, changesOf(step(Object.freeze(values)), shares.size > 1));
  }
  return next;
}

function changesOf(values: Record<string, unknown>, merge: boolean): readonly StateChange[] {
  return Object.entries(values).flatMap(([key, value]): StateChange[] => {
    if (value === undefined) return [];
    if (merge && Array.isArray(value)) {
      return value.map((element: unknown) => ({ op: 'append', key, value: element }));
    }
    if (merge && typeof value === 'number') return [{ op: 'add', key, by: value }];
    return [{ op: 'set', key, value }];
  });
}
