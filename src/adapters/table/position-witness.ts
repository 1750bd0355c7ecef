// The journal position as witness (page 09, rule 3): whose write stands at it, and may this one be tried.
//   T4  a position that another token holds means displaced; my own token and batch mean it was mine.
//   T5  a key that was announced before is refused here, from the caller's complete view.
//   T11 a batch over its limit is refused before anything is sent.

import type { Batch, Position, Writer } from '../../ports/store.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import { limits } from '../../protocol/limits.ts';
import { utf8Bytes } from './capacity.ts';
import type { Refusal, WriteOp } from './driver.ts';
import { positionKey, type TurnPlace } from './layout.ts';
import { positionIn, positionOut } from './turn-codec.ts';

/** What a refused write says about its position. */
export type Witness =
  | { readonly kind: 'mine' }
  | { readonly kind: 'taken'; readonly position: Position }
  | { readonly kind: 'announced'; readonly effectKey: string }
  /** The position is free; something else refused the write. */
  | { readonly kind: 'free' };

/** The one put that every write of a pass contains. */
export function positionPut(place: TurnPlace, writer: Writer, batch: Batch, turn: string): WriteOp {
  assertBatchFits(batch);
  const item = positionOut(writer, batch);
  const put: WriteOp = {
    kind: 'put',
    key: positionKey(place, batch.index),
    item: batch.index === 0 ? { ...item, tu: turn } : item,
    when: [{ is: 'no item' }],
  };
  if (batch.announces.length === 0) return put;
  return {
    ...put,
    announced: { scope: `${place.thread}:${place.turn}`, keys: batch.announces },
  };
}

/** Reads the refusals of a write whose operation `op` is the position put. */
export function witness(
  refused: readonly Refusal[],
  op: number,
  writer: Writer,
  batch: Batch,
): Witness {
  const refusal = refused.find((one) => one.op === op);
  if (refusal === undefined) return { kind: 'free' };
  if (refusal.announced !== undefined) return { kind: 'announced', effectKey: refusal.announced };
  if (refusal.item === null) return { kind: 'free' };
  const position = positionIn(batch.index, refusal.item);
  const mine = position.token === writer.token && lastHash(position) === lastHash(batch);
  return mine ? { kind: 'mine' } : { kind: 'taken', position };
}

/** The first key of a batch that was announced before, in the journal or in the batch itself [T5]. */
export function announcedBefore(batch: Batch, announced: ReadonlySet<string>): string | undefined {
  const own = new Set<string>();
  for (const key of batch.announces) {
    if (announced.has(key) || own.has(key)) return key;
    own.add(key);
  }
  return undefined;
}

/** The error of a verb whose outcomes have no word for a second announcement. */
export function announcedTwice(effectKey: string): TurnstoneError {
  return new TurnstoneError('already_announced', `effect ${effectKey} was announced before`, {
    retry: 'never',
    details: { effectKey },
  });
}

function lastHash(records: Pick<Batch, 'records'>): string {
  return records.records.at(-1)?.hash ?? '';
}

function assertBatchFits(batch: Batch): void {
  const bytes = batch.records.reduce(
    (sum, record) => sum + utf8Bytes(record.body) + (record.sealed?.byteLength ?? 0),
    0,
  );
  if (bytes <= limits.batchBytes) return;
  throw new TurnstoneError(
    'record_too_large',
    `position ${batch.index}: expected at most ${limits.batchBytes} bytes (batchBytes), got ${bytes}`,
    { retry: 'never', details: { limit: 'batchBytes', max: limits.batchBytes, size: bytes } },
  );
}
