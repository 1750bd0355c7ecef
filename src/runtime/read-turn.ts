// Reading turns, threads and journals for callers and operators. Writes nothing (ST-4).
//   T13  a journal is verified against its chain and the head kept apart in the projection.

import type { Head, Position, ThreadRef, TurnRef } from '../ports/store.ts';
import type { ChainLink } from '../protocol/chain.ts';
import { genesisHash, verifyChain } from '../protocol/chain.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { RecordBody } from '../protocol/record.ts';
import { decodeBody } from '../protocol/record-codec.ts';
import { isConclusion } from '../protocol/turn-status.ts';
import { undecidedOf } from './conclude.ts';
import type { HistoryRecord } from './history.ts';
import { openRecord } from './history.ts';
import { keyringOf } from './keyring.ts';
import { admissionOf, endView, runningView } from './known-turn.ts';
import type { LateView } from './late-results.ts';
import { readLate } from './late-results.ts';
import type { Runtime } from './runtime.ts';
import type { TurnView } from './turn-view.ts';

/** The turn as it stands; null when nothing is known of it. */
export async function readTurn(runtime: Runtime, ref: TurnRef): Promise<TurnView | null> {
  const begun = await runtime.store.begin(ref, null);
  const keyring = keyringOf(runtime, ref, begun);
  const open = begun.head?.open?.turn === ref.turn;
  if (!open && begun.end !== null && isConclusion(begun.end.status)) {
    const view = await endView(runtime, ref, keyring, begun.end);
    if (view.status !== 'quarantined') return view;
    return { ...view, undecided: (await readUndecided(runtime, ref)) ?? [] };
  }
  if (!open && begun.end?.status === 'suspended') {
    return endView(runtime, ref, keyring, begun.end);
  }
  if (begun.first === null && begun.work?.accepted == null) return null;
  return runningView(ref, begun);
}

export interface ThreadView {
  readonly thread: string;
  readonly agent: string | null;
  readonly revision: number;
  readonly openTurn: string | null;
  readonly blockedBy: string | null;
}

/** The thread's head for people; null for a thread never written. */
export async function readThread(runtime: Runtime, thread: ThreadRef): Promise<ThreadView | null> {
  const head: Head | null = await runtime.store.head(thread);
  if (head === null) return null;
  return {
    thread: thread.thread,
    agent: head.agent,
    revision: head.revision,
    openTurn: head.open?.turn ?? null,
    blockedBy: head.blockedBy,
  };
}

export interface JournalEntry {
  readonly body: RecordBody;
  /** Opened payload while its key lives; undefined when there is none or it was erased. */
  readonly payload: unknown;
  readonly prevHash: string;
  readonly hash: string;
}

export interface JournalPage {
  readonly records: readonly JournalEntry[];
  readonly head: { readonly seq: number; readonly hash: string };
  readonly verified: true | { readonly firstBad: number; readonly reason: string };
  /** Results that came too late for the journal: evidence, of which nothing followed (B26). */
  readonly late: readonly LateView[];
}

/** A page of the journal after `after` (exclusive), with the verdict over the whole chain. */
export async function readJournal(
  runtime: Runtime,
  ref: TurnRef,
  page: { readonly after: number; readonly limit: number },
): Promise<JournalPage | null> {
  const [begun, positions] = await Promise.all([
    runtime.store.begin(ref, null),
    runtime.store.journal(ref),
  ]);
  if (positions.length === 0) return null;
  const links = linksOf(positions);
  const kept = begun.end === null ? undefined : begun.end.head;
  const verdict = verifyChain(links, kept);
  const keyring = keyringOf(runtime, ref, begun);
  const sealer = await keyring.reader(admissionOf(positions[0] ?? fail()).scope);
  const records: JournalEntry[] = [];
  for (const link of links.slice(page.after, page.after + page.limit)) {
    const record: HistoryRecord = { stored: link, body: decodeBody(link.body) };
    const readable = sealer !== null && (verdict.ok || link.seq < verdict.firstBad);
    const payload = readable ? await openRecord(runtime.store, sealer, ref, record) : undefined;
    records.push({ body: record.body, payload, prevHash: link.prevHash, hash: link.hash });
  }
  return {
    records,
    head: { seq: links.length, hash: links.at(-1)?.hash ?? genesisHash },
    verified: verdict.ok ? true : { firstBad: verdict.firstBad, reason: verdict.reason },
    late: await readLate(runtime.store, ref, (scope) => keyring.reader(scope)),
  };
}

/** The records of a journal as its chain names them. */
export function linksOf(positions: readonly Position[]): readonly ChainLink[] {
  let prevHash = genesisHash;
  return positions
    .flatMap((position) => position.records)
    .map((record, index) => {
      const link = { ...record, seq: index + 1, prevHash };
      prevHash = record.hash;
      return link;
    });
}

/** What came too late for a turn's journal: evidence beside its doubts (B26). */
export async function readEvidence(runtime: Runtime, ref: TurnRef): Promise<readonly LateView[]> {
  const keyring = keyringOf(runtime, ref, await runtime.store.begin(ref, null));
  return readLate(runtime.store, ref, (scope) => keyring.reader(scope));
}

/** Open doubts of a turn, computed from its journal (DO-1); null when it has none. */
export async function readUndecided(
  runtime: Runtime,
  ref: TurnRef,
): Promise<TurnView['undecided'] | null> {
  const positions = await runtime.store.journal(ref);
  if (positions.length === 0) return null;
  const bodies = positions.flatMap((position) =>
    position.records.map((record) => decodeBody(record.body)),
  );
  return undecidedOf(bodies);
}

function fail(): never {
  throw new TurnstoneError('journal_corrupt', 'the journal has no first position', {
    retry: 'never',
  });
}
