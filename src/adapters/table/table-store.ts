// The store port over a table driver: the verbs of every engine, written once.
//
// Owns: putting the verbs together. Does not own: items (layout.ts), conditions of a pass (pass-writes.ts),
// work rows (work-rows.ts), or how an engine carries a transaction out (sqlite/, dynamodb/).

import type { GraphHolder, GraphStore } from '../../ports/graphs.ts';
import type { LateRow } from '../../ports/late.ts';
import type { LedgerNote } from '../../ports/ledger.ts';
import type { Lender } from '../../ports/lent.ts';
import type { ReceiptRow } from '../../ports/receipts.ts';
import type {
  Acceptance,
  AnnotateWrite,
  AppendWrite,
  ClaimWrite,
  ConcludeWrite,
  OutboxEntry,
  ParkWrite,
  PartSet,
  SealedPayload,
  StopWrite,
  TakeoverWrite,
  ThreadRef,
  TurnRef,
  TurnStore,
  Writer,
} from '../../ports/store.ts';
import type {
  CaseRow,
  ErasureRow,
  KeyRow,
  MemoryChange,
  MemoryWrite,
} from '../../ports/subjects.ts';
import type {
  ClaimEventWrite,
  DecideWrite,
  DueRow,
  EventName,
  EventRow,
  IntentOutcome,
  IntentRow,
  LookRow,
  MatchName,
  SuspendWrite,
  WaitRow,
} from '../../ports/waits.ts';
import type { EpochMs, SubjectId, TenantId } from '../../protocol/ids.ts';
import type { VersionName } from '../../protocol/lineage.ts';
import type { CachedAnswer } from '../../protocol/replay-cache.ts';
import * as answers from './answer-rows.ts';
import * as events from './event-rows.ts';
import { GraphRows } from './graph-rows.ts';
import * as intents from './intent-rows.ts';
import * as late from './late-rows.ts';
import * as remembered from './memory-rows.ts';
import * as passes from './pass-writes.ts';
import { dropParts, getParts, putParts } from './payload-parts.ts';
import * as lists from './person-lists.ts';
import * as reads from './reads.ts';
import * as receipts from './receipt-rows.ts';
import * as ledger from './spend-rows.ts';
import * as subjects from './subject-rows.ts';
import type { TableContext } from './table-context.ts';
import * as waiting from './wait-rows.ts';
import { type TryChange, WorkRows } from './work-rows.ts';

export class TableStore implements TurnStore, GraphHolder {
  readonly graphs: GraphStore;
  readonly lender: Lender;
  readonly #table: TableContext;
  readonly #work: WorkRows;

  constructor(table: TableContext) {
    this.#table = table;
    this.lender = table.driver.lender;
    this.graphs = new GraphRows(table);
    this.#work = new WorkRows(table);
  }

  begin(ref: TurnRef, subject: SubjectId | null) {
    return reads.begin(this.#table, ref, subject);
  }

  threads(after: string | null) {
    return reads.threads(this.#table, after);
  }

  head(ref: ThreadRef) {
    return reads.head(this.#table, ref);
  }

  thread(ref: ThreadRef) {
    return reads.thread(this.#table, ref);
  }

  journal(ref: TurnRef, from?: number) {
    return reads.journal(this.#table, ref, from);
  }

  snapshot(ref: ThreadRef, base: { revision: number; count: number }) {
    return reads.snapshot(this.#table, ref, base);
  }

  putSnapshot(...[ref, from, segments, archived]: Parameters<TurnStore['putSnapshot']>) {
    return reads.putSnapshot(this.#table, ref, from, segments, archived);
  }

  archived(ref: ThreadRef, revision: number) {
    return reads.archived(this.#table, ref, revision);
  }

  claim(write: ClaimWrite) {
    return passes.claim(this.#table, write);
  }

  append(write: AppendWrite) {
    return passes.append(this.#table, write);
  }

  takeover(write: TakeoverWrite) {
    return passes.takeover(this.#table, write);
  }

  renew(ref: TurnRef, writer: Writer, leaseUntil: EpochMs, now: EpochMs) {
    return passes.renew(this.#table, ref, writer, leaseUntil, now);
  }

  conclude(write: ConcludeWrite) {
    return passes.conclude(this.#table, write);
  }

  park(write: ParkWrite) {
    return passes.park(this.#table, write);
  }

  stop(write: StopWrite) {
    return lists.stop(this.#table, write);
  }

  stopOf(ref: TurnRef) {
    return lists.stopOf(this.#table, ref);
  }

  attention(tenant: TenantId) {
    return lists.attention(this.#table, tenant);
  }

  suspend(write: SuspendWrite) {
    return waiting.suspend(this.#table, write);
  }

  putWaits(rows: readonly WaitRow[]) {
    return waiting.putWaits(this.#table, rows);
  }

  waits(tenant: TenantId, ids: readonly string[]) {
    return waiting.waits(this.#table, tenant, ids);
  }

  expire(wait: WaitRow, now: EpochMs) {
    return waiting.expire(this.#table, wait, now);
  }

  decide(write: DecideWrite) {
    return waiting.decide(this.#table, write);
  }

  approvals(tenant: TenantId, which: 'pending' | 'answered') {
    return waiting.approvals(this.#table, tenant, which);
  }

  putEvent(
    name: EventName,
    match: MatchName,
    event: Omit<EventRow, 'key' | 'match' | 'claimedBy'>,
  ) {
    return events.putEvent(this.#table, name, match, event);
  }

  eventKeys(name: EventName, match: MatchName) {
    return events.eventKeys(this.#table, name, match);
  }

  matchKey(tenant: TenantId, match: MatchName) {
    return this.#table.names.match(tenant, match.type, match.correlation);
  }

  matching(match: string) {
    return events.matching(this.#table, match);
  }

  event(key: string) {
    return events.event(this.#table, key);
  }

  claimEvent(write: ClaimEventWrite) {
    return events.claimEvent(this.#table, write);
  }

  closeWait(wait: WaitRow) {
    return waiting.closeWait(this.#table, wait);
  }

  looks(before: EpochMs, limit: number) {
    return events.looks(this.#table, before, limit);
  }

  dropLook(look: Pick<LookRow, 'event'>) {
    return events.dropLook(this.#table, look.event);
  }

  due(now: EpochMs, limit: number) {
    return waiting.due(this.#table, now, limit);
  }

  dropDue(row: DueRow) {
    return waiting.dropDue(this.#table, row);
  }

  owedIntents(before: EpochMs, limit: number) {
    return waiting.owedIntents(this.#table, before, limit);
  }

  dropOwed(id: string) {
    return waiting.dropOwed(this.#table, id);
  }

  intent(tenant: TenantId, id: string) {
    return intents.intent(this.#table, tenant, id);
  }

  claimIntent(row: IntentRow, claim: { token: string; until: EpochMs }, now: EpochMs) {
    return intents.claimIntent(this.#table, row, claim, now);
  }

  renewIntent(row: IntentRow, token: string, until: EpochMs) {
    return intents.renewIntent(this.#table, row, token, until);
  }

  releaseIntent(row: IntentRow, token: string, doubt: boolean) {
    return intents.releaseIntent(this.#table, row, token, doubt);
  }

  settleIntent(
    row: IntentRow,
    token: string | null,
    settled: { outcome: IntentOutcome; result: SealedPayload },
    now: EpochMs,
  ) {
    return intents.settleIntent(this.#table, row, token, settled, now);
  }

  receiptId(ref: ThreadRef, kind: string, key: string) {
    return receipts.receiptId(this.#table, ref, kind, key);
  }

  receipt(tenant: TenantId, id: string) {
    return receipts.receipt(this.#table, tenant, id);
  }

  receipts(ref: ThreadRef) {
    return receipts.receipts(this.#table, ref);
  }

  reserve(row: ReceiptRow, seen: ReceiptRow | null) {
    return receipts.reserve(this.#table, row, seen);
  }

  subjectScope(tenant: TenantId, subject: string) {
    return this.#table.names.subject(tenant, subject);
  }

  changeKey(tenant: TenantId, seen: KeyRow, next: KeyRow) {
    return subjects.changeKey(this.#table, tenant, seen, next);
  }

  erasure(_tenant: TenantId, scope: string) {
    return subjects.erasure(this.#table, scope);
  }

  putErasure(tenant: TenantId, scope: string, row: ErasureRow) {
    return subjects.putErasure(this.#table, tenant, scope, row);
  }

  scrub(): Promise<boolean> {
    return Promise.resolve(true);
  }

  memoryKey(tenant: TenantId, id: string) {
    return this.#table.names.memory(tenant, id);
  }

  memories(scope: string) {
    return remembered.memories(this.#table, scope);
  }

  memoryLineage(scope: string) {
    return remembered.memoryLineage(this.#table, scope);
  }

  changeMemories(
    tenant: TenantId,
    key: { readonly seen: KeyRow; readonly next: KeyRow } | null,
    scope: string,
    changes: readonly MemoryChange[],
    writes: readonly MemoryWrite[] = [],
  ) {
    return remembered.changeMemories(this.#table, tenant, key, scope, changes, writes);
  }

  dropVersions(scope: string, versions: readonly VersionName[]) {
    return remembered.dropVersions(this.#table, scope, versions);
  }

  touchMemory(scope: string, of: VersionName, until: EpochMs) {
    return remembered.touchMemory(this.#table, scope, of, until);
  }

  memoryHeads(scope: string, keys: readonly string[]) {
    return remembered.memoryHeads(this.#table, scope, keys);
  }

  memoryVersions(scope: string, wanted: readonly { key: string; version: number }[]) {
    return remembered.memoryVersions(this.#table, scope, wanted);
  }

  dropMemories(tenant: TenantId, scope: string) {
    return remembered.dropMemories(this.#table, tenant, scope);
  }

  caseRow(tenant: TenantId, id: string) {
    return subjects.caseRow(this.#table, tenant, id);
  }

  putCase(tenant: TenantId, row: CaseRow, seen: number) {
    return subjects.putCase(this.#table, tenant, row, seen);
  }

  annotate(write: AnnotateWrite) {
    return passes.annotate(this.#table, write);
  }

  accept(ref: TurnRef, acceptance: Acceptance, entry: OutboxEntry, now: EpochMs) {
    return this.#work.accept(ref, acceptance, entry, now);
  }

  workOf(ref: ThreadRef) {
    return this.#work.ofThread(ref);
  }

  dueWork(now: EpochMs, options: { unsentMs: number; limit: number }) {
    return this.#work.due(now, options);
  }

  markSent(ref: TurnRef, entryIds: readonly string[], now: EpochMs, looked?: number | null) {
    return this.#work.markSent(ref, entryIds, now, looked ?? null);
  }

  noteTry(ref: TurnRef, change: TryChange, now: EpochMs) {
    return this.#work.noteTry(ref, change, now);
  }

  key(tenant: TenantId, scope: string) {
    return reads.key(this.#table, tenant, scope);
  }

  createKey(tenant: TenantId, row: KeyRow) {
    return subjects.createKey(this.#table, tenant, row);
  }

  putLate(row: LateRow) {
    return late.putLate(this.#table, row);
  }

  lateOf(ref: TurnRef) {
    return late.lateOf(this.#table, ref);
  }

  cachedAnswers(ref: ThreadRef) {
    return answers.cachedAnswers(this.#table, ref);
  }

  putCachedAnswers(ref: ThreadRef, entries: readonly CachedAnswer[]) {
    return answers.putCachedAnswers(this.#table, ref, entries);
  }

  spentIn(tenant: TenantId, period: string) {
    return ledger.spentIn(this.#table, tenant, period);
  }

  ledgersToRollUp(limit: number) {
    return ledger.ledgersToRollUp(this.#table, limit);
  }

  rollUpLedger(note: LedgerNote) {
    return ledger.rollUpLedger(this.#table, note);
  }

  scopeOf(ref: ThreadRef, subject: SubjectId | null) {
    return this.#table.names.scope(ref, subject);
  }

  putParts(tenant: TenantId, set: PartSet) {
    return putParts(this.#table, tenant, set);
  }

  dropParts(tenant: TenantId, ref: { readonly digest: string; readonly count: number }) {
    return dropParts(this.#table, tenant, ref);
  }

  getParts(tenant: TenantId, ref: { digest: string; count: number }) {
    return getParts(this.#table, tenant, ref);
  }

  close() {
    return this.#table.driver.close();
  }
}
