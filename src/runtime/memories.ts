// Governed memory inside a turn: facts are staged and commit with it.
//   T1   a fact becomes current in the transaction of its turn; T12 under its subject's own key.
//   ME-3 trust and provenance come from where a fact was made; ME-7 what it was made from stands when it is written.

import type { PartSet } from '../ports/store.ts';
import type { MemoryVersion, MemoryWrite } from '../ports/subjects.ts';
import type { Sealer } from '../ports/vault.ts';
import { encode } from '../protocol/canonical.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs, TenantId } from '../protocol/ids.ts';
import { epochMs } from '../protocol/ids.ts';
import type { Label } from '../protocol/labels.ts';
import { parseLabel, undeclared } from '../protocol/labels.ts';
import { limits } from '../protocol/limits.ts';
import type { RecordBody } from '../protocol/record.ts';
import { splitScope } from '../protocol/scopes.ts';
import { taken } from './labelled.ts';
import type { Pass } from './pass.ts';
import { sealText } from './payloads.ts';
import type { MemoryBody, Selected } from './recall.ts';
import { badMemory, commitmentOf, memoryContext } from './recall.ts';
import type { Effect, Remember } from './turn-context.ts';
import type { TurnError } from './turn-view.ts';

/** A fact this turn remembers. */
export interface StagedMemory {
  readonly key: string;
  readonly id: string;
  readonly purpose: string;
  readonly content: unknown;
  readonly at: EpochMs;
  readonly expiresAt: EpochMs | null;
  readonly windowMs?: number;
  readonly derivedFrom: readonly Selected[];
  readonly label: Label;
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

/** What is to be remembered and its label: a wrapped value's own, else that of all the turn has seen (ME-3). */
export function contentOf(pass: Pass, { content }: Remember): { value: unknown; label: Label } {
  return taken(content, pass.labels.mark);
}

export function checkFact(pass: Pass, fact: Remember): void {
  checkSubject(pass, fact.subject);
  const bytes = Buffer.byteLength(encode(contentOf(pass, fact).value));
  if (bytes > limits.memoryBytesMax) {
    throw badMemory('content', `at most ${limits.memoryBytesMax} bytes`, String(bytes));
  }
  if (pass.memories.length >= limits.memoriesPerTurnMax) {
    throw badMemory('id', `at most ${limits.memoriesPerTurnMax} facts a turn`, 'one more');
  }
  for (const field of ['expiresInMs', 'accessWindowMs'] as const) {
    const ms = fact[field];
    if (ms !== undefined && (!Number.isSafeInteger(ms) || ms < 1)) {
      throw badMemory(field, 'a positive integer', String(ms));
    }
  }
  const sources = fact.derivedFrom ?? [];
  if (sources.length > limits.memorySourcesMax) {
    throw badMemory(
      'derivedFrom',
      `at most ${limits.memorySourcesMax} facts`,
      String(sources.length),
    );
  }
  if (sources.some(({ version }) => version < 1)) {
    throw badMemory('derivedFrom', 'facts that were committed', 'one this turn remembers itself');
  }
}

/** A fact this turn remembers is not stored yet: it cannot be forgotten before the commit. */
export function checkNotStaged(pass: Pass, id: string): void {
  if (pass.memories.some((fact) => fact.id === id)) {
    throw badMemory('id', 'a fact that was committed', `"${id}", which this turn remembers itself`);
  }
}

/** Whose an id is, before anything is staged: a journaled read, so that every pass decides alike (E245). */
export function ownerEffect(pass: Pass, fact: Remember): Effect<unknown> {
  const { runtime, ref, scope } = pass.setup;
  const { store } = runtime;
  const { label } = contentOf(pass, fact);
  const wanted = fact.derivedFrom ?? [];
  const named = wanted.map(({ id, version, commitment }) => ({ id, version, commitment }));
  return {
    kind: 'memory.owner',
    args: named.length === 0 ? { id: fact.id } : { id: fact.id, derivedFrom: named },
    mutates: false,
    policyFacts: {
      purpose: fact.purpose,
      trust: label.trust,
      sensitivity: label.sensitivity,
    },
    perform: async () => {
      const key = await store.memoryKey(ref.tenant, fact.id);
      const [head] = await store.memoryHeads(scope, [key]);
      const owner = ownerOf(head, splitScope(scope).base);
      if (named.length === 0) return { key, owner };
      const keys = await Promise.all(named.map(({ id }) => store.memoryKey(ref.tenant, id)));
      const sources = named.map(({ version, commitment }, at) => ({
        key: keys[at] ?? '',
        version,
        commitment,
      }));
      const missing = await missingSource(pass, sources);
      return { key, owner, sources, missing: missing === null ? null : named[missing]?.id };
    },
  };
}

export type Owner = 'free' | 'other' | 'forgotten' | 'mine';

/** Whose an id is, by its head and its reservation. */
export function ownerOf(
  head: { readonly version: number; readonly owner: string | null } | undefined,
  base: string,
): Owner {
  if (head?.owner == null) return 'free';
  if (head.owner !== base) return 'other';
  return head.version === 0 ? 'forgotten' : 'mine';
}

/** ME-7: every source stands in this subject's scope and is what it was; the place of the first that is not. */
async function missingSource(pass: Pass, sources: readonly Selected[]): Promise<number | null> {
  const { runtime, scope } = pass.setup;
  const rows = await runtime.store.memoryVersions(scope, sources);
  const at = sources.findIndex(
    ({ commitment }, index) =>
      rows[index]?.commitment !== commitment || rows[index]?.scope !== scope,
  );
  return at < 0 ? null : at;
}

/** The versions a fact is made from, as the journal has them; refuses one that is gone or another's. */
export function sourcesOf(fact: Remember, found: unknown): readonly Selected[] {
  const { sources = [], missing = null } = found as {
    sources?: readonly Selected[];
    missing?: string | null;
  };
  if (missing === null) return sources;
  throw new TurnstoneError(
    'memory_source_gone',
    `memory "${fact.id}": expected sources of this subject as they were recalled, "${missing}" is not`,
    { retry: 'never', details: { field: 'memory.derivedFrom', got: missing } },
  );
}

/** Refuses what `ownerEffect` found to be somebody else's, or gone for ever. */
export function demandOwn(fact: Remember, found: unknown): string {
  const { key, owner } = found as { key: string; owner: Owner };
  refuseOwner(fact.id, owner);
  return key;
}

/** Throws `foreign_subject` or `memory_id_reserved` for an id that is not free and not one's own. */
export function refuseOwner(id: string, owner: Owner): void {
  if (owner === 'other') {
    throw new TurnstoneError('foreign_subject', `memory "${id}" is about another subject`, {
      retry: 'never',
    });
  }
  if (owner === 'forgotten') {
    throw new TurnstoneError('memory_id_reserved', `memory id "${id}" was used and erased`, {
      retry: 'never',
    });
  }
}

/** The label of a staged fact as it was recorded; what was staged before labels is untrusted. */
function labelIn(body: RecordBody): Label {
  const text = body.kind === 'MemoryStaged' ? body.label : undefined;
  return (text === undefined ? null : parseLabel(text)) ?? undeclared('unknown');
}

/** Keeps a staged fact for the commit and for this turn's own recalls. */
export function stageFact(
  pass: Pass,
  key: string,
  fact: Remember,
  derivedFrom: readonly Selected[],
  body: RecordBody,
): void {
  const { id, purpose, content, expiresInMs, accessWindowMs } = fact;
  pass.memories.push({
    key,
    id,
    purpose,
    content,
    at: epochMs(body.at),
    expiresAt: expiresInMs === undefined ? null : epochMs(body.at + expiresInMs),
    ...(accessWindowMs === undefined ? {} : { windowMs: accessWindowMs }),
    derivedFrom,
    label: labelIn(body),
  });
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
  const { runtime, ref, sealer, scope } = pass.setup;
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
    const sources = facts.flatMap(({ derivedFrom }) => derivedFrom);
    if (sources.length > 0 && (await missingSource(pass, sources)) !== null) {
      const message = `what memory "${facts[0]?.id}" was made from was forgotten meanwhile`;
      return { ...noMemories, refused: { code: 'memory_source_gone', message } };
    }
    for (const [index, fact] of facts.entries()) {
      const version = seen + index + 1;
      const body: MemoryBody = {
        id: fact.id,
        content: fact.content,
        sources: fact.label.sources,
      };
      const row = {
        key,
        version,
        purpose: fact.purpose,
        trusted: fact.label.trust === 'trusted',
        sensitivity: fact.label.sensitivity,
        scope,
        createdAt: now,
        expiresAt: fact.expiresAt,
        ...(fact.windowMs === undefined ? {} : { windowMs: fact.windowMs }),
        ...(fact.derivedFrom.length === 0 ? {} : { derivedFrom: fact.derivedFrom }),
      };
      const { next, parts: set } = sealVersion(sealer, ref.tenant, row, body);
      parts.push(set);
      writes.push({ next, seen, current: index === facts.length - 1 });
    }
  }
  return { writes, parts, refused: null };
}

/** A version as it is stored: sealed, with the commitment over all that governs it (ME-9). */
export function sealVersion(
  sealer: Sealer,
  tenant: TenantId,
  row: Omit<MemoryVersion, 'commitment' | 'payload'>,
  body: MemoryBody,
): { readonly next: MemoryVersion; readonly parts: PartSet | null } {
  const sealed = sealText(sealer, memoryContext(tenant, row.key, row.version), encode(body));
  const commitment = commitmentOf(sealer, row, body);
  return { next: { ...row, payload: sealed.payload, commitment }, parts: sealed.parts };
}
