// An exhaustive check of a small model: every state reachable from the start, breadth first.
//
// Owns: the search, the shortest way to a broken law, and whether every state still comes to rest.
// Does not own: what a state is. A law answers why a state breaks it, in words, or null.

export interface Move<S> {
  readonly name: string;
  readonly state: S;
  /** A fault, or an act of somebody outside: coming to rest must not need it. */
  readonly outside?: boolean;
}

export interface Model<S> {
  readonly start: S;
  moves(state: S): readonly Move<S>[];
  /** The same text for equal states only. */
  key(state: S): string;
  readonly laws: Readonly<Record<string, (state: S) => string | null>>;
  /** True where a state may stay for ever. */
  atRest(state: S): boolean;
}

export interface Broken {
  readonly law: string;
  readonly why: string;
  /** Moves from the start to the state that breaks it: no shorter way does. */
  readonly trace: readonly string[];
}

export interface Checked {
  readonly states: number;
  readonly moves: number;
  /** Length of the longest shortest way. */
  readonly depth: number;
  readonly resting: number;
  readonly broken: Broken | null;
}

interface Seen {
  readonly parent: number;
  readonly move: string;
  readonly depth: number;
}

/** Law of every model: from every state a resting one is reached by moves that nobody outside makes. */
export const comesToRest = 'every state comes to rest';

/** Explores a model whole; throws when it has more than `statesMax` states. */
export function checkModel<S>(model: Model<S>, statesMax = 2_000_000): Checked {
  const seen: Seen[] = [];
  const numbers = new Map<string, number>();
  const states: S[] = [];
  /** Edges against their direction, moves from outside left out. */
  const from: number[][] = [];
  const resting: number[] = [];
  let moves = 0;
  const visit = (state: S, parent: number, move: string): number => {
    const key = model.key(state);
    const known = numbers.get(key);
    if (known !== undefined) return known;
    const number = seen.length;
    if (number >= statesMax) throw new Error(`the model has more than ${statesMax} states`);
    numbers.set(key, number);
    seen.push({ parent, move, depth: parent < 0 ? 0 : (seen[parent] as Seen).depth + 1 });
    states.push(state);
    from.push([]);
    return number;
  };
  const result = (broken: Broken | null): Checked => ({
    states: seen.length,
    moves,
    depth: seen.at(-1)?.depth ?? 0,
    resting: resting.length,
    broken,
  });
  visit(model.start, -1, '');
  for (let number = 0; number < seen.length; number += 1) {
    const state = states[number] as S;
    for (const [law, check] of Object.entries(model.laws)) {
      const why = check(state);
      if (why !== null) return result({ law, why, trace: traceTo(seen, number) });
    }
    if (model.atRest(state)) resting.push(number);
    for (const { name, state: next, outside } of model.moves(state)) {
      moves += 1;
      const to = visit(next, number, name);
      if (outside !== true) (from[to] as number[]).push(number);
    }
  }
  const stuck = firstStuck(from, resting);
  if (stuck === null) return result(null);
  const why = 'nothing the system itself does leads on to rest';
  return result({ law: comesToRest, why, trace: traceTo(seen, stuck) });
}

/** The first state found from which no resting one is reached, or null. */
function firstStuck(
  from: readonly (readonly number[])[],
  resting: readonly number[],
): number | null {
  const reaches = new Uint8Array(from.length);
  const open = [...resting];
  for (const number of open) reaches[number] = 1;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const before of from[next] as readonly number[]) {
      if (reaches[before] === 1) continue;
      reaches[before] = 1;
      open.push(before);
    }
  }
  const stuck = reaches.indexOf(0);
  return stuck < 0 ? null : stuck;
}

function traceTo(seen: readonly Seen[], number: number): readonly string[] {
  const trace: string[] = [];
  for (let at = number; at > 0; at = (seen[at] as Seen).parent) {
    trace.push((seen[at] as Seen).move);
  }
  return trace.toReversed();
}
