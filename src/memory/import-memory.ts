// Import tooling: complete facts, trust included, written outside any turn (ME-26). No agent can reach it.
//   ME-6 an id that was used is not used again; T12 nothing is written for a person who was erased.
import type { SubjectId, TenantId } from '../protocol/ids.ts';
import type { Label } from '../protocol/labels.ts';
import type { ImportedFact } from '../runtime/import-fact.ts';
import { importFact } from '../runtime/import-fact.ts';
import type { Runtime } from '../runtime/runtime.ts';

/** A fact with its label, as whoever imports it vouches for. */
export interface ImportedMemory extends Omit<ImportedFact, 'label'> {
  readonly trust: Label['trust'];
  readonly sensitivity: Label['sensitivity'];
  /** Where it comes from; at least one. */
  readonly sources: readonly string[];
}

/** Writes a new id, or the next version of one of this subject. Throws `foreign_subject`, `memory_id_reserved`, `subject_erased`. */
export async function importMemory(
  runtime: Runtime,
  person: { readonly tenant: TenantId; readonly subject: SubjectId },
  { trust, sensitivity, sources, ...fact }: ImportedMemory,
): Promise<{ readonly version: number }> {
  return importFact(runtime, person, { ...fact, label: { trust, sensitivity, sources } });
}
