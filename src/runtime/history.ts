// The recorded part of a turn's journal, as a pass reads it back.
//
// Owns: which records belong to which dispatch, what was asked for and what is still unread.
//   T7   a dispatch reads its own slice of (step, phase), in order; interleaving does not matter (RP-4).
//   T13  the chain is verified before anything of it is used.

import type { Position, TurnRef, TurnStore } from '../ports/store.ts';
import type { Sealer } from '../ports/vault.ts';
import { decode } from '../protocol/canonical.ts';
import { genesisHash, verifyChain } from '../protocol/chain.ts';
import { siteKey } from '../protocol/doubt.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { Phase } from '../protocol/keys.ts';
import type {
  GroupOutcome,
  RecordBody,
  RecordOf,
  Site,
  StepOutcome,
  StoredRecord,
} from '../protocol/record.ts';
import { decodeBody } from '../protocol/record-codec.ts';
import { sealContext } from './payloads.ts';

export interface HistoryRecord {
  readonly body: RecordBody;
  readonly stored: StoredRecord;
}

/** Everything recorded for one dispatch, in journal order. */
export interface Slice {
  readonly site: Site;
  readonly records: readonly HistoryRecord[];
}

/** What a journal holds of a step; a step that failed may finish otherwise after a resume. */
export interface RecordedStep {
  readonly started: boolean;
  readonly outcome: StepOutcome | null;
}

const text = new TextDecoder();

export class History {
  readonly records: readonly HistoryRecord[];
  readonly head: { readonly seq: number; readonly hash: string };
  readonly positions: number;
  readonly #slices = new Map<string, HistoryRecord[]>();
  readonly #unread = new Map<string, HistoryRecord>();
  readonly #unreadOfStep = new Map<string, number>();
  readonly #notes = new Map<string, number>();
  readonly #steps = new Map<string, RecordedStep>();
  readonly #groups = new Map<string, { opened: number; settled: GroupOutcome[] }>();

  constructor(
    records: readonly HistoryRecord[],
    head: { seq: number; hash: string },
    positions: number,
  ) {
    this.records = records;
    this.head = head;
    this.positions = positions;
    for (const record of records) this.#index(record);
  }

  /** Every effect key announced so far. */
  *announced(): Iterable<string> {
    for (const { body } of this.records) if (body.kind === 'EffectStarted') yield body.key;
  }

  *bodies(): Iterable<RecordBody> {
    for (const { body } of this.records) yield body;
  }

  /** The admission, or null for a turn that never wrote. */
  get admission(): {
    readonly body: RecordOf<'RunAdmitted'>;
    readonly record: HistoryRecord;
  } | null {
    const first = this.records[0];
    if (first === undefined || first.body.kind !== 'RunAdmitted') return null;
    return { body: first.body, record: first };
  }

  /** The conclusion the journal ends in, or null while the turn is open [T2]. */
  get conclusion(): RecordOf<'RunConcluded'> | null {
    const last = this.records.at(-1)?.body;
    return last?.kind === 'RunConcluded' ? last : null;
  }

  /** Takes the slice of a dispatch; undefined when history holds none. */
  take(site: Site): Slice | undefined {
    const key = siteKey(site);
    const records = this.#slices.get(key);
    if (records === undefined) return undefined;
    if (this.#unread.delete(key)) {
      this.#unreadOfStep.set(site.step, (this.#unreadOfStep.get(site.step) ?? 1) - 1);
    }
    return { site, records };
  }

  /** The first recorded dispatch nobody asked for; the forward ones alone while nothing is undone yet. */
  unread(phase: Phase | 'any'): HistoryRecord | undefined {
    for (const record of this.#unread.values()) {
      if (phase === 'any' || ('site' in record.body && record.body.site.phase === phase)) {
        return record;
      }
    }
    return undefined;
  }

  /** Recorded dispatches nobody asked for yet. */
  get unreadCount(): number {
    return this.#unread.size;
  }

  /** The same of one step's forward phase. */
  unreadOf(step: string): HistoryRecord | undefined {
    if ((this.#unreadOfStep.get(step) ?? 0) === 0) return undefined;
    for (const { body, stored } of this.#unread.values()) {
      if ('site' in body && body.site.step === step && body.site.phase === 'forward') {
        return { body, stored };
      }
    }
    return undefined;
  }

  /** True when nothing of the step was recorded after a refusal: only there is it asked again (BU-9). */
  atFrontier(record: HistoryRecord): boolean {
    if (!('site' in record.body)) return true;
    const { step } = record.body.site;
    if (this.step(step).outcome === 'ok') return false;
    return !this.records.some(
      ({ body }) =>
        body.seq > record.body.seq &&
        'site' in body &&
        body.site.step === step &&
        body.kind === 'EffectStarted',
    );
  }

  /** True when the next note of this step is recorded already (decision 12). */
  takeNote(step: string): boolean {
    const left = this.#notes.get(step) ?? 0;
    if (left === 0) return false;
    this.#notes.set(step, left - 1);
    return true;
  }

  step(name: string): RecordedStep {
    return this.#steps.get(name) ?? { started: false, outcome: null };
  }

  /** The last conclusion anywhere in the journal, also when a person has written after it. */
  get lastConclusion(): RecordOf<'RunConcluded'> | null {
    for (let index = this.records.length - 1; index >= 0; index -= 1) {
      const body = this.records[index]?.body;
      if (body?.kind === 'RunConcluded') return body;
    }
    return null;
  }

  /** A person's decision after the last conclusion, not yet acted on (QA-4). */
  get standingDecision(): RecordOf<'QuarantineDecided'> | RecordOf<'RunResumed'> | null {
    const last = this.records.at(-1)?.body;
    return last?.kind === 'QuarantineDecided' || last?.kind === 'RunResumed' ? last : null;
  }

  /** True when the next opening of this group is recorded already (GR-10). */
  takeGroupOpened(place: { step: string; phase: Phase }, name: string): boolean {
    const group = this.#groups.get(groupKey(place, name));
    if (group === undefined || group.opened === 0) return false;
    group.opened -= 1;
    return true;
  }

  /** True when this settlement is recorded already; a quarantined one before it was settled anew. */
  takeGroupSettled(
    place: { step: string; phase: Phase },
    name: string,
    outcome: GroupOutcome,
  ): boolean {
    const settled = this.#groups.get(groupKey(place, name))?.settled ?? [];
    if (outcome !== 'quarantined') {
      while (settled[0] === 'quarantined') settled.shift();
    }
    if (settled[0] !== outcome) return false;
    settled.shift();
    return true;
  }

  /** The recorded start of an unwind, or null while nothing is being undone (decision 4). */
  get unwind(): HistoryRecord | null {
    return this.records.findLast(({ body }) => body.kind === 'UnwindStarted') ?? null;
  }

  /** What a step's undo came to last, or null. */
  compensated(step: string): StepOutcome | null {
    for (let index = this.records.length - 1; index >= 0; index -= 1) {
      const body = this.records[index]?.body;
      if (body?.kind === 'StepCompensated' && body.step === step) return body.outcome;
    }
    return null;
  }

  /** True when a person reopened the turn after this record. */
  reopenedAfter(seq: number): boolean {
    return this.records.some(
      ({ body }) =>
        body.seq > seq && body.kind === 'QuarantineDecided' && body.decision === 'reopen',
    );
  }

  get plan(): RecordOf<'PlanFrozen'> | null {
    for (const { body } of this.records) if (body.kind === 'PlanFrozen') return body;
    return null;
  }

  #index(record: HistoryRecord): void {
    const { body } = record;
    if ('site' in body) {
      const key = siteKey(body.site);
      const slice = this.#slices.get(key);
      if (slice === undefined) {
        this.#slices.set(key, [record]);
        this.#unread.set(key, record);
        const { step } = body.site;
        this.#unreadOfStep.set(step, (this.#unreadOfStep.get(step) ?? 0) + 1);
      } else slice.push(record);
    }
    if (body.kind === 'Note' && body.author === 'agent') {
      this.#notes.set(body.step, (this.#notes.get(body.step) ?? 0) + 1);
    }
    if (body.kind === 'GroupOpened' || body.kind === 'GroupSettled') {
      const place = { step: body.step, phase: body.phase ?? ('forward' as const) };
      const key = groupKey(place, body.name);
      const group = this.#groups.get(key) ?? { opened: 0, settled: [] };
      if (body.kind === 'GroupOpened') group.opened += 1;
      else group.settled.push(body.outcome);
      this.#groups.set(key, group);
    }
    if (body.kind === 'StepStarted') this.#steps.set(body.step, { started: true, outcome: null });
    if (body.kind === 'StepFinished')
      this.#steps.set(body.step, { started: true, outcome: body.outcome });
  }
}

function groupKey(place: { step: string; phase: Phase }, name: string): string {
  return `${place.phase}\n${place.step}\n${name}`;
}

/** The history of a turn that never wrote. */
export function emptyHistory(): History {
  return new History([], { seq: 0, hash: genesisHash }, 0);
}

/** Reads positions into a history; throws `journal_corrupt` naming the first bad record [T13]. */
export function historyOf(positions: readonly Position[]): History {
  const stored: StoredRecord[] = [];
  for (const [index, position] of positions.entries()) {
    if (position.index !== index) throw corrupt(stored.length + 1, 'a position is missing');
    stored.push(...position.records);
  }
  let prevHash = genesisHash;
  const links = stored.map((record, index) => {
    const link = { ...record, seq: index + 1, prevHash };
    prevHash = record.hash;
    return link;
  });
  const verdict = verifyChain(links);
  if (!verdict.ok) throw corrupt(verdict.firstBad, verdict.reason);
  const records = stored.map((record) => ({ stored: record, body: decodeBody(record.body) }));
  for (const [index, record] of records.entries()) {
    if (record.body.seq !== index + 1) throw corrupt(index + 1, 'gap');
  }
  return new History(records, { seq: records.length, hash: prevHash }, positions.length);
}

/** Opens the payload of a record; undefined for a record that carries none or lost it (decision 22). */
export async function openRecord(
  store: TurnStore,
  sealer: Sealer,
  ref: TurnRef,
  record: HistoryRecord,
): Promise<unknown> {
  const place = record.body.payload;
  if (place.kind === 'none' || place.kind === 'lost') return undefined;
  const sealed =
    place.kind === 'beside' ? record.stored.sealed : await store.getParts(ref.tenant, place);
  if (sealed === undefined) throw corrupt(record.body.seq, 'its payload is missing');
  const context = sealContext(ref, 'record', record.body.seq);
  return decode(text.decode(sealer.open(sealed, context)));
}

function corrupt(firstBad: number, reason: string): TurnstoneError {
  return new TurnstoneError(
    'journal_corrupt',
    `journal record ${firstBad} does not verify: ${reason}`,
    {
      retry: 'never',
      details: { firstBad, reason },
    },
  );
}
