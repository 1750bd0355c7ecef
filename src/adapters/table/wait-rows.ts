// Waits, events and due times: which items each verb touches and under which conditions (page 09, section 3).
//   T10  an answer needs: no answer yet, the deadline not reached, the turn still suspended; one transaction
//        with the wake of its turn, so that an accepted answer is never lost.
//   T1   a suspension is one transaction: head, position, projection, waits, staged acts, due time, outbox.
//   Page 09, rule 7  the once-only item (EVENT, the answer) is the witness of a lost acknowledgement.
import type { Concluded, OutboxEntry, TurnRef } from '../../ports/store.ts';
import type {
  Decided,
  DecideWrite,
  DueRow,
  IntentRow,
  SuspendWrite,
  WaitAnswer,
  WaitRow,
} from '../../ports/waits.ts';
import type { EpochMs, TenantId } from '../../protocol/ids.ts';
import { epochMs } from '../../protocol/ids.ts';
import { limits } from '../../protocol/limits.ts';
import type { Item, ItemKey, WriteOp } from './driver.ts';
import { ItemReader } from './item-reader.ts';
import {
  approvalKey,
  approvalPartition,
  dueKey,
  endKey,
  headKey,
  intentKey,
  matchKey,
  owedKey,
  waitKey,
  workKey,
} from './layout.ts';
import { positionOp, refusedHead, unexplained } from './pass-outcomes.ts';
import { entriesOut, entryOut } from './payload-codec.ts';
import { announcedBefore, announcedTwice, positionPut, witness } from './position-witness.ts';
import { inTurns, putPlain } from './reads.ts';
import { spendOps } from './spend-rows.ts';
import { sameAttr, type TableContext } from './table-context.ts';
import { endOut } from './turn-codec.ts';
import { answerOut, intentOut, refIn, waitIn, waitOut } from './wait-codec.ts';
import { versionOf, workNames } from './work-codec.ts';

export const shardsOf = (table: TableContext): readonly number[] =>
  Array.from({ length: table.shards }, (_, shard) => shard);

/** Ends a pass without an ending: the head is free, the turn waits. */
export async function suspend(table: TableContext, write: SuspendWrite): Promise<Concluded> {
  const twice = announcedBefore(write.batch, write.announced);
  if (twice !== undefined) throw announcedTwice(twice);
  const place = await table.names.turn(write.ref);
  const version = versionOf(write.writer.token, write.batch.index, null);
  const owed = write.looks ? { lk: write.batch.index } : {};
  const ops: WriteOp[] = [
    {
      kind: 'update',
      key: headKey(place.thread),
      change: { remove: ['lt', 'lo', 'lx', 'la'] },
      when: [
        { attr: 'e', is: 'eq', value: write.writer.epoch },
        { attr: 'lt', is: 'eq', value: write.ref.turn },
        { attr: 'cn', is: 'eq', value: write.writer.cancelsSeen },
      ],
    },
    positionPut(place, write.writer, write.batch, write.ref.turn),
    { kind: 'put', key: endKey(place), item: endOut(write.end), when: [] },
    {
      kind: 'update',
      key: workKey(place, table.shards),
      change: {
        set: { ...workNames(write.ref), ua: write.now, q: version, ...owed },
        remove: ['rd', 'wk', 'ac', 'tr', 'pr', ...(write.looks ? [] : ['lk'])],
        append: { en: entriesOut(write) },
      },
      when: [],
    },
    {
      kind: 'put',
      key: dueKey(place, write.dueAt, table.shards),
      item: { ...workNames(write.ref), at: write.dueAt },
      when: [],
    },
    ...(await intentOps(table, write.intents)),
    ...(await spendOps(table, place, write)),
  ];
  for (const wait of write.waits) ops.push(...(await waitOps(table, wait)));
  const outcome = await table.driver.write(ops);
  if (outcome.kind !== 'lost') return outcome;
  const seen = witness(outcome.refused, positionOp, write.writer, write.batch);
  if (seen.kind === 'mine') return { kind: 'done' };
  if (seen.kind === 'announced') throw announcedTwice(seen.effectKey);
  if (seen.kind === 'taken') return { kind: 'lost', reason: 'fenced', position: seen.position };
  const head = refusedHead(outcome.refused);
  if (head !== undefined) return { kind: 'lost', reason: 'moved', head };
  throw unexplained('suspend');
}

/** Rows of staged acts that leave with a transaction; an intent id is used once. */
export async function intentOps(
  table: TableContext,
  intents: readonly IntentRow[],
): Promise<readonly WriteOp[]> {
  const ops: WriteOp[] = [];
  for (const intent of intents) {
    ops.push(
      {
        kind: 'put',
        key: intentKey(await table.names.intent(intent.ref.tenant, intent.id)),
        item: intentOut(intent),
        when: [{ is: 'no item' }],
      },
      {
        kind: 'put',
        key: owedKey(intent.id, table.shards),
        item: { ...workNames(intent.ref), at: intent.createdAt },
        when: [],
      },
    );
  }
  return ops;
}

async function waitOps(table: TableContext, wait: WaitRow): Promise<readonly WriteOp[]> {
  const { tenant } = wait.ref;
  const ops: WriteOp[] = [
    {
      kind: 'put',
      key: waitKey(await table.names.wait(tenant, wait.id)),
      item: waitOut(wait),
      when: [{ is: 'no item' }],
    },
  ];
  const listed = await listedAt(table, wait);
  if (listed !== null) ops.push({ kind: 'put', key: listed, item: { id: wait.id }, when: [] });
  return ops;
}

/** Where an open wait is looked for: the pending approvals, or its match. */
async function listedAt(table: TableContext, wait: WaitRow): Promise<ItemKey | null> {
  if (wait.kind === 'approval') {
    return approvalKey('pending', await table.names.tenant(wait.ref.tenant), wait, table.shards);
  }
  if (wait.match === null) return null;
  return matchKey(wait.match, 'w', wait.createdAt, wait.id);
}

/** Registers waits one transaction each, for a suspension with too many. */
export async function putWaits(table: TableContext, waits: readonly WaitRow[]): Promise<void> {
  await inTurns(waits, 8, async (wait) => {
    const outcome = await table.driver.write(await waitOps(table, wait));
    if (outcome.kind === 'unknown') throw outcome.cause;
  });
}

export async function waits(
  table: TableContext,
  tenant: TenantId,
  ids: readonly string[],
): Promise<readonly (WaitRow | null)[]> {
  if (ids.length === 0) return [];
  const keys = await Promise.all(
    ids.map(async (id) => waitKey(await table.names.wait(tenant, id))),
  );
  const items = await table.driver.batchGet(keys);
  return items.map((item) => {
    const wait = item === null ? null : waitIn(item);
    return wait === null || wait.ref.tenant !== tenant ? null : wait;
  });
}

/** Marks a wait expired, if its deadline has come and nobody answered (E-expiry is evaluated here, not by a timer). */
export async function expire(table: TableContext, wait: WaitRow, now: EpochMs): Promise<Decided> {
  const answer: WaitAnswer = { kind: 'expired', at: wait.until };
  const key = waitKey(await table.names.wait(wait.ref.tenant, wait.id));
  const listed = await listedAt(table, wait);
  const ops: WriteOp[] = [
    {
      kind: 'update',
      key,
      change: { set: { an: answerOut(answer) } },
      when: [{ is: 'item' }, { attr: 'an', is: 'absent' }, { attr: 'un', is: 'le', value: now }],
    },
  ];
  if (listed !== null) ops.push({ kind: 'delete', key: listed, when: [] });
  if (wait.kind === 'approval') ops.push(await answeredRow(table, wait));
  const outcome = await table.driver.write(ops);
  if (outcome.kind !== 'lost') return outcome;
  return answered(outcome.refused[0]?.item ?? null, answer);
}

/** A lost answer: ours if the row carries it already. */
function answered(item: Item | null, answer: WaitAnswer): Decided {
  if (item === null) return { kind: 'lost', wait: null };
  if (sameAttr(item.an, answerOut(answer))) return { kind: 'done' };
  return { kind: 'lost', wait: waitIn(item) };
}

export async function decide(table: TableContext, write: DecideWrite): Promise<Decided> {
  const { wait, answer } = write;
  const tenant = await table.names.tenant(wait.ref.tenant);
  return settleWait(table, write, answer, [
    { kind: 'delete', key: approvalKey('pending', tenant, wait, table.shards), when: [] },
    await answeredRow(table, wait),
  ]);
}

async function answeredRow(table: TableContext, wait: WaitRow): Promise<WriteOp> {
  const tenant = await table.names.tenant(wait.ref.tenant);
  const key = approvalKey('answered', tenant, wait, table.shards);
  return { kind: 'put', key, item: { id: wait.id }, when: [] };
}

/** The transaction of every answer: the wait, its turn still suspended, the wake, and what goes along. */
export async function settleWait(
  table: TableContext,
  write: { readonly wait: WaitRow; readonly entry: OutboxEntry; readonly now: EpochMs },
  answer: WaitAnswer,
  along: readonly WriteOp[],
): Promise<Decided> {
  const { wait, now } = write;
  const place = await table.names.turn(wait.ref);
  const outcome = await table.driver.write([
    {
      kind: 'update',
      key: waitKey(await table.names.wait(wait.ref.tenant, wait.id)),
      change: { set: { an: answerOut(answer) } },
      when: [{ is: 'item' }, { attr: 'an', is: 'absent' }, { attr: 'un', is: 'gt', value: now }],
    },
    { kind: 'check', key: endKey(place), when: [{ attr: 's', is: 'eq', value: 'suspended' }] },
    {
      kind: 'update',
      key: workKey(place, table.shards),
      change: {
        set: { ...workNames(wait.ref), wk: now, ua: now, q: versionOf(wait.id, now, null) },
        append: { en: [entryOut(write.entry)] },
      },
      when: [],
    },
    ...along,
  ]);
  if (outcome.kind !== 'lost') return outcome;
  const first = outcome.refused.find((one) => one.op === 0);
  if (first !== undefined) return answered(first.item, answer);
  if (outcome.refused.some((one) => one.op === 1)) return { kind: 'ended' };
  return { kind: 'lost', wait };
}

export async function approvals(
  table: TableContext,
  tenant: TenantId,
  which: 'pending' | 'answered',
): Promise<readonly { readonly id: string; readonly at: EpochMs }[]> {
  const hashed = await table.names.tenant(tenant);
  const pages = await Promise.all(
    shardsOf(table).map((shard) =>
      table.driver.query({ table: 'WORK', pk: approvalPartition(which, hashed, shard) }),
    ),
  );
  return pages
    .flat()
    .map((row) => ({ id: row.sk.slice(14), at: epochMs(Number(row.sk.slice(0, 13))) }))
    .sort((left, right) => left.at - right.at || (left.id < right.id ? -1 : 1));
}

/** Takes a wait off its list; harmless when it is gone. */
export async function closeWait(table: TableContext, wait: WaitRow): Promise<void> {
  const key = await listedAt(table, wait);
  if (key !== null) await putPlain(table, { kind: 'delete', key, when: [] });
}

export async function due(
  table: TableContext,
  now: EpochMs,
  limit: number,
): Promise<readonly DueRow[]> {
  const until = `${String(now).padStart(13, '0')}:\u007f`;
  const pages = await Promise.all(
    shardsOf(table).map(async (shard) => {
      const rows = await table.driver.query({
        table: 'WORK',
        pk: `t${shard}`,
        between: ['0', until],
      });
      return rows.map(({ sk, item }): DueRow => {
        const read = new ItemReader('DUE', item);
        return { ref: refIn(read), at: epochMs(read.count('at')), shard, key: sk };
      });
    }),
  );
  return pages
    .flat()
    .sort((left, right) => left.at - right.at)
    .slice(0, limit);
}

/** Intents that are not known to be settled and told, oldest first. */
export async function owedIntents(
  table: TableContext,
  before: EpochMs,
  limit: number,
): Promise<readonly { readonly ref: TurnRef; readonly id: string; readonly at: EpochMs }[]> {
  const pages = await Promise.all(
    shardsOf(table).map((shard) => table.driver.query({ table: 'WORK', pk: `n${shard}` })),
  );
  return pages
    .flat()
    .map(({ sk, item }) => {
      const read = new ItemReader('OWED', item);
      return { ref: refIn(read), id: sk, at: epochMs(read.count('at')) };
    })
    .filter((owed) => owed.at <= before)
    .sort((left, right) => left.at - right.at)
    .slice(0, limit);
}

export async function dropOwed(table: TableContext, id: string): Promise<void> {
  await putPlain(table, { kind: 'delete', key: owedKey(id, table.shards), when: [] });
}

export async function dropDue(table: TableContext, row: DueRow): Promise<void> {
  const key: ItemKey = { table: 'WORK', pk: `t${row.shard}`, sk: row.key };
  await putPlain(table, { kind: 'delete', key, when: [] });
}

/** Operations of a conclusion that leaves approvals open: nobody is asked any more. */
export async function closingOps(
  table: TableContext,
  ref: TurnRef,
  closes: readonly { readonly id: string; readonly createdAt: EpochMs }[],
): Promise<readonly WriteOp[]> {
  if (closes.length === 0) return [];
  const tenant = await table.names.tenant(ref.tenant);
  return closes.slice(0, limits.waitsPerTransaction).map((wait) => ({
    kind: 'delete',
    key: approvalKey('pending', tenant, wait, table.shards),
    when: [],
  }));
}
