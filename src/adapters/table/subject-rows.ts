// People's rows: key lifecycle, certificates of erasure, cases (page 09, section 1).
//   T12  a key row changes only as it was seen; a certificate stands before and after the rows go.

import type { CaseRow, ErasureRow, KeyChanged, KeyRow } from '../../ports/subjects.ts';
import type { TenantId } from '../../protocol/ids.ts';
import { epochMs } from '../../protocol/ids.ts';
import { splitScope } from '../../protocol/scopes.ts';
import type { Attr, Clause, Item, ItemKey } from './driver.ts';
import { asCount, asList, asText, ItemReader, skew } from './item-reader.ts';
import { keyRowKey, subjectPartition } from './layout.ts';
import { payloadIn, payloadOut } from './payload-codec.ts';
import { putPlain } from './reads.ts';
import { sameAttr, type TableContext } from './table-context.ts';
import { keyRowIn, keyRowOut } from './turn-codec.ts';

export async function changeKey(
  table: TableContext,
  tenant: TenantId,
  seen: KeyRow,
  next: KeyRow,
): Promise<KeyChanged> {
  const key = keyRowKey(table.names.keyRow(tenant, next.scope));
  const item = keyRowOut(next);
  const when: Clause[] = [
    { attr: 'st', is: 'eq', value: seen.state },
    { attr: 'g', is: 'eq', value: seen.generation },
    { attr: 'le', is: 'eq', value: seen.lifecycle },
  ];
  const outcome = await table.driver.write([{ kind: 'put', key, item, when }]);
  if (outcome.kind !== 'lost') return outcome;
  const stands = outcome.refused[0]?.item ?? null;
  if (stands !== null && sameAttr(stands, item)) return { kind: 'done' };
  return { kind: 'lost', key: stands === null ? null : keyRowIn(stands) };
}

function erasureKey(scope: string): ItemKey {
  return { table: 'DATA', pk: subjectPartition(scope), sk: 'o:erasure' };
}

export async function erasure(table: TableContext, scope: string): Promise<ErasureRow | null> {
  const [item] = await table.driver.batchGet([erasureKey(scope)]);
  if (item === null || item === undefined) return null;
  const read = new ItemReader('ERASURE', item);
  const state = read.text('st');
  if (state !== 'keys_destroyed' && state !== 'complete' && state !== 'cleanup_failed') {
    throw skew('ERASURE.st', 'a known state', state);
  }
  return {
    id: read.text('id'),
    state,
    generation: read.count('g'),
    by: read.text('by'),
    at: epochMs(read.count('at')),
    items: read.count('i'),
    versions: read.count('v'),
  };
}

export async function putErasure(
  table: TableContext,
  tenant: TenantId,
  scope: string,
  row: ErasureRow,
): Promise<void> {
  const { id, state, generation, by, at, items, versions } = row;
  const item: Item = { id, st: state, g: generation, by, at, i: items, v: versions };
  const month = new Date(at).toISOString().slice(0, 7);
  const pk = `${await table.names.tenant(tenant)}:${month}`;
  const ledger: Item = { sc: splitScope(scope).base, g: generation, at };
  await putPlain(table, {
    kind: 'put',
    key: { table: 'LEDGER', pk, sk: id },
    item: ledger,
    when: [],
  });
  await putPlain(table, { kind: 'put', key: erasureKey(scope), item, when: [] });
}

async function caseKey(table: TableContext, tenant: TenantId, id: string): Promise<ItemKey> {
  return { table: 'DATA', pk: `c${await table.names.matter(tenant, id)}`, sk: 'k' };
}

export async function caseRow(
  table: TableContext,
  tenant: TenantId,
  id: string,
): Promise<CaseRow | null> {
  const [item] = await table.driver.batchGet([await caseKey(table, tenant, id)]);
  return item === null || item === undefined ? null : caseIn(item);
}

export async function putCase(
  table: TableContext,
  tenant: TenantId,
  row: CaseRow,
  seen: number,
): Promise<{ kind: 'done' | 'lost' } | { kind: 'unknown'; cause: unknown }> {
  const when: Clause[] = seen === 0 ? [{ is: 'no item' }] : [{ attr: 'n', is: 'eq', value: seen }];
  const key = await caseKey(table, tenant, row.id);
  const item = caseOut(row);
  const outcome = await table.driver.write([{ kind: 'put', key, item, when }]);
  if (outcome.kind !== 'lost') return outcome;
  const stands = outcome.refused[0]?.item ?? null;
  return stands !== null && sameAttr(stands.w, item.w) ? { kind: 'done' } : { kind: 'lost' };
}

function caseOut(row: CaseRow): Item {
  return {
    id: row.id,
    n: row.version,
    s: row.status,
    sc: row.scope,
    p: payloadOut(row.payload),
    d: row.deadlines.map(({ name, at, state }): Attr => [name, at, state]),
    t: row.turns.map(({ thread, turn }): Attr => [thread, turn]),
    w: row.writers.map(({ key, version }): Attr => [key, version]),
  };
}

function caseIn(item: Item): CaseRow {
  const read = new ItemReader('CASE', item);
  return {
    id: read.text('id'),
    version: read.count('n'),
    status: read.text('s'),
    scope: read.text('sc'),
    payload: payloadIn('CASE.p', read.value('p')),
    deadlines: read.list('d').map((entry) => {
      const [name, at, state] = asList('CASE.d', entry);
      if (state !== 'open' && state !== 'met') throw skew('CASE.d', 'a known state', state);
      return { name: asText('CASE.d', name), at: epochMs(asCount('CASE.d', at)), state };
    }),
    turns: read.list('t').map((entry) => {
      const [thread, turn] = asList('CASE.t', entry);
      return { thread: asText('CASE.t', thread), turn: asText('CASE.t', turn) };
    }),
    writers: read.list('w').map((entry) => {
      const [key, version] = asList('CASE.w', entry);
      return { key: asText('CASE.w', key), version: asCount('CASE.w', version) };
    }),
  };
}
