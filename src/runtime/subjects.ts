// A person's lifecycle: legal hold, erasure, return (page 01, 13.7 under rulings 20 and 21).
//   T12  the key is destroyed first, by one conditional write that a hold refuses; rows go after it, and a crash
//        in between leaves noise that a repeat removes. Whoever read the key before is refused at its commit.

import type { ErasureRow, KeyRow } from '../ports/subjects.ts';
import { encode } from '../protocol/canonical.ts';
import { base64url, hashParts } from '../protocol/digest.ts';
import { describeError, TurnstoneError } from '../protocol/errors.ts';
import type { SubjectId, TenantId, ThreadId } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import { scopeTag } from '../protocol/scopes.ts';
import { heldMemories } from './forget.ts';
import { Keyring } from './keyring.ts';
import { readMemories } from './recall.ts';
import type { Runtime } from './runtime.ts';
import type { RecalledItem } from './turn-context.ts';

interface Person {
  readonly tenant: TenantId;
  readonly subject: SubjectId;
}

/** Puts a hold: the erasure of this subject is refused while it stands. Throws `subject_erased`. */
export async function holdSubject(
  runtime: Runtime,
  person: Person,
  reason: string,
  actor: string,
): Promise<{ readonly held: true }> {
  const { scope, keyring } = await placeOf(runtime, person);
  const sealer = await keyring.writer(
    scopeTag(scope, (await keyRow(runtime, person.tenant, scope))?.generation ?? 1),
  );
  const sealed = sealer.seal(new TextEncoder().encode(encode(reason)), holdContext(person, scope));
  await change(runtime, person.tenant, scope, (row) => {
    if (row.state === 'erased') throw gone();
    if (row.hold !== undefined) return row;
    return { ...row, hold: { by: actor, at: runtime.clock.now(), reason: sealed } };
  });
  return { held: true };
}

/** Lifts a hold; harmless when there is none. */
export async function releaseSubject(
  runtime: Runtime,
  person: Person,
): Promise<{ readonly held: false }> {
  const { scope } = await placeOf(runtime, person);
  await change(runtime, person.tenant, scope, ({ hold: _, ...row }) => row);
  return { held: false };
}

/** Erases a person; throws `legal_hold`. A repeat finishes what a crash left and answers the same. */
export async function eraseSubject(
  runtime: Runtime,
  person: Person,
  actor: string,
): Promise<ErasureRow> {
  const { tenant } = person;
  const { scope } = await placeOf(runtime, person);
  const before = await change(runtime, tenant, scope, async (row) => {
    // ME-14: read after the key row; a hold that is put later has counted its lifecycle on.
    const held = row.state === 'erased' ? [] : await heldMemories(runtime, scope);
    if (held.length > 0) {
      throw new TurnstoneError('legal_hold', 'a legal hold stands on what is remembered', {
        retry: 'never',
        details: { held: held.join(' ') },
      });
    }
    if (row.hold !== undefined) {
      throw new TurnstoneError('legal_hold', 'a legal hold stands on this subject', {
        retry: 'never',
        details: { by: row.hold.by },
      });
    }
    if (row.state === 'erased') return row;
    const { removal: _, ...rest } = row;
    return { ...rest, state: 'erased', generation: row.generation + 1, wrapped: null };
  });
  const after = (await keyRow(runtime, tenant, scope)) ?? before;
  const known = await runtime.store.erasure(tenant, scope);
  if (known?.state === 'complete' && known.generation === after.generation) return known;
  const row: ErasureRow = {
    id: base64url(hashParts('turnstone.erasure.1', [tenant, scope, after.generation])),
    state: 'keys_destroyed',
    generation: after.generation,
    by: known?.generation === after.generation ? known.by : actor,
    at: known?.generation === after.generation ? known.at : runtime.clock.now(),
    items: 0,
    versions: 0,
  };
  await runtime.store.putErasure(tenant, scope, row);
  return finish(runtime, tenant, scope, row);
}

/** Removes the rows and empties the logs; a failure is said and a repeat goes on. */
async function finish(
  runtime: Runtime,
  tenant: TenantId,
  scope: string,
  row: ErasureRow,
): Promise<ErasureRow> {
  const { store, telemetry } = runtime;
  let ended: ErasureRow;
  try {
    const counts = await store.dropMemories(scope);
    const clean = await store.scrub();
    ended = { ...row, ...counts, state: clean ? 'complete' : 'cleanup_failed' };
  } catch (error) {
    telemetry.emit('erasure.cleanup_failed', { id: row.id, reason: describeError(error).message });
    ended = { ...row, state: 'cleanup_failed' };
  }
  await store.putErasure(tenant, scope, ended);
  return ended;
}

/** Lets a person who was erased come back under a new generation; what was sealed before stays unread. */
export async function readmitSubject(
  runtime: Runtime,
  person: Person,
): Promise<{ readonly generation: number }> {
  const { tenant } = person;
  const { scope } = await placeOf(runtime, person);
  const row = await keyRow(runtime, tenant, scope);
  if (row?.state !== 'erased') {
    throw new TurnstoneError('not_erased', 'the subject is not erased', { retry: 'never' });
  }
  const fresh = await runtime.vault.create(tenant, scope, row.generation);
  const back = await change(runtime, tenant, scope, (seen) =>
    seen.state === 'erased' && seen.generation === row.generation ? fresh : seen,
  );
  return { generation: back.generation };
}

/** The certificate of a subject's last erasure; null when there was none. */
export async function erasureOf(runtime: Runtime, person: Person): Promise<ErasureRow | null> {
  const { scope } = await placeOf(runtime, person);
  return runtime.store.erasure(person.tenant, scope);
}

/** What is remembered of a subject. */
export async function memoriesOf(
  runtime: Runtime,
  person: Person,
  purpose: string | null,
): Promise<readonly RecalledItem[]> {
  const { scope, keyring } = await placeOf(runtime, person);
  const row = await keyRow(runtime, person.tenant, scope);
  if (row === null) return [];
  const tag = scopeTag(scope, row.generation);
  const sealer = await keyring.reader(tag);
  if (sealer === null) return [];
  return readMemories(runtime, { tenant: person.tenant, scope: tag, sealer }, purpose);
}

async function placeOf(runtime: Runtime, { tenant, subject }: Person) {
  const scope = await runtime.store.subjectScope(tenant, subject);
  const thread = { tenant, thread: scope as ThreadId };
  return { scope, keyring: new Keyring(runtime.store, runtime.vault, thread) };
}

function keyRow(runtime: Runtime, tenant: TenantId, scope: string): Promise<KeyRow | null> {
  return runtime.store.key(tenant, scope);
}

function holdContext({ tenant }: Person, scope: string) {
  return { tenant, thread: scope as ThreadId, turn: '' as const, use: 'hold', at: 0 };
}

/** Changes a key row as it was seen, counting its lifecycle; a subject never seen gets a row without a key. */
async function change(
  runtime: Runtime,
  tenant: TenantId,
  scope: string,
  decide: (row: KeyRow) => KeyRow | Promise<KeyRow>,
): Promise<KeyRow> {
  for (let round = 0; round < limits.beginRoundsMax; round += 1) {
    const row = await keyRow(runtime, tenant, scope);
    if (row === null) {
      const none: KeyRow = {
        scope,
        id: 'none',
        generation: 1,
        state: 'restricted',
        lifecycle: 0,
        wrapped: null,
      };
      const made = await runtime.store.createKey(tenant, none);
      if (made.kind === 'unknown') throw unavailable(made.cause);
      continue;
    }
    const next = await decide(row);
    if (next === row) return row;
    const counted = { ...next, lifecycle: row.lifecycle + 1 };
    const changed = await runtime.store.changeKey(tenant, row, counted);
    if (changed.kind === 'done') return counted;
    if (changed.kind === 'unknown') throw unavailable(changed.cause);
  }
  throw unavailable(new Error('the key row changed under every attempt'));
}

function gone(): TurnstoneError {
  return new TurnstoneError('subject_erased', 'the subject was erased', { retry: 'never' });
}

function unavailable(cause: unknown): TurnstoneError {
  return new TurnstoneError('store_unavailable', 'the key row could not be changed', {
    retry: 'now',
    cause,
  });
}
