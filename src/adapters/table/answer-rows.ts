// CACHE: the replay cache of a thread, one row of pointers (page 09, B25).
//   T4  a plain put beside everything else: no head, position or projection is read or written.
import type { ThreadRef } from '../../ports/store.ts';
import { turnId } from '../../protocol/ids.ts';
import type { CachedAnswer } from '../../protocol/replay-cache.ts';
import type { Attr } from './driver.ts';
import { asCount, asList, asText, ItemReader, skew } from './item-reader.ts';
import { answersKey } from './layout.ts';
import { putPlain } from './reads.ts';
import type { TableContext } from './table-context.ts';

export async function cachedAnswers(
  table: TableContext,
  ref: ThreadRef,
): Promise<readonly CachedAnswer[]> {
  const [item] = await table.driver.batchGet([answersKey(await table.names.thread(ref))]);
  if (item == null) return [];
  const read = new ItemReader('CACHE', item);
  const turns = read.list('t').map((turn) => asText('CACHE.t', turn));
  return read.list('e').map((entry) => answerIn(asList('CACHE.e', entry), turns));
}

export async function putCachedAnswers(
  table: TableContext,
  ref: ThreadRef,
  entries: readonly CachedAnswer[],
): Promise<void> {
  const turns = [...new Set(entries.flatMap(({ held }) => ('turn' in held ? [held.turn] : [])))];
  const e = entries.map((entry) => answerOut(entry, turns));
  const key = answersKey(await table.names.thread(ref));
  await putPlain(table, { kind: 'put', key, item: { t: turns, e }, when: [] });
}

function answerOut({ key, at, bytes, held }: CachedAnswer, turns: readonly string[]): Attr {
  if ('digest' in held) return [key, at, bytes, held.digest];
  return [key, at, bytes, turns.indexOf(held.turn), held.seq];
}

function answerIn(
  [key, at, bytes, held, seq]: readonly Attr[],
  turns: readonly string[],
): CachedAnswer {
  const facts = {
    key: asText('CACHE.e.key', key),
    at: asCount('CACHE.e.at', at),
    bytes: asCount('CACHE.e.bytes', bytes),
  };
  if (typeof held === 'string') return { ...facts, held: { digest: held } };
  const turn = turns[asCount('CACHE.e.turn', held)];
  if (turn === undefined) throw skew('CACHE.e.turn', 'a turn of the row', held);
  return { ...facts, held: { turn: turnId('CACHE.t', turn), seq: asCount('CACHE.e.seq', seq) } };
}
