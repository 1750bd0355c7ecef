// Doubt, computed from records: one function for the unwind gate, the operator and the audit (DO-1).
//   T6   a doubt is cleared by a probe, a person or a completed repeat of the same dispatch only;
//        a later refusal of a resend clears nothing (ruling 1).
//   Decision 21: the dispatch is (step, phase, ordinal); an identical twin call never hides it.
import type { RecordBody, RecordOf, Site } from './record.ts';

export interface Doubt {
  readonly site: Site;
  /** Key of the last attempt: the one a person answers (ruling 2). */
  readonly key: string;
  readonly effect: string;
  readonly mutates: boolean;
  readonly doubt: 'announced' | 'inconclusive';
  readonly since: number;
}

interface Dispatch {
  started: RecordOf<'EffectStarted'>;
  /** Sends of this dispatch nobody has settled. */
  open: Map<string, { since: number; doubt: 'announced' | 'inconclusive' }>;
}

/** Stable text of a site, for maps. */
export function siteKey(site: Site): string {
  return `${site.phase === 'forward' ? 'f' : 'c'}:${site.ordinal}:${site.step}`;
}

/** Every unsettled send of a mutating effect, one entry a dispatch, in journal order of its first announcement. */
export function doubtsOf(
  bodies: Iterable<RecordBody>,
  options: { reads?: boolean } = {},
): readonly Doubt[] {
  const dispatches = new Map<string, Dispatch>();
  for (const body of bodies) apply(dispatches, body);
  const doubts: Doubt[] = [];
  for (const { started, open } of dispatches.values()) {
    if (!started.mutates && options.reads !== true) continue;
    const first = [...open.values()][0];
    if (first === undefined) continue;
    const last = [...open.values()].at(-1) ?? first;
    doubts.push({
      site: started.site,
      key: started.key,
      effect: started.effect,
      mutates: started.mutates,
      doubt: last.doubt,
      since: first.since,
    });
  }
  return doubts;
}

/** A probe's "did not happen" over a bare announcement: its call is on its way until an outcome follows. */
function standsAlone(dispatch: Dispatch | undefined, body: RecordOf<'EffectReconciled'>): boolean {
  if (body.disposition !== 'did_not_happen' || body.assertedBy !== undefined) return false;
  return dispatch?.open.get(body.key)?.doubt === 'announced';
}

function apply(dispatches: Map<string, Dispatch>, body: RecordBody): void {
  if (body.kind === 'EffectStarted') {
    const known = dispatches.get(siteKey(body.site));
    const open = known?.open ?? new Map();
    open.set(body.key, { since: body.at, doubt: 'announced' });
    dispatches.set(siteKey(body.site), { started: body, open });
    return;
  }
  if (body.kind === 'EffectDone') {
    dispatches.get(siteKey(body.site))?.open.clear();
    return;
  }
  if (body.kind === 'EffectReconciled') {
    const dispatch = dispatches.get(siteKey(body.site));
    if (body.disposition === 'in_doubt')
      dispatch?.open.set(body.key, { since: body.at, doubt: 'inconclusive' });
    else if (!standsAlone(dispatch, body)) dispatch?.open.clear();
    return;
  }
  if (body.kind === 'EffectFailed') {
    const dispatch = dispatches.get(siteKey(body.site));
    if (body.disposition === 'in_doubt')
      dispatch?.open.set(body.key, { since: body.at, doubt: 'inconclusive' });
    else dispatch?.open.delete(body.key);
  }
}
