// The turn as a caller sees it (page 05, the turn object), minus its transport dress.
import type { AgentName, EpochMs, ThreadId, TurnId } from '../protocol/ids.ts';
import type { TurnStatus } from '../protocol/turn-status.ts';

export interface TurnError {
  readonly code: string;
  readonly message: string;
  readonly step?: string;
  readonly effectKey?: string;
}

export interface UndecidedEffect {
  readonly effectKey: string;
  readonly step: string;
  readonly phase: 'forward' | 'compensating';
  readonly kind: string;
  readonly doubt: 'announced' | 'inconclusive';
  readonly since: EpochMs;
}

export interface TurnSpend {
  readonly steps: number;
  readonly effects: number;
  readonly attempts: number;
  readonly tokens: number;
  readonly minorUnits: number;
}

export interface WaitView {
  readonly id: string;
  readonly kind: 'approval' | 'event' | 'timer';
  readonly until: EpochMs;
  readonly summary: string;
  readonly digest?: string;
}

export interface TurnView {
  readonly thread: ThreadId;
  readonly turn: TurnId;
  readonly agent: AgentName;
  readonly status: TurnStatus;
  readonly revision: number;
  readonly result?: unknown;
  readonly error?: TurnError;
  readonly waits: readonly WaitView[];
  readonly undecided: readonly UndecidedEffect[];
  readonly spend: TurnSpend;
  /** Set when its subject was erased: no payload is left. */
  readonly erased?: true;
  readonly createdAt: EpochMs;
  readonly updatedAt: EpochMs;
}

/** What a delivery is answered with. */
export type TurnAnswer =
  | {
      readonly kind: 'concluded';
      readonly turn: TurnView;
      readonly replayed: boolean;
      readonly currentRevision: number;
    }
  /** Suspended, parked or still running elsewhere: the caller may ask again. */
  | { readonly kind: 'pending'; readonly turn: TurnView }
  /** Another turn holds the thread (decision 26). */
  | { readonly kind: 'busy'; readonly retryAfterMs: number; readonly holder: TurnId };
