// Events and what they match: stored once, looked for, handed to one wait (page 09, rule 7).
//   RD-2 a look that died is owed by a row of its own until somebody finishes it.

import type {
  ClaimEventWrite,
  Decided,
  EventName,
  EventRow,
  LookRow,
  MatchName,
  Stored,
} from '../../ports/waits.ts';
import type { EpochMs } from '../../protocol/ids.ts';
import { epochMs, tenantId } from '../../protocol/ids.ts';
import { ItemReader } from './item-reader.ts';
import { eventKey, lookKey, matchKey, matchPartition } from './layout.ts';
import { putPlain } from './reads.ts';
import { sameAttr, type TableContext } from './table-context.ts';
import { eventIn, eventOut } from './wait-codec.ts';
import { settleWait, shardsOf } from './wait-rows.ts';

export async function eventKeys(
  table: TableContext,
  name: EventName,
  match: MatchName,
): Promise<{ event: string; match: string }> {
  const [event, matched] = await Promise.all([
    table.names.event(name.tenant, name.source, name.id),
    table.names.match(name.tenant, match.type, match.correlation),
  ]);
  return { event, match: matched };
}

/** Stores an event once, where waits look for it, with a note that its own look is owed (rule 7). */
export async function putEvent(
  table: TableContext,
  name: EventName,
  match: MatchName,
  event: Omit<EventRow, 'key' | 'match' | 'claimedBy'>,
): Promise<Stored> {
  const keys = await eventKeys(table, name, match);
  const item = eventOut({ ...event, match: keys.match, claimedBy: null });
  const outcome = await table.driver.write([
    { kind: 'put', key: eventKey(keys.event), item, when: [{ is: 'no item' }] },
    {
      kind: 'put',
      key: matchKey(keys.match, 'e', event.at, keys.event),
      item: { e: keys.event },
      when: [],
    },
    {
      kind: 'put',
      key: lookKey(keys.event, table.shards),
      item: { tn: name.tenant, m: keys.match, at: event.at },
      when: [],
    },
  ]);
  if (outcome.kind !== 'lost') return outcome;
  const stands = outcome.refused[0]?.item ?? null;
  const mine = stands !== null && sameAttr(stands.p, item.p) && stands.at === item.at;
  return mine ? { kind: 'done' } : { kind: 'lost' };
}

export async function matching(
  table: TableContext,
  match: string,
): Promise<{ waits: readonly string[]; events: readonly string[] }> {
  const rows = await table.driver.query({ table: 'DATA', pk: matchPartition(match) });
  const ids = (side: 'w' | 'e'): readonly string[] =>
    rows.filter((row) => row.sk.startsWith(side)).map((row) => row.sk.slice(15));
  return { waits: ids('w'), events: ids('e') };
}

export async function event(table: TableContext, key: string): Promise<EventRow | null> {
  const [item] = await table.driver.batchGet([eventKey(key)]);
  return item === null || item === undefined ? null : eventIn(key, item);
}

/** One event wakes one wait: both are marked in the transaction that wakes the turn (RD-2). */
export async function claimEvent(table: TableContext, write: ClaimEventWrite): Promise<Decided> {
  const { wait, event: taken, answer } = write;
  const waiting = matchKey(taken.match, 'w', wait.createdAt, wait.id);
  const decided = await settleWait(table, write, answer, [
    {
      kind: 'update',
      key: eventKey(taken.key),
      change: { set: { cb: wait.id }, remove: ['p'] },
      when: [{ attr: 'cb', is: 'absent' }],
    },
    { kind: 'delete', key: matchKey(taken.match, 'e', taken.at, taken.key), when: [] },
    { kind: 'delete', key: waiting, when: [] },
  ]);
  if (decided.kind === 'lost' && decided.wait?.answer != null) {
    await putPlain(table, { kind: 'delete', key: waiting, when: [] });
  }
  return decided;
}

export async function looks(
  table: TableContext,
  before: EpochMs,
  limit: number,
): Promise<readonly LookRow[]> {
  const pages = await Promise.all(
    shardsOf(table).map((shard) => table.driver.query({ table: 'WORK', pk: `l${shard}` })),
  );
  return pages
    .flat()
    .map(({ sk, item }) => {
      const read = new ItemReader('LOOK', item);
      return {
        tenant: tenantId('LOOK.tn', read.text('tn')),
        match: read.text('m'),
        event: sk,
        at: epochMs(read.count('at')),
      };
    })
    .filter((look) => look.at <= before)
    .sort((left, right) => left.at - right.at)
    .slice(0, limit);
}

export async function dropLook(table: TableContext, eventName: string): Promise<void> {
  await putPlain(table, { kind: 'delete', key: lookKey(eventName, table.shards), when: [] });
}
