// Atomic members of a group: rows of the caller's own tables in one transaction with their records (GR-13).
//
// Owns: their gates, their one write, and reading them back. Does not own: when a group commits (groups.ts) or
// how an engine takes the entries (adapters).
//   T9   announcement, record and row of every member stand together or not at all; replay applies nothing.
//   GA-1 every member passes the gates before the transaction opens (E177).
//   Decision 8: a lost acknowledgement is decided by the journal. The pass ends there; whoever takes the turn over
//        occupies the next position, and finds the records or has made sure they never come.

import type { AtomicEntries, LentEntry } from '../ports/lent.ts';
import type { Site } from '../protocol/record.ts';
import type { DeclaredEffect } from './declared-effect.ts';
import type { Dispatch } from './dispatch.ts';
import { admitted, mayAct } from './effect-announce.ts';
import { providerKey, readDenial, readRefusal, replayOutcome } from './effect-runner.ts';
import { passesGates } from './gates.ts';
import type { HistoryRecord } from './history.ts';
import type { JournalWriter } from './journal-writer.ts';
import { payloadOf } from './journal-writer.ts';
import type { Pass } from './pass.ts';
import type { ResumePoint } from './resume-point.ts';
import { attemptKey, resumePoint } from './resume-point.ts';
import { EffectError } from './turn-context.ts';

/** One member as it was registered. */
export interface AtomicMember {
  readonly site: Site;
  readonly declared: DeclaredEffect;
  readonly entries: AtomicEntries;
}

/** Writes every member, or reads back that they were written. Rejects with EffectError when nothing was. */
export function runAtomic(pass: Pass, members: readonly AtomicMember[]): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const settle = { resolve, reject };
    const dispatches = members.map(
      ({ site, declared }): Dispatch => ({
        pass,
        site,
        declared,
        receipt: null,
        idempotencyKey: providerKey(pass.setup.ref, site, declared),
        settle,
      }),
    );
    const points = dispatches.map(({ site, declared }) => {
      const slice = pass.setup.history.take(site);
      return slice === undefined ? null : resumePoint(slice, declared);
    });
    readBack({ pass, members, dispatches }, points);
  });
}

interface Batch {
  readonly pass: Pass;
  readonly members: readonly AtomicMember[];
  readonly dispatches: readonly Dispatch[];
}

type Point = ResumePoint | null;

function readBack(batch: Batch, points: readonly Point[]): void {
  const { pass, dispatches } = batch;
  const first = dispatches[0] as Dispatch;
  for (const [index, point] of points.entries()) {
    const dispatch = dispatches[index] as Dispatch;
    if (point?.kind === 'diverged') return pass.diverged(point.divergence);
    if (point?.kind === 'denied') {
      if (point.record.body.kind === 'AtomicRefused')
        return readTransaction(dispatch, point.record);
      return readDenial(dispatch, point.record);
    }
    if (point?.kind === 'refused') {
      const again = !pass.strict && pass.setup.history.atFrontier(point.record);
      if (!again) return readRefusal(dispatch, point);
    }
  }
  const done = points.flatMap((point) => (point?.kind === 'done' ? [point] : []));
  if (done.length === points.length) {
    const last = done.at(-1);
    if (last === undefined) throw new Error('a group without atomic members');
    return replayOutcome(first, last.record, () => {
      for (const { record } of done) pass.heard(record.body);
      first.settle.resolve(null);
    });
  }
  const torn = points.findIndex((point) => point !== null && point.kind !== 'refused');
  if (torn >= 0) return diverge(batch, torn, points[torn] as ResumePoint);
  const readmits = points.map((point) => point?.kind === 'refused');
  goLive(batch, readmits);
}

/** A failure, an orphan, or a part of the members under an atomic member's key was never written by this build. */
function diverge({ pass, dispatches }: Batch, index: number, point: ResumePoint): void {
  const { site, declared } = dispatches[index] as Dispatch;
  const key = attemptKey(site, 1, declared);
  const seq = 'record' in point ? point.record.body.seq : 0;
  pass.diverged({
    site,
    recorded: { kind: `an atomic member that is ${point.kind}`, key, attempt: 1 },
    asked: { kind: declared.kind, key },
    moved: 'kind',
    seq,
  });
}

function goLive(batch: Batch, readmits: readonly boolean[]): void {
  const { pass, dispatches } = batch;
  const { site, declared } = dispatches[0] as Dispatch;
  const start = (): void => {
    const { writer } = pass.setup;
    if (writer === null) {
      const asked = { kind: declared.kind, key: attemptKey(site, 1, declared) };
      return pass.diverged({ site, recorded: null, asked, moved: 'extra', seq: 0 });
    }
    void write(batch, writer, readmits).catch((error: unknown) =>
      pass.stop({ kind: 'broken', error }),
    );
  };
  pass.whenLive(site, declared, start, { fresh: true });
}

async function write(
  batch: Batch,
  writer: JournalWriter,
  readmits: readonly boolean[],
): Promise<void> {
  const { pass, dispatches } = batch;
  const settle = pass.scheduler.begin();
  const first = dispatches[0] as Dispatch;
  if (pass.draining) {
    pass.scheduler.abandon();
    return pass.park(null);
  }
  await pass.tenant.look();
  for (const [index, dispatch] of dispatches.entries()) {
    const { site, declared } = dispatch;
    const key = attemptKey(site, 1, declared);
    if (!(await passesGates(dispatch, writer, key, 1, settle))) return;
    const bytes = Buffer.byteLength(declared.argsText);
    // Members before this one are counted with it: their announcements come together or not at all (BU-2).
    if (!admitted(dispatch, writer, key, readmits[index] === true, bytes, settle, index)) return;
  }
  await mayAct(first, writer, attemptKey(first.site, 1, first.declared), 'nothing');
  const records = dispatches.flatMap(({ site, declared }) => recordsOf(site, declared));
  const outcome = await writer.together(records, entriesOf(batch));
  if (outcome.kind === 'done') {
    return settle(() => {
      for (const [index, body] of outcome.bodies.entries()) {
        const declared = dispatches[Math.floor(index / 2)]?.declared;
        pass.meter.add(body, Buffer.byteLength(declared?.argsText ?? ''));
        pass.heard(body);
      }
      first.settle.resolve(null);
    });
  }
  settle(() => {
    const key = attemptKey(first.site, 1, first.declared);
    const facts = { kind: 'AtomicRefused' as const, site: first.site, key };
    pass.heard(writer.ride(facts, payloadOf({ detail: outcome.detail })));
    hearRefused(first, key, outcome.detail);
  });
}

/** A refused transaction is read back and not tried again: what was held for it has been taken back since. */
function readTransaction(dispatch: Dispatch, record: HistoryRecord): void {
  const { body } = record;
  if (body.kind !== 'AtomicRefused') throw new Error('not a refused transaction');
  replayOutcome(dispatch, record, (payload) => {
    const { detail = '' } = (payload ?? {}) as { detail?: string };
    hearRefused(dispatch, body.key, detail);
  });
}

function hearRefused(
  { declared, site, settle }: Dispatch,
  effectKey: string,
  detail: string,
): void {
  settle.reject(
    new EffectError(`${declared.kind}: the transaction was refused: ${detail}`, {
      code: 'transaction_refused',
      disposition: 'did_not_happen',
      effectKey,
      step: site.step,
      undecided: false,
    }),
  );
}

function recordsOf(site: Site, declared: DeclaredEffect) {
  const key = attemptKey(site, 1, declared);
  const { kind: effect, mutates, recovery, group } = declared;
  const spend = { tokens: 0, minorUnits: 0 };
  return [
    {
      facts: {
        kind: 'EffectStarted' as const,
        site,
        key,
        effect,
        attempt: 1,
        backoffMs: 0,
        mutates,
        recovery,
        ...(group === null ? {} : { group }),
      },
      payload: { kind: 'text' as const, text: declared.argsText },
    },
    { facts: { kind: 'EffectDone' as const, site, key, spend }, payload: payloadOf(null) },
  ];
}

function entriesOf({ pass, members }: Batch): readonly LentEntry[] {
  const { lender } = pass.setup.runtime.store;
  if (lender === null) throw new Error('the store lends no transaction');
  return members.flatMap(({ entries }): readonly LentEntry[] => entries[lender] ?? []);
}
