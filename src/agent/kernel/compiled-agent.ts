// A compiled agent as the phases of a turn see it.
import type { Policy } from './capability.ts';
import type { CompiledCapabilities } from './compile.ts';
import type { KernelNames } from './kernel-state.ts';
import type { ModelUse } from './model-words.ts';

/** What becomes of a question that was asked under another authority (K-64). */
export type Carryover = 'accept' | 'ask_again' | 'drop';

export interface KernelLimits {
  /** Capability runs of one turn (K-19). Default 64. */
  readonly steps: number;
  /** Of them, runs nobody asked for by words. Default 16. */
  readonly automaticSteps: number;
  /** Messages a model sees, and the checkpoint keeps at least. Default 20; 0 is legal. */
  readonly messages: number;
  /** Capabilities above which a model first selects among summaries. Default 8. */
  readonly selectAbove: number;
  /** How long a confirmation stands. Default 24 h. */
  readonly confirmationMs: number;
}

export interface CompiledAgent {
  readonly name: string;
  readonly capabilities: CompiledCapabilities;
  readonly names: KernelNames;
  readonly policies: readonly Policy[];
  readonly guidance: string;
  /** Exact texts taken out of everything a model sees (K-89). */
  readonly redactions: readonly string[];
  readonly model: ModelUse;
  /** Whether a model words the reply; else it is composed of the results' own messages. */
  readonly wording: 'results' | 'model';
  readonly limits: KernelLimits;
  readonly carryover: ReadonlyMap<string, Carryover>;
  /** Own authority digest. */
  authority(): string;
}
