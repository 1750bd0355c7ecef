// Journal records: their kinds and what each carries. record-codec.ts turns them into stored bytes.
//
// Payloads (arguments, outputs, error texts, inputs) travel sealed beside a record, never in its body.
import type { Disposition, Recovery } from './effect-decision.ts';
import type { Phase } from './keys.ts';

/** The stored form of one record: hashed exactly as it stands here (CH-1). */
export interface StoredRecord {
  readonly body: string;
  readonly sealed?: Uint8Array;
  readonly hash: string;
}

/** Where an effect stands in its turn. `ordinal` counts dispatches of one (step, phase). */
export interface Site {
  readonly step: string;
  readonly phase: Phase;
  readonly ordinal: number;
}

/** Integer figures an attempt is billed with; all saturating and never negative (BU-4). */
export interface Spend {
  readonly tokens: number;
  readonly minorUnits: number;
}

/** Where a payload lives: sealed beside the body, or in parts named by digest. */
export type PayloadPlace =
  | { readonly kind: 'none' }
  | { readonly kind: 'beside' }
  | {
      readonly kind: 'parts';
      readonly digest: string;
      readonly count: number;
      readonly bytes: number;
    }
  /** Landed output over the limit: only its digest and size are kept (decision 22). */
  | { readonly kind: 'lost'; readonly digest: string; readonly bytes: number };

interface Common {
  readonly seq: number;
  readonly at: number;
  readonly epoch: number;
  readonly payload: PayloadPlace;
}

/** The kinds of page 01, 0.2, and the members each one carries in the clear. */
export type RecordFacts =
  | {
      readonly kind: 'RunAdmitted';
      readonly turn: string;
      readonly agent: string;
      readonly payloadDigest: string;
      readonly authority: string;
      readonly presentation: string;
      readonly schema: number;
      readonly canonical: number;
      readonly revision: number;
      readonly scope: string;
      readonly generation: number;
      /** Digest of the policies in force, when there are any. */
      readonly policy?: string;
    }
  | { readonly kind: 'PlanFrozen'; readonly digest: string }
  | { readonly kind: 'StepStarted'; readonly step: string }
  | { readonly kind: 'StepFinished'; readonly step: string; readonly outcome: StepOutcome }
  | EffectStarted
  | {
      readonly kind: 'EffectDone';
      readonly site: Site;
      readonly key: string;
      readonly spend: Spend;
      /** What its declaration said of the output, as `labelText`; absent: undeclared. */
      readonly label?: string;
    }
  | {
      readonly kind: 'EffectFailed';
      readonly site: Site;
      readonly key: string;
      readonly disposition: Disposition;
      readonly permanent: boolean;
      readonly code: string;
      readonly spend: Spend;
    }
  | {
      readonly kind: 'EffectReconciled';
      readonly site: Site;
      readonly key: string;
      readonly disposition: Disposition;
      readonly spend: Spend;
      readonly assertedBy?: string;
    }
  | {
      readonly kind: 'BudgetRefused';
      readonly site: Site;
      readonly key: string;
      readonly limit: string;
    }
  | {
      readonly kind: 'BudgetReadmitted';
      readonly site: Site;
      readonly key: string;
      readonly limit: string;
    }
  /** A gate refused the next attempt: by the agent's declaration or by policy (GA-2). */
  | {
      readonly kind: 'PolicyDenied';
      readonly site: Site;
      readonly key: string;
      readonly by: 'declaration' | 'policy';
      readonly exhausts: boolean;
    }
  /** The store refused the transaction of a group's atomic members: nothing of them stands, and it is final (GR-13). */
  | { readonly kind: 'AtomicRefused'; readonly site: Site; readonly key: string }
  | {
      readonly kind: 'QuarantineDecided';
      readonly decision: QuarantineDecision;
      readonly decider: string;
    }
  | { readonly kind: 'RunCancelled'; readonly actor: string }
  /** Instead of an ending: the turn waits; `until` is its earliest deadline. */
  | { readonly kind: 'RunSuspended'; readonly until: number }
  /** A business key that was used before: what its receipt came to is the answer (K-24). */
  | {
      readonly kind: 'ReceiptRead';
      readonly site: Site;
      readonly key: string;
      readonly receipt: string;
      readonly outcome: ReceiptOutcome;
    }
  /** An equal completion was answered before (B-22): no announcement, no bill; its tokens count for the ceiling. */
  | {
      readonly kind: 'AnswerCached';
      readonly site: Site;
      readonly key: string;
      readonly effect: string;
      /** What the answer cost when it was bought. */
      readonly tokens: number;
      /** The turn and record it was bought at. */
      readonly turn: string;
      readonly from: number;
      /** What its own record says of it. */
      readonly label?: string;
    }
  /** A fact to remember, written with the turn's commit. */
  | {
      readonly kind: 'MemoryStaged';
      readonly site: Site;
      readonly key: string;
      readonly purpose: string;
      /** What went into it (ME-3), as `labelText`. */
      readonly label?: string;
    }
  /** A deferred act, published with the next suspension or success. */
  | {
      readonly kind: 'ActStaged';
      readonly site: Site;
      readonly key: string;
      readonly effect: string;
      readonly intent: string;
      readonly expiresInMs: number;
    }
  /** The start of an unwind: its status, reason and list stand from here on (decision 4). */
  | { readonly kind: 'UnwindStarted'; readonly status: string; readonly code?: string }
  | { readonly kind: 'StepCompensated'; readonly step: string; readonly outcome: StepOutcome }
  | {
      readonly kind: 'GroupOpened';
      readonly step: string;
      readonly phase?: 'compensating';
      readonly name: string;
    }
  | {
      readonly kind: 'GroupSettled';
      readonly step: string;
      readonly phase?: 'compensating';
      readonly name: string;
      readonly outcome: GroupOutcome;
    }
  | { readonly kind: 'RunResumed'; readonly actor: string }
  | { readonly kind: 'Note'; readonly step: string; readonly author: NoteAuthor }
  | {
      readonly kind: 'RunConcluded';
      readonly outcome: string;
      readonly code?: string;
      readonly chainHead: string;
    };

/** A person's decision over a quarantined turn: journaled before it is acted on (QA-3). */
export type QuarantineDecision = 'reopen' | 'abandon';

export type StepOutcome = 'ok' | 'failed';
export type ReceiptOutcome = 'completed' | 'changed' | 'in_flight' | 'landed' | 'uncertain';
export type GroupOutcome = 'committed' | 'aborted' | 'quarantined';
/** What a wait waits for. */
export type WaitKind = 'approval' | 'event' | 'timer';
/** `system` notes are the runtime's own (a takeover by the sweeper); they are no part of a replay. */
export type NoteAuthor = 'agent' | 'system';

export interface EffectStarted {
  readonly kind: 'EffectStarted';
  readonly site: Site;
  readonly key: string;
  readonly effect: string;
  readonly attempt: number;
  readonly backoffMs: number;
  readonly mutates: boolean;
  readonly recovery: Recovery;
  /** Declared cost, reserved until the outcome is known. */
  readonly cost?: Spend;
  /** Set when nothing is called: a person, an event or an instant settles it. */
  readonly wait?: WaitKind;
  /** The open group it is a member or a reversal of. */
  readonly group?: string;
  /** Id of the receipt of its business key. */
  readonly receipt?: string;
}

export type RecordBody = Common & RecordFacts;
export type RecordKind = RecordFacts['kind'];
export type RecordOf<K extends RecordKind> = Extract<RecordBody, { kind: K }>;
