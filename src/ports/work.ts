// Work rows: what is owed for a turn, and the messages its transactions leave behind (page 09, rule 6).
import type { AgentName, EpochMs } from '../protocol/ids.ts';
import type { SealedPayload, TurnRef } from './store.ts';

/** One message that must reach a queue: written with the turn, deleted after the queue confirmed. */
export interface OutboxEntry {
  /** Stable id, used as the queue's deduplication id (K-69). */
  readonly id: string;
  readonly queue: 'inbox' | 'events' | 'intents' | 'errors';
  /** Body that travels: references or sealed bytes, never plain payload. */
  readonly body: string;
  /** Epoch of the pass that wrote it: a thread's entries leave in this order; absent for a wake, which may go first. */
  readonly order?: number;
}

/** What an accepted (202) delivery stores before it is acknowledged (ruling 12). */
export interface Acceptance {
  readonly agent: AgentName;
  readonly payloadDigest: string;
  readonly scope: string;
  readonly generation: number;
  readonly payload: SealedPayload;
  readonly at: EpochMs;
}

/** Live work of one turn; the only way work is discovered (page 09, rule 6). */
export interface WorkRow {
  readonly ref: TurnRef;
  readonly accepted: Acceptance | null;
  /** Lease end of a running pass: past it the turn is stranded. */
  readonly runDueAt: EpochMs | null;
  /** The turn wants a pass at or after this instant. */
  readonly wakeAt: EpochMs | null;
  /** The position of a suspension whose look for early events is not known to have finished (page 09, rule 7). */
  readonly lookOwed: number | null;
  readonly entries: readonly OutboxEntry[];
  /** Order of this row's entries among the thread's rows. */
  readonly sequence: number;
  /** Deliveries that did not get through; poison is parked at a limit. */
  readonly tries: number;
  readonly parkedReason: string | null;
  readonly updatedAt: EpochMs;
  /** Changes with every write of the row and never repeats. */
  readonly version: string;
}
