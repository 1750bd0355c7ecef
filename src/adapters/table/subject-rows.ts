// People's rows: key lifecycle, certificates of erasure, memory (page 09, section 1).
//   T12  memory rows hold sealed bytes; destroying the key makes them noise before they are removed.
import type { KeyRow } from '../../ports/store.ts';
import type {
  CaseRow,
  ErasureRow,
  KeyChanged,
  MemoryVersion,
  MemoryWrite,
} from '../../ports/subjects.ts';
import type { TenantId } from '../../protocol/ids.ts';
import { epochMs } from '../../protocol/ids.ts';
import { splitScope } from '../../protocol/scopes.ts';
import type { Attr, Clause, Item, ItemKey, WriteOp } from './driver.ts';
import { asCount, asList, asText, ItemReader, skew } from './item-reader.ts';
import { keyRowKey } from './layout.ts';
import { payloadIn, payloadOut } from './payload-codec.ts';
import { inTurns, putPlain } from './reads.ts';
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

/** Rows of one subject stand in a partition of its scope, whatever its generation. */
function partition(scope: string): string {
  return `S${splitScope(scope).base}`;
}

function erasureKey(scope: string): ItemKey {
  return { table: 'DATA', pk: partition(scope), sk: 'o:erasure' };
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

function headKey(scope: string, key: string): ItemKey {
  return { table: 'DATA', pk: partition(scope), sk: `m:${key}` };
}

function versionKey(scope: string, key: string, version: number): ItemKey {
  const sk = `v:${key}:${String(version).padStart(6, '0')}`;
  return { table: 'DATA', pk: partition(scope), sk };
}

function idKey(key: string): ItemKey {
  return { table: 'DATA', pk: `d${key}`, sk: 'd' };
}

/** Operations of a commit that remembers: the id's reservation, the new current version, the version itself. */
export function memoryOps(writes: readonly MemoryWrite[]): readonly WriteOp[] {
  return writes.flatMap(({ next, seen, current: stays }): WriteOp[] => {
    const item = versionOut(next);
    const current: Clause[] =
      seen === 0 ? [{ is: 'no item' }] : [{ attr: 'n', is: 'eq', value: seen }];
    const ops: WriteOp[] = [
      {
        kind: 'put',
        key: versionKey(next.scope, next.key, next.version),
        item,
        when: [{ is: 'no item' }],
      },
    ];
    if (!stays) return ops;
    ops.push({ kind: 'put', key: headKey(next.scope, next.key), item, when: current });
    if (seen > 0) return ops;
    const owner: Item = { s: splitScope(next.scope).base, pu: next.purpose };
    ops.push({ kind: 'put', key: idKey(next.key), item: owner, when: [{ is: 'no item' }] });
    return ops;
  });
}

function versionOut(version: MemoryVersion): Item {
  return {
    k: version.key,
    n: version.version,
    pu: version.purpose,
    tr: version.trusted,
    sc: version.scope,
    p: payloadOut(version.payload),
    cm: version.commitment,
    ca: version.createdAt,
    ...(version.expiresAt === null ? {} : { xa: version.expiresAt }),
  };
}

function versionIn(item: Item): MemoryVersion {
  const read = new ItemReader('MEMORY', item);
  return {
    key: read.text('k'),
    version: read.count('n'),
    purpose: read.text('pu'),
    trusted: read.value('tr') === true,
    scope: read.text('sc'),
    payload: payloadIn('MEMORY.p', read.value('p')),
    commitment: read.text('cm'),
    createdAt: epochMs(read.count('ca')),
    expiresAt: read.has('xa') ? epochMs(read.count('xa')) : null,
  };
}

export async function memories(
  table: TableContext,
  scope: string,
): Promise<readonly MemoryVersion[]> {
  const rows = await table.driver.query({
    table: 'DATA',
    pk: partition(scope),
    between: ['m:', 'm:\u007f'],
  });
  return rows.map((row) => versionIn(row.item));
}

export async function memoryHeads(
  table: TableContext,
  scope: string,
  keys: readonly string[],
): Promise<readonly { readonly version: number; readonly owner: string | null }[]> {
  if (keys.length === 0) return [];
  const items = await table.driver.batchGet([
    ...keys.map((key) => headKey(scope, key)),
    ...keys.map(idKey),
  ]);
  return keys.map((_, at) => {
    const head = items[at] ?? null;
    const id = items[keys.length + at] ?? null;
    return {
      version: head === null ? 0 : new ItemReader('MEMORY', head).count('n'),
      owner: id === null ? null : new ItemReader('MEMID', id).text('s'),
    };
  });
}

export async function memoryVersions(
  table: TableContext,
  scope: string,
  wanted: readonly { readonly key: string; readonly version: number }[],
): Promise<readonly (MemoryVersion | null)[]> {
  if (wanted.length === 0) return [];
  const items = await table.driver.batchGet(
    wanted.map(({ key, version }) => versionKey(scope, key, version)),
  );
  return items.map((item) => (item === null ? null : versionIn(item)));
}

export async function dropMemories(
  table: TableContext,
  scope: string,
): Promise<{ readonly items: number; readonly versions: number }> {
  const pk = partition(scope);
  const rows = await table.driver.query({ table: 'DATA', pk, between: ['m:', 'v:\u007f'] });
  const gone = rows.filter(({ sk }) => sk.startsWith('m:') || sk.startsWith('v:'));
  await inTurns(gone, 8, async ({ sk }) => {
    await putPlain(table, { kind: 'delete', key: { table: 'DATA', pk, sk }, when: [] });
  });
  const items = gone.filter(({ sk }) => sk.startsWith('m:')).length;
  return { items, versions: gone.length - items };
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
