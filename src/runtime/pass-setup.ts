// What a pass is given, and how it may end.
import type { StopRequest, TurnRef } from '../ports/store.ts';
import type { Sealer } from '../ports/vault.ts';
import type { Budget } from '../protocol/budget.ts';
import type { FoldedState } from '../protocol/checkpoint.ts';
import { AgentError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import type { Site } from '../protocol/record.ts';
import type { AgentDefinition } from './agent-definition.ts';
import type { History } from './history.ts';
import type { JournalWriter } from './journal-writer.ts';
import type { Divergence } from './resume-point.ts';
import type { Runtime } from './runtime.ts';
import type { UnwindEnd } from './unwind.ts';
import type { OpenWait } from './wait-runner.ts';
import type { WriterEnd } from './writer-parts.ts';

export interface PassSetup {
  readonly runtime: Runtime;
  readonly ref: TurnRef;
  readonly agent: AgentDefinition;
  readonly input: unknown;
  readonly subject: string | null;
  /** Who sent the turn. */
  readonly actor: string;
  readonly budget: Budget | null;
  readonly seed: Uint8Array;
  readonly admittedAt: EpochMs;
  readonly revision: number;
  readonly state: FoldedState;
  readonly scope: string;
  readonly sealer: Sealer;
  readonly history: History;
  /** Null in a strict pass: it writes nothing (ST-4). */
  readonly writer: JournalWriter | null;
  /** Wall instant the host ends this pass, or null. */
  readonly deadlineAt: EpochMs | null;
  readonly drain: AbortSignal | null;
}

export type PassEnd =
  | { readonly kind: 'returned'; readonly value: unknown }
  | { readonly kind: 'threw'; readonly error: unknown }
  | { readonly kind: 'diverged'; readonly divergence: Divergence }
  /** The pass stopped before an announcement; `wakeAt` is null for "as soon as possible". */
  | { readonly kind: 'parked'; readonly wakeAt: EpochMs | null }
  | { readonly kind: 'timeout' }
  /** A stop request was seen at a boundary; what was in flight has finished. */
  | { readonly kind: 'cancelled'; readonly request: StopRequest }
  /** Every branch that is left waits for somebody. */
  | { readonly kind: 'suspended'; readonly waits: readonly OpenWait[] }
  | ({ readonly kind: 'unwound' } & UnwindEnd)
  /** A strict pass met an announcement without an outcome. */
  | { readonly kind: 'undecidable'; readonly site: Site }
  | { readonly kind: 'broken'; readonly error: unknown }
  | { readonly kind: 'ended'; readonly end: WriterEnd };

/** The code ended while a call it started was still on its way: nothing of it is waited for. */
export function notAwaited(): AgentError {
  return new AgentError('an effect was started and not awaited before the turn ended', {
    code: 'effect_not_awaited',
  });
}
