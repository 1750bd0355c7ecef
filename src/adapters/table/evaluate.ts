// Conditions and changes evaluated in process, for engines without an expression language.
import type { Attr, Change, Clause, Item } from './driver.ts';

/** True when every clause holds for the item that stands there; comparisons with an absent attribute fail. */
export function holds(clauses: readonly Clause[], item: Item | null): boolean {
  return clauses.every((clause) => clauseHolds(clause, item));
}

function clauseHolds(clause: Clause, item: Item | null): boolean {
  if (!('attr' in clause)) return (clause.is === 'item') === (item !== null);
  const found = item?.[clause.attr];
  if (clause.is === 'absent') return found === undefined;
  if (clause.is === 'present') return found !== undefined;
  if (!('value' in clause)) return false;
  return compares(clause.is, found, clause.value);
}

function compares(
  is: 'eq' | 'lt' | 'le' | 'gt' | 'ge',
  found: Attr | undefined,
  value: string | number | boolean,
): boolean {
  if (typeof found !== typeof value) return false;
  if (is === 'eq') return found === value;
  if (typeof found === 'number' && typeof value === 'number') return ordered(is, found - value);
  if (typeof found === 'string' && typeof value === 'string') {
    return ordered(is, Buffer.compare(Buffer.from(found), Buffer.from(value)));
  }
  return false;
}

function ordered(is: 'lt' | 'le' | 'gt' | 'ge', difference: number): boolean {
  switch (is) {
    case 'lt':
      return difference < 0;
    case 'le':
      return difference <= 0;
    case 'gt':
      return difference > 0;
    case 'ge':
      return difference >= 0;
  }
}

/** The item after a change; an absent one is made. */
export function changed(item: Item | null, change: Change): Item {
  const next: Record<string, Attr> = { ...item, ...change.set };
  for (const name of change.remove ?? []) delete next[name];
  for (const [name, by] of Object.entries(change.add ?? {})) {
    const before = item?.[name];
    next[name] = (typeof before === 'number' ? before : 0) + by;
  }
  for (const [name, more] of Object.entries(change.append ?? {})) {
    const before = item?.[name];
    next[name] = [...(Array.isArray(before) ? before : []), ...more];
  }
  return next;
}
