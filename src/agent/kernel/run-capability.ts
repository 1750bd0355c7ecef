// One run of a capability as a step of the turn, and what its result must keep to before it counts.
//
//   K-22  only a write may write; K-53 and only with its consent.
//   K-39  a write that says it is done has at least one call that was recorded.
//   K-84  only declared facts, with evidence that exists, and an output that fits its schema.
import { AgentError } from '../../protocol/errors.ts';
import type { InputSchema } from '../../runtime/input-schema.ts';
import { checkInput } from '../../runtime/input-schema.ts';
import type { TurnContext } from '../../runtime/turn-context.ts';
import type { Call, CapabilityContext, CapabilityResult, FactKey } from './capability.ts';
import type { CompiledCapability } from './compile.ts';
import type { CompiledAgent } from './compiled-agent.ts';
import type { FactRecord, KernelState } from './kernel-state.ts';
import { frozen } from './kernel-state.ts';
import type { Work } from './plan.ts';

/** A result that was checked. */
export interface Ran {
  readonly step: string;
  readonly result: CapabilityResult;
  /** Records of the facts it publishes, evidence inlined. */
  readonly facts: ReadonlyMap<FactKey, FactRecord>;
}

/** Effect kind of a capability's reads; its writes carry its own id, so that receipts are its own (K-23). */
export function readKind(capability: string): string {
  return `${capability}.read`;
}

/** Runs and checks. Throws AgentError with the code of the rule that was broken; the turn then commits nothing. */
export async function runCapability(
  context: TurnContext,
  agent: CompiledAgent,
  state: KernelState,
  run: {
    readonly work: Work;
    readonly capability: CompiledCapability;
    readonly input: unknown;
    readonly step: string;
  },
): Promise<Ran> {
  const { capability, step } = run;
  const evidence = new Map<string, string>();
  const counts = { landed: 0, open: 0 };
  // A turn that fails takes nothing back: what landed is in the ledger, and a later yes finds it there (K-09, K-40).
  const result = await context.step(step, { compensation: 'unnecessary' }, async (own) =>
    tellingOf(own, capability.id, (emit) =>
      capability.definition.run(contextOf(own, state, run, { evidence, counts, emit })),
    ),
  );
  check(agent, capability, result, counts);
  const facts = result.kind === 'completed' ? factsOf(context, state, run, result, evidence) : [];
  return { step, result, facts: new Map(facts) };
}

/** K-67: the events of one run are a chain of their own, up to what it came to. */
async function tellingOf(
  own: TurnContext,
  id: string,
  run: (emit: (type: string) => void) => Promise<CapabilityResult> | CapabilityResult,
): Promise<CapabilityResult> {
  let last: { readonly causation?: string } = {};
  const result = frozen(
    await run((type) => {
      last = { causation: own.emit({ type: `${id}.${type}`, ...last }) };
    }),
  );
  own.emit({ type: `capability.${result.kind}`, category: 'audit', ...last });
  return result;
}

function contextOf(
  own: TurnContext,
  state: KernelState,
  run: { readonly work: Work; readonly capability: CompiledCapability; readonly input: unknown },
  kept: {
    readonly evidence: Map<string, string>;
    readonly counts: { landed: number; open: number };
    readonly emit: (type: string) => void;
  },
): CapabilityContext {
  const { evidence, counts, emit } = kept;
  const { capability, work } = run;
  const { id, effect } = capability;
  return Object.freeze({
    input: run.input,
    resumed: work.resumed,
    fact: (key: FactKey) => state.facts.get(key)?.value,
    read: async <T>(call: Call<T>): Promise<T> => {
      if (effect === 'none') throw refused('effect_not_allowed', `${id}: its effect is "none"`);
      return own.effect({ ...call, kind: readKind(id), mutates: false });
    },
    write: async <T>(key: string, call: Call<T>): Promise<T> => {
      if (effect !== 'write') {
        throw refused('effect_not_allowed', `${id}: its effect is "${effect}"`);
      }
      if (!consented(run)) {
        throw refused('effect_consent_missing', `${id}: a write before a yes to its question`);
      }
      counts.open += 1;
      const value = await own.effect({ ...call, kind: id, key, mutates: true });
      counts.open -= 1;
      counts.landed += 1;
      return value;
    },
    cite: (text: string) => {
      const name = `e${evidence.size + 1}`;
      evidence.set(name, text);
      return name;
    },
    emit,
    now: () => own.now(),
    uuid: () => own.uuid(),
  });
}

/** The kernel's own gate stands before a `required` run; a `capability` run needs the yes in this very step. */
function consented({
  work,
  capability,
}: {
  readonly work: Work;
  readonly capability: CompiledCapability;
}): boolean {
  if (capability.confirmation === 'capability') return work.resumed?.accepted === true;
  return work.consent !== null;
}

function check(
  agent: CompiledAgent,
  capability: CompiledCapability,
  result: CapabilityResult,
  counts: { readonly landed: number; readonly open: number },
): void {
  const { id, effect } = capability;
  switch (result.kind) {
    case 'completed':
      // A failed call that was caught leaves `open` above 0: it was not the write that completed (K-39).
      if (effect === 'write' && (counts.landed === 0 || counts.open > 0)) {
        throw refused(
          'write_effect_not_coordinated',
          `${id}: expected at least one write, and none that failed, got ${counts.landed} and ${counts.open}`,
        );
      }
      fits(id, 'invalid_capability_output', capability.definition.output, result.output);
      return;
    case 'needs_input': {
      noFacts(id, result);
      const foreign = (result.invalidates ?? []).find((fact) => !mayInvalidate(capability, fact));
      if (foreign !== undefined) throw refused('undeclared_fact', `${id}: invalidates ${foreign}`);
      return;
    }
    case 'needs_dependency':
      noFacts(id, result);
      return checkDependency(agent, id, result);
    case 'needs_confirmation':
      noFacts(id, result);
      if (capability.confirmation !== 'capability') {
        throw refused(
          'invalid_capability_interaction',
          `${id}: only a capability with confirmation "capability" asks for one`,
        );
      }
      return;
    case 'failed':
      noFacts(id, result);
      return;
    default:
      throw refused('invalid_capability_result', `${id}: got ${JSON.stringify(result)}`);
  }
}

/** K-76: only a completed run publishes. */
function noFacts(id: string, result: CapabilityResult): void {
  if ('facts' in result) {
    throw refused('invalid_capability_interaction', `${id}: facts beside ${result.kind}`);
  }
}

function mayInvalidate(capability: CompiledCapability, fact: FactKey): boolean {
  return capability.invalidates.includes(fact) || capability.provides.includes(fact);
}

function checkDependency(
  agent: CompiledAgent,
  id: string,
  asked: Extract<CapabilityResult, { kind: 'needs_dependency' }>,
): void {
  if (asked.capability === id) throw refused('dependency_on_itself', `${id}: it named itself`);
  const provider = agent.capabilities.byId.get(asked.capability);
  if (provider === undefined) {
    throw refused('capability_not_registered', `${id}: there is no "${asked.capability}"`);
  }
  if (!provider.provides.includes(asked.fact)) {
    throw refused('fact_not_provided', `${id}: ${provider.id} does not provide ${asked.fact}`);
  }
}

function factsOf(
  context: TurnContext,
  state: KernelState,
  { capability, step }: { readonly capability: CompiledCapability; readonly step: string },
  result: Extract<CapabilityResult, { kind: 'completed' }>,
  evidence: ReadonlyMap<string, string>,
): readonly (readonly [FactKey, FactRecord])[] {
  return (result.facts ?? []).map(({ fact, value, evidence: ids = [] }) => {
    const schema = capability.definition.provides?.[fact];
    if (schema === undefined || !capability.provides.includes(fact)) {
      throw refused('undeclared_fact', `${capability.id}: it does not provide ${fact}`);
    }
    const record: FactRecord = {
      value: fits(capability.id, 'invalid_capability_output', schema, value),
      evidence: ids.map((name) => evidenceOf(capability.id, name, state, evidence)),
      producedBy: {
        capability: capability.id,
        version: capability.version,
        turn: context.turn,
        step,
      },
      dependsOn: capability.requires,
    };
    return [fact, frozen(record)] as const;
  });
}

function evidenceOf(
  id: string,
  name: string,
  state: KernelState,
  cited: ReadonlyMap<string, string>,
): string {
  const own = cited.get(name);
  if (own !== undefined) return own;
  const message = state.messages.find(({ index }) => `m${index}` === name);
  if (message !== undefined) return message.text;
  const fact = state.facts.get(name.slice(2));
  if (name.startsWith('f:') && fact !== undefined) return JSON.stringify(fact.value);
  throw refused('unknown_evidence', `${id}: there is no evidence "${name}"`);
}

function fits(id: string, code: string, schema: InputSchema, value: unknown): unknown {
  try {
    return checkInput(schema, value);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new AgentError(`${id}: ${message}`, { code, cause: error });
  }
}

function refused(code: string, message: string): AgentError {
  return new AgentError(message, { code });
}
