// LATE: results that came too late for the journal of their turn (page 09, B26).
//   T4  one plain put beside everything else; no head, position or projection is read or written.
import type { LateRow } from '../../ports/late.ts';
import type { TurnRef } from '../../ports/store.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import { epochMs } from '../../protocol/ids.ts';
import type { Item } from './driver.ts';
import { ItemReader, skew } from './item-reader.ts';
import { lateKey, lateRange } from './layout.ts';
import { payloadIn, payloadOut } from './payload-codec.ts';
import type { TableContext } from './table-context.ts';

export async function putLate(table: TableContext, row: LateRow): Promise<void> {
  const key = lateKey(await table.names.turn(row.ref), row.effectKey);
  const item: Item = {
    oc: row.outcome,
    c: row.code,
    to: row.spend.tokens,
    mu: row.spend.minorUnits,
    at: row.at,
    lo: row.owner,
    sc: row.scope,
    p: payloadOut(row.payload),
  };
  const outcome = await table.driver.write([{ kind: 'put', key, item, when: [{ is: 'no item' }] }]);
  if (outcome.kind !== 'unknown') return;
  throw new TurnstoneError('store_unavailable', 'a late result may not be kept', {
    retry: 'now',
    cause: outcome.cause,
  });
}

export async function lateOf(table: TableContext, ref: TurnRef): Promise<readonly LateRow[]> {
  const range = lateRange(await table.names.turn(ref));
  const rows = await table.driver.query(range);
  return rows.map(({ sk, item }) => lateIn(ref, sk.slice(range.between[0].length), item));
}

function lateIn(ref: TurnRef, effectKey: string, item: Item): LateRow {
  const read = new ItemReader('LATE', item);
  const outcome = read.text('oc');
  if (outcome !== 'landed' && outcome !== 'did_not_happen') {
    throw skew('LATE.oc', 'a known outcome', outcome);
  }
  return {
    ref,
    effectKey,
    outcome,
    code: read.text('c'),
    spend: { tokens: read.count('to'), minorUnits: read.count('mu') },
    at: epochMs(read.count('at')),
    owner: read.text('lo'),
    scope: read.text('sc'),
    payload: payloadIn('LATE.p', read.value('p')),
  };
}
