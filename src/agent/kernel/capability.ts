// What an agent can do, as its author declares it: data and functions, checked by compile.ts before any turn.
//
// Writes and reads of a capability are effects of the turn: announced, recorded and read back like any other.
import type { InputSchema } from '../../runtime/input-schema.ts';
import type { Effect } from '../../runtime/turn-context.ts';

/** A fact's identity: `order@1`. Another version is another fact (K-83). */
export type FactKey = string;

export type EffectClass = 'none' | 'read' | 'write';

/** Who asks before a write: nobody, the kernel, or the capability itself with its own question (K-53). */
export type ConfirmationMode = 'none' | 'required' | 'capability';

/** A Standard Schema that can also say itself as JSON Schema, as Zod and ArkType do. */
export interface ModelSchema<T = unknown> extends InputSchema<T> {
  readonly '~standard': InputSchema<T>['~standard'] & {
    readonly jsonSchema?: {
      readonly input: (options: { readonly target: 'draft-2020-12' }) => Record<string, unknown>;
    };
  };
}

/** An effect without its identity: kind and class come from the capability. */
export type Call<T> = Omit<Effect<T>, 'kind' | 'key' | 'mutates'> & { readonly kind?: string };

/** The answer a capability's own question got. A declined one never comes back to it. */
export interface Resumed {
  /** True when the person accepted a confirmation, strictly. */
  readonly accepted: boolean;
  /** The chosen option of a question with options. */
  readonly option: string | null;
  /** What the capability kept with its question, as it was. */
  readonly payload: unknown;
}

export interface CapabilityContext {
  /** Validated, frozen. */
  readonly input: unknown;
  /** Set when a question of this capability was answered. */
  readonly resumed: Resumed | null;
  /** Value of a known fact it requires or may use; undefined when it is not known. Frozen (K-66). */
  fact(key: FactKey): unknown;
  /** A call that changes nothing; refused for effect `none`. */
  read<T>(call: Call<T>): Promise<T>;
  /**
   * The one door to the outside for a write: runs once in the thread under this business key (K-23 to K-41). Throws
   * `effect_not_allowed` unless the capability is a write, `effect_consent_missing` before its consent.
   */
  write<T>(key: string, call: Call<T>): Promise<T>;
  /** Registers a piece of evidence and answers its id, for facts. */
  cite(text: string): string;
  /** Tells the outside by name that something happened, should the turn commit; caused by the run's last event. */
  emit(type: string): void;
  /** Instant of the last settled record. */
  now(): number;
  uuid(): string;
}

export interface PublishedFact {
  readonly fact: FactKey;
  readonly value: unknown;
  /** Ids of evidence: from `cite`, `m<index>` of a message, or `f:<fact>`. */
  readonly evidence?: readonly string[];
}

/** A question a capability asks; `options` are [id, text]. */
export interface Question {
  readonly text: string;
  readonly options?: readonly (readonly [id: string, text: string])[];
  readonly payload?: unknown;
}

/** What a run came to (K-76). Only `completed` publishes facts. */
export type CapabilityResult =
  | {
      readonly kind: 'completed';
      readonly output: unknown;
      readonly facts?: readonly PublishedFact[];
      /** What the person is told; may be reworded, never left out (K-91). */
      readonly message?: string;
      /** Told verbatim, and never shown to a model (K-92). */
      readonly protectedMessage?: string;
    }
  | {
      readonly kind: 'needs_input';
      readonly question: Question;
      /** Declared facts that no longer hold (K-85). */
      readonly invalidates?: readonly FactKey[];
    }
  | {
      readonly kind: 'needs_dependency';
      readonly fact: FactKey;
      readonly capability: string;
      readonly input: unknown;
    }
  | {
      readonly kind: 'needs_confirmation';
      readonly summary: string;
      readonly payload?: unknown;
      /** Default: the agent's. Not positive means expired already (K-52). */
      readonly expiresInMs?: number;
    }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string };

export interface Capability {
  /** Lower case, parts joined by `.` or `-`. */
  readonly id: string;
  /** Default 1; bumped when behaviour changes. */
  readonly version?: number;
  readonly description: string;
  readonly effect: EffectClass;
  /** Default `none`, which a write may not have (K-54). */
  readonly confirmation?: ConfirmationMode;
  readonly input: ModelSchema;
  /** JSON Schema of the input, for schemas that cannot say it themselves. */
  readonly inputJson?: Readonly<Record<string, unknown>>;
  readonly output: InputSchema;
  readonly requires?: readonly FactKey[];
  /** Facts it may publish, with the schema of each value. */
  readonly provides?: Readonly<Record<FactKey, InputSchema>>;
  /** Facts that stop holding when it has published (K-85). */
  readonly invalidates?: readonly FactKey[];
  /**
   * Makes its input from that of a capability waiting for its facts: the kernel then runs it unasked. Absent: it
   * runs only when it is asked for. Never for a write.
   */
  readonly automatic?: (consumer: {
    readonly capability: string;
    readonly input: unknown;
  }) => unknown;
  /** What a confirmation says; default the description and the input. */
  readonly confirmationText?: (input: unknown) => string;
  /** How models see its facts (K-89). Default `full`. */
  readonly visibility?: 'full' | 'presence' | 'hidden';
  readonly run: (context: CapabilityContext) => Promise<CapabilityResult> | CapabilityResult;
}

export interface PolicyAsked {
  readonly capability: string;
  readonly effect: EffectClass;
  readonly input: unknown;
  fact(key: FactKey): unknown;
  /** A call that changes nothing: an answer from outside is recorded and read back. */
  read<T>(call: Call<T>): Promise<T>;
}

export type PolicyVerdict =
  | { readonly kind: 'allow' }
  | { readonly kind: 'deny'; readonly message: string }
  | { readonly kind: 'clarify'; readonly question: string }
  | { readonly kind: 'confirm'; readonly summary?: string };

/** Asked in order before every run; the first that does not allow wins (K-55). */
export interface Policy {
  readonly id: string;
  readonly version?: number;
  readonly decide: (asked: PolicyAsked) => Promise<PolicyVerdict> | PolicyVerdict;
}
