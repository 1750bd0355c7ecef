// Writing a fact outside any turn, with the label its importer vouches for (ME-26).
//   ME-5 over what is current, in one transaction with the subject's key row, so that it is before or after an erasure.
import type { KeyRow, MemoryWrite } from '../ports/subjects.ts';
import { encode } from '../protocol/canonical.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { SubjectId, TenantId } from '../protocol/ids.ts';
import { epochMs } from '../protocol/ids.ts';
import type { Label } from '../protocol/labels.ts';
import { limits } from '../protocol/limits.ts';
import { scopeTag } from '../protocol/scopes.ts';
import { finishRemoval } from './forget.ts';
import { Keyring } from './keyring.ts';
import { ownerOf, refuseOwner, sealVersion } from './memories.ts';
import { badMemory } from './recall.ts';
import type { Runtime } from './runtime.ts';

export interface ImportedFact {
  readonly id: string;
  readonly purpose: string;
  /** JSON-like; at most `limits.memoryBytesMax`. */
  readonly content: unknown;
  readonly label: Label;
  readonly expiresInMs?: number;
  readonly accessWindowMs?: number;
}

export async function importFact(
  runtime: Runtime,
  person: { readonly tenant: TenantId; readonly subject: SubjectId },
  fact: ImportedFact,
): Promise<{ readonly version: number }> {
  const { store } = runtime;
  const { tenant } = person;
  const bytes = Buffer.byteLength(encode(fact.content));
  if (bytes > limits.memoryBytesMax)
    throw badMemory('content', `at most ${limits.memoryBytesMax} bytes`, String(bytes));
  if (fact.label.sources.length === 0) throw badMemory('sources', 'at least one', 'none');
  const base = await store.subjectScope(tenant, person.subject);
  const key = await store.memoryKey(tenant, fact.id);
  const keyring = new Keyring(store, runtime.vault, { tenant });
  for (let round = 0; round < limits.removalRoundsMax; round += 1) {
    const known = await store.key(tenant, base);
    if (known?.removal !== undefined) {
      await finishRemoval(runtime, tenant, base);
      continue;
    }
    const scope = scopeTag(base, known?.generation ?? 1);
    if (known?.state === 'erased')
      throw new TurnstoneError('subject_erased', 'the subject was erased', { retry: 'never' });
    const sealer = await keyring.writer(scope);
    const row = known ?? (await store.key(tenant, base));
    const [head] = await store.memoryHeads(scope, [key]);
    if (row === null) continue;
    refuseOwner(fact.id, ownerOf(head, base));
    const seen = head?.version ?? 0;
    const now = runtime.clock.now();
    const { label, expiresInMs, accessWindowMs } = fact;
    const version = {
      key,
      version: seen + 1,
      purpose: fact.purpose,
      trusted: label.trust === 'trusted',
      sensitivity: label.sensitivity,
      scope,
      createdAt: now,
      expiresAt: expiresInMs === undefined ? null : epochMs(now + expiresInMs),
      ...(accessWindowMs === undefined ? {} : { windowMs: accessWindowMs }),
    };
    const body = { id: fact.id, content: fact.content, sources: label.sources };
    const { next, parts } = sealVersion(sealer, tenant, version, body);
    if (parts !== null) await store.putParts(tenant, parts);
    if (await written(runtime, tenant, row, { next, seen, current: true }))
      return { version: seen + 1 };
  }
  throw new TurnstoneError('store_unavailable', 'the fact changed under every attempt', {
    retry: 'now',
  });
}

async function written(
  runtime: Runtime,
  tenant: TenantId,
  row: KeyRow,
  write: MemoryWrite,
): Promise<boolean> {
  const key = { seen: row, next: { ...row, lifecycle: row.lifecycle + 1 } };
  const outcome = await runtime.store.changeMemories(tenant, key, row.scope, [], [write]);
  if (outcome.kind !== 'unknown') return outcome.kind === 'done';
  throw new TurnstoneError('store_unavailable', 'the import has no known outcome', {
    retry: 'now',
    cause: outcome.cause,
  });
}
