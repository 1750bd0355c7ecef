// What agent code sees of its turn: the interfaces, no implementation.
//
// Everything between effects is deterministic: time, randomness and ids come from here, and the only
// awaits agent code makes are those of this context (T7). Effects started together share writes.

import type { AtomicEntries } from '../ports/lent.ts';
import type { EffectAsks } from '../ports/telemetry.ts';
import type { RetryPolicy } from '../protocol/backoff.ts';
import type { Disposition, Recovery } from '../protocol/effect-decision.ts';
import { AgentError } from '../protocol/errors.ts';
import type { EpochMs, SubjectId, TenantId, ThreadId, TurnId } from '../protocol/ids.ts';
import type { Sensitivity, Trust } from '../protocol/labels.ts';
import type { Spend } from '../protocol/record.ts';
import type { ReplayKey } from '../protocol/replay-cache.ts';
import type { Labelled, Sink } from './labelled.ts';
import type {
  Forget,
  FoundItem,
  Recall,
  RecalledItem,
  Release,
  Remember,
  Removed,
  Search,
  Swept,
} from './memory-context.ts';

export type * from './memory-context.ts';

/** What one attempt is told; both identities exist durably before it runs (K-29, T5). */
export interface EffectCall {
  /** Same for every attempt of one effect, different between effects, tenants and threads; 43 URL-safe characters. */
  readonly idempotencyKey: string;
  readonly effectKey: string;
  /** 1-based. */
  readonly attempt: number;
  /** Fires at the effect's timeout or when the pass must stop. */
  readonly signal: AbortSignal;
  /** Adds to what this attempt is billed with; integers, never negative (BU-4). `of` divides its tokens, for telemetry. */
  bill(spend: Partial<Spend>, of?: { inputTokens: number; outputTokens: number }): void;
}

/** A probe's answer, by an identity every attempt shares (RE-1). */
export type ProbeAnswer =
  | { readonly outcome: 'landed'; readonly output: unknown; readonly spend?: Partial<Spend> }
  | { readonly outcome: 'did_not_happen' }
  | { readonly outcome: 'inconclusive'; readonly detail?: string };

/** Thrown by `perform` when it knows more than "it failed"; anything else thrown is in doubt (1.2). */
export class EffectFailure extends Error {
  override readonly name = 'EffectFailure';
  readonly code: string;
  readonly disposition: Disposition;
  /** The far side gave an answer rather than a fault: no further attempt. */
  readonly permanent: boolean;
  /** Wait the peer named before the next attempt, milliseconds (BO-3). */
  readonly adviceMs: number | undefined;
  constructor(
    message: string,
    facts: {
      code: string;
      disposition: Disposition;
      permanent?: boolean;
      adviceMs?: number;
      cause?: unknown;
    },
  ) {
    super(message, { cause: facts.cause });
    this.code = facts.code;
    this.disposition = facts.disposition;
    this.permanent = facts.permanent ?? false;
    this.adviceMs = facts.adviceMs;
  }
}

/** One outward or non-deterministic call. `kind` and `args` are its identity; the rest is treatment (EK-5). */
export interface Effect<T> {
  readonly kind: string;
  /** JSON-like value; refused before anything acts when it would not survive storage. */
  readonly args: unknown;
  /** Default true (EP-3). */
  readonly mutates?: boolean;
  /** Default `operator` when it mutates, else `retry`. */
  readonly recovery?: Recovery;
  /** Default 3 attempts where repeating is allowed (ruling 26). */
  readonly retry?: Partial<RetryPolicy>;
  /** Default 30000. */
  readonly timeoutMs?: number;
  /**
   * Business key: within the thread, the same kind and key run once, in whatever turn (K-23). Other arguments
   * under a used key are refused; a key in doubt quarantines whoever asks for it.
   */
  readonly key?: string;
  /**
   * Lets an equal call of this thread at this revision be answered by its replay cache: 64 answers, 6 hours, 100 KiB
   * (B-16 to B-19). For what does not mutate and has no business key; a hit makes no attempt and is not billed. Costs
   * a read before the first such call of a pass and a write after the commit. Default: every call is made.
   */
  readonly cache?: ReplayKey;
  /** Declared cost: recorded at once and reserved in the budget (rulings 3, 17). */
  readonly cost?: Partial<Spend>;
  /**
   * What its output is: untrusted and internal unless this says otherwise, from `effect:<kind>`. Recorded with the
   * output, so that a later declaration does not relabel it.
   */
  readonly label?: {
    readonly trust?: Trust;
    readonly sensitivity?: Sensitivity;
    readonly source?: string;
  };
  /** What its arguments must be; the agent's `sinks` of its kind count as well. */
  readonly sink?: Sink;
  /** Facts its policy is asked with, beside kind, actor and subject. */
  readonly policyFacts?: Readonly<Record<string, string>>;
  /** What it asks, for telemetry: a model or a tool. */
  readonly asks?: EffectAsks;
  perform(call: EffectCall): Promise<T>;
  /** Used with recovery `reconcile`; absent means inconclusive (RE-4). */
  probe?(call: EffectCall): Promise<ProbeAnswer>;
}

/** Staged changes to the thread's checkpoint: read through an overlay, folded at commit [T1]. */
export interface ThreadState {
  get(key: string): unknown;
  set(key: string, value: unknown): void;
  delete(key: string): void;
  /** Adds to a list; two turns that overlapped both keep their items (withTurn 3). */
  append(key: string, value: unknown): void;
  /** Adds to an integer. */
  add(key: string, by: number): void;
}

export interface StepOptions {
  /** How the step is taken back; absent = undeclared (page 01, 4). */
  readonly compensation?: 'compensatable' | 'pivot' | 'unnecessary';
  /**
   * Takes a compensatable step back [T8]. Given the step's recorded output, or null when it did not complete.
   * Its effects are announced and recorded like any other, and it may wait.
   */
  readonly undo?: (context: TurnContext, output: unknown) => Promise<unknown>;
}

/** A call a person must allow first; the digest they are shown is bound to `action` and this place. */
export interface ApprovalRequest {
  /** JSON-like: what will be done, as the person sees it. */
  readonly action: unknown;
  readonly summary?: string;
  /** Default 24 h. */
  readonly expiresInMs?: number;
  /** Default true: whoever sent the turn cannot approve it. */
  readonly fourEyes?: boolean;
  /** Distinguishes a wider request after one that expired; part of its identity. */
  readonly escalation?: number;
}

/** Silence is `expired`, never a consent (T10). */
export interface ApprovalAnswer {
  readonly decision: 'approved' | 'denied' | 'expired';
  readonly by: string | null;
  /** ISO 8601. */
  readonly at: string;
  readonly note: unknown;
}

export interface EventRequest {
  readonly type: string;
  /** JSON-like; compared in canonical form. */
  readonly correlation: unknown;
  /** Default 24 h. */
  readonly expiresInMs?: number;
}

export type EventAnswer =
  | { readonly kind: 'event'; readonly data: unknown }
  | { readonly kind: 'expired'; readonly at: string };

/** Rows of your own tables that are written with the group's commit, in the journal's transaction [T9, GR-13]. */
export interface AtomicEffect {
  readonly kind: string;
  /** JSON-like; the identity of the member, and what the journal shows of it. */
  readonly args: unknown;
  /** What is written, for each engine the agent runs on. Must follow from `args` and recorded outputs alone. */
  readonly entries: AtomicEntries;
}

/** Members that take together or not at all; opened inside a step [T9]. */
export interface EffectGroup {
  /** True until it has an ending. */
  readonly open: boolean;
  /** Runs now; its failure takes nothing with it but keeps the group from committing. */
  read<T>(effect: Effect<T>, resource: string): Promise<T>;
  /** Runs now; `undo` is built at once from its output, and must be pure (GR-14). */
  reversible<T>(
    effect: Effect<T>,
    resource: string,
    undo: (output: T) => Effect<unknown>,
  ): Promise<T>;
  /** Runs at the commit, when every invariant holds, in the order of declaration. */
  deferred(effect: Effect<unknown>, resource: string): void;
  /**
   * Written at the commit in one transaction with its records, before the first deferred member leaves. Throws
   * `invalid_effect` at once where the store lends no transaction or 99 entries of a group are passed.
   */
  atomic(effect: AtomicEffect, resource: string): void;
  /** Answers the outputs of the deferred members. Throws GroupAbortedError naming the first false invariant. */
  commit(
    invariants?: readonly { readonly name: string; readonly holds: boolean }[],
  ): Promise<readonly unknown[]>;
  /** Takes every reversible member back, newest first. */
  abort(reason?: string): Promise<void>;
}

/** A change of a long-lived matter; without one the call only reads it. */
export interface CaseChange {
  readonly id: string;
  readonly status?: string;
  readonly state?: unknown;
  /** Refuses the change when the case has moved on. */
  readonly expectedVersion?: number;
  readonly deadline?: {
    readonly name: string;
    readonly at?: string;
    readonly inMs?: number;
    /** Digest of the calendar `at` was computed with; journaled, never read (CS-3). */
    readonly calendar?: string;
  };
  /** Name of a deadline that was met. */
  readonly met?: string;
}

/** A deferred effect: performed by the effector after the turn's commit or suspension. */
export interface Act {
  readonly kind: string;
  readonly args: unknown;
  /** Past this the effector refuses it. Default 1 h. */
  readonly expiresInMs?: number;
}

/** Something that happened, told to the outside by the commit: names only, no data. */
export interface TurnEvent {
  /** Dotted, as in `refund.paid`. */
  readonly type: string;
  /** Default `integration`. */
  readonly category?: 'trace' | 'audit' | 'integration';
  /** Id of an earlier event of this turn that led here. */
  readonly causation?: string;
}

export interface TurnContext {
  readonly tenant: TenantId;
  readonly thread: ThreadId;
  readonly turn: TurnId;
  readonly subject: SubjectId | null;
  /** Most steps that may run side by side under the budget; null for the platform's limit. */
  readonly parallel: number | null;
  /** Checkpoint revision this turn saw when it was admitted (ruling 10). */
  readonly revision: number;
  readonly state: ThreadState;
  /** Instant of the last settled record: the same on every pass. */
  now(): EpochMs;
  /** Deterministic number in [0, 1) from the turn's recorded seed. */
  random(): number;
  /** Deterministic UUID from the turn's recorded seed. */
  uuid(): string;
  /** A remark in the journal; at most `limits.noteBytes`. */
  note(text: string): void;
  /** Stages an event and answers its id: it leaves with the turn's success, before `turn.committed` [T1]. */
  emit(event: TurnEvent): string;
  /** Announces, performs and records one call [T5, T6, T7]. Throws `EffectError` when it failed or is in doubt. */
  effect<T>(effect: Effect<T>): Promise<T>;
  /** The same, but the output stays wrapped with its label and the turn counts as not having seen it. */
  labelled<T>(effect: Effect<T>): Promise<Labelled<T>>;
  /** Takes a wrapped value out; from here on plain values of this turn carry its label too. */
  open<T>(value: Labelled<T>): T;
  /**
   * Answers a value under a better label, for a stated reason: an effect of the kind `label.release`, journaled, and
   * asked of the policy with the labels before and after (ME-11).
   */
  release<T>(value: T | Labelled<T>, to: Release): Promise<Labelled<T>>;
  /** Suspends the turn until a person answers or the deadline passes [T10]. */
  approval(request: ApprovalRequest): Promise<ApprovalAnswer>;
  /** Suspends the turn until an event of this type and correlation comes, or the deadline passes. */
  event(request: EventRequest): Promise<EventAnswer>;
  /** Suspends the turn for at least `ms` milliseconds; nothing runs meanwhile. */
  sleep(ms: number): Promise<void>;
  /** Stages a deferred effect and answers its intent id; its result comes as the event `act.result`. */
  act(act: Act): Promise<string>;
  /**
   * Opens a group over named resources. While it is open nothing else of the step may mutate (GR-4); groups do
   * not nest. A step that ends with it open takes it back.
   */
  openGroup(name: string, resources: readonly string[]): EffectGroup;
  /** Stages a fact: it becomes current with the turn's commit, or not at all [T1]. */
  remember(fact: Remember): Promise<void>;
  /** Facts of the turn's subject and one purpose, trusted first, then newest; the selection is recorded. */
  recall(query: Recall): Promise<readonly RecalledItem[]>;
  /** Facts nearest in meaning; the query, its vector and the selection are recorded (ME-20). */
  search(query: Search): Promise<readonly FoundItem[]>;
  /** Removes a fact of the turn's subject, at once; what a hold keeps refuses it (`legal_hold`). A repeat removes nothing. */
  forget(what: Forget): Promise<Removed>;
  /** Removes facts of the turn's subject that have lapsed, at once, except what is held. */
  sweepMemories(): Promise<Swept>;
  /** Changes or reads a case, as an effect. */
  case(change: CaseChange): Promise<{ readonly version: number; readonly status: string }>;
  /** Runs a named part; names are unique in a turn. Steps started together run together. */
  step<T>(name: string, options: StepOptions, body: (step: TurnContext) => Promise<T>): Promise<T>;
}

/** What `effect` and `step` throw when a ceiling of the turn's budget refuses them: a pause, not a failure. */
export class BudgetExhaustedError extends Error {
  override readonly name = 'BudgetExhaustedError';
  readonly code = 'budget_exhausted';
  readonly limit: string;
  readonly step: string;
  constructor(limit: string, step: string, message: string) {
    super(message);
    this.limit = limit;
    this.step = step;
  }
}

/** Thrown into code that waits when the whole turn comes to rest; whatever it does, the turn suspends. */
export class TurnSuspendedError extends Error {
  override readonly name = 'TurnSuspendedError';
  readonly code = 'turn_suspended';
  constructor() {
    super('the turn waits for an answer; it goes on from here when one comes');
  }
}

/** Thrown by code that gives its turn up: the turn ends `cancelled`, and what it did is taken back. */
export class TurnDroppedError extends Error {
  override readonly name = 'TurnDroppedError';
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** A group was taken back whole: nothing of it stands. */
export class GroupAbortedError extends AgentError {
  readonly group: string;
  readonly step: string;
  constructor(group: string, why: string, step: string) {
    super(`group "${group}" was taken back: ${why}`, { code: 'group_aborted' });
    this.group = group;
    this.step = step;
  }
}

/** What `effect` throws: the recorded failure, the same on every pass. */
export class EffectError extends Error {
  override readonly name = 'EffectError';
  readonly code: string;
  readonly disposition: Disposition;
  readonly effectKey: string;
  readonly step: string;
  /** True when the outcome is unknown: the turn ends quarantined whatever the code does (decision 6). */
  readonly undecided: boolean;
  constructor(
    message: string,
    facts: {
      code: string;
      disposition: Disposition;
      effectKey: string;
      step: string;
      undecided: boolean;
    },
  ) {
    super(message);
    this.code = facts.code;
    this.disposition = facts.disposition;
    this.effectKey = facts.effectKey;
    this.step = facts.step;
    this.undecided = facts.undecided;
  }
}
