// Labels: how far a value may be trusted, how sensitive it is, where it came from. Pure.
//   ME-3, ME-11 labels join and never improve by themselves; only a journaled release improves one.

export type Trust = 'trusted' | 'untrusted';

/** From what anybody may see to what almost nobody may. */
export const sensitivities = ['public', 'internal', 'confidential', 'restricted'] as const;
export type Sensitivity = (typeof sensitivities)[number];

export interface Label {
  readonly trust: Trust;
  readonly sensitivity: Sensitivity;
  /** Where it came from, sorted, each once. */
  readonly sources: readonly string[];
}

/** Most sources a label names; past it the rest is one word. */
const sourcesMax = 50;
const more = 'more';

/** A constant of the code: nobody's, and anybody may see it. */
export const constant: Label = { trust: 'trusted', sensitivity: 'public', sources: [] };

/** What nobody declared: not to be trusted, for inside use. */
export function undeclared(source: string): Label {
  return { trust: 'untrusted', sensitivity: 'internal', sources: [source] };
}

/** The label of what several values went into: untrusted if any is, the highest sensitivity, every source. */
export function joinLabels(labels: Iterable<Label>): Label {
  let trust: Trust = 'trusted';
  let rank = 0;
  const sources = new Set<string>();
  for (const label of labels) {
    if (label.trust === 'untrusted') trust = 'untrusted';
    rank = Math.max(rank, sensitivities.indexOf(label.sensitivity));
    for (const source of label.sources) sources.add(source);
  }
  const named = [...sources].sort();
  return {
    trust,
    sensitivity: sensitivities[rank] ?? 'restricted',
    sources: named.length <= sourcesMax ? named : [...named.slice(0, sourcesMax - 1), more],
  };
}

/** True when a value may go where at most `ceiling` is seen. */
export function within(label: Label, ceiling: Sensitivity): boolean {
  return sensitivities.indexOf(label.sensitivity) <= sensitivities.indexOf(ceiling);
}

/** A label as one word of a record. */
export function labelText({ trust, sensitivity, sources }: Label): string {
  return [trust, sensitivity, ...sources.map(encodeURIComponent)].join(' ');
}

/** Reads `labelText`; null for what it did not write. */
export function parseLabel(text: string): Label | null {
  const [trust, sensitivity, ...sources] = text.split(' ');
  if (trust !== 'trusted' && trust !== 'untrusted') return null;
  const known = sensitivities.find((one) => one === sensitivity);
  if (known === undefined) return null;
  return { trust, sensitivity: known, sources: sources.map(decodeURIComponent) };
}
