// What an unwind does, judged on the journal's evidence: pure planning (page 01, sections 4 to 6).
//   T8   completed and interrupted work is undone in reverse; a pivot stops the walk; nothing undeclared is undone.
//   SA-1, SA-2  a step mutated when a send of a mutating effect was never refuted.
//   SA-3, decision 2  members and reversals of an aborted group are no evidence.
//   Decision 3  an unfinished pivot counts as passed only when its mutation landed.
import { siteKey } from './doubt.ts';
import type { RecordBody, Site } from './record.ts';

export type Compensation = 'compensatable' | 'pivot' | 'unnecessary' | 'undeclared';

/** What a journal says of one step. */
export interface StepEvidence {
  readonly step: string;
  readonly completed: boolean;
  readonly failed: boolean;
  /** A mutating send of its forward phase may stand in the world. */
  readonly mutated: boolean;
  /** It mutated only inside groups that were taken back whole. */
  readonly discounted: boolean;
  readonly compensated: boolean;
}

interface Gathering {
  completed: boolean;
  failed: boolean;
  compensated: boolean;
  discounted: boolean;
  /** Sends of each forward dispatch that nobody refuted. */
  readonly sends: Map<string, Set<string>>;
}

/** Evidence of every step, in the order the steps were started: ready order among siblings (SA-4). */
export function stepEvidence(bodies: Iterable<RecordBody>): readonly StepEvidence[] {
  const steps = new Map<string, Gathering>();
  const groups = new Map<string, Set<string>>();
  const stepOf = (name: string): Gathering => {
    const known = steps.get(name);
    if (known !== undefined) return known;
    const made = {
      completed: false,
      failed: false,
      compensated: false,
      discounted: false,
      sends: new Map<string, Set<string>>(),
    };
    steps.set(name, made);
    return made;
  };
  // Only forward mutations were ever announced here, so endings of reads and undos find nothing.
  const sendsOf = (site: Site): Set<string> | undefined =>
    steps.get(site.step)?.sends.get(siteKey(site));
  for (const body of bodies) {
    switch (body.kind) {
      case 'StepStarted':
        stepOf(body.step);
        break;
      case 'StepFinished':
        stepOf(body.step).completed = body.outcome === 'ok';
        stepOf(body.step).failed = body.outcome === 'failed';
        break;
      case 'StepCompensated':
        if (body.outcome === 'ok') stepOf(body.step).compensated = true;
        break;
      case 'GroupOpened':
        groups.set(`${body.step}\n${body.name}`, new Set());
        break;
      case 'GroupSettled': {
        if (body.outcome !== 'aborted') break;
        const step = stepOf(body.step);
        for (const key of groups.get(`${body.step}\n${body.name}`) ?? []) {
          if ((step.sends.get(key)?.size ?? 0) > 0) step.discounted = true;
          step.sends.delete(key);
        }
        break;
      }
      case 'EffectStarted': {
        if (!body.mutates || body.site.phase !== 'forward') break;
        const key = siteKey(body.site);
        const step = stepOf(body.site.step);
        const sends = step.sends.get(key) ?? new Set();
        step.sends.set(key, sends.add(body.key));
        if (body.group !== undefined) {
          groups.get(`${body.site.step}\n${body.group}`)?.add(key);
        }
        break;
      }
      case 'EffectDone':
        // A call that a probe had cleared was sent again under its own key, and landed.
        sendsOf(body.site)?.add(body.key);
        break;
      case 'EffectFailed':
        if (body.disposition === 'did_not_happen') sendsOf(body.site)?.delete(body.key);
        else sendsOf(body.site)?.add(body.key);
        break;
      case 'EffectReconciled':
        if (body.disposition === 'did_not_happen') sendsOf(body.site)?.clear();
        break;
    }
  }
  return [...steps].map(([step, { completed, failed, compensated, discounted, sends }]) => {
    const mutated = [...sends.values()].some((open) => open.size > 0);
    return {
      step,
      completed,
      failed,
      compensated,
      mutated,
      discounted: discounted && !mutated,
    };
  });
}

/** One entry of an unwind's list, in completion order; interrupted steps come last (SA-9). */
export interface UnwindEntry {
  readonly step: string;
  readonly completed: boolean;
}

/** What the walk does with one entry of the list. */
export type UndoAction =
  | { readonly kind: 'undo'; readonly step: string }
  /** An undeclared step that mutated: the walk stops and a person is asked. */
  | { readonly kind: 'refuse'; readonly step: string };

/**
 * The walk of an unwind, first undo first; null when nothing opens one (SA-6) or it would touch nothing.
 * `declared` says how each step is taken back; steps outside any step ('') are nobody's to undo.
 */
export function planUnwind(
  evidence: readonly StepEvidence[],
  declared: (step: string) => Compensation,
  status: 'failed' | 'cancelled',
): { readonly list: readonly UnwindEntry[]; readonly walk: readonly UndoAction[] } | null {
  const steps = evidence.filter(({ step }) => step !== '');
  const opens = (entry: StepEvidence): boolean => {
    if (entry.discounted) return false;
    const how = declared(entry.step);
    return how === 'compensatable' || (how === 'undeclared' && entry.mutated);
  };
  const asked = steps.filter((entry) => entry.completed || (entry.mutated && !entry.failed));
  if (status === 'failed' && !asked.some(opens)) return null;
  const list = [
    ...steps.filter((entry) => entry.completed),
    ...steps.filter((entry) => entry.mutated && !entry.completed),
  ];
  const walk: UndoAction[] = [];
  for (const entry of list.toReversed()) {
    const how = declared(entry.step);
    if (how === 'pivot') break;
    if (how === 'unnecessary' || entry.discounted) continue;
    if (how === 'compensatable') walk.push({ kind: 'undo', step: entry.step });
    else if (entry.mutated) {
      walk.push({ kind: 'refuse', step: entry.step });
      break;
    }
  }
  if (walk.length === 0) return null;
  return { list: list.map(({ step, completed }) => ({ step, completed })), walk };
}

/** A group whose last settlement is quarantined: nobody knows what stands, and nothing is undone around it. */
export function stuckGroup(
  bodies: Iterable<RecordBody>,
): Extract<RecordBody, { kind: 'GroupSettled' }> | null {
  const last = new Map<string, Extract<RecordBody, { kind: 'GroupSettled' }>>();
  for (const body of bodies) {
    if (body.kind === 'GroupSettled') last.set(`${body.phase}\n${body.step}\n${body.name}`, body);
  }
  return [...last.values()].find(({ outcome }) => outcome === 'quarantined') ?? null;
}

/** True when mutations may stand that nothing has taken back. */
export function hasLandedWork(bodies: Iterable<RecordBody>): boolean {
  return stepEvidence(bodies).some((entry) => entry.mutated && !entry.compensated);
}
