// What a person reads and asks beside a thread's work: stop requests and the attention list.
//   T8   a stop is recorded once, whoever asks first (CA-1), and counted in the head in the same transaction.
//   T13  a turn stands on its tenant's list from the transaction that put it there to the one that took it off.
import type {
  AttentionCondition,
  AttentionRow,
  ConcludeWrite,
  Stopped,
  StopRequest,
  StopWrite,
  TurnRef,
} from '../../ports/store.ts';
import type { EpochMs, TenantId } from '../../protocol/ids.ts';
import { tenantId, threadId, turnId } from '../../protocol/ids.ts';
import type { Clause, Item, WriteOp } from './driver.ts';
import { ItemReader, skew } from './item-reader.ts';
import { headKey, listKey, listPartition, stopKey, type TurnPlace, workKey } from './layout.ts';
import { payloadIn, payloadOut } from './payload-codec.ts';
import type { TableContext } from './table-context.ts';
import { versionOf, workNames } from './work-codec.ts';

const conditions: readonly string[] = ['quarantined', 'exhausted', 'failed_with_landed_work'];

/** Records a stop request; a turn that runs is left to its owner, one that rests is woken (CA-3). */
export async function stop(table: TableContext, write: StopWrite): Promise<Stopped> {
  const place = await table.names.turn(write.ref);
  const { actor, reason, scope, at } = write.request;
  const item: Item = { by: actor, r: payloadOut(reason), sc: scope, at };
  const version = versionOf(`stop:${actor}`, write.now, item.r ?? null);
  const outcome = await table.driver.write([
    {
      kind: 'update',
      key: headKey(place.thread),
      change: { add: { cn: 1 } },
      when: [{ attr: 'e', is: 'eq', value: write.seen.epoch }],
    },
    { kind: 'put', key: stopKey(place), item, when: [{ is: 'no item' }] },
    {
      kind: 'update',
      key: workKey(place, table.shards),
      change: { set: { ...workNames(write.ref), wk: write.now, ua: write.now, q: version } },
      when: [],
    },
  ]);
  if (outcome.kind !== 'lost') return outcome;
  const standing = outcome.refused.find((one) => one.op === 1)?.item;
  if (standing === undefined || standing === null) return { kind: 'moved' };
  return { kind: 'asked', request: stopIn(standing) };
}

/** The standing stop request of a turn, consistent. */
export async function stopOf(table: TableContext, ref: TurnRef): Promise<StopRequest | null> {
  const [item] = await table.driver.batchGet([stopKey(await table.names.turn(ref))]);
  return item === null || item === undefined ? null : stopIn(item);
}

function stopIn(item: Item): StopRequest {
  const read = new ItemReader('STOP', item);
  return {
    actor: read.text('by'),
    reason: payloadIn('STOP.r', read.value('r')),
    scope: read.text('sc'),
    at: read.count('at') as EpochMs,
  };
}

/** The list operation of a conclusion, if it has one. */
export async function listOps(
  table: TableContext,
  place: TurnPlace,
  write: ConcludeWrite,
): Promise<readonly WriteOp[]> {
  if (write.attention === null && !write.listed) return [];
  const key = listKey(await table.names.tenant(write.ref.tenant), place, table.shards);
  const always: readonly Clause[] = [];
  if (write.attention === null) return [{ kind: 'delete', key, when: always }];
  const item = { ...workNames(write.ref), c: write.attention, at: write.now };
  return [{ kind: 'put', key, item, when: always }];
}

/** A tenant's attention list, oldest first. */
export async function attention(
  table: TableContext,
  tenant: TenantId,
): Promise<readonly AttentionRow[]> {
  const hashed = await table.names.tenant(tenant);
  const shards = Array.from({ length: table.shards }, (_, shard) => shard);
  const pages = await Promise.all(
    shards.map((shard) => table.driver.query({ table: 'WORK', pk: listPartition(hashed, shard) })),
  );
  const rows = pages.flat().map((row) => rowIn(row.item));
  return rows.sort((left, right) => left.since - right.since);
}

function rowIn(item: Item): AttentionRow {
  const read = new ItemReader('LIST', item);
  const condition = read.text('c');
  if (!conditions.includes(condition)) throw skew('LIST.c', 'a known condition', condition);
  return {
    ref: {
      tenant: tenantId('tenant', read.text('tn')),
      thread: threadId('thread', read.text('th')),
      turn: turnId('turn', read.text('tu')),
    },
    condition: condition as AttentionCondition,
    since: read.count('at') as EpochMs,
  };
}
