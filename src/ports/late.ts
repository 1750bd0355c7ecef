// What a call came to that nobody could record any more: its turn was taken over, or ended, while it was on its way.
//   B26  evidence beside the journal, outside its chain and its fence: it decides nothing and revives nothing [T4 T6].
import type { EpochMs } from '../protocol/ids.ts';
import type { Spend } from '../protocol/record.ts';
import type { SealedPayload, TurnRef } from './store.ts';

export interface LateRow {
  readonly ref: TurnRef;
  /** Key of the announced attempt. */
  readonly effectKey: string;
  /** What its owner heard; a call that told nothing is no evidence. */
  readonly outcome: 'landed' | 'did_not_happen';
  /** Error code, or empty for an answer that can be used. */
  readonly code: string;
  /** What it reported; no budget and no ledger counts it. */
  readonly spend: Spend;
  readonly at: EpochMs;
  /** The process that heard it. */
  readonly owner: string;
  readonly scope: string;
  /** Sealed output, or `{message}` of a failure. */
  readonly payload: SealedPayload;
}

export interface LateStore {
  /** Keeps a late result; the first one of an attempt stands. Never touches the turn. */
  putLate(row: LateRow): Promise<void>;
  /** Late results of a turn. */
  lateOf(ref: TurnRef): Promise<readonly LateRow[]>;
}
