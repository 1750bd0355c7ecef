// Reading a thread's checkpoint into a folded state, and the checkpoint that follows a commit.
//   T1   the next checkpoint is the latest one and this turn's changes, never a rebuilt copy (K-08).
//   T12  segments of an erased subject are skipped; nobody else's share goes with them (B16).

import type { Checkpoint, CheckpointSegment, PartSet, ThreadRef, TurnRef } from '../ports/store.ts';
import { encode } from '../protocol/canonical.ts';
import type { FoldedState, OrderedChange, StateChange } from '../protocol/checkpoint.ts';
import {
  changesText,
  compactChanges,
  emptyState,
  foldShares,
  foldState,
  sharesOf,
} from '../protocol/checkpoint.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';
import { migrateState } from '../protocol/migration.ts';
import type { AgentDefinition } from './agent-definition.ts';
import type { Keyring } from './keyring.ts';
import { openPayload, sealText } from './payloads.ts';
import type { Runtime } from './runtime.ts';

/** The state a checkpoint stands for, migrated to the agent's schema in memory only (B-66). */
export async function loadState(
  runtime: Runtime,
  keyring: Keyring,
  ref: TurnRef,
  checkpoint: Checkpoint | null,
  agent: AgentDefinition,
): Promise<FoldedState> {
  if (checkpoint === null) return emptyState;
  const base = await loadBase(runtime, keyring, ref, checkpoint);
  let state = base;
  for (const segment of checkpoint.tail) {
    const changes = await openSegment(runtime, keyring, ref, segment);
    if (changes !== null)
      state = foldState(state, segment.scope, changes as readonly StateChange[]);
  }
  if (checkpoint.schema === agent.schema) return state;
  const scope = await runtime.store.scopeOf(ref, null);
  return migrated(state, checkpoint.schema, agent, scope);
}

/**
 * The checkpoint as it stood at a revision: what a turn was admitted under, however many committed since
 * (ruling 10). Snapshots archive the checkpoint they replace.
 */
export async function checkpointAt(
  runtime: Runtime,
  ref: ThreadRef,
  latest: Checkpoint | null,
  revision: number,
): Promise<Checkpoint | null> {
  if (revision === 0) return null;
  let checkpoint = latest;
  while (checkpoint !== null && checkpoint.base !== null && checkpoint.base.revision > revision) {
    checkpoint = await runtime.store.archived(ref, checkpoint.base.revision);
  }
  if (checkpoint === null) return null;
  const tail = checkpoint.tail.filter((segment) => segment.revision <= revision);
  return { ...checkpoint, revision, tail };
}

async function loadBase(
  runtime: Runtime,
  keyring: Keyring,
  ref: TurnRef,
  checkpoint: Checkpoint,
): Promise<FoldedState> {
  if (checkpoint.base === null) return emptyState;
  const segments = await runtime.store.snapshot(ref, checkpoint.base);
  const shares = new Map<string, readonly OrderedChange[]>();
  for (const segment of segments) {
    const share = await openSegment(runtime, keyring, ref, segment);
    if (share !== null) shares.set(segment.scope, share as readonly OrderedChange[]);
  }
  return foldShares(shares);
}

async function openSegment(
  runtime: Runtime,
  keyring: Keyring,
  ref: TurnRef,
  segment: CheckpointSegment,
): Promise<unknown> {
  const sealer = await keyring.reader(segment.scope);
  if (sealer === null) return null;
  return openPayload(
    runtime.store,
    sealer,
    checkpointContext(ref, segment.revision),
    segment.payload,
  );
}

function checkpointContext(ref: TurnRef, revision: number) {
  return {
    tenant: ref.tenant,
    thread: ref.thread,
    turn: '' as const,
    use: 'checkpoint',
    at: revision,
  };
}

/** Decision 19: throws `schema_from_future` for a revision this build does not know, before anything is written. */
export function checkSchema(found: number, agent: AgentDefinition): void {
  if (found <= agent.schema) return;
  throw new TurnstoneError(
    'schema_from_future',
    `checkpoint schema: expected at most ${agent.schema}, got ${found}`,
    { retry: 'never', details: { expected: agent.schema, got: found } },
  );
}

/** B-66: every step from the stored revision to the agent's, in memory; throws `invalid_agent` for a missing one. */
export function migrated(
  state: FoldedState,
  from: number,
  agent: AgentDefinition,
  scope: string,
): FoldedState {
  checkSchema(from, agent);
  let next = state;
  for (let revision = from; revision < agent.schema; revision += 1) {
    const step = agent.migrations.get(revision);
    if (step === undefined) {
      throw new TurnstoneError(
        'invalid_agent',
        `agent "${agent.name}" migrations.${revision}: expected a step to revision ${revision + 1}, got none`,
        { retry: 'never', details: { field: `migrations.${revision}` } },
      );
    }
    next = migrateState(next, step, scope);
  }
  return next;
}

/** The checkpoint a commit writes, and what must be stored before it. */
export interface NextCheckpoint {
  readonly next: Checkpoint;
  readonly parts: readonly PartSet[];
  readonly snapshot: {
    readonly revision: number;
    readonly segments: readonly CheckpointSegment[];
    readonly archived: Checkpoint | null;
  } | null;
}

/** Adds this turn's changes to the latest checkpoint; takes a snapshot of the loaded state when the tail is long. */
export async function nextCheckpoint(of: {
  readonly ref: TurnRef;
  readonly keyring: Keyring;
  readonly latest: Checkpoint | null;
  /** The latest state; read only when a snapshot is taken. */
  readonly loaded: () => Promise<FoldedState>;
  readonly scope: string;
  readonly changes: readonly StateChange[];
  readonly schema: number;
}): Promise<NextCheckpoint> {
  const revision = (of.latest?.revision ?? 0) + 1;
  const parts: PartSet[] = [];
  const segments: CheckpointSegment[] = [];
  if (of.changes.length > 0) {
    segments.push(
      await sealSegment(of, of.scope, revision, changesText(compactChanges(of.changes)), parts),
    );
  }
  const tail = [...(of.latest?.tail ?? []), ...segments];
  const raised = of.latest !== null && of.latest.schema !== of.schema;
  const long = tailBytes(tail) > limits.checkpointTailBytes && (of.latest?.tail.length ?? 0) > 0;
  if (!long && !raised) {
    const next = { revision, schema: of.schema, base: of.latest?.base ?? null, tail };
    return { next, parts, snapshot: null };
  }
  const from = of.latest?.revision ?? 0;
  const shares: CheckpointSegment[] = [];
  for (const [scope, share] of sharesOf(await of.loaded())) {
    shares.push(await sealSegment(of, scope, from, encode(share), parts));
  }
  const base = { revision: from, count: shares.length };
  const snapshot = { revision: from, segments: shares, archived: of.latest };
  return { next: { revision, schema: of.schema, base, tail: segments }, parts, snapshot };
}

async function sealSegment(
  of: { readonly ref: TurnRef; readonly keyring: Keyring },
  scope: string,
  revision: number,
  text: string,
  parts: PartSet[],
): Promise<CheckpointSegment> {
  const sealer = await of.keyring.writer(scope);
  const sealed = sealText(sealer, checkpointContext(of.ref, revision), text);
  if (sealed.parts !== null) parts.push(sealed.parts);
  return { revision, scope, payload: sealed.payload };
}

function tailBytes(tail: readonly CheckpointSegment[]): number {
  return tail.reduce(
    (sum, { payload }) => sum + (payload.kind === 'inline' ? payload.bytes.byteLength : 96),
    0,
  );
}

/** Why a turn's changes may not be committed: its thread's state would grow past the limit. Shrinking is always allowed. */
export function overgrowth(
  state: FoldedState,
  scope: string,
  changes: readonly StateChange[],
): { readonly code: string; readonly message: string } | null {
  if (changes.length === 0) return null;
  const size = bytesOf(foldState(state, scope, changes));
  if (size <= limits.checkpointBytesMax || size <= bytesOf(state)) return null;
  return {
    code: 'checkpoint_too_large',
    message: `the thread's state: expected at most ${limits.checkpointBytesMax} bytes, got ${size}`,
  };
}

function bytesOf(state: FoldedState): number {
  let bytes = 0;
  for (const [, share] of sharesOf(state)) bytes += Buffer.byteLength(encode(share));
  return bytes;
}
