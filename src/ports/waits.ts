// The part of the store port that keeps waits, their answers, events and due times.
//
// Owns: what is asked of whom until when, and that it is answered once. Does not own: what an answer means.
//   T10  a wait is answered by the first write whose conditions hold: unanswered, before its deadline, its
//        turn still suspended. The server's receive time decides (B-54).
//   Page 09, rule 7  an event is stored before it is matched, and a wait is registered before it looks.
import type { EpochMs, TenantId } from '../protocol/ids.ts';
import type { CountedSpend } from '../protocol/tenant-budget.ts';
import type {
  Batch,
  Concluded,
  OutboxEntry,
  SealedPayload,
  TurnEnd,
  TurnRef,
  Unknown,
  Writer,
} from './store.ts';

export type WaitAnswer =
  | {
      readonly kind: 'approved' | 'denied';
      readonly by: string;
      readonly at: EpochMs;
      /** Sealed note, or null. */
      readonly note: SealedPayload | null;
    }
  /** An event's data, sealed again under the scope of the turn it woke. */
  | { readonly kind: 'event'; readonly at: EpochMs; readonly payload: SealedPayload }
  | { readonly kind: 'expired'; readonly at: EpochMs };

/** One durable question. Timers have none: their instant stands in the journal. */
export interface WaitRow {
  readonly id: string;
  readonly kind: 'approval' | 'event';
  readonly ref: TurnRef;
  readonly until: EpochMs;
  readonly createdAt: EpochMs;
  /** What an approval is bound to; null for an event. */
  readonly digest: string | null;
  /** Who sent the turn. */
  readonly requester: string;
  readonly fourEyes: boolean;
  readonly scope: string;
  readonly payload: SealedPayload;
  /** Hashed name of what it matches (`matchKey`); null for an approval. */
  readonly match: string | null;
  readonly answer: WaitAnswer | null;
}

/** What an event and a wait must share; `correlation` is canonical text. */
export interface MatchName {
  readonly type: string;
  readonly correlation: string;
}

export interface EventName {
  readonly tenant: TenantId;
  readonly source: string;
  readonly id: string;
}

export interface EventRow {
  /** Hashed name of (tenant, source, id). */
  readonly key: string;
  readonly match: string;
  readonly at: EpochMs;
  readonly scope: string;
  /** Null once it was handed to a wait. */
  readonly payload: SealedPayload | null;
  /** The wait that took it, or null. */
  readonly claimedBy: string | null;
}

export interface SuspendWrite {
  readonly ref: TurnRef;
  readonly writer: Writer;
  readonly batch: Batch;
  readonly announced: ReadonlySet<string>;
  readonly end: TurnEnd;
  /** Waits that are not registered yet. */
  readonly waits: readonly WaitRow[];
  /** True when events may have come before its waits: that look is owed until `markSent` is told of it. */
  readonly looks: boolean;
  readonly dueAt: EpochMs;
  readonly entries: readonly OutboxEntry[];
  readonly intents: readonly IntentRow[];
  /** What the tenant's ledger gains with this write; absent without a tenant's ceiling. */
  readonly spend?: CountedSpend;
  readonly now: EpochMs;
}

export interface DecideWrite {
  readonly wait: WaitRow;
  readonly answer: Extract<WaitAnswer, { kind: 'approved' | 'denied' }>;
  readonly entry: OutboxEntry;
  readonly now: EpochMs;
}

export type Decided =
  | { readonly kind: 'done' }
  | { readonly kind: 'lost'; readonly wait: WaitRow | null }
  /** The turn that asked has ended. */
  | { readonly kind: 'ended' }
  | Unknown;

export interface ClaimEventWrite {
  readonly wait: WaitRow;
  readonly event: EventRow;
  readonly answer: Extract<WaitAnswer, { kind: 'event' }>;
  readonly entry: OutboxEntry;
  readonly now: EpochMs;
}

export type Stored = { readonly kind: 'done' } | { readonly kind: 'lost' } | Unknown;

/** A deadline of a suspended turn; `key` names the row. */
export interface DueRow {
  readonly ref: TurnRef;
  readonly at: EpochMs;
  readonly shard: number;
  readonly key: string;
}

/** An event whose look for a waiter is not known to have finished. */
export interface LookRow {
  readonly tenant: TenantId;
  readonly match: string;
  readonly event: string;
  readonly at: EpochMs;
}

/** What an intent came to. */
export type IntentOutcome = 'completed' | 'refused' | 'expired' | 'uncertain';

/** A deferred act on its way to the effector. */
export interface IntentRow {
  readonly id: string;
  readonly ref: TurnRef;
  readonly agent: string;
  readonly effect: string;
  readonly argsDigest: string;
  readonly scope: string;
  /** Sealed arguments. */
  readonly payload: SealedPayload;
  readonly createdAt: EpochMs;
  readonly expiresAt: EpochMs;
  /** 0 before the first claim. */
  readonly attempt: number;
  /** An earlier send was never settled. */
  readonly doubt: boolean;
  readonly claim: { readonly token: string; readonly until: EpochMs } | null;
  readonly outcome: IntentOutcome | null;
  /** Sealed result event data, once settled. */
  readonly result: SealedPayload | null;
}

export type IntentClaimed =
  | { readonly kind: 'done' }
  | { readonly kind: 'lost'; readonly intent: IntentRow | null }
  | Unknown;

export interface WaitStore {
  /** Ends a pass without an ending: head released, waits registered, staged acts on their way [T1]. */
  suspend(write: SuspendWrite): Promise<Concluded>;
  /** Registers waits ahead of a suspension that has more than one transaction holds. Idempotent. */
  putWaits(waits: readonly WaitRow[]): Promise<void>;
  /** The waits of these ids, consistent; null for an id that is not known to this tenant. */
  waits(tenant: TenantId, ids: readonly string[]): Promise<readonly (WaitRow | null)[]>;
  /** Marks a wait expired at its deadline, if nobody answered before. */
  expire(wait: WaitRow, now: EpochMs): Promise<Decided>;
  /** A person's answer [T10]. */
  decide(write: DecideWrite): Promise<Decided>;
  /** Ids of a tenant's approvals, oldest first, with when they were asked for. */
  approvals(
    tenant: TenantId,
    which: 'pending' | 'answered',
  ): Promise<readonly { readonly id: string; readonly at: EpochMs }[]>;

  /** Stores an event once and a note that its look is owed. */
  putEvent(
    name: EventName,
    match: MatchName,
    event: Omit<EventRow, 'key' | 'match' | 'claimedBy'>,
  ): Promise<Stored>;
  /** Hashed names of an event and of what it matches. */
  eventKeys(name: EventName, match: MatchName): Promise<{ event: string; match: string }>;
  matchKey(tenant: TenantId, match: MatchName): Promise<string>;
  /** Open waits and unclaimed events of one match, oldest first. */
  matching(match: string): Promise<{ waits: readonly string[]; events: readonly string[] }>;
  event(key: string): Promise<EventRow | null>;
  /** Hands an event to a wait and wakes its turn, in one transaction [T10]. */
  claimEvent(write: ClaimEventWrite): Promise<Decided>;
  /** Takes a wait off the places where events and people look for it. */
  closeWait(wait: WaitRow): Promise<void>;
  looks(before: EpochMs, limit: number): Promise<readonly LookRow[]>;
  dropLook(look: Pick<LookRow, 'event'>): Promise<void>;

  /** Deadlines at or before `now`, earliest first. */
  due(now: EpochMs, limit: number): Promise<readonly DueRow[]>;
  dropDue(row: DueRow): Promise<void>;

  /** Intents staged before an instant and not known to be settled and told, oldest first. */
  owedIntents(
    before: EpochMs,
    limit: number,
  ): Promise<readonly { readonly ref: TurnRef; readonly id: string; readonly at: EpochMs }[]>;
  dropOwed(id: string): Promise<void>;
  intent(tenant: TenantId, id: string): Promise<IntentRow | null>;
  /** Takes an intent that is unsettled, unexpired and free or lapsed [T10]. */
  claimIntent(
    intent: IntentRow,
    claim: { readonly token: string; readonly until: EpochMs },
    now: EpochMs,
  ): Promise<IntentClaimed>;
  /** Extends a claim that is still held by its token. */
  renewIntent(intent: IntentRow, token: string, until: EpochMs): Promise<IntentClaimed>;
  /** Gives a claim back for another attempt; `doubt` keeps that a send was never settled (ruling 1). */
  releaseIntent(intent: IntentRow, token: string, doubt: boolean): Promise<IntentClaimed>;
  /** Settles an intent: under its claim's token, or null for one that expired before any claim. */
  settleIntent(
    intent: IntentRow,
    token: string | null,
    settled: { readonly outcome: IntentOutcome; readonly result: SealedPayload },
    now: EpochMs,
  ): Promise<IntentClaimed>;
}
