// Forgetting what is remembered of a person: one id, an id with all that came from it, what has lapsed (13.4).
//   ME-13 one store operation: a transaction with the subject's key row, or a removal that row announces, which
//         whoever comes next finishes before anything is read or remembered (page 09, rule 8).
//   ME-14 a hold refuses the deliberate verbs whole and is skipped by a sweep. ME-6 a forgotten id stays used.
import type {
  KeyRow,
  MemoryChange,
  MemoryItem,
  MemoryRemoval,
  MemoryVersion,
} from '../ports/subjects.ts';
import { base64url, hashParts } from '../protocol/digest.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs, SubjectId, TenantId } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import type { LineageItem, Removal } from '../protocol/lineage.ts';
import { cascading, forgetting } from '../protocol/lineage.ts';
import { splitScope } from '../protocol/scopes.ts';
import type { Runtime } from './runtime.ts';

/** What a removal took: ids that are gone whole, and versions in all. */
export interface Forgotten {
  readonly items: number;
  readonly versions: number;
}

interface Person {
  readonly tenant: TenantId;
  readonly subject: SubjectId;
}

interface Lineage {
  readonly items: readonly MemoryItem[];
  readonly versions: readonly MemoryVersion[];
}

/**
 * Removes every version of an id; with `cascade` also every version that came from it. A repeat removes nothing.
 * Throws `legal_hold` naming what is held; nothing is removed then.
 */
export async function forgetMemory(
  runtime: Runtime,
  { tenant, subject }: Person,
  id: string,
  options: { readonly cascade?: boolean } = {},
): Promise<Forgotten> {
  const scope = await runtime.store.subjectScope(tenant, subject);
  const key = await runtime.store.memoryKey(tenant, id);
  const kind = options.cascade === true ? 'cascade' : 'forget';
  return remove(runtime, tenant, scope, { kind, key, cutoff: null });
}

/** Removes what had lapsed by `at` (default now); answers the cutoff and how many ids went. */
export async function sweepMemories(
  runtime: Runtime,
  { tenant, subject }: Person,
  at: EpochMs = runtime.clock.now(),
): Promise<Forgotten & { readonly cutoff: EpochMs }> {
  const scope = await runtime.store.subjectScope(tenant, subject);
  const gone = await remove(runtime, tenant, scope, { kind: 'sweep', key: null, cutoff: at });
  return { ...gone, cutoff: at };
}

/** Keeps one id from being forgotten, swept or erased. Throws `not_found`. */
export function holdMemory(
  runtime: Runtime,
  person: Person,
  id: string,
  actor: string,
): Promise<void> {
  return setHold(runtime, person, id, { by: actor, at: runtime.clock.now() });
}

/** Lifts the hold of one id. Throws `not_found`. */
export function releaseMemory(runtime: Runtime, person: Person, id: string): Promise<void> {
  return setHold(runtime, person, id, null);
}

async function setHold(
  runtime: Runtime,
  { tenant, subject }: Person,
  id: string,
  held: MemoryItem['held'],
): Promise<void> {
  const { store } = runtime;
  const scope = await store.subjectScope(tenant, subject);
  const key = await store.memoryKey(tenant, id);
  await settled(runtime, tenant, scope, async (row, { items }) => {
    const seen = items.find((item) => item.key === key && item.current !== null);
    if (row === null || seen === undefined) {
      throw new TurnstoneError('not_found', `memory "${id}" of this subject is not known`, {
        retry: 'never',
      });
    }
    const next = { held, gone: seen.gone, tombstone: false };
    return change(runtime, tenant, row, [{ seen, next, removed: [] }]);
  });
}

/** The ids of a subject that a hold keeps, by hash. */
export async function heldMemories(runtime: Runtime, scope: string): Promise<readonly string[]> {
  const items = await runtime.store.memories(scope);
  return items.filter(({ held }) => held !== null).map(({ key }) => key);
}

type Wanted = Omit<MemoryRemoval, 'id'>;

/** Removes inside a subject's scope (without generation); for effects of a turn. */
export async function remove(
  runtime: Runtime,
  tenant: TenantId,
  scope: string,
  wanted: Wanted,
): Promise<Forgotten> {
  let taken: Forgotten = { items: 0, versions: 0 };
  await settled(runtime, tenant, scope, async (row, lineage) => {
    const removals = planOf(wanted, lineage, row);
    taken = countOf(removals);
    if (row === null || removals.length === 0) return true;
    const changes = removals.map((removal) => changeOf(removal, lineage));
    const writes = changes.reduce((sum, { removed }) => sum + 1 + removed.length, 1);
    const parted = lineage.versions.some(({ payload }) => payload.kind === 'parts');
    // A cascade is announced first: what is derived meanwhile is then refused, not missed.
    const small = wanted.kind !== 'cascade' && writes <= limits.transactionWrites && !parted;
    if (small) return change(runtime, tenant, row, changes);
    const id = base64url(
      hashParts('turnstone.removal.1', [
        tenant,
        scope,
        row.lifecycle,
        wanted.kind,
        wanted.key ?? '',
      ]),
    );
    const announced = {
      ...row,
      lifecycle: row.lifecycle + 1,
      removal: { ...wanted, id },
    };
    const outcome = await runtime.store.changeKey(tenant, row, announced);
    if (outcome.kind === 'unknown') throw unavailable(outcome.cause);
    if (outcome.kind === 'lost') return false;
    const finished = await finishRemoval(runtime, tenant, scope);
    if (finished.items > 0) taken = finished;
    return true;
  });
  return taken;
}

/** Runs `act` over a subject that no removal is under way in, until it took effect. */
async function settled(
  runtime: Runtime,
  tenant: TenantId,
  scope: string,
  act: (row: KeyRow | null, lineage: Lineage) => Promise<boolean>,
): Promise<void> {
  for (let round = 0; round < limits.removalRoundsMax; round += 1) {
    const row = await runtime.store.key(tenant, scope);
    if (row?.removal !== undefined) {
      await finishRemoval(runtime, tenant, scope);
      continue;
    }
    // The rows are read after the key: whatever changes them later has counted the lifecycle on.
    const lineage = await runtime.store.memoryLineage(scope);
    if (await act(row, lineage)) return;
  }
  throw unavailable(new Error('what is remembered changed under every attempt'));
}

/** Finishes a removal that is under way, whoever began it; harmless when there is none. */
export async function finishRemoval(
  runtime: Runtime,
  tenant: TenantId,
  scope: string,
): Promise<Forgotten> {
  const { store } = runtime;
  let first: Forgotten | null = null;
  const { base } = splitScope(scope);
  for (let round = 0; round < limits.removalRoundsMax; round += 1) {
    const row = await store.key(tenant, base);
    if (row?.removal === undefined || row.state === 'erased')
      return first ?? { items: 0, versions: 0 };
    const { removal, ...rest } = row;
    const lineage = await store.memoryLineage(base);
    const removals = planOf(removal, lineage, null);
    first ??= countOf(removals);
    const left = leftovers(lineage);
    if (removals.length === 0 && left.length === 0) {
      const next = { ...rest, lifecycle: row.lifecycle + 1 };
      const outcome = await store.changeKey(tenant, row, next);
      if (outcome.kind === 'unknown') throw unavailable(outcome.cause);
      if (outcome.kind === 'done') return first;
      continue;
    }
    // Tombstones first: with them the edges of what goes are kept, so a repeat finds the same.
    const heads = removals.map((one) => ({ ...changeOf(one, lineage), removed: [] }));
    const drops = left.map(({ key, version }) => ({ key, version }));
    const parted = left.flatMap(({ payload }) => (payload.kind === 'parts' ? [payload] : []));
    for (const payload of parted) await store.dropParts(tenant, payload);
    for (let from = 0; from < heads.length; from += limits.transactionWrites) {
      const changes = heads.slice(from, from + limits.transactionWrites);
      const outcome = await store.changeMemories(tenant, null, base, changes);
      if (outcome.kind === 'unknown') throw unavailable(outcome.cause);
    }
    for (let from = 0; from < drops.length; from += limits.transactionWrites) {
      await store.dropVersions(base, drops.slice(from, from + limits.transactionWrites));
    }
  }
  throw unavailable(new Error('a removal did not come to its end'));
}

/** Versions whose removal is recorded beside their id and whose rows still stand. */
function leftovers({ items, versions }: Lineage): readonly MemoryVersion[] {
  const gone = new Set(
    items.flatMap(({ key, gone }) => gone.map(({ version }) => `${key}:${version}`)),
  );
  return versions.filter(({ key, version }) => gone.has(`${key}:${version}`));
}

/** What goes; throws `legal_hold` for a deliberate verb that a hold stands against (`row` null: it was judged). */
function planOf(wanted: Wanted, lineage: Lineage, row: KeyRow | null): readonly Removal[] {
  const { kind, key, cutoff } = wanted;
  if (kind === 'sweep') {
    if (row?.hold !== undefined) return [];
    const lapsed = new Set(
      lineage.items
        .filter((item) => item.held === null && lapsesAt(item) <= (cutoff ?? 0))
        .map((item) => item.key),
    );
    return graphOf(lineage).flatMap((item) =>
      lapsed.has(item.key) ? forgetting([item], item.key) : [],
    );
  }
  const graph = graphOf(lineage);
  const removals = kind === 'cascade' ? cascading(graph, key ?? '') : forgetting(graph, key ?? '');
  const going = new Set(removals.map((removal) => removal.key));
  const held = lineage.items.filter((item) => item.held !== null && going.has(item.key));
  if (removals.length > 0 && (held.length > 0 || row?.hold !== undefined)) {
    throw new TurnstoneError('legal_hold', 'a legal hold stands on what would be forgotten', {
      retry: 'never',
      details: { held: held.map((item) => item.key).join(' ') },
    });
  }
  return removals;
}

/** When an id lapses: the earlier of its expiry and the end of its access window (ME-15). */
export function lapsesAt({ current, accessUntil }: MemoryItem): number {
  const never = Number.POSITIVE_INFINITY;
  if (current === null) return never;
  return Math.min(current.expiresAt ?? never, accessUntil ?? never);
}

function graphOf({ items, versions }: Lineage): readonly LineageItem[] {
  return items.map(({ key, current, gone }) => {
    const absent = new Set(gone.map(({ version }) => version));
    return {
      key,
      current: current?.version ?? null,
      gone,
      versions: versions
        .filter((row) => row.key === key && !absent.has(row.version))
        .map(({ version, derivedFrom = [] }) => ({
          version,
          from: derivedFrom.map((source) => ({ key: source.key, version: source.version })),
        })),
    };
  });
}

function changeOf(removal: Removal, { items }: Lineage): MemoryChange {
  const seen = items.find((item) => item.key === removal.key);
  if (seen === undefined) throw new Error('a removal is of an id that was read');
  return {
    seen,
    next: {
      held: removal.whole ? null : seen.held,
      gone: [...seen.gone, ...removal.versions],
      tombstone: removal.whole,
    },
    removed: removal.versions.map(({ version }) => version),
  };
}

function countOf(removals: readonly Removal[]): Forgotten {
  return {
    items: removals.filter(({ whole }) => whole).length,
    versions: removals.reduce((sum, { versions }) => sum + versions.length, 0),
  };
}

/** Changes ids with the lifecycle of their subject; false when something moved meanwhile. */
async function change(
  runtime: Runtime,
  tenant: TenantId,
  row: KeyRow,
  changes: readonly MemoryChange[],
): Promise<boolean> {
  const next = { ...row, lifecycle: row.lifecycle + 1 };
  const key = { seen: row, next };
  const outcome = await runtime.store.changeMemories(tenant, key, row.scope, changes);
  if (outcome.kind === 'unknown') throw unavailable(outcome.cause);
  return outcome.kind === 'done';
}

function unavailable(cause: unknown): TurnstoneError {
  return new TurnstoneError('store_unavailable', 'what is remembered could not be changed', {
    retry: 'now',
    cause,
  });
}
