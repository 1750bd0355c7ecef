// The part of the store port that keeps people: their keys' lifecycle, their memory, what was erased.
//   T12  a key row changes only as it was seen, and every change counts its lifecycle: whoever read it before
//        is refused at the commit (page 09, rule 8).
import type { EpochMs, TenantId } from '../protocol/ids.ts';
import type { Sensitivity } from '../protocol/labels.ts';
import type { DerivedVersion, VersionName } from '../protocol/lineage.ts';
import type { SealedPayload, Unknown } from './store.ts';

/** A wrapped data key row of the KEYS table. `scope` is `t<0..15>` or `s<hash of the subject>`. */
export interface KeyRow {
  readonly scope: string;
  readonly id: string;
  readonly generation: number;
  readonly state: 'live' | 'restricted' | 'erased';
  /** Lifecycle epoch (page 09, rule 8). */
  readonly lifecycle: number;
  readonly wrapped: Uint8Array | null;
  /** A legal hold: the erasure of this subject is refused while it stands. */
  readonly hold?: { readonly by: string; readonly at: EpochMs; readonly reason: Uint8Array };
  /** A removal that is larger than one transaction and on its way: nobody writes memory until it is done. */
  readonly removal?: MemoryRemoval;
}

export type KeyChanged =
  | { readonly kind: 'done' }
  | { readonly kind: 'lost'; readonly key: KeyRow | null }
  | Unknown;

/** What an erasure destroyed; the certificate. */
export interface ErasureRow {
  readonly id: string;
  readonly state: 'keys_destroyed' | 'complete' | 'cleanup_failed';
  readonly generation: number;
  readonly by: string;
  readonly at: EpochMs;
  readonly items: number;
  readonly versions: number;
}

/** One version of a remembered fact, as the store keeps it. */
export interface MemoryVersion {
  /** Hashed name of (tenant, id). */
  readonly key: string;
  readonly version: number;
  readonly purpose: string;
  readonly trusted: boolean;
  /** Absent: internal. */
  readonly sensitivity?: Sensitivity;
  readonly scope: string;
  /** Sealed id, content, label, lineage. */
  readonly payload: SealedPayload;
  /** Keyed digest over content and everything that governs it (ME-9). */
  readonly commitment: string;
  readonly createdAt: EpochMs;
  readonly expiresAt: EpochMs | null;
  /** Milliseconds it may be left unread before a sweep takes it; absent for ever. */
  readonly windowMs?: number;
  /** Versions of the same subject it was made from, with their commitments (ME-7, ME-18). */
  readonly derivedFrom?: readonly (VersionName & { readonly commitment: string })[];
}

/** What stands of one id: its current version with what changes beside it. */
export interface MemoryItem {
  readonly key: string;
  /** Null for a tombstone: the id stays used and its edges stay known. */
  readonly current: MemoryVersion | null;
  /** End of the access window; a refresh moves it. */
  readonly accessUntil: EpochMs | null;
  readonly held: { readonly by: string; readonly at: EpochMs } | null;
  /** Versions that were removed, with their edges. */
  readonly gone: readonly DerivedVersion[];
  /** Counts removals and holds of this id. */
  readonly changes: number;
}

/** A forgetting that is going on. */
export interface MemoryRemoval {
  readonly id: string;
  readonly kind: 'forget' | 'cascade' | 'sweep';
  /** Hashed id; null for a sweep. */
  readonly key: string | null;
  /** What had lapsed by then goes; null unless it is a sweep. */
  readonly cutoff: EpochMs | null;
}

/** A change of one id, over what was seen of it. */
export interface MemoryChange {
  readonly seen: MemoryItem;
  readonly next: Pick<MemoryItem, 'held' | 'gone'> & { readonly tombstone: boolean };
  /** Versions whose rows go. */
  readonly removed: readonly number[];
}

/** A version that becomes current with a commit, over what was current when it was prepared. */
export interface MemoryWrite {
  readonly next: MemoryVersion;
  /** Version that was current; 0 for a new id. */
  readonly seen: number;
  /** False for a version that the same turn supersedes. */
  readonly current: boolean;
}

export interface SubjectStore {
  /** Scope of a subject, without its generation. */
  subjectScope(tenant: TenantId, subject: string): Promise<string>;
  changeKey(tenant: TenantId, seen: KeyRow, next: KeyRow): Promise<KeyChanged>;
  erasure(tenant: TenantId, scope: string): Promise<ErasureRow | null>;
  /** Keeps the certificate, and the erasure's own row in the ledger. Idempotent. */
  putErasure(tenant: TenantId, scope: string, row: ErasureRow): Promise<void>;
  /** Makes what was deleted unreadable in the files of this store too; false when a reader prevents it. */
  scrub(): Promise<boolean>;

  memoryKey(tenant: TenantId, id: string): Promise<string>;
  /** Current versions of a subject. */
  memories(scope: string): Promise<readonly (MemoryItem & { readonly current: MemoryVersion })[]>;
  /** Current version of each id, and the scope its id belongs to; null for an id never used. */
  memoryHeads(
    scope: string,
    keys: readonly string[],
  ): Promise<readonly { readonly version: number; readonly owner: string | null }[]>;
  /** Versions by key and number, whether current or not; null when they are gone. */
  memoryVersions(
    scope: string,
    wanted: readonly { readonly key: string; readonly version: number }[],
  ): Promise<readonly (MemoryVersion | null)[]>;
  /** Everything of a subject: ids with their tombstones, and every version that stands. */
  memoryLineage(scope: string): Promise<{
    readonly items: readonly MemoryItem[];
    readonly versions: readonly MemoryVersion[];
  }>;
  /**
   * Changes ids, and writes versions of imports, together with the key row of their subject, in one transaction of at most 100 writes; without a
   * key it is a part of a removal that the key row announces.
   */
  changeMemories(
    tenant: TenantId,
    key: { readonly seen: KeyRow; readonly next: KeyRow } | null,
    scope: string,
    changes: readonly MemoryChange[],
    writes?: readonly MemoryWrite[],
  ): Promise<{ readonly kind: 'done' | 'lost' } | Unknown>;
  /** Removes version rows, at most 100, whose ids say that they are gone. Idempotent. */
  dropVersions(scope: string, versions: readonly VersionName[]): Promise<void>;
  /** Moves the end of an access window, never back and only of that version. Idempotent. */
  touchMemory(scope: string, of: VersionName, until: EpochMs): Promise<void>;
  /** Removes every memory row of a subject; its ids stay reserved. Answers how many went. */
  dropMemories(scope: string): Promise<{ readonly items: number; readonly versions: number }>;
}

/** A long-lived matter several threads and turns touch. */
export interface CaseRow {
  readonly id: string;
  readonly version: number;
  readonly status: string;
  readonly scope: string;
  readonly payload: SealedPayload;
  readonly deadlines: readonly {
    readonly name: string;
    readonly at: EpochMs;
    readonly state: 'open' | 'met';
  }[];
  readonly turns: readonly { readonly thread: string; readonly turn: string }[];
  /** The last writers' keys with the version each one made: how a repeat finds its own write (E234). */
  readonly writers: readonly { readonly key: string; readonly version: number }[];
}

export interface CaseStore {
  caseRow(tenant: TenantId, id: string): Promise<CaseRow | null>;
  /** Writes a case over the version seen; 0 for a new one. */
  putCase(
    tenant: TenantId,
    row: CaseRow,
    seen: number,
  ): Promise<{ kind: 'done' | 'lost' } | Unknown>;
}
