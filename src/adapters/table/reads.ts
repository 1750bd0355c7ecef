// The reads of a pass: one round to begin, the journal, the checkpoint and its snapshot.
//   T2  everything a replay needs is in the one round; what is torn is read again (page 09, rule 1).
//   T13 a journal with a hole is named, never skipped over.

import type {
  Begun,
  Checkpoint,
  CheckpointSegment,
  Head,
  Position,
  ThreadRef,
  TurnRef,
} from '../../ports/store.ts';
import type { KeyRow } from '../../ports/subjects.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import type { SubjectId, TenantId } from '../../protocol/ids.ts';
import { scopeTag } from '../../protocol/scopes.ts';
import type { Item } from './driver.ts';
import {
  archiveKey,
  baseKey,
  checkpointKey,
  endKey,
  headKey,
  keyRowKey,
  positionKey,
  positionsMax,
  workKey,
} from './layout.ts';
import { segmentIn, segmentOut } from './payload-codec.ts';
import { backOff, type TableContext } from './table-context.ts';
import { checkpointIn, checkpointOut, endIn, headIn, keyRowIn, positionIn } from './turn-codec.ts';
import { workIn } from './work-codec.ts';

const tornRoundsMax = 8;
const snapshotPutsAtOnce = 4;

type Found = Item | null | undefined;

/** All that a pass must know before it runs, in one consistent round. */
export async function begin(
  table: TableContext,
  ref: TurnRef,
  subject: SubjectId | null,
): Promise<Begun> {
  const place = await table.names.turn(ref);
  const scope = await table.names.scope(ref, subject);
  const keys = [
    headKey(place.thread),
    checkpointKey(place.thread),
    endKey(place),
    positionKey(place, 0),
    keyRowKey(table.names.keyRow(ref.tenant, scope)),
    workKey(place, table.shards),
  ];
  return untorn(table, async () => {
    const [head, checkpoint, end, first, key, work] = await table.driver.batchGet(keys);
    return {
      ...state(head, checkpoint),
      end: read(end, endIn),
      first: read(first, (item) => positionIn(0, item)),
      key: read(key, keyRowIn),
      scope: scopeTag(scope, read(key, keyRowIn)?.generation ?? 1),
      work: read(work, (item) => workIn(item).row),
    };
  });
}

/** Head and checkpoint of a thread, consistent with each other. */
export async function thread(
  table: TableContext,
  ref: ThreadRef,
): Promise<{ head: Head | null; checkpoint: Checkpoint | null }> {
  const hash = await table.names.thread(ref);
  return untorn(table, async () => {
    const [head, checkpoint] = await table.driver.batchGet([headKey(hash), checkpointKey(hash)]);
    return state(head, checkpoint);
  });
}

export async function head(table: TableContext, ref: ThreadRef): Promise<Head | null> {
  const [item] = await table.driver.batchGet([headKey(await table.names.thread(ref))]);
  return read(item, headIn);
}

/** Every position from `from`, in order; throws `journal_corrupt` naming the first that is missing. */
export async function journal(
  table: TableContext,
  ref: TurnRef,
  from = 0,
): Promise<readonly Position[]> {
  const place = await table.names.turn(ref);
  const rows = await table.driver.query({
    table: 'DATA',
    pk: place.thread,
    between: [positionKey(place, from).sk, positionKey(place, positionsMax - 1).sk],
  });
  return rows.map((row, at) => {
    const index = from + at;
    if (row.sk !== positionKey(place, index).sk) {
      throw new TurnstoneError('journal_corrupt', `position ${index} of the turn is missing`, {
        retry: 'never',
        details: { position: index },
      });
    }
    return positionIn(index, row.item);
  });
}

/** Snapshot segments of a base; throws `payload_missing` naming the first that is gone. */
export async function snapshot(
  table: TableContext,
  ref: ThreadRef,
  base: { readonly revision: number; readonly count: number },
): Promise<readonly CheckpointSegment[]> {
  const hash = await table.names.thread(ref);
  const keys = Array.from({ length: base.count }, (_, at) => baseKey(hash, base.revision, at));
  const items = await table.driver.batchGet(keys);
  return items.map((item, at) => {
    if (item === null) throw missing(`snapshot ${base.revision}.${at}`);
    return segmentIn('BASE.s', item.s);
  });
}

/** Stores the segments of a snapshot; the commit that names them comes after. Idempotent. */
export async function putSnapshot(
  table: TableContext,
  ref: ThreadRef,
  revision: number,
  segments: readonly CheckpointSegment[],
  archived: Checkpoint | null,
): Promise<void> {
  const hash = await table.names.thread(ref);
  if (archived !== null) {
    const key = archiveKey(hash, revision);
    await putPlain(table, { kind: 'put', key, item: checkpointOut(archived), when: [] });
  }
  await inTurns(segments, snapshotPutsAtOnce, async (segment, at) => {
    await putPlain(table, {
      kind: 'put',
      key: baseKey(hash, revision, at),
      item: { s: segmentOut(segment) },
      when: [],
    });
  });
}

/** The checkpoint a snapshot replaced: how a turn that waited sees what it saw (ruling 10). */
export async function archived(
  table: TableContext,
  ref: ThreadRef,
  revision: number,
): Promise<Checkpoint | null> {
  const [item] = await table.driver.batchGet([archiveKey(await table.names.thread(ref), revision)]);
  return read(item, checkpointIn);
}

export async function key(
  table: TableContext,
  tenant: TenantId,
  scope: string,
): Promise<KeyRow | null> {
  const [item] = await table.driver.batchGet([keyRowKey(table.names.keyRow(tenant, scope))]);
  return read(item, keyRowIn);
}

/** Runs `job` over all items, at most `atOnce` side by side; the first failure stops new ones. */
export async function inTurns<T>(
  items: readonly T[],
  atOnce: number,
  job: (item: T, index: number) => Promise<void>,
): Promise<void> {
  const queue = items.entries();
  const lanes = Array.from({ length: Math.min(atOnce, items.length) }, async () => {
    for (const [index, item] of queue) await job(item, index);
  });
  await Promise.all(lanes);
}

/** A write without conditions; throws `store_unavailable` when its outcome stays unknown. */
export async function putPlain(
  table: TableContext,
  op: Parameters<TableContext['driver']['write']>[0][number],
): Promise<void> {
  const outcome = await table.driver.write([op]);
  if (outcome.kind === 'done') return;
  throw new TurnstoneError('store_unavailable', 'a plain write has no known outcome', {
    retry: 'now',
    cause: outcome.kind === 'unknown' ? outcome.cause : undefined,
  });
}

export function missing(what: string): TurnstoneError {
  return new TurnstoneError('payload_missing', `${what} is not in the store`, {
    retry: 'never',
    details: { what },
  });
}

async function untorn<T extends { head: Head | null; checkpoint: Checkpoint | null }>(
  table: TableContext,
  once: () => Promise<T>,
): Promise<T> {
  for (let round = 1; round <= tornRoundsMax; round += 1) {
    const found = await once();
    if ((found.head?.revision ?? 0) === (found.checkpoint?.revision ?? 0)) return found;
    await backOff(table.retry, round, 2, 200);
  }
  throw new TurnstoneError(
    'store_unavailable',
    `head and checkpoint still disagree after ${tornRoundsMax} reads`,
    { retry: 'now', details: { rounds: tornRoundsMax } },
  );
}

function state(
  headItem: Found,
  checkpointItem: Found,
): { head: Head | null; checkpoint: Checkpoint | null } {
  return { head: read(headItem, headIn), checkpoint: read(checkpointItem, checkpointIn) };
}

function read<T>(item: Found, decode: (item: Item) => T): T | null {
  return item === null || item === undefined ? null : decode(item);
}
