// One dispatch of an effect and everything its attempts share.
import type { Site } from '../protocol/record.ts';
import type { DeclaredEffect } from './declared-effect.ts';
import type { Pass } from './pass.ts';
import type { BudgetExhaustedError, EffectError } from './turn-context.ts';

/** A dispatch with everything its attempts share. */
export interface Dispatch {
  readonly pass: Pass;
  readonly site: Site;
  readonly declared: DeclaredEffect;
  readonly idempotencyKey: string;
  /** Id of its business key's receipt once it is taken, or null. */
  receipt: string | null;
  settle: Settle;
}

interface Settle {
  resolve(value: unknown): void;
  reject(error: EffectError | BudgetExhaustedError): void;
}

/** Where the live part of a dispatch begins. */
export type Entry =
  | {
      readonly kind: 'announce';
      readonly attempt: number;
      readonly adviceMs?: number;
      /** Instant of the recorded failure its wait counts from; absent: now. */
      readonly since?: number;
      readonly readmit?: boolean;
    }
  /** Perform a recorded announcement again under its own key: no second EffectStarted (OR-2). */
  | {
      readonly kind: 'perform';
      readonly attempt: number;
      readonly resend: boolean;
      /**
       * Records the verdict that led here, together with what the call comes to: a verdict that stood alone would
       * say "did not happen" of a call that is on its way.
       */
      readonly verdict?: () => void;
    }
  | { readonly kind: 'probe'; readonly attempt: number; readonly live: boolean };
