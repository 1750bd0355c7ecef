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
  /** Tools an assistant's message called. */
  readonly calls?: readonly ModelToolCall[];
  /** What those calls came to, in the user's message after it. */
  readonly results?: readonly ModelToolResult[];
}

/** A tool the model may ask for; who runs it is the caller's affair. */
export interface ModelTool {
  readonly name: string;
  readonly description?: string;
  /** JSON Schema of its input. */
  readonly input: Readonly<Record<string, unknown>>;
}

export interface ModelToolCall {
  /** Names this call among those of its conversation. */
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

export interface ModelToolResult {
  readonly id: string;
  readonly output: unknown;
  /** The tool failed; `output` says how. */
  readonly failed?: boolean;
}

/** One completion. Everything here is its identity: another request is another effect. */
export interface ModelRequest {
  readonly instructions?: string;
  readonly messages: readonly ModelMessage[];
  /** JSON Schema of the answer; absent for text. */
  readonly schema?: Readonly<Record<string, unknown>>;
  readonly maxOutputTokens?: number;
  readonly temperature?: number;
  readonly tools?: readonly ModelTool[];
  /** Default `auto`. */
  readonly toolChoice?: 'auto' | 'required' | { readonly tool: string };
}

export interface ModelAnswer {
  readonly text: string;
  /** `calls`: it asks for tools before it goes on. */
  readonly finish: 'stop' | 'length' | 'filtered' | 'calls' | 'other';
  /** Tools it asks for; absent for none. */
  readonly calls?: readonly ModelToolCall[];
  readonly usage: ModelUsage;
}

/** What one attempt is told. */
export interface ModelCall {
  readonly signal: AbortSignal;
  /** Same for every attempt of one completion; for providers that deduplicate. */
  readonly idempotencyKey: string;
  /** Sees text as it comes, provisional until the completion is recorded; who cannot stream shows nothing. */
  readonly live?: (text: string) => void;
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
  /** Settings of its own that change what it answers: part of what makes two completions equal (B-16). */
  readonly settings?: unknown;
  /** Asks once; every provider failure is a member of the union. */
  ask(request: ModelRequest, call: ModelCall): Promise<ModelOutcome<ModelAnswer>>;
}
