// A language model as agents ask it: one completion, and what it cost whether or not it was any use.
//
// A provider adapter classes its own failures (page 01, 1.2); it neither retries nor waits: attempts, backoff
// and billing are the effect's (B-24).
import type { Disposition } from '../protocol/effect-decision.ts';

/** Tokens of one attempt; zero where the provider does not say. */
export interface ModelUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export interface ModelMessage {
  readonly role: 'user' | 'assistant';
  readonly text: string;
}

/** One completion. Everything here is its identity: another request is another effect. */
export interface ModelRequest {
  readonly instructions?: string;
  readonly messages: readonly ModelMessage[];
  /** JSON Schema of the answer; absent for text. */
  readonly schema?: Readonly<Record<string, unknown>>;
  readonly maxOutputTokens?: number;
  readonly temperature?: number;
}

export interface ModelAnswer {
  readonly text: string;
  readonly finish: 'stop' | 'length' | 'filtered' | 'other';
  readonly usage: ModelUsage;
}

/** What one attempt is told. */
export interface ModelCall {
  readonly signal: AbortSignal;
  /** Same for every attempt of one completion; for providers that deduplicate. */
  readonly idempotencyKey: string;
}

/** What an attempt came to; `usage` of a failure is what the provider is known to charge for it. */
export type ModelOutcome<Answer> =
  | { readonly kind: 'answered'; readonly answer: Answer; readonly usage: ModelUsage }
  | ModelFailure;

export interface ModelFailure {
  readonly kind: 'failed';
  /** `did_not_happen`: nothing was generated, nothing is charged. */
  readonly disposition: Disposition;
  /** The same request cannot succeed: no further attempt. */
  readonly permanent: boolean;
  readonly code: string;
  readonly message: string;
  /** Wait the provider named before the next attempt, milliseconds. */
  readonly adviceMs?: number;
  readonly usage?: ModelUsage;
}

export interface Model {
  /** Provider and model, as the journal shows it. */
  readonly id: string;
  /** Asks once; every provider failure is a member of the union. */
  ask(request: ModelRequest, call: ModelCall): Promise<ModelOutcome<ModelAnswer>>;
}
