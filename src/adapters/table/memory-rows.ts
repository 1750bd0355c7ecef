// Rows of remembered facts: MEMID, MEMCUR, MEMVER (page 09, section 1).
//   T12  rows hold sealed bytes; destroying the key makes them noise before they are removed.
//   ME-5 a version is put once; its id's current row moves over what was current. ME-13 a removal stands in one
//        transaction with its subject's key row, or is announced there and finished in parts (rule 8).
import type {
  KeyRow,
  MemoryChange,
  MemoryItem,
  MemoryVersion,
  MemoryWrite,
} from '../../ports/subjects.ts';
import type { EpochMs, TenantId } from '../../protocol/ids.ts';
import { epochMs } from '../../protocol/ids.ts';
import type { Sensitivity } from '../../protocol/labels.ts';
import { sensitivities } from '../../protocol/labels.ts';
import type { DerivedVersion, VersionName } from '../../protocol/lineage.ts';
import { splitScope } from '../../protocol/scopes.ts';
import type { Attr, Clause, Item, WriteOp } from './driver.ts';
import { asCount, asList, asText, ItemReader, skew } from './item-reader.ts';
import { keyRowKey, memoryIdKey, memoryKey, memoryVersionKey, subjectPartition } from './layout.ts';
import { payloadIn, payloadOut } from './payload-codec.ts';
import { inTurns, putPlain } from './reads.ts';
import { sameAttr, type TableContext } from './table-context.ts';
import { keyRowOut } from './turn-codec.ts';

/** Operations of a commit that remembers: the id's reservation, the new current version, the version itself. */
export function memoryOps(writes: readonly MemoryWrite[]): readonly WriteOp[] {
  return writes.flatMap(({ next, seen, current: stays }): WriteOp[] => {
    const item = versionOut(next);
    const ops: WriteOp[] = [
      {
        kind: 'put',
        key: memoryVersionKey(next.scope, next.key, next.version),
        item,
        when: [{ is: 'no item' }],
      },
    ];
    if (!stays) return ops;
    const opens = next.windowMs === undefined ? {} : { wu: next.createdAt + next.windowMs };
    const key = memoryKey(next.scope, next.key);
    const whole: Item = { ...item, ...opens };
    if (seen > 0) {
      const remove = ['xa', 'se', 'wm', 'wu', 'df'].filter((name) => !(name in whole));
      const when: Clause[] = [{ attr: 'n', is: 'eq', value: seen }];
      ops.push({ kind: 'update', key, change: { set: whole, remove }, when });
      return ops;
    }
    ops.push({ kind: 'put', key, item: whole, when: [{ is: 'no item' }] });
    const owner: Item = { s: splitScope(next.scope).base, pu: next.purpose };
    ops.push({ kind: 'put', key: memoryIdKey(next.key), item: owner, when: [{ is: 'no item' }] });
    return ops;
  });
}

/** Whether an operation is one of `memoryOps`. */
export function isMemoryOp({ key }: WriteOp): boolean {
  return key.sk.startsWith('m:') || key.sk.startsWith('v:') || key.sk === 'd';
}

function versionOut(version: MemoryVersion): Item {
  const { windowMs, derivedFrom, sensitivity } = version;
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
    ...(sensitivity === undefined ? {} : { se: sensitivity }),
    ...(windowMs === undefined ? {} : { wm: windowMs }),
    ...(derivedFrom === undefined
      ? {}
      : { df: derivedFrom.map((from): Attr => [from.key, from.version, from.commitment]) }),
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
    ...(read.has('se') ? { sensitivity: sensitivityIn(read.text('se')) } : {}),
    ...(read.has('wm') ? { windowMs: read.count('wm') } : {}),
    ...(read.has('df') ? { derivedFrom: read.list('df').map(derivedIn) } : {}),
  };
}

function sensitivityIn(text: string): Sensitivity {
  const known = sensitivities.find((one) => one === text);
  if (known === undefined) throw skew('MEMORY.se', 'a known sensitivity', text);
  return known;
}

function derivedIn(entry: Attr): VersionName & { readonly commitment: string } {
  const [key, version, commitment] = asList('MEMORY.df', entry);
  return {
    key: asText('MEMORY.df', key),
    version: asCount('MEMORY.df', version),
    commitment: asText('MEMORY.df', commitment),
  };
}

function itemIn(key: string, item: Item): MemoryItem {
  const read = new ItemReader('MEMCUR', item);
  const hold = read.has('hd') ? asList('MEMCUR.hd', read.value('hd')) : null;
  return {
    key,
    current: read.has('n') ? versionIn(item) : null,
    accessUntil: read.has('wu') ? epochMs(read.count('wu')) : null,
    held:
      hold === null
        ? null
        : {
            by: asText('MEMCUR.hd', hold[0]),
            at: epochMs(asCount('MEMCUR.hd', hold[1])),
          },
    gone: read.list('go').map((entry): DerivedVersion => {
      const [version, from] = asList('MEMCUR.go', entry);
      return {
        version: asCount('MEMCUR.go', version),
        from: asList('MEMCUR.go', from).map((source) => {
          const [name, number] = asList('MEMCUR.go', source);
          return { key: asText('MEMCUR.go', name), version: asCount('MEMCUR.go', number) };
        }),
      };
    }),
    changes: read.count('hc'),
  };
}

type Standing = MemoryItem & { readonly current: MemoryVersion };

export async function memories(table: TableContext, scope: string): Promise<readonly Standing[]> {
  const rows = await table.driver.query({
    table: 'DATA',
    pk: subjectPartition(scope),
    between: ['m:', 'm:\u007f'],
  });
  return rows
    .map(({ sk, item }) => itemIn(sk.slice(2), item))
    .filter((item): item is Standing => item.current !== null);
}

export async function memoryLineage(
  table: TableContext,
  scope: string,
): Promise<{ readonly items: readonly MemoryItem[]; readonly versions: readonly MemoryVersion[] }> {
  const rows = await table.driver.query({
    table: 'DATA',
    pk: subjectPartition(scope),
    between: ['m:', 'v:\u007f'],
  });
  return {
    items: rows
      .filter(({ sk }) => sk.startsWith('m:'))
      .map(({ sk, item }) => itemIn(sk.slice(2), item)),
    versions: rows.filter(({ sk }) => sk.startsWith('v:')).map(({ item }) => versionIn(item)),
  };
}

export async function memoryHeads(
  table: TableContext,
  scope: string,
  keys: readonly string[],
): Promise<readonly { readonly version: number; readonly owner: string | null }[]> {
  if (keys.length === 0) return [];
  const items = await table.driver.batchGet([
    ...keys.map((key) => memoryKey(scope, key)),
    ...keys.map(memoryIdKey),
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
  wanted: readonly VersionName[],
): Promise<readonly (MemoryVersion | null)[]> {
  if (wanted.length === 0) return [];
  const items = await table.driver.batchGet(
    wanted.map(({ key, version }) => memoryVersionKey(scope, key, version)),
  );
  return items.map((item) => (item === null ? null : versionIn(item)));
}

/** Removals and holds of ids; with the subject's key row, or as a part of what that row announces. */
export async function changeMemories(
  table: TableContext,
  tenant: TenantId,
  key: { readonly seen: KeyRow; readonly next: KeyRow } | null,
  scope: string,
  changes: readonly MemoryChange[],
  writes: readonly MemoryWrite[],
): Promise<{ kind: 'done' | 'lost' } | { kind: 'unknown'; cause: unknown }> {
  const ops: WriteOp[] = changes.flatMap((change) => changeOps(scope, change));
  ops.push(...memoryOps(writes));
  const row = key === null ? null : keyRowOut(key.next);
  if (key !== null && row !== null) {
    const { seen } = key;
    ops.unshift({
      kind: 'put',
      key: keyRowKey(table.names.keyRow(tenant, seen.scope)),
      item: row,
      when: [
        { attr: 'st', is: 'eq', value: seen.state },
        { attr: 'g', is: 'eq', value: seen.generation },
        { attr: 'le', is: 'eq', value: seen.lifecycle },
      ],
    });
  }
  const outcome = await table.driver.write(ops);
  if (outcome.kind !== 'lost') return outcome;
  const stands = outcome.refused.find(({ op }) => op === 0)?.item ?? null;
  const mine = row !== null && stands !== null && sameAttr(stands, row);
  return { kind: mine ? 'done' : 'lost' };
}

function changeOps(scope: string, { seen, next, removed }: MemoryChange): readonly WriteOp[] {
  const key = memoryKey(scope, seen.key);
  const gone = next.gone.map(
    ({ version, from }): Attr => [
      version,
      from.map((source): Attr => [source.key, source.version]),
    ],
  );
  const kept: Item = {
    hc: seen.changes + 1,
    ...(gone.length === 0 ? {} : { go: gone }),
    ...(next.held === null ? {} : { hd: [next.held.by, next.held.at] }),
  };
  const when: Clause[] = [
    { is: 'item' },
    seen.changes === 0
      ? { attr: 'hc', is: 'absent' }
      : { attr: 'hc', is: 'eq', value: seen.changes },
  ];
  if (seen.current !== null) when.push({ attr: 'n', is: 'eq', value: seen.current.version });
  // A window that was refreshed meanwhile is no longer what was judged.
  if (next.tombstone && seen.accessUntil !== null) {
    when.push({ attr: 'wu', is: 'eq', value: seen.accessUntil });
  }
  const head: WriteOp = next.tombstone
    ? { kind: 'put', key, item: kept, when }
    : {
        kind: 'update',
        key,
        change: { set: kept, remove: next.held === null ? ['hd'] : [] },
        when,
      };
  const drops = removed.map(
    (version): WriteOp => ({
      kind: 'delete',
      key: memoryVersionKey(scope, seen.key, version),
      when: [],
    }),
  );
  return [head, ...drops];
}

export async function dropVersions(
  table: TableContext,
  scope: string,
  versions: readonly VersionName[],
): Promise<void> {
  const outcome = await table.driver.write(
    versions.map(
      ({ key, version }): WriteOp => ({
        kind: 'delete',
        key: memoryVersionKey(scope, key, version),
        when: [],
      }),
    ),
  );
  if (outcome.kind === 'unknown') throw outcome.cause;
}

export async function touchMemory(
  table: TableContext,
  scope: string,
  { key, version }: VersionName,
  until: EpochMs,
): Promise<void> {
  const outcome = await table.driver.write([
    {
      kind: 'update',
      key: memoryKey(scope, key),
      change: { set: { wu: until } },
      when: [
        { attr: 'n', is: 'eq', value: version },
        { attr: 'wu', is: 'lt', value: until },
      ],
    },
  ]);
  // Lost: superseded, removed, or touched further already; each leaves nothing to do.
  if (outcome.kind === 'unknown') throw outcome.cause;
}

export async function dropMemories(
  table: TableContext,
  scope: string,
): Promise<{ readonly items: number; readonly versions: number }> {
  const pk = subjectPartition(scope);
  const rows = await table.driver.query({ table: 'DATA', pk, between: ['m:', 'v:\u007f'] });
  const gone = rows.filter(({ sk }) => sk.startsWith('m:') || sk.startsWith('v:'));
  await inTurns(gone, 8, async ({ sk }) => {
    await putPlain(table, { kind: 'delete', key: { table: 'DATA', pk, sk }, when: [] });
  });
  const items = gone.filter(({ sk, item }) => sk.startsWith('m:') && item.n !== undefined).length;
  const versions = gone.filter(({ sk }) => sk.startsWith('v:')).length;
  return { items, versions };
}
