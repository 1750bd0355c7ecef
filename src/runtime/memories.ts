// Governed memory inside a turn: facts are staged and commit with it; a recall records what it selected.
//   T1   a fact becomes current in the transaction of its turn; T12 under its subject's own key.
//   ME-3 trust and provenance come from where a fact was made; ME-9, ME-10 a selection is versions with
//        commitments: a version that is gone fails the turn, one that differs quarantines it.

import type { PartSet } from '../ports/store.ts';
import type { MemoryVersion, MemoryWrite } from '../ports/subjects.ts';
import type { Sealer } from '../ports/vault.ts';
import { encode } from '../protocol/canonical.ts';
import { AgentError, TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs, ThreadId } from '../protocol/ids.ts';
import { epochMs, toIso } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import type { RecordBody } from '../protocol/record.ts';
import { isSubjectScope, splitScope } from '../protocol/scopes.ts';
import type { Pass } from './pass.ts';
import { openPayload, sealText } from './payloads.ts';
import type { Runtime } from './runtime.ts';
import type { Effect, Recall, RecalledItem, Remember } from './turn-context.ts';
import { EffectError } from './turn-context.ts';
import type { TurnError } from './turn-view.ts';

/** A fact this turn remembers. */
export interface StagedMemory {
  readonly key: string;
  readonly id: string;
  readonly purpose: string;
  readonly content: unknown;
  readonly at: EpochMs;
  readonly expiresAt: EpochMs | null;
}

/** What a stored version holds under its seal. */
interface MemoryBody {
  readonly id: string;
  readonly content: unknown;
  readonly sources: readonly string[];
}

interface Selected {
  readonly key: string;
  readonly version: number;
  readonly commitment: string;
}

/** Refuses a fact or a query about somebody else, or about nobody. */
export function checkSubject(pass: Pass, named: string | undefined): void {
  const { subject } = pass.setup;
  if (named !== undefined && subject !== null && named !== subject) {
    throw new TurnstoneError('foreign_subject', `expected subject "${subject}", got "${named}"`, {
      retry: 'never',
      details: { expected: subject, got: named },
    });
  }
  if (subject === null) {
    throw new TurnstoneError(
      'subject_required',
      'a turn that remembers or recalls names a subject',
      {
        retry: 'never',
      },
    );
  }
}

export function checkFact(pass: Pass, fact: Remember): void {
  checkSubject(pass, fact.subject);
  const bytes = Buffer.byteLength(encode(fact.content));
  if (bytes > limits.memoryBytesMax) {
    throw bad('content', `at most ${limits.memoryBytesMax} bytes`, String(bytes));
  }
  if (pass.memories.length >= limits.memoriesPerTurnMax) {
    throw bad('id', `at most ${limits.memoriesPerTurnMax} facts a turn`, 'one more');
  }
  const { expiresInMs } = fact;
  if (expiresInMs !== undefined && (!Number.isSafeInteger(expiresInMs) || expiresInMs < 1)) {
    throw bad('expiresInMs', 'a positive integer', String(expiresInMs));
  }
}

function bad(field: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError(
    'invalid_request',
    `memory.${field}: expected ${expected}, got ${got}`,
    {
      retry: 'never',
      details: { field: `memory.${field}`, expected, got },
    },
  );
}

/** Whose an id is, before anything is staged: a journaled read, so that every pass decides alike (E245). */
export function ownerEffect(pass: Pass, fact: Remember): Effect<unknown> {
  const { runtime, ref, scope } = pass.setup;
  return {
    kind: 'memory.owner',
    args: { id: fact.id },
    mutates: false,
    perform: async () => {
      const key = await runtime.store.memoryKey(ref.tenant, fact.id);
      const [head] = await runtime.store.memoryHeads(scope, [key]);
      if (head?.owner == null) return { key, owner: 'free' };
      if (head.owner !== splitScope(scope).base) return { key, owner: 'other' };
      return { key, owner: head.version === 0 ? 'forgotten' : 'mine' };
    },
  };
}

/** Refuses what `ownerEffect` found to be somebody else's, or gone for ever. */
export function demandOwn(fact: Remember, found: unknown): string {
  const { key, owner } = found as { key: string; owner: string };
  if (owner === 'other') {
    throw new TurnstoneError('foreign_subject', `memory "${fact.id}" is about another subject`, {
      retry: 'never',
    });
  }
  if (owner === 'forgotten') {
    throw new TurnstoneError('memory_id_reserved', `memory id "${fact.id}" was used and erased`, {
      retry: 'never',
    });
  }
  return key;
}

/** Keeps a staged fact for the commit and for this turn's own recalls. */
export function stageFact(pass: Pass, key: string, fact: Remember, body: RecordBody): void {
  const { id, purpose, content, expiresInMs } = fact;
  pass.memories.push({
    key,
    id,
    purpose,
    content,
    at: epochMs(body.at),
    expiresAt: expiresInMs === undefined ? null : epochMs(body.at + expiresInMs),
  });
}

/** The selection of a recall, as an effect: ids by hash, versions, commitments and the cutoff; no content. */
export function recallEffect(pass: Pass, query: Recall): Effect<unknown> {
  const { runtime, scope } = pass.setup;
  const limit = query.limit ?? limits.recallDefault;
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > limits.recallMax) {
    throw bad('limit', `1 to ${limits.recallMax}`, String(limit));
  }
  return {
    kind: 'memory.recall',
    args: { purpose: query.purpose, limit },
    mutates: false,
    perform: async () => {
      const cutoff = Math.max(runtime.clock.now(), pass.instant);
      const rows = await runtime.store.memories(scope);
      const seen = rows
        .filter((row) => row.purpose === query.purpose && row.scope === scope)
        .filter((row) => row.expiresAt === null || row.expiresAt > cutoff)
        .sort(byRank)
        .slice(0, limit);
      const items = seen.map(({ key, version, commitment }) => ({ key, version, commitment }));
      return { cutoff, items };
    },
  };
}

/** ME-8: trusted first, then newest, then id; the order is part of the contract. */
function byRank(left: MemoryVersion, right: MemoryVersion): number {
  if (left.trusted !== right.trusted) return left.trusted ? -1 : 1;
  return right.createdAt - left.createdAt || (left.key < right.key ? -1 : 1);
}

/** The items of a selection, live and replayed alike, under what this turn has staged itself. */
export async function materialise(
  pass: Pass,
  step: string,
  query: Recall,
  found: unknown,
): Promise<readonly RecalledItem[]> {
  const { runtime, ref, sealer, scope } = pass.setup;
  const { items } = found as { items: readonly Selected[] };
  const own = new Map(
    pass.memories.filter((fact) => fact.purpose === query.purpose).map((fact) => [fact.key, fact]),
  );
  const wanted = items.filter((item) => !own.has(item.key));
  const rows = await runtime.store.memoryVersions(scope, wanted);
  const stored: RecalledItem[] = [];
  for (const [at, item] of wanted.entries()) {
    const row = rows[at] ?? null;
    if (row === null) {
      throw new AgentError('a remembered fact that was selected is gone', {
        code: 'memory_erased',
      });
    }
    const context = memoryContext(ref.tenant, row.key, row.version);
    const body = (await openPayload(runtime.store, sealer, context, row.payload)) as MemoryBody;
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
  const staged = [...own.values()].map((fact) => ({
    id: fact.id,
    version: 0,
    purpose: fact.purpose,
    content: fact.content,
    trust: 'untrusted' as const,
    at: toIso(fact.at),
  }));
  const all = [...staged.toReversed(), ...stored];
  const rank = (item: RecalledItem): number => (item.trust === 'trusted' ? 0 : 1);
  return all
    .sort((left, right) => rank(left) - rank(right))
    .slice(0, query.limit ?? limits.recallDefault);
}

function itemOf(row: MemoryVersion, body: MemoryBody): RecalledItem {
  return {
    id: body.id,
    version: row.version,
    purpose: row.purpose,
    content: body.content,
    trust: row.trusted ? 'trusted' : 'untrusted',
    at: toIso(row.createdAt),
  };
}

function commitmentOf(
  sealer: Sealer,
  row: Omit<MemoryVersion, 'commitment' | 'payload'>,
  body: MemoryBody,
): string {
  const { key, version, purpose, trusted, scope, createdAt, expiresAt } = row;
  const whole = { key, version, purpose, trusted, scope, createdAt, expiresAt, body };
  return sealer.mac('turnstone.memory.1', new TextEncoder().encode(encode(whole)));
}

function memoryContext(tenant: Pass['setup']['ref']['tenant'], key: string, version: number) {
  return { tenant, thread: key as ThreadId, turn: '' as const, use: 'memory', at: version };
}

export interface PreparedMemories {
  readonly writes: readonly MemoryWrite[];
  readonly parts: readonly (PartSet | null)[];
  /** Why the commit may not be made: an id became somebody else's meanwhile. */
  readonly refused: TurnError | null;
}

export const noMemories: PreparedMemories = { writes: [], parts: [], refused: null };

/** The versions a commit writes, over what is current now. */
export async function stagedMemories(pass: Pass, now: EpochMs): Promise<PreparedMemories> {
  if (pass.memories.length === 0) return noMemories;
  const { runtime, ref, sealer, scope, agent } = pass.setup;
  const keys = [...new Set(pass.memories.map(({ key }) => key))];
  const heads = await runtime.store.memoryHeads(scope, keys);
  const base = splitScope(scope).base;
  const writes: MemoryWrite[] = [];
  const parts: (PartSet | null)[] = [];
  for (const [at, key] of keys.entries()) {
    const head = heads[at];
    if (head?.owner != null && (head.owner !== base || head.version === 0)) {
      const message = 'an id this turn remembers belongs to another subject or was erased';
      return { ...noMemories, refused: { code: 'foreign_subject', message } };
    }
    const seen = head?.version ?? 0;
    const facts = pass.memories.filter((fact) => fact.key === key);
    for (const [index, fact] of facts.entries()) {
      const version = seen + index + 1;
      const body: MemoryBody = {
        id: fact.id,
        content: fact.content,
        sources: [`agent:${agent.name}`],
      };
      const row = {
        key,
        version,
        purpose: fact.purpose,
        trusted: false,
        scope,
        createdAt: now,
        expiresAt: fact.expiresAt,
      };
      const sealed = sealText(sealer, memoryContext(ref.tenant, key, version), encode(body));
      parts.push(sealed.parts);
      const commitment = commitmentOf(sealer, row, body);
      const next = { ...row, payload: sealed.payload, commitment };
      writes.push({ next, seen, current: index === facts.length - 1 });
    }
  }
  return { writes, parts, refused: null };
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
  const rows = (await runtime.store.memories(of.scope))
    .filter((row) => row.scope === of.scope && (purpose === null || row.purpose === purpose))
    .filter((row) => row.expiresAt === null || row.expiresAt > now)
    .sort(byRank);
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
