// An agent of capabilities, compiled into an agent of turns.
//
//   K-63  registration order does not change its fingerprint.
//   K-64  authority (capabilities, schemas, policies) refuses what drifts; presentation (models, words) is recorded.
//   K-74  compiled when it is defined: what is changed afterwards has no effect.
import type { Model } from '../../ports/model.ts';
import type { AgentDefinition } from '../../runtime/agent-definition.ts';
import { defineTurnAgent } from '../../runtime/agent-definition.ts';
import type { ModelTreatment } from '../model-effect.ts';
import type { Capability, Policy } from './capability.ts';
import { bad, checkVersion, compileCapabilities } from './compile.ts';
import type { Carryover, CompiledAgent, KernelLimits } from './compiled-agent.ts';
import { type Delivery, deliverySchema } from './kernel-input.ts';
import { policyKind } from './plan.ts';
import { readKind } from './run-capability.ts';
import { runKernelTurn } from './run-kernel-turn.ts';

export interface KernelAgentOptions {
  readonly name: string;
  /** Default 1; bumped when behaviour changes that the fingerprint cannot see. */
  readonly version?: number;
  readonly capabilities: readonly Capability[];
  readonly policies?: readonly Policy[];
  readonly model: Model;
  readonly treatment?: ModelTreatment;
  /** Tokens of one answer at most. */
  readonly maxOutputTokens?: number;
  /** What models are told about the work; presentation. */
  readonly guidance?: string;
  /** Exact texts of at least 3 characters that no model may see (K-89). */
  readonly redactions?: readonly string[];
  /** `results` (default): the reply is the results' own messages. `model`: a model words it, with citations. */
  readonly wording?: 'results' | 'model';
  readonly limits?: Partial<KernelLimits>;
  /**
   * Earlier authorities whose threads this one continues, by digest, and what becomes of a question that is pending
   * under one of them.
   */
  readonly continues?: Readonly<Record<string, Carryover>>;
  readonly onQuarantine?: 'continue' | 'block';
}

const defaults: KernelLimits = {
  steps: 64,
  automaticSteps: 16,
  messages: 20,
  selectAbove: 8,
  confirmationMs: 86_400_000,
};

/** Compiles an agent; throws `invalid_agent` whose `details.problem` names the mistake (K-73). */
export function defineAgent(options: KernelAgentOptions): AgentDefinition {
  const { name, policies = [], guidance = '', redactions = [], wording = 'results' } = options;
  checkVersion('invalid_agent_version', name, options.version ?? 1);
  const capabilities = compileCapabilities(options.capabilities, policies);
  const limits = limitsOf(name, options.limits ?? {});
  const short = redactions.find((text) => text.length < 3);
  if (short !== undefined) {
    throw bad('invalid_guidance', name, 'redactions of at least 3 characters', short);
  }
  const treatment = options.treatment ?? {};
  const compiled: CompiledAgent = Object.freeze({
    name,
    capabilities,
    names: { facts: capabilities.facts, capabilities: [...capabilities.byId.keys()].toSorted() },
    policies: Object.freeze([...policies]),
    guidance,
    redactions: Object.freeze([...redactions]),
    model: { model: options.model, treatment, maxOutputTokens: options.maxOutputTokens },
    wording,
    limits,
    carryover: new Map(Object.entries(options.continues ?? {})),
    authority: () => definition.authority,
  });
  const definition: AgentDefinition = defineTurnAgent({
    name,
    version: options.version ?? 1,
    authority: capabilities.manifest,
    presentation: { model: options.model.id, guidance, wording, redactions: redactions.length },
    accepts: Object.keys(options.continues ?? {}),
    onQuarantine: options.onQuarantine ?? 'continue',
    input: deliverySchema,
    effects: effectsOf(compiled, treatment.kind ?? 'model.complete'),
    run: (context, input) => runKernelTurn(context, compiled, input as Delivery),
  });
  return definition;
}

function effectsOf({ capabilities, policies }: CompiledAgent, model: string): readonly string[] {
  const own = [...capabilities.byId.values()].flatMap(({ id, effect }) => {
    if (effect === 'none') return [];
    return effect === 'read' ? [readKind(id)] : [readKind(id), id];
  });
  return [model, ...own, ...policies.map(({ id }) => policyKind(id))];
}

function limitsOf(name: string, given: Partial<KernelLimits>): KernelLimits {
  const limits = { ...defaults, ...given };
  for (const [key, value] of Object.entries(limits)) {
    const least = key === 'messages' || key === 'automaticSteps' || key === 'selectAbove' ? 0 : 1;
    if (Number.isSafeInteger(value) && value >= least) continue;
    if (key === 'confirmationMs' && Number.isSafeInteger(value)) continue;
    throw bad('invalid_kernel_limit', `${name}: limits.${key}`, `at least ${least}`, String(value));
  }
  return Object.freeze(limits);
}
