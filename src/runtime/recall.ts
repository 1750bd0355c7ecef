// Recalling: which versions a turn gets, now and whenever it is run again (page 01, 13.3).
//   ME-8 the order is part of the contract; ME-9 the journal keeps versions and commitments, no content; ME-10 a
//        version that is gone fails the turn, one that differs quarantines it. T13 a commitment covers what governs it.
import type { MemoryVersion } from '../ports/subjects.ts';
import type { Sealer } from '../ports/vault.ts';
import { encode } from '../protocol/canonical.ts';
import { AgentError, TurnstoneError } from '../protocol/errors.ts';
import type { ThreadId } from '../protocol/ids.ts';
import { epochMs, toIso } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import { isSubjectScope, splitScope } from '../protocol/scopes.ts';
import { finishRemoval, lapsesAt } from './forget.ts';
import type { Pass } from './pass.ts';
import { openPayload } from './payloads.ts';
import type { Runtime } from './runtime.ts';
import type { Effect, Recall, RecalledItem } from './turn-context.ts';
import { EffectError } from './turn-context.ts';

/** What a stored version holds under its seal. */
export interface MemoryBody {
  readonly id: string;
  readonly content: unknown;
  readonly sources: readonly string[];
}

export interface Selected {
  readonly key: string;
  readonly version: number;
  readonly commitment: string;
}

export function badMemory(field: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError(
    'invalid_request',
    `memory.${field}: expected ${expected}, got ${got}`,
    {
      retry: 'never',
      details: { field: `memory.${field}`, expected, got },
    },
  );
}

/** The selection of a recall, as an effect: ids by hash, versions, commitments and the cutoff; no content. */
export function recallEffect(pass: Pass, query: Recall): Effect<unknown> {
  const { runtime, ref, scope } = pass.setup;
  const limit = query.limit ?? limits.recallDefault;
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > limits.recallMax) {
    throw badMemory('limit', `1 to ${limits.recallMax}`, String(limit));
  }
  return {
    kind: 'memory.recall',
    args: { purpose: query.purpose, limit },
    mutates: false,
    policyFacts: { purpose: query.purpose },
    perform: async () => {
      const cutoff = Math.max(runtime.clock.now(), pass.instant);
      const rows = await standing(runtime, ref.tenant, scope, cutoff);
      const seen = rows
        .filter((row) => row.purpose === query.purpose)
        .sort(byRank)
        .slice(0, limit);
      const items = seen.map(({ key, version, commitment }) => ({ key, version, commitment }));
      return { cutoff, items };
    },
  };
}

/** Current versions of a scope that had not lapsed at `cutoff`, after any removal under way has ended. */
export async function standing(
  runtime: Runtime,
  tenant: Pass['setup']['ref']['tenant'],
  scope: string,
  cutoff: number,
): Promise<readonly MemoryVersion[]> {
  const { base } = splitScope(scope);
  const key = await runtime.store.key(tenant, base);
  if (key?.removal !== undefined) await finishRemoval(runtime, tenant, scope);
  const items = await runtime.store.memories(scope);
  return items
    .filter((item) => item.current.scope === scope && lapsesAt(item) > cutoff)
    .map((item) => item.current);
}

/** ME-12: opens the access windows of a selection again, never past an expiry; a repeat changes nothing. */
export function touchEffect(pass: Pass, found: unknown): Effect<unknown> {
  const { runtime, scope } = pass.setup;
  const { cutoff, items } = found as { cutoff: number; items: readonly Selected[] };
  return {
    kind: 'memory.touch',
    args: { cutoff, items: items.map(({ key, version }) => ({ key, version })) },
    recovery: 'retry',
    perform: async () => {
      const rows = await runtime.store.memoryVersions(scope, items);
      let touched = 0;
      for (const row of rows) {
        if (row?.windowMs === undefined) continue;
        const until = Math.min(cutoff + row.windowMs, row.expiresAt ?? Number.POSITIVE_INFINITY);
        await runtime.store.touchMemory(scope, row, epochMs(until));
        touched += 1;
      }
      return { touched };
    },
  };
}

/** ME-8: trusted first, then newest, then id; the order is part of the contract. */
function byRank(left: MemoryVersion, right: MemoryVersion): number {
  if (left.trusted !== right.trusted) return left.trusted ? -1 : 1;
  return right.createdAt - left.createdAt || (left.key < right.key ? -1 : 1);
}

/** What a selection names, in its order; throws `memory_erased` for what is gone, a doubt for what differs. */
export async function selectedItems(
  pass: Pass,
  step: string,
  wanted: readonly Selected[],
): Promise<readonly RecalledItem[]> {
  const { runtime, ref, sealer, scope } = pass.setup;
  const rows = await runtime.store.memoryVersions(scope, wanted);
  const stored: RecalledItem[] = [];
  for (const [at, item] of wanted.entries()) {
    const row = rows[at] ?? null;
    if (row === null) {
      throw new AgentError('a remembered fact that was selected is gone', {
        code: 'memory_erased',
      });
    }
    const body = await openVersion(runtime, ref.tenant, sealer, row);
    if (row.commitment !== item.commitment || commitmentOf(sealer, row, body) !== item.commitment) {
      throw new EffectError('a remembered fact is not what was selected', {
        code: 'memory_tampered',
        disposition: 'in_doubt',
        effectKey: '',
        step,
        undecided: true,
      });
    }
    stored.push(itemOf(row, body));
  }
  return stored;
}

/** The items of a selection, live and replayed alike, under what this turn has staged itself. */
export async function materialise(
  pass: Pass,
  step: string,
  query: Recall,
  found: unknown,
): Promise<readonly RecalledItem[]> {
  const { items } = found as { items: readonly Selected[] };
  const own = new Map(
    pass.memories.filter((fact) => fact.purpose === query.purpose).map((fact) => [fact.key, fact]),
  );
  const wanted = items.filter((item) => !own.has(item.key));
  const stored = await selectedItems(pass, step, wanted);
  const staged = [...own.values()].map((fact) => ({
    id: fact.id,
    version: 0,
    purpose: fact.purpose,
    content: fact.content,
    ...fact.label,
    commitment: '',
    at: toIso(fact.at),
  }));
  const all = [...staged.toReversed(), ...stored];
  const rank = (item: RecalledItem): number => (item.trust === 'trusted' ? 0 : 1);
  return all
    .sort((left, right) => rank(left) - rank(right))
    .slice(0, query.limit ?? limits.recallDefault);
}

/** Opens what a version holds. */
export async function openVersion(
  runtime: Runtime,
  tenant: Pass['setup']['ref']['tenant'],
  sealer: Sealer,
  row: MemoryVersion,
): Promise<MemoryBody> {
  const context = memoryContext(tenant, row.key, row.version);
  return (await openPayload(runtime.store, sealer, context, row.payload)) as MemoryBody;
}

function itemOf(row: MemoryVersion, body: MemoryBody): RecalledItem {
  return {
    id: body.id,
    version: row.version,
    purpose: row.purpose,
    content: body.content,
    trust: row.trusted ? 'trusted' : 'untrusted',
    sensitivity: row.sensitivity ?? 'internal',
    sources: body.sources,
    commitment: row.commitment,
    at: toIso(row.createdAt),
  };
}

export function commitmentOf(
  sealer: Sealer,
  row: Omit<MemoryVersion, 'commitment' | 'payload'>,
  body: MemoryBody,
): string {
  const { key, version, purpose, trusted, scope, createdAt, expiresAt } = row;
  const { windowMs, derivedFrom, sensitivity } = row;
  const whole = {
    ...{ key, version, purpose, trusted, scope, createdAt, expiresAt, body },
    ...(sensitivity === undefined ? {} : { sensitivity }),
    ...(windowMs === undefined ? {} : { windowMs }),
    ...(derivedFrom === undefined ? {} : { derivedFrom }),
  };
  return sealer.mac('turnstone.memory.1', new TextEncoder().encode(encode(whole)));
}

export function memoryContext(
  tenant: Pass['setup']['ref']['tenant'],
  key: string,
  version: number,
) {
  return { tenant, thread: key as ThreadId, turn: '' as const, use: 'memory', at: version };
}

/** Facts of a subject, for an operator; nothing of an erased one. */
export async function readMemories(
  runtime: Runtime,
  of: {
    readonly tenant: Pass['setup']['ref']['tenant'];
    readonly scope: string;
    readonly sealer: Sealer;
  },
  purpose: string | null,
): Promise<readonly RecalledItem[]> {
  if (!isSubjectScope(of.scope)) return [];
  const now = runtime.clock.now();
  const rows = (await standing(runtime, of.tenant, of.scope, now))
    .filter((row) => purpose === null || row.purpose === purpose)
    .toSorted(byRank);
  return Promise.all(
    rows.map(async (row) => {
      const context = memoryContext(of.tenant, row.key, row.version);
      const body = (await openPayload(
        runtime.store,
        of.sealer,
        context,
        row.payload,
      )) as MemoryBody;
      return itemOf(row, body);
    }),
  );
}
