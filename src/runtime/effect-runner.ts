// One effect, from its recorded slice or from scratch to the outcome its code hears.
//
// Owns: announce, act, record; attempts, probes and what each outcome means. Does not own: the order
// outcomes are heard in (scheduler.ts) or how writes are batched (journal-writer.ts).
//   T4   nothing acts past the lease's end on a monotonic clock (page 09, B9).
//   T5   the announcement is durable before the call, the outcome is recorded after it.
//   T6   an announcement without outcome follows its recorded recovery; ruling 1 keeps earlier doubt.
//   T7   what is recorded is read back and never performed again.
import type { TurnRef } from '../ports/store.ts';
import { decode, encode } from '../protocol/canonical.ts';
import { decideFailure, decideOrphan, decideProbe } from '../protocol/effect-decision.ts';
import { businessIdempotencyKey, idempotencyKey } from '../protocol/keys.ts';
import type { RecordOf, Site } from '../protocol/record.ts';
import { exhausted } from './budget-pause.ts';
import type { DeclaredEffect } from './declared-effect.ts';
import type { Dispatch, Entry } from './dispatch.ts';
import { announce, mayAct } from './effect-announce.ts';
import { attemptOnce } from './effect-attempt.ts';
import { askProbe } from './effect-probe.ts';
import { type AttemptFailure, record, recordFailure } from './effect-records.ts';
import { hearDenial } from './gates.ts';
import type { HistoryRecord } from './history.ts';
import { openRecord } from './history.ts';
import type { JournalWriter } from './journal-writer.ts';
import { keepLate } from './late-results.ts';
import type { Pass } from './pass.ts';
import { hear, joinKey, outputOf, takeKey, useKey } from './receipts.ts';
import { tellReplay } from './replay-span.ts';
import type { ResumePoint } from './resume-point.ts';
import { attemptKey, recordedAs, resumePoint } from './resume-point.ts';
import { EffectError } from './turn-context.ts';

/** Runs a dispatch to its outcome; the promise never settles when the pass stops first. */
export function runEffect(pass: Pass, site: Site, declared: DeclaredEffect): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const { ref } = pass.setup;
    const dispatch: Dispatch = {
      pass,
      site,
      declared,
      receipt: null,
      idempotencyKey: providerKey(ref, site, declared),
      settle: { resolve, reject },
    };
    const slice = pass.setup.history.take(site);
    const first = useKey(dispatch);
    if (first !== null && slice === undefined) return joinKey(dispatch, first);
    if (slice === undefined) return goLive(dispatch, { kind: 'announce', attempt: 1 }, false);
    readBack(dispatch, resumePoint(slice, declared));
  });
}

/** The same for every attempt; a business key gives one for the whole thread (K-28). */
export function providerKey(ref: TurnRef, site: Site, declared: DeclaredEffect): string {
  const { tenant, thread, turn: turnId } = ref;
  const { kind, key } = declared;
  if (key !== null) return businessIdempotencyKey({ tenant, thread, kind, key });
  return idempotencyKey({ tenant, thread, turnId, ...site });
}

function readBack(dispatch: Dispatch, point: ResumePoint): void {
  if ('started' in point) dispatch.receipt = point.started.receipt ?? null;
  switch (point.kind) {
    case 'diverged':
      return dispatch.pass.diverged(point.divergence);
    case 'done':
      return replayOutcome(dispatch, point.record, (output) => {
        dispatch.pass.replay.keep(dispatch, point.record.body, () => encode(output));
        dispatch.settle.resolve(output);
      });
    case 'failed':
      return readFailure(dispatch, point);
    case 'cleared':
      // The verdict stands alone: whether its call went out is not known, so it is asked again.
      return meetOrphan(dispatch, point.started, point.earlierDoubt);
    case 'refused':
      return readRefusal(dispatch, point);
    case 'denied':
      if (point.record.body.kind === 'AtomicRefused') return wasAtomic(dispatch, point.record);
      return readDenial(dispatch, point.record);
    case 'read':
      return readReceipt(dispatch, point.record);
    case 'orphan':
      return meetOrphan(dispatch, point.started, point.earlierDoubt);
  }
}

/** The code now makes an ordinary call where an atomic member stood. */
function wasAtomic({ pass, site, declared }: Dispatch, { body }: HistoryRecord): void {
  if (!('site' in body)) throw new Error('not a refused transaction');
  const asked = { kind: declared.kind, key: attemptKey(site, 1, declared) };
  pass.diverged({ site, recorded: recordedAs(body), asked, moved: 'kind', seq: body.seq });
}

/** A denial is never asked for again (GA-2). */
export function readDenial(dispatch: Dispatch, record: HistoryRecord): void {
  const { body } = record;
  if (body.kind !== 'PolicyDenied') throw new Error('not a denial');
  replayOutcome(dispatch, record, (payload) => {
    const { reason = '' } = (payload ?? {}) as { reason?: string };
    hearDenial(dispatch, body.key, body.by, reason, body.exhausts);
  });
}

/** What a receipt came to when it was read; a key in doubt is asked for again once a person reopened the turn. */
function readReceipt(dispatch: Dispatch, record: HistoryRecord): void {
  const { body } = record;
  if (body.kind !== 'ReceiptRead') throw new Error('not a receipt');
  const { outcome, receipt } = body;
  if (outcome === 'uncertain' && dispatch.pass.setup.history.reopenedAfter(body.seq)) {
    return goLive(dispatch, { kind: 'announce', attempt: 1 }, false);
  }
  replayOutcome(dispatch, record, (payload) => {
    const { output, effectKey = '' } = (payload ?? {}) as { output?: unknown; effectKey?: string };
    hear(dispatch, receipt, { outcome, effectKey, output });
  });
}

/** A recorded refusal at the frontier is put to today's ceilings again; inside history it is raised again. */
export function readRefusal(
  dispatch: Dispatch,
  point: Extract<ResumePoint, { kind: 'refused' }>,
): void {
  const { pass, site } = dispatch;
  const { body } = point.record;
  if (body.kind !== 'BudgetRefused') throw new Error('not a refusal');
  if (!pass.strict && pass.setup.history.atFrontier(point.record)) {
    const entry = { kind: 'announce' as const, attempt: point.attempt, readmit: true };
    return goLive(dispatch, entry, point.earlierDoubt);
  }
  replayOutcome(dispatch, point.record, () =>
    dispatch.settle.reject(exhausted(body.limit, site.step)),
  );
}

/** Page 01, 1.4: the recorded recovery decides (OR-1). */
function meetOrphan(
  dispatch: Dispatch,
  started: RecordOf<'EffectStarted'>,
  earlierDoubt: boolean,
): void {
  const { pass, site } = dispatch;
  if (pass.strict) {
    const stop = (): void => pass.stop({ kind: 'undecidable', site });
    return pass.whenLive(site, dispatch.declared, stop, { fresh: false });
  }
  const decision = decideOrphan({
    recovery: started.recovery,
    mutates: started.mutates,
    pass: 'resume',
  });
  const { attempt } = started;
  if (decision.kind === 'perform_same_key') {
    return goLive(dispatch, { kind: 'perform', attempt, resend: true }, earlierDoubt);
  }
  if (decision.kind === 'probe')
    return goLive(dispatch, { kind: 'probe', attempt, live: false }, earlierDoubt);
  const why = 'its outcome is unknown after a crash';
  const reject = (): void => {
    const settle = pass.scheduler.begin();
    settle(() => rejectUndecided(dispatch, started.key, 'effect_undecided', why));
  };
  pass.whenLive(site, dispatch.declared, reject, { fresh: false });
}

/** A recorded failure is the last word: the decision is computed again from it (RP-1, RP-2). */
function readFailure(dispatch: Dispatch, point: Extract<ResumePoint, { kind: 'failed' }>): void {
  const { declared, site } = dispatch;
  const { body } = point.record;
  if (body.kind !== 'EffectFailed' && body.kind !== 'EffectReconciled')
    throw new Error('not a failure');
  const { attempt, key } = point.started;
  const verdictOfProbe = body.kind === 'EffectReconciled';
  const decision = verdictOfProbe
    ? decideProbe({
        verdict: body.disposition === 'did_not_happen' ? 'did_not_happen' : 'inconclusive',
        mutates: declared.mutates,
        attempt,
        maxAttempts: declared.retry.maxAttempts,
        live: true,
      })
    : decideFailure({
        disposition: body.disposition,
        permanent: body.permanent,
        mutates: declared.mutates,
        recovery: declared.recovery,
        attempt,
        maxAttempts: declared.retry.maxAttempts,
        earlierDoubt: point.earlierDoubt,
      });
  const doubt = point.earlierDoubt || body.disposition === 'in_doubt';
  if (decision.kind === 'retry') {
    const next = { kind: 'announce' as const, attempt: attempt + 1, since: body.at };
    return goLive(dispatch, next, doubt && !verdictOfProbe);
  }
  if (decision.kind === 'probe') {
    return goLive(dispatch, { kind: 'probe', attempt, live: true }, point.earlierDoubt);
  }
  if (decision.kind === 'done' || decision.kind === 'perform_same_key') {
    throw new Error(`a recorded failure of ${site.step} cannot be ${decision.kind}`);
  }
  const undecided = decision.kind === 'quarantined';
  // Ruling 8: an undo that failed without doubt is tried again when a person reopens the turn.
  const undoes = site.phase === 'compensating' || declared.reversal;
  const again = undoes && body.disposition === 'did_not_happen';
  if (!undecided && again && dispatch.pass.setup.history.reopenedAfter(body.seq)) {
    const next = { kind: 'announce' as const, attempt: attempt + 1, since: body.at };
    return goLive(dispatch, next, doubt && !verdictOfProbe);
  }
  replayOutcome(dispatch, point.record, (payload) =>
    dispatch.settle.reject(
      new EffectError(messageIn(payload), {
        code: body.kind === 'EffectFailed' ? body.code : 'effect_undecided',
        disposition: undecided ? 'in_doubt' : body.disposition,
        effectKey: key,
        step: site.step,
        undecided,
      }),
    ),
  );
}

export function replayOutcome(
  dispatch: Dispatch,
  record: HistoryRecord,
  deliver: (payload: unknown) => void,
): void {
  const { pass } = dispatch;
  const { runtime, sealer, ref } = pass.setup;
  pass.scheduler.replay(record.body.seq, async () => {
    const payload = await openRecord(runtime.store, sealer, ref, record);
    return () => {
      pass.heard(record.body);
      tellReplay(dispatch, record.body);
      deliver(outputOf(record.body, payload));
    };
  });
}

function goLive(dispatch: Dispatch, entry: Entry, earlierDoubt: boolean): void {
  const { pass, site, declared } = dispatch;
  const start = (): void => {
    const { writer } = pass.setup;
    if (writer === null) {
      return pass.diverged({
        site,
        recorded: null,
        asked: { kind: declared.kind, key: attemptKey(site, entry.attempt, declared) },
        moved: 'extra',
        seq: 0,
      });
    }
    void runLive(dispatch, writer, entry, earlierDoubt).catch((error: unknown) =>
      pass.stop({ kind: 'broken', error }),
    );
  };
  pass.whenLive(site, declared, start, { fresh: entry.kind === 'announce' && !earlierDoubt });
}

async function runLive(
  dispatch: Dispatch,
  writer: JournalWriter,
  start: Entry,
  doubtBefore: boolean,
): Promise<void> {
  const { pass, declared } = dispatch;
  const settle = pass.scheduler.begin();
  let entry = start;
  let earlierDoubt = doubtBefore;
  for (;;) {
    const key = attemptKey(dispatch.site, entry.attempt, dispatch.declared);
    if (entry.kind === 'announce') {
      if (!(await takeKey(dispatch, writer, settle))) return;
      if ((await announce(dispatch, writer, key, entry, settle, earlierDoubt)) === 'settled')
        return;
    }
    if (entry.kind === 'probe') {
      const next = await askProbe(dispatch, writer, key, entry, settle);
      if (next === null) return;
      if (next.kind === 'announce') earlierDoubt = false;
      entry = next;
      continue;
    }
    await mayAct(dispatch, writer, key, entry.kind === 'announce' ? 'announced' : 'nothing');
    const outcome = await attemptOnce(dispatch, key, entry.attempt);
    const resend = entry.kind === 'perform' && entry.resend;
    if (pass.abort.signal.aborted) return keepLate(pass, key, outcome, resend);
    const verdict = entry.kind === 'perform' ? entry.verdict : undefined;
    if (outcome.kind === 'done') {
      return settle(() => {
        verdict?.();
        const body = record(
          dispatch,
          writer,
          { kind: 'EffectDone', key, spend: outcome.spend, ...declared.label },
          {
            kind: 'text',
            text: outcome.text,
          },
        );
        pass.heard(body);
        pass.replay.keep(dispatch, body, () => outcome.text);
        dispatch.settle.resolve(decode(outcome.text));
      });
    }
    const next = decideNext(dispatch, outcome, entry.attempt, { earlierDoubt, resend });
    if (next.kind === 'end') {
      return settle(() => {
        verdict?.();
        const body = recordFailure(dispatch, writer, key, outcome, next.disposition);
        pass.heard(body);
        dispatch.settle.reject(
          new EffectError(outcome.message, {
            code: outcome.code,
            disposition: next.undecided ? 'in_doubt' : next.disposition,
            effectKey: key,
            step: dispatch.site.step,
            undecided: next.undecided,
          }),
        );
      });
    }
    verdict?.();
    recordFailure(dispatch, writer, key, outcome, next.disposition);
    if (next.disposition === 'in_doubt') earlierDoubt = true;
    entry = next.entry;
  }
}

type Next =
  | {
      readonly kind: 'end';
      readonly undecided: boolean;
      readonly disposition: AttemptFailure['disposition'];
    }
  | {
      readonly kind: 'go';
      readonly entry: Entry;
      readonly disposition: AttemptFailure['disposition'];
    };

/** Ruling 1: a refusal of a resend says nothing about the send before it. */
function decideNext(
  dispatch: Dispatch,
  outcome: AttemptFailure,
  attempt: number,
  doubt: { earlierDoubt: boolean; resend: boolean },
): Next {
  const { declared } = dispatch;
  const disposition =
    doubt.resend && declared.mutates && outcome.disposition === 'did_not_happen'
      ? 'in_doubt'
      : outcome.disposition;
  const decision = decideFailure({
    disposition,
    permanent: outcome.permanent && disposition === outcome.disposition,
    mutates: declared.mutates,
    recovery: declared.recovery,
    attempt,
    maxAttempts: declared.retry.maxAttempts,
    earlierDoubt: doubt.earlierDoubt,
  });
  switch (decision.kind) {
    case 'retry': {
      const advice = outcome.adviceMs === undefined ? {} : { adviceMs: outcome.adviceMs };
      return {
        kind: 'go',
        disposition,
        entry: { kind: 'announce', attempt: attempt + 1, ...advice },
      };
    }
    case 'probe':
      return { kind: 'go', disposition, entry: { kind: 'probe', attempt, live: true } };
    case 'failed':
      return { kind: 'end', undecided: false, disposition };
    case 'quarantined':
      return { kind: 'end', undecided: true, disposition };
  }
}

function rejectUndecided(dispatch: Dispatch, key: string, code: string, why: string): void {
  dispatch.settle.reject(
    new EffectError(`${dispatch.declared.kind}: ${why}`, {
      code,
      disposition: 'in_doubt',
      effectKey: key,
      step: dispatch.site.step,
      undecided: true,
    }),
  );
}

function messageIn(payload: unknown): string {
  if (typeof payload === 'object' && payload !== null && 'message' in payload) {
    return String(payload.message);
  }
  return 'the effect failed';
}
