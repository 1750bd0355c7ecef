// Labels at the boundary of a turn: what it has seen, what it hands out, what a sink lets in.
//
// A plain value may hold anything the turn has seen, so it carries the turn's mark: the join of all of that. A value
// that stays wrapped carries its own label, and is unwrapped into the arguments of an effect, into a fact to remember,
// or by `open`, which marks the turn.
//   T11  a sink refuses before anything is announced, naming the argument.
import { AgentError, TurnstoneError } from '../protocol/errors.ts';
import type { Label, Sensitivity } from '../protocol/labels.ts';
import { joinLabels, parseLabel, undeclared, within } from '../protocol/labels.ts';
import type { RecordBody, Site } from '../protocol/record.ts';

/** What an effect kind takes in. */
export interface Sink {
  /** Arguments that must be trusted, as paths (`to`, `body.to`); `true` for all of them. */
  readonly trusted?: readonly string[] | true;
  /** Highest sensitivity it may see; anything, by default. */
  readonly ceiling?: Sensitivity;
}

/** A value with its label; arithmetic on it keeps the label. */
export class Labelled<T> {
  readonly label: Label;
  readonly #value: T;

  constructor(value: T, label: Label) {
    this.#value = value;
    this.label = label;
  }

  /** A value computed from this one: it carries the same label. */
  map<R>(compute: (value: T) => R): Labelled<R> {
    return new Labelled(compute(this.#value), this.label);
  }

  /** A value computed from several: it carries the join of their labels. */
  static join<R>(
    parts: readonly Labelled<unknown>[],
    compute: (...values: readonly unknown[]) => R,
  ): Labelled<R> {
    const values = parts.map((part) => part.#value);
    return new Labelled(compute(...values), joinLabels(parts.map(({ label }) => label)));
  }

  /** For the runtime: the value alone. */
  static valueOf<T>(labelled: Labelled<T>): T {
    return labelled.#value;
  }

  toJSON(): never {
    throw new AgentError('a labelled value is not storable: open it, or hand it to an effect', {
      code: 'labelled_value',
    });
  }
}

/** What a turn has seen, and the labels its records declare. */
export class Labels {
  #mark: Label;
  readonly #declared = new Map<string, Label>();

  constructor(input: Label) {
    this.#mark = input;
  }

  /** The label of a plain value of this turn. */
  get mark(): Label {
    return this.#mark;
  }

  /** The turn has seen a value in the open. */
  see(label: Label): void {
    this.#mark = joinLabels([this.#mark, label]);
  }

  /** Keeps what a record says its output is. */
  heard(body: RecordBody): void {
    if (body.kind !== 'EffectDone' && body.kind !== 'AnswerCached') return;
    if (body.label === undefined) return;
    const label = parseLabel(body.label);
    if (label !== null) this.#declared.set(placeOf(body.site), label);
  }

  /** What the output of a dispatch is, as it was recorded. */
  of(site: Site, kind: string): Label {
    return this.#declared.get(placeOf(site)) ?? undeclared(`effect:${kind}`);
  }
}

function placeOf({ step, phase, ordinal }: Site): string {
  return `${phase}/${ordinal}/${step}`;
}

/** Arguments without wrappers; throws `label_refused` naming the first that the sinks do not let in. */
export function bindArguments(
  kind: string,
  args: unknown,
  mark: Label,
  sinks: readonly Sink[],
): unknown {
  const leaves: Leaf[] = [];
  const plain = unwrap(args, mark, leaves);
  for (const sink of sinks) {
    const { trusted = [], ceiling } = sink;
    for (const { path, label } of leaves) {
      const wanted = trusted === true || trusted.some((name) => covers(name, path));
      if (wanted && label.trust !== 'trusted') {
        throw refused(kind, path, 'a trusted value', label);
      }
      if (ceiling !== undefined && !within(label, ceiling)) {
        throw refused(kind, path, `at most "${ceiling}"`, label);
      }
    }
  }
  return plain;
}

interface Leaf {
  readonly path: readonly string[];
  readonly label: Label;
}

function unwrap(args: unknown, mark: Label, leaves: Leaf[]): unknown {
  return mapLeaves(args, [], (leaf, path) => {
    const { value, label } = taken(leaf, mark);
    leaves.push({ path, label });
    return value;
  });
}

/** The arguments with every plain value wrapped under `mark`: for a caller that follows labels itself. */
export function underMark(args: unknown, mark: Label): unknown {
  return mapLeaves(args, [], (leaf) =>
    leaf instanceof Labelled ? leaf : new Labelled(leaf, mark),
  );
}

function mapLeaves(
  value: unknown,
  path: readonly string[],
  of: (leaf: unknown, path: readonly string[]) => unknown,
): unknown {
  if (Array.isArray(value)) {
    return value.map((entry, index) => mapLeaves(entry, [...path, `${index}`], of));
  }
  if (typeof value === 'object' && value !== null && isPlain(value)) {
    const entries = Object.entries(value).map(([name, entry]) => [
      name,
      mapLeaves(entry, [...path, name], of),
    ]);
    return Object.fromEntries(entries);
  }
  return of(value, path);
}

function isPlain(value: object): boolean {
  const made: unknown = Object.getPrototypeOf(value);
  return made === Object.prototype || made === null;
}

/** True when a value at `path` is what is named, or part of it, or holds it: a wrapper hides nothing that is in it. */
function covers(name: string, path: readonly string[]): boolean {
  const named = name.split('.').slice(0, path.length);
  return named.every((part, index) => path[index] === part);
}

function refused(
  kind: string,
  path: readonly string[],
  expected: string,
  { trust, sensitivity, sources }: Label,
): TurnstoneError {
  const field = ['args', ...path].join('.');
  const got = `${trust} and ${sensitivity}, from ${sources.join(', ') || 'the code'}`;
  return new TurnstoneError(
    'label_refused',
    `effect ${kind}: ${field}: expected ${expected}, got what is ${got}; release it first`,
    { retry: 'never', details: { field, expected, got } },
  );
}

/** The value of a wrapper, or the value itself, with its label. */
export function taken<T>(value: T | Labelled<T>, mark: Label): { value: T; label: Label } {
  if (value instanceof Labelled) return { value: Labelled.valueOf(value), label: value.label };
  return { value, label: mark };
}
