// The store of threads, turns and work: protocol verbs, each one round trip, each with three outcomes.
//
// Owns: what is durable and who may write it. Does not own: sealing (callers pass sealed bytes),
// the hash chain (callers pass hashes), time (callers pass `now`), retries of a whole pass.
//   T1  conclude() is one transaction: head, last position, projection, checkpoint, outbox row.
//   T3  one open turn a thread: claim() needs a head without one.
//   T4  every write of a pass wins a journal position; a lost position means displaced.
//   T5  append() refuses a second announcement of one effect key in the caller's complete view.
// A verb answers `done`, `lost` (with what stands there) or `unknown` (page 09, ruling 8a). Unknown
// is returned only after the adapter has sent the same bytes again up to a bound and still knows
// nothing; a write that was refused because it had already taken effect is answered `done`.

import type { AgentName, EpochMs, SubjectId, TenantId, ThreadId, TurnId } from '../protocol/ids.ts';
import type { StoredRecord } from '../protocol/record.ts';
import type { CountedSpend } from '../protocol/tenant-budget.ts';
import type { TurnStatus } from '../protocol/turn-status.ts';
import type { AnswerStore } from './answers.ts';
import type { LateStore } from './late.ts';
import type { LedgerStore } from './ledger.ts';
import type { Lender, LentEntry } from './lent.ts';
import type { PartStore } from './parts.ts';
import type {
  AttentionCondition,
  AttentionRow,
  Stopped,
  StopRequest,
  StopWrite,
} from './people.ts';
import type { ReceiptStore } from './receipts.ts';
import type { CaseStore, KeyRow, MemoryWrite, SubjectStore } from './subjects.ts';
import type { IntentRow, WaitStore } from './waits.ts';
import type { Acceptance, OutboxEntry, WorkRow } from './work.ts';

export type * from './parts.ts';
export type * from './people.ts';
export type { KeyRow } from './subjects.ts';
export type { Acceptance, OutboxEntry, WorkRow } from './work.ts';

/** Names one turn; every part is the caller's own id. */
export interface TurnRef {
  readonly tenant: TenantId;
  readonly thread: ThreadId;
  readonly turn: TurnId;
}

/** Names one thread. */
export type ThreadRef = Omit<TurnRef, 'turn'>;

/** Sealed bytes kept inline, or the address of parts that hold them (see putParts). */
export type SealedPayload =
  | { readonly kind: 'inline'; readonly bytes: Uint8Array }
  | {
      readonly kind: 'parts';
      readonly digest: string;
      readonly count: number;
      readonly bytes: number;
    };

/** The turn that holds a thread, as the head names it. */
export interface OpenTurn {
  readonly turn: TurnId;
  readonly owner: string;
  readonly leaseUntil: EpochMs;
  readonly agent: AgentName;
}

/** The thread's head; `epoch` alone is its version (page 09, rule 2). */
export interface Head {
  readonly epoch: number;
  readonly open: OpenTurn | null;
  /** Committed checkpoint revision; 0 before the first commit. */
  readonly revision: number;
  /** Counts stop requests on this thread (page 09, rule 5). */
  readonly cancels: number;
  /** Agent of the first committed turn (ruling 10), null before it. */
  readonly agent: AgentName | null;
  /** Authority digest of the agent that committed last (K-64), null before it. */
  readonly authority: string | null;
  /** Checkpoint schema revision of that agent. */
  readonly schema: number;
  /** A quarantined turn that blocks the thread (decision 26), or null. */
  readonly blockedBy: TurnId | null;
}

/** One sealed change set of a committed turn, sealed under that turn's scope (B16). */
export interface CheckpointSegment {
  readonly revision: number;
  readonly scope: string;
  readonly payload: SealedPayload;
}

/** The thread's committed state: an optional snapshot and the segments after it. */
export interface Checkpoint {
  readonly revision: number;
  readonly schema: number;
  /** Snapshot segments, one subject each; read on demand with `snapshot`. */
  readonly base: { readonly revision: number; readonly count: number } | null;
  readonly tail: readonly CheckpointSegment[];
}

/** One journal batch, written once and never changed. Position 0 holds the admission. */
export interface Position {
  readonly index: number;
  /** Random token of the pass that wrote it: the witness of a lost acknowledgement. */
  readonly token: string;
  readonly epoch: number;
  readonly cancelsSeen: number;
  readonly records: readonly StoredRecord[];
}

/** The projection of a turn (END). A journal that ends in a conclusion outranks it [T2]. */
export interface TurnEnd {
  readonly status: TurnStatus;
  readonly agent: AgentName;
  /** Positions written when it was projected. */
  readonly positions: number;
  readonly head: { readonly seq: number; readonly hash: string };
  /** Keyed digest of the delivered payload (T2). */
  readonly payloadDigest: string;
  readonly revision: number;
  readonly scope: string;
  /** Sealed turn view: result, error, waits, spend. */
  readonly view: SealedPayload;
  readonly cancelsSeen: number;
  /** Earliest deadline of a suspended turn, else null. */
  readonly dueAt: EpochMs | null;
  readonly createdAt: EpochMs;
  readonly updatedAt: EpochMs;
}

/** All that a pass must know before it runs: one consistent read round. */
export interface Begun {
  readonly head: Head | null;
  readonly checkpoint: Checkpoint | null;
  readonly end: TurnEnd | null;
  readonly first: Position | null;
  /** Key row of the named subject, else of the tenant for this thread; null when never created. */
  readonly key: KeyRow | null;
  readonly scope: string;
  readonly work: WorkRow | null;
}

/** The batch a pass adds at one position. `announces` are the effect keys of its EffectStarted records. */
export interface Batch {
  readonly index: number;
  readonly records: readonly StoredRecord[];
  readonly announces: readonly string[];
}

/** Who writes: the pass token is the witness, the epoch the fence. */
export interface Writer {
  readonly token: string;
  readonly owner: string;
  readonly epoch: number;
  readonly cancelsSeen: number;
}

export interface ClaimWrite {
  readonly ref: TurnRef;
  readonly agent: AgentName;
  /** Head as the pass saw it; null for a thread never written. */
  readonly seen: Head | null;
  readonly writer: Writer;
  readonly batch: Batch;
  readonly leaseUntil: EpochMs;
  readonly now: EpochMs;
}

export interface AppendWrite {
  readonly ref: TurnRef;
  readonly writer: Writer;
  readonly batch: Batch;
  /** Every effect key the journal announced below this position. */
  readonly announced: ReadonlySet<string>;
  /** Rows of the caller's own tables that stand or fall with this position (GR-13). */
  readonly lent?: readonly LentEntry[];
  readonly now: EpochMs;
}

export interface TakeoverWrite {
  readonly ref: TurnRef;
  readonly seen: Head;
  /** `writer.epoch` is the new epoch, seen.epoch + 1. */
  readonly writer: Writer;
  readonly batch: Batch;
  readonly leaseUntil: EpochMs;
  readonly now: EpochMs;
}

/** A person's word on a turn nobody drives: one position, beside whatever else the thread does (B27). */
export interface AnnotateWrite {
  readonly ref: TurnRef;
  /** Head as seen; it must stand, and must not name this turn. */
  readonly seen: Head;
  readonly writer: Writer;
  readonly batch: Batch;
  /** The turn wants a pass at this instant, in the same transaction; null for none. */
  readonly wakeAt: EpochMs | null;
  readonly now: EpochMs;
}

/** How the transaction that ends a pass holds the head. */
export type Hold =
  | { readonly kind: 'held' }
  /** A turn nobody drives is ended by a person: the thread goes on as it is (abandon, cancel). */
  | { readonly kind: 'aside'; readonly seen: Head }
  /** A turn without effects: no claim was written; the head must stand as seen. */
  | { readonly kind: 'optimistic'; readonly seen: Head | null };

export interface ConcludeWrite {
  readonly ref: TurnRef;
  readonly agent: AgentName;
  readonly hold: Hold;
  readonly writer: Writer;
  readonly batch: Batch;
  readonly announced: ReadonlySet<string>;
  readonly end: TurnEnd;
  /** The next checkpoint; null when the turn changes none (failed, quarantined, cancelled). */
  readonly checkpoint: {
    readonly next: Checkpoint;
    readonly authority: string;
    readonly schema: number;
  } | null;
  readonly blocks: boolean;
  /** Puts the turn on its tenant's attention list, or takes it off when `listed` said it may stand there. */
  readonly attention: AttentionCondition | null;
  readonly listed: boolean;
  /** Approvals this turn leaves open: they are taken off the pending list. */
  readonly closes: readonly { readonly id: string; readonly createdAt: EpochMs }[];
  /** Staged acts that leave with a success. */
  readonly intents: readonly IntentRow[];
  /** Facts that become current with a success. */
  readonly memories: readonly MemoryWrite[];
  readonly entries: readonly OutboxEntry[];
  readonly sequence: number;
  /** Subject key rows that must still be live with this generation and lifecycle (ruling 11). */
  readonly keys: readonly KeyRow[];
  /** What the tenant's ledger gains with this write; absent without a tenant's ceiling. */
  readonly spend?: CountedSpend;
  readonly now: EpochMs;
}

/** Hands the lease back without concluding: the turn stays the open one and is driven on (drain rule). */
export interface ParkWrite {
  readonly ref: TurnRef;
  readonly writer: Writer;
  readonly batch: Batch;
  readonly announced: ReadonlySet<string>;
  readonly wakeAt: EpochMs;
  readonly entries: readonly OutboxEntry[];
  readonly now: EpochMs;
}

export type Unknown = { readonly kind: 'unknown'; readonly cause: unknown };
export type Claimed =
  | { readonly kind: 'done' }
  /** Another turn holds the thread, or the head moved; `head` is what stands there. */
  | { readonly kind: 'lost'; readonly head: Head | null; readonly position: Position | null }
  | Unknown;
export type Appended =
  | { readonly kind: 'done' }
  /** E321: three refusals, none of them an effect failure. */
  | { readonly kind: 'lost'; readonly reason: 'fenced'; readonly position: Position | null }
  | { readonly kind: 'lost'; readonly reason: 'already_announced'; readonly effectKey: string }
  | { readonly kind: 'lost'; readonly reason: 'moved'; readonly head: Head | null }
  /** A lent entry was refused: nothing of the position or the entries is there. */
  | { readonly kind: 'lost'; readonly reason: 'refused'; readonly detail: string }
  | Unknown;
export type Concluded =
  | { readonly kind: 'done' }
  | { readonly kind: 'lost'; readonly reason: 'fenced'; readonly position: Position | null }
  /** The head moved: another epoch, or a stop was recorded (`head.cancels`). */
  | { readonly kind: 'lost'; readonly reason: 'moved'; readonly head: Head | null }
  | { readonly kind: 'lost'; readonly reason: 'key'; readonly key: KeyRow | null }
  /** A remembered id has a newer version: prepare again. */
  | { readonly kind: 'lost'; readonly reason: 'memory' }
  | Unknown;
export type Renewed =
  | { readonly kind: 'done' }
  | { readonly kind: 'lost'; readonly head: Head | null }
  | Unknown;
export type Accepted =
  | { readonly kind: 'done' }
  /** The same turn was accepted before; `work` is that acceptance. */
  | { readonly kind: 'lost'; readonly work: WorkRow | null }
  | Unknown;
/** `work` is the row that stands; null when it is gone. */
export type Cleared = Accepted;

export interface TurnStore
  extends WaitStore,
    ReceiptStore,
    SubjectStore,
    CaseStore,
    LedgerStore,
    LateStore,
    AnswerStore,
    PartStore {
  /** The engine whose transaction atomic members of a group may share, or null. */
  readonly lender: Lender;
  /** One consistent read round for a pass (page 09, rule 1); torn reads are read again. */
  begin(ref: TurnRef, subject: SubjectId | null): Promise<Begun>;
  /**
   * A page of all threads of all tenants with their heads, in no order; `after` begins the next page, null at
   * the end. It walks the whole store: for a check before a deployment, never for a pass.
   */
  threads(after: string | null): Promise<{
    readonly threads: readonly { readonly ref: ThreadRef; readonly head: Head }[];
    readonly after: string | null;
  }>;
  /** Head alone, consistent. */
  head(thread: ThreadRef): Promise<Head | null>;
  /** Checkpoint rows of a thread, consistent with its head. */
  thread(thread: ThreadRef): Promise<{ head: Head | null; checkpoint: Checkpoint | null }>;
  /** Every position of the turn from `from`, in order, consistent, all pages. */
  journal(ref: TurnRef, from?: number): Promise<readonly Position[]>;
  /** Snapshot segments of a base. */
  snapshot(
    thread: ThreadRef,
    base: { revision: number; count: number },
  ): Promise<readonly CheckpointSegment[]>;
  putSnapshot(
    thread: ThreadRef,
    revision: number,
    segments: readonly CheckpointSegment[],
    archived: Checkpoint | null,
  ): Promise<void>;
  /** The checkpoint as it stood when the snapshot of `revision` was taken; null when none was. */
  archived(thread: ThreadRef, revision: number): Promise<Checkpoint | null>;

  /** First write of a pass on a thread nobody holds: head, position, work row [T3, T4]. */
  claim(write: ClaimWrite): Promise<Claimed>;
  /** One position, no transaction [T4, T5]. */
  append(write: AppendWrite): Promise<Appended>;
  /** Takes the lapsed turn the head names, occupying its next position (ruling 4). */
  takeover(write: TakeoverWrite): Promise<Claimed>;
  /** Extends the lease of the epoch that holds it; never claims, never bumps (LE-2). */
  renew(ref: TurnRef, writer: Writer, leaseUntil: EpochMs, now: EpochMs): Promise<Renewed>;
  /** The commit, or the conclusion of a turn that changes nothing [T1]. */
  conclude(write: ConcludeWrite): Promise<Concluded>;
  park(write: ParkWrite): Promise<Appended>;
  /** Records a stop request beside the journal and counts it in the head (page 09, rule 5) [T8]. */
  stop(write: StopWrite): Promise<Stopped>;
  /** The standing stop request of a turn; null when nobody asked. */
  stopOf(ref: TurnRef): Promise<StopRequest | null>;
  /** The tenant's attention list, oldest first. */
  attention(tenant: TenantId): Promise<readonly AttentionRow[]>;
  /** Adds a person's records to a turn that is not open [T4]. */
  annotate(write: AnnotateWrite): Promise<Appended>;

  /** Stores an accepted delivery and its inbox entry in one write (ruling 12). */
  accept(ref: TurnRef, acceptance: Acceptance, entry: OutboxEntry, now: EpochMs): Promise<Accepted>;
  /** Work rows of one thread, lowest sequence first. */
  workOf(thread: ThreadRef): Promise<readonly WorkRow[]>;
  /** Work rows that need somebody at `now`: lapsed runs, due wakes, unsent entries older than `unsentMs`. */
  dueWork(now: EpochMs, options: { unsentMs: number; limit: number }): Promise<readonly WorkRow[]>;
  /**
   * Removes the named entries after the queue confirmed them; deletes the row when nothing is left. `looked` takes
   * the look of that suspension off as well; that of a later one stays.
   */
  markSent(
    ref: TurnRef,
    entryIds: readonly string[],
    now: EpochMs,
    looked?: number | null,
  ): Promise<Cleared>;
  /** Changes the delivery bookkeeping of a row, one that still has `ifVersion` where given; creates nothing. */
  noteTry(
    ref: TurnRef,
    change: {
      wakeAt?: EpochMs | null;
      tries?: number;
      parkedReason?: string | null;
      clearAccepted?: boolean;
      ifVersion?: string;
    },
    now: EpochMs,
  ): Promise<Cleared>;

  /** Key row of a scope, consistent; null when never created. */
  key(tenant: TenantId, scope: string): Promise<KeyRow | null>;
  /** Creates a key row if absent; `lost` carries the row that stands. */
  createKey(
    tenant: TenantId,
    row: KeyRow,
  ): Promise<{ kind: 'done' } | { kind: 'lost'; key: KeyRow } | Unknown>;
  /** Scope of a subject, or of the tenant for one thread, as key rows and segments name it. */
  scopeOf(thread: ThreadRef, subject: SubjectId | null): Promise<string>;

  close(): Promise<void>;
}
