// A thread's state as a fold of staged changes: pure data.
//   T1  a commit folds its turn's changes over the latest state, so turns that overlapped lose nothing.
//   B16 every contribution keeps the scope it was written under, so one subject's share can go alone.
import { encode } from './canonical.ts';
import { TurnstoneError } from './errors.ts';

/** One staged change. `append` and `add` merge with what others wrote; `set` replaces. */
export type StateChange =
  | { readonly op: 'set'; readonly key: string; readonly value: unknown }
  | { readonly op: 'delete'; readonly key: string }
  | { readonly op: 'append'; readonly key: string; readonly value: unknown }
  | { readonly op: 'add'; readonly key: string; readonly by: number };

interface Contribution {
  readonly scope: string;
  readonly change: Exclude<StateChange, { op: 'delete' }>;
}

/** The folded state: for each key the contributions that make its value, oldest first. */
export type FoldedState = ReadonlyMap<string, readonly Contribution[]>;

/** A change with its place among all changes of a snapshot, so that shares fold back in order. */
export interface OrderedChange {
  readonly order: number;
  readonly change: StateChange;
}

export const emptyState: FoldedState = new Map();

/** The state after `changes`, all written under `scope`. Does not change `state`. */
export function foldState(
  state: FoldedState,
  scope: string,
  changes: readonly StateChange[],
): FoldedState {
  if (changes.length === 0) return state;
  const next = new Map(state);
  for (const change of changes) {
    if (change.op === 'delete') next.delete(change.key);
    else if (change.op === 'set') next.set(change.key, [{ scope, change }]);
    else next.set(change.key, withOne(next.get(change.key) ?? [], { scope, change }));
  }
  return next;
}

/** One more contribution; sums of one scope are one, so that a counter is as long as it has writers (B16). */
function withOne(
  contributions: readonly Contribution[],
  one: Contribution,
): readonly Contribution[] {
  const { scope, change } = one;
  const at = contributions.findIndex((other) => other.scope === scope && other.change.op === 'add');
  const sum = at < 0 ? null : sumOf(contributions[at]?.change, change);
  return sum === null ? [...contributions, one] : contributions.with(at, { scope, change: sum });
}

/** Two additions as one; null where that is another kind of change, or not exact. */
function sumOf(
  first: StateChange | undefined,
  second: StateChange,
): Extract<StateChange, { op: 'add' }> | null {
  if (first?.op !== 'add' || second.op !== 'add') return null;
  const by = first.by + second.by;
  const exact = [first.by, second.by, by].every(Number.isSafeInteger);
  return exact ? { op: 'add', key: second.key, by } : null;
}

/** The changes a turn writes: what a later one makes void is left out, and its sums are one. Folds to the same. */
export function compactChanges(changes: readonly StateChange[]): readonly StateChange[] {
  const byKey = new Map<string, readonly StateChange[]>();
  for (const change of changes) {
    const { key, op } = change;
    const earlier = op === 'set' || op === 'delete' ? [] : (byKey.get(key) ?? []);
    const sum = sumOf(earlier.at(-1), change);
    byKey.set(key, sum === null ? [...earlier, change] : earlier.with(-1, sum));
  }
  return [...byKey.values()].flat();
}

/** The value a key stands for; undefined when it is absent. Throws `state_type` on a mixed use. */
export function valueAt(state: FoldedState, key: string): unknown {
  const contributions = state.get(key);
  if (contributions === undefined) return undefined;
  let value: unknown;
  for (const { change } of contributions) value = applyChange(key, value, change);
  return value;
}

/** All values, for migrations and for people. */
export function valuesOf(state: FoldedState): Record<string, unknown> {
  return Object.fromEntries([...state.keys()].map((key) => [key, valueAt(state, key)]));
}

/** The value of a key after one more change; the check runs before the change is staged. */
export function applyChange(key: string, value: unknown, change: StateChange): unknown {
  switch (change.op) {
    case 'set':
      return change.value;
    case 'delete':
      return undefined;
    case 'append':
      if (value !== undefined && !Array.isArray(value)) throw mixed(key, 'a list', value);
      return [...(value ?? []), change.value];
    case 'add':
      if (value !== undefined && typeof value !== 'number') throw mixed(key, 'a number', value);
      return (value ?? 0) + change.by;
  }
}

/** Splits a state into shares by scope; folding the shares together gives the state back. */
export function sharesOf(state: FoldedState): ReadonlyMap<string, readonly OrderedChange[]> {
  const shares = new Map<string, OrderedChange[]>();
  let order = 0;
  for (const contributions of state.values()) {
    for (const { scope, change } of contributions) {
      const share = shares.get(scope) ?? [];
      share.push({ order, change });
      shares.set(scope, share);
      order += 1;
    }
  }
  return shares;
}

/** The state of the shares that could be read; a missing share (erased subject) is simply not there. */
export function foldShares(shares: ReadonlyMap<string, readonly OrderedChange[]>): FoldedState {
  const all = [...shares].flatMap(([scope, changes]) =>
    changes.map(({ order, change }) => ({ order, scope, change })),
  );
  all.sort((left, right) => left.order - right.order);
  let state: FoldedState = emptyState;
  for (const { scope, change } of all) state = foldState(state, scope, [change]);
  return state;
}

/** Bytes of the changes in their stored form, before sealing. */
export function changesText(changes: readonly StateChange[]): string {
  return encode(changes);
}

function mixed(key: string, expected: string, got: unknown): TurnstoneError {
  return new TurnstoneError(
    'invalid_request',
    `state "${key}": expected ${expected}, got ${typeof got}`,
    {
      retry: 'never',
      details: { field: key, expected, got: typeof got },
    },
  );
}
