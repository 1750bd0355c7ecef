// What kind of edit a divergence is: the one change of the journal's calls under which the code would agree with it.
//   T7, T13  candidates are tried by strict passes over an edited copy of the history; nothing acts or is written.
//   ST-3  the first divergence stays what is reported; its class says how far that one change explains the rest.

import type { Site } from '../protocol/record.ts';
import type { EditedHistory } from './edited-history.ts';
import type { History } from './history.ts';
import type { Divergence } from './resume-point.ts';

export type ChangeClass =
  | 'inserted'
  | 'removed'
  | 'swapped'
  | 'renamed'
  | 'arguments'
  /** Another kind with other arguments stands where a recorded call was. */
  | 'replaced';

export interface Change {
  readonly class: ChangeClass;
  /** Whether everything else of the journal agrees once this change is granted. */
  readonly explains: 'all' | 'part';
  /** The other place of a swap. */
  readonly ordinal?: number;
  /** The new name of a step. */
  readonly step?: string;
}

interface Candidate {
  readonly change: Omit<Change, 'explains'>;
  readonly history: History | null;
}

/** How a strict pass over an edited history went. */
export interface Trial {
  readonly agrees: boolean;
  /** Recorded dispatches nobody asked for. */
  readonly unread: number;
}

/** Swaps are looked for this far ahead. */
const lookAhead = 32;

/** Classes a divergence: the candidate that agrees wins, else the one that leaves least unread, the earlier at a tie. */
export async function classify(
  edited: EditedHistory,
  divergence: Divergence,
  trial: (history: History) => Promise<Trial>,
): Promise<Change> {
  let best: { readonly change: Candidate['change']; readonly unread: number } | null = null;
  for (const { change, history } of await candidates(edited, divergence)) {
    const { agrees, unread } =
      history === null ? { agrees: false, unread: Number.POSITIVE_INFINITY } : await trial(history);
    if (agrees) return { ...change, explains: 'all' };
    if (best === null || unread < best.unread) best = { change, unread };
  }
  return { ...(best?.change ?? { class: 'replaced' }), explains: 'part' };
}

async function candidates(
  edited: EditedHistory,
  divergence: Divergence,
): Promise<readonly Candidate[]> {
  const { site, recorded, asked } = divergence;
  if (recorded === null || asked?.site !== undefined) return beyond(edited, divergence);
  if (asked === null) return removals(edited, site);
  const call = { site, kind: asked.kind, key: asked.key };
  const later = await laterPlace(edited, site, asked.key);
  if (later !== null) {
    const swap = (one: Site): Site => {
      if (one.step !== site.step || one.phase !== site.phase) return one;
      if (one.ordinal === site.ordinal) return { ...one, ordinal: later };
      return one.ordinal === later ? { ...one, ordinal: site.ordinal } : one;
    };
    const swapped = { class: 'swapped' as const, ordinal: later };
    return [
      { change: swapped, history: await edited.moved(swap) },
      { change: { class: 'removed' }, history: await without(edited, site, later - site.ordinal) },
      { change: { class: 'inserted' }, history: await edited.answered(call, site, false) },
    ];
  }
  return [
    {
      change: { class: await sameHow(edited, site, recorded.kind, call) },
      history: await edited.answered(call, site, true),
    },
    { change: { class: 'inserted' }, history: await edited.answered(call, site, false) },
  ];
}

/** The code asks for something where nothing is recorded, or it never came to what is recorded elsewhere. */
async function beyond(
  edited: EditedHistory,
  divergence: Divergence,
): Promise<readonly Candidate[]> {
  const { site, recorded, asked } = divergence;
  if (asked === null) return removals(edited, site);
  const place = asked.site ?? site;
  const call = { site: place, kind: asked.kind, key: asked.key };
  const found: Candidate[] = [];
  if (recorded !== null && place.step !== site.step) {
    if ((await edited.keyAt(site, place)) === asked.key) {
      const history = await edited.renamed(site.step, place.step);
      found.push({ change: { class: 'renamed', step: place.step }, history });
    }
  }
  const [last] = edited.ordinals(place).toReversed();
  const source = recorded === null ? { ...place, ordinal: last ?? 0 } : site;
  const history = await edited.answered(call, source, false);
  return [
    ...found,
    { change: { class: 'inserted' }, history },
    ...(recorded === null ? [] : await removals(edited, site)),
  ];
}

/** One recorded call is not asked for any more, or none of its step from there on. */
async function removals(edited: EditedHistory, site: Site): Promise<readonly Candidate[]> {
  const change = { class: 'removed' as const };
  return [
    { change, history: await without(edited, site, 1) },
    { change, history: await without(edited, site, Number.POSITIVE_INFINITY) },
  ];
}

function without(edited: EditedHistory, site: Site, count: number): Promise<History> {
  return edited.moved((one) => {
    if (one.step !== site.step || one.phase !== site.phase) return one;
    if (one.ordinal < site.ordinal) return one;
    if (one.ordinal < site.ordinal + count) return null;
    return { ...one, ordinal: one.ordinal - count };
  });
}

/** Where in the same step the call is recorded that is asked for here. */
async function laterPlace(edited: EditedHistory, site: Site, key: string): Promise<number | null> {
  const ahead = edited.ordinals(site).filter((ordinal) => ordinal > site.ordinal);
  for (const ordinal of ahead.slice(0, lookAhead)) {
    if ((await edited.keyAt({ ...site, ordinal }, site)) === key) return ordinal;
  }
  return null;
}

/** What moved between the recorded call and the one that stands in its place. */
async function sameHow(
  edited: EditedHistory,
  site: Site,
  recordedKind: string,
  call: { readonly kind: string; readonly key: string },
): Promise<ChangeClass> {
  if (recordedKind === call.kind) return 'arguments';
  return (await edited.keyAs(site, call.kind)) === call.key ? 'renamed' : 'replaced';
}
