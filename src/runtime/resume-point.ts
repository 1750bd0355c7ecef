// Where a dispatch stands after its recorded slice: pure reading of history, no I/O.
//   T7   the keys of recorded attempts must be those the code asks for; otherwise divergence.
//   RP-1 history outranks policy: a recorded next attempt is followed whatever today's policy says.
//   RP-3 a later verdict for a key supersedes the failure before it.
import { effectKey } from '../protocol/keys.ts';
import type { RecordBody, RecordOf, Site } from '../protocol/record.ts';
import type { DeclaredEffect } from './declared-effect.ts';
import type { HistoryRecord, Slice } from './history.ts';

export interface Divergence {
  readonly site: Site;
  readonly recorded: {
    readonly kind: string;
    readonly key: string;
    readonly attempt: number;
  } | null;
  /** `site` where it is asked for at another place than the recorded one. */
  readonly asked: { readonly kind: string; readonly key: string; readonly site?: Site } | null;
  /** Which part of the identity moved, as far as records can tell. */
  readonly moved: 'kind' | 'args' | 'missing' | 'extra';
  /** Journal sequence of the recorded announcement, 0 when there is none. */
  readonly seq: number;
}

export type ResumePoint =
  | { readonly kind: 'done'; readonly record: HistoryRecord }
  | {
      readonly kind: 'failed';
      readonly record: HistoryRecord;
      readonly started: RecordOf<'EffectStarted'>;
      readonly earlierDoubt: boolean;
    }
  /** A verdict "did not happen" over an announcement that nobody recorded as failed: perform, same key. */
  | {
      readonly kind: 'cleared';
      readonly started: RecordOf<'EffectStarted'>;
      readonly earlierDoubt: boolean;
    }
  | {
      readonly kind: 'orphan';
      readonly started: RecordOf<'EffectStarted'>;
      readonly earlierDoubt: boolean;
    }
  /** A gate refused its next attempt. */
  | { readonly kind: 'denied'; readonly record: HistoryRecord }
  /** Its business key was used before; this is what it came to. */
  | { readonly kind: 'read'; readonly record: HistoryRecord }
  /** A ceiling refused the next attempt and nothing followed. */
  | {
      readonly kind: 'refused';
      readonly record: HistoryRecord;
      readonly attempt: number;
      readonly earlierDoubt: boolean;
    }
  | { readonly kind: 'diverged'; readonly divergence: Divergence };

/** Reads a slice against what the code asks for now. */
export function resumePoint(slice: Slice, declared: DeclaredEffect): ResumePoint {
  let started: RecordOf<'EffectStarted'> | null = null;
  let last: HistoryRecord | null = null;
  let failedBefore = false;
  let refused: HistoryRecord | null = null;
  let read: HistoryRecord | null = null;
  const doubtful = new Set<string>();
  for (const record of slice.records) {
    const { body } = record;
    if (body.kind === 'BudgetRefused') {
      const divergence = compareRefused(slice.site, body, (started?.attempt ?? 0) + 1, declared);
      if (divergence !== null) return { kind: 'diverged', divergence };
      refused = record;
      continue;
    }
    if (body.kind === 'PolicyDenied' || body.kind === 'AtomicRefused') {
      const divergence = compareRefused(slice.site, body, (started?.attempt ?? 0) + 1, declared);
      if (divergence !== null) return { kind: 'diverged', divergence };
      return { kind: 'denied', record };
    }
    if (body.kind === 'ReceiptRead' || body.kind === 'AnswerCached') {
      if (body.key !== attemptKey(slice.site, 1, declared)) {
        const divergence = comparedRead(slice.site, body, declared);
        return { kind: 'diverged', divergence };
      }
      if (body.kind === 'AnswerCached') return { kind: 'done', record };
      read = record;
      continue;
    }
    if (body.kind === 'BudgetReadmitted') {
      refused = null;
      continue;
    }
    if (body.kind === 'EffectStarted') {
      const divergence = compare(slice.site, body, declared);
      if (divergence !== null) return { kind: 'diverged', divergence };
      started = body;
      read = null;
      last = null;
      failedBefore = false;
      doubtful.add(body.key);
    } else if (body.kind === 'EffectDone') {
      return { kind: 'done', record };
    } else if (body.kind === 'EffectFailed') {
      if (body.disposition !== 'in_doubt') doubtful.delete(body.key);
      last = record;
      failedBefore = true;
    } else if (body.kind === 'EffectReconciled') {
      if (body.disposition === 'landed') return { kind: 'done', record };
      if (body.disposition === 'did_not_happen') doubtful.clear();
      last = record;
    }
  }
  if (refused !== null) {
    const attempt = (started?.attempt ?? 0) + 1;
    return { kind: 'refused', record: refused, attempt, earlierDoubt: doubtful.size > 0 };
  }
  if (read !== null) return { kind: 'read', record: read };
  if (started === null) throw new Error('a slice begins with an announcement or a refusal');
  const { key } = started;
  const earlierDoubt = [...doubtful].some((other) => other !== key);
  if (last === null) return { kind: 'orphan', started, earlierDoubt };
  const verdict = last.body;
  const performAgain =
    verdict.kind === 'EffectReconciled' &&
    verdict.disposition === 'did_not_happen' &&
    verdict.assertedBy === undefined &&
    !failedBefore;
  if (performAgain) return { kind: 'cleared', started, earlierDoubt };
  return { kind: 'failed', record: last, started, earlierDoubt };
}

/** What a record says was asked for. */
export function recordedAs(body: Extract<RecordBody, { site: Site }>): Divergence['recorded'] {
  if (body.kind === 'ActStaged' || body.kind === 'AnswerCached') {
    return { kind: body.effect, key: body.key, attempt: 1 };
  }
  if (body.kind !== 'EffectStarted') return { kind: 'a refused effect', key: body.key, attempt: 0 };
  return { kind: body.effect, key: body.key, attempt: body.attempt };
}

/** Key of one attempt of a dispatch. */
export function attemptKey(site: Site, attempt: number, declared: DeclaredEffect): string {
  return effectKey({ ...site, attempt, kind: declared.kind, args: declared.argsText });
}

function comparedRead(
  site: Site,
  body: RecordOf<'ReceiptRead'> | RecordOf<'AnswerCached'>,
  declared: DeclaredEffect,
): Divergence {
  const kind = body.kind === 'AnswerCached' ? body.effect : 'a receipt';
  return {
    site,
    recorded: { kind, key: body.key, attempt: 1 },
    asked: { kind: declared.kind, key: attemptKey(site, 1, declared) },
    moved: body.kind === 'AnswerCached' && kind !== declared.kind ? 'kind' : 'args',
    seq: body.seq,
  };
}

function compareRefused(
  site: Site,
  body: RecordOf<'BudgetRefused'> | RecordOf<'PolicyDenied'> | RecordOf<'AtomicRefused'>,
  attempt: number,
  declared: DeclaredEffect,
): Divergence | null {
  const key = attemptKey(site, attempt, declared);
  if (key === body.key) return null;
  return {
    site,
    recorded: { kind: 'a refused effect', key: body.key, attempt },
    asked: { kind: declared.kind, key },
    moved: 'args',
    seq: body.seq,
  };
}

function compare(
  site: Site,
  body: RecordOf<'EffectStarted'>,
  declared: DeclaredEffect,
): Divergence | null {
  const key = attemptKey(site, body.attempt, declared);
  if (key === body.key) return null;
  return {
    site,
    recorded: { kind: body.effect, key: body.key, attempt: body.attempt },
    asked: { kind: declared.kind, key },
    moved: body.effect === declared.kind ? 'args' : 'kind',
    seq: body.seq,
  };
}

/** A record the code did not ask for, though it came to the end of what it asks (T7). */
export function missingFrom(
  body: Extract<RecordBody, { readonly site: Site }>,
  asked: { readonly site: Site; readonly declared: DeclaredEffect } | undefined,
): Divergence {
  return {
    site: body.site,
    recorded: recordedAs(body),
    asked:
      asked === undefined
        ? null
        : {
            kind: asked.declared.kind,
            key: attemptKey(asked.site, 1, asked.declared),
            site: asked.site,
          },
    moved: 'missing',
    seq: body.seq,
  };
}
