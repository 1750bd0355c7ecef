// What a receipt stands for, read from the journal of the dispatch that holds its key: pure.
//   Ruling 2  a receipt and its effect are one doubt; it is uncertain exactly while that effect is undecided.
import { doubtsOf, siteKey } from './doubt.ts';
import type { RecordBody, RecordOf, Site } from './record.ts';

export type ReceiptState =
  /** The key is taken, nothing was announced. */
  | { readonly kind: 'reserved' }
  /** Announced, its turn still drives it. */
  | { readonly kind: 'prepared'; readonly effectKey: string }
  | { readonly kind: 'completed'; readonly record: RecordBody; readonly effectKey: string }
  /** Certified as not applied: the key may be taken again (K-32). */
  | { readonly kind: 'failed'; readonly effectKey: string }
  /** It took effect, but its answer is of no use; never called again. */
  | { readonly kind: 'landed'; readonly effectKey: string; readonly code: string }
  /** Nobody knows; never called again until a person or a probe says (K-33). */
  | { readonly kind: 'uncertain'; readonly effectKey: string };

/** State of the dispatch at `site`; `open` says that a pass still drives its turn or will. */
export function receiptState(
  bodies: readonly RecordBody[],
  site: Site,
  open: boolean,
): ReceiptState {
  const wanted = siteKey(site);
  const own = bodies.filter((body) => 'site' in body && siteKey(body.site) === wanted);
  let started: RecordOf<'EffectStarted'> | null = null;
  let last: RecordBody | null = null;
  for (const body of own) {
    if (body.kind === 'EffectStarted') {
      started = body;
      last = null;
    }
    if (body.kind === 'EffectDone' || body.kind === 'EffectFailed') last = body;
    if (body.kind === 'EffectReconciled') last = body;
  }
  if (started === null) return { kind: 'reserved' };
  const effectKey = started.key;
  const landed = last?.kind === 'EffectReconciled' && last.disposition === 'landed';
  if (last?.kind === 'EffectDone' || landed) {
    return { kind: 'completed', record: last as RecordBody, effectKey };
  }
  const doubt = doubtsOf(own, { reads: true }).length > 0;
  if (doubt)
    return open && last === null
      ? { kind: 'prepared', effectKey }
      : { kind: 'uncertain', effectKey };
  if (last?.kind === 'EffectFailed' && last.disposition === 'landed') {
    return { kind: 'landed', effectKey, code: last.code };
  }
  return { kind: 'failed', effectKey };
}
