// An agent as the runtime runs it: a named, versioned function over a turn, with its fingerprint.
//   K-63/K-64, decision 15: only the authority half refuses; presentation drift is recorded.
import { digestOf } from '../protocol/canonical.ts';
import type { AgentName } from '../protocol/ids.ts';
import { agentName } from '../protocol/ids.ts';
import type { Label, Sensitivity, Trust } from '../protocol/labels.ts';
import { undeclared } from '../protocol/labels.ts';
import type { InputSchema } from './input-schema.ts';
import { checkInput, refusedInput } from './input-schema.ts';
import type { Sink } from './labelled.ts';
import type { Effect, TurnContext } from './turn-context.ts';

export interface AgentDefinition {
  readonly name: AgentName;
  /** Digest of what the agent may do: declared facts of capabilities, schemas, effects, policies. */
  readonly authority: string;
  /** Digest of wording and models; drift is recorded, never refused. */
  readonly presentation: string;
  /** Authority digests of earlier versions whose threads this one may continue (K-64). */
  readonly accepts: ReadonlySet<string>;
  /** Checkpoint schema revision; a thread with a newer one is held (decision 19). */
  readonly schema: number;
  /** Single-step migrations by the revision they start from; pure, persisted by the next commit (B-66). */
  readonly migrations: ReadonlyMap<
    number,
    (state: Readonly<Record<string, unknown>>) => Record<string, unknown>
  >;
  readonly onQuarantine: 'continue' | 'block';
  /** Checks the input before anything is written; throws TurnstoneError `invalid_input` or `invalid_plan` naming the path. */
  parseInput(input: unknown): unknown;
  /** True when the turn's journal starts with the frozen plan (the plan agent). */
  readonly frozenPlan: boolean;
  run(context: TurnContext, input: unknown): Promise<unknown>;
  /** True for an effect kind this agent may perform; everything, for one that declares none. */
  declares(kind: string): boolean;
  /** The subject a delivery is about when its caller names none; throws `foreign_subject` for two. */
  subjectOf(input: unknown): string | null;
  /** How the effector performs a deferred act; null for a kind this agent does not declare. */
  act(kind: string, args: unknown): Effect<unknown> | null;
  /** What effects of this kind take in, by the agent's own declaration. */
  sinkOf(kind: string): Sink | null;
  /** What the input of a turn is. */
  readonly inputLabel: Label;
  /** True for a kind that may only be deferred: calling it inline is refused (B-29). */
  deferredOnly(kind: string): boolean;
}

/** How a deferred kind is performed: an effect without its identity. */
export type ActPerformer = (args: unknown) => Omit<Effect<unknown>, 'kind' | 'args'>;

export interface AgentOptions {
  readonly name: string;
  /** Bumped when behaviour changes; part of the authority half. Default 1. */
  readonly version?: number;
  /** Whatever else the authority covers: effect kinds, schemas, policies. JSON-like. */
  readonly authority?: unknown;
  readonly presentation?: unknown;
  readonly accepts?: readonly string[];
  readonly schema?: number;
  readonly migrations?: Readonly<
    Record<number, (state: Readonly<Record<string, unknown>>) => Record<string, unknown>>
  >;
  /** Default `continue` (decision 26). */
  readonly onQuarantine?: 'continue' | 'block';
  /** Standard Schema of the input, checked before anything is written. */
  readonly input?: InputSchema;
  /** Instead of a schema: checks the input; what it throws is told to the caller as `invalid_input`. */
  readonly parseInput?: (input: unknown) => unknown;
  readonly frozenPlan?: boolean;
  readonly run: (context: TurnContext, input: unknown) => Promise<unknown>;
  /** Deferred kinds by name; they leave with the commit and are refused inline. */
  readonly acts?: Readonly<Record<string, ActPerformer>>;
  /** Effect kinds this agent may perform; an undeclared one is refused before anybody is asked. Default: any. */
  readonly effects?: readonly string[];
  /** What effects of a kind take in, whoever calls them; part of the authority half. */
  readonly sinks?: Readonly<Record<string, Sink>>;
  /** What the input of a turn is. Default untrusted and internal. */
  readonly inputLabel?: { readonly trust?: Trust; readonly sensitivity?: Sensitivity };
  readonly subjectOf?: (input: unknown) => string | null;
  /** Instead of `acts`: performs any kind from its arguments (the plan agent). */
  readonly act?: (kind: string, args: unknown) => Effect<unknown> | null;
}

/** Defines an agent once; throws `invalid_request` for a bad name and `invalid_agent` for a gap in the migrations. */
export function defineTurnAgent(options: AgentOptions): AgentDefinition {
  const name = agentName('agent', options.name);
  const version = options.version ?? 1;
  const declared = options.effects === undefined ? null : new Set(options.effects);
  const sinks = new Map(Object.entries(options.sinks ?? {}));
  const acts = new Map(Object.entries(options.acts ?? {}));
  return {
    name,
    authority: digestOf({
      name,
      version,
      authority: options.authority ?? null,
      ...(options.effects === undefined ? {} : { effects: options.effects.toSorted() }),
      ...(options.sinks === undefined ? {} : { sinks: options.sinks }),
      ...(options.inputLabel === undefined ? {} : { inputLabel: options.inputLabel }),
    }),
    presentation: digestOf({ presentation: options.presentation ?? null }),
    accepts: new Set(options.accepts ?? []),
    schema: options.schema ?? 1,
    migrations: new Map(
      Object.entries(options.migrations ?? {}).map(([from, step]) => [Number(from), step]),
    ),
    onQuarantine: options.onQuarantine ?? 'continue',
    parseInput: (input) => parsed(options, input),
    frozenPlan: options.frozenPlan ?? false,
    run: options.run,
    declares: declared === null ? () => true : (kind) => declared.has(kind) || isOwn(kind),
    subjectOf: options.subjectOf ?? (() => null),
    act:
      options.act ??
      ((kind, args) => {
        const performer = acts.get(kind);
        return performer === undefined ? null : { ...performer(args), kind, args };
      }),
    deferredOnly: (kind) => acts.has(kind),
    sinkOf: (kind) => sinks.get(kind) ?? null,
    inputLabel: { ...undeclared('input'), ...options.inputLabel },
  };
}

function parsed(options: AgentOptions, input: unknown): unknown {
  try {
    const value = options.input === undefined ? input : checkInput(options.input, input);
    return options.parseInput === undefined ? value : options.parseInput(value);
  } catch (error) {
    throw refusedInput(error);
  }
}

/** Kinds of the runtime itself need no declaration: the agent's use of memory and cases is policy's matter. */
function isOwn(kind: string): boolean {
  return kind.startsWith('memory.') || kind.startsWith('case.');
}
