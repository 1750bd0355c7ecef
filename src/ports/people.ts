// What people ask of a turn beside its journal, and what is listed for them [T8, T13].
import type { EpochMs } from '../protocol/ids.ts';
import type { Head, SealedPayload, TurnRef, Unknown } from './store.ts';

/** Why a turn needs a person. */
export type AttentionCondition = 'quarantined' | 'exhausted' | 'failed_with_landed_work';

/** One line of a tenant's attention list. */
export interface AttentionRow {
  readonly ref: TurnRef;
  readonly condition: AttentionCondition;
  readonly since: EpochMs;
}

/** A recorded stop request; the first asker's (CA-1). */
export interface StopRequest {
  readonly actor: string;
  /** Sealed reason. */
  readonly reason: SealedPayload;
  readonly scope: string;
  readonly at: EpochMs;
}

export interface StopWrite {
  readonly ref: TurnRef;
  readonly seen: Head;
  readonly request: StopRequest;
  readonly now: EpochMs;
}

export type Stopped =
  | { readonly kind: 'done' }
  /** Somebody asked before; `request` is theirs. */
  | { readonly kind: 'asked'; readonly request: StopRequest }
  /** The head moved while it was asked: look again. */
  | { readonly kind: 'moved' }
  | Unknown;
