// What becomes of each piece of work this round, in the planner's fixed order, and which writes exclude each other.
//
//   K-80  ambiguous, unregistered, declined, input, policies, facts, confirmation, then run.
//   K-46  a consent skips the confirmation gate alone; everything before it is asked again.
//   K-81  two writes in no declared order: neither runs, the person chooses.
import { digestOf } from '../../protocol/canonical.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import { checkInput } from '../../runtime/input-schema.ts';
import type { TurnContext } from '../../runtime/turn-context.ts';
import type { FactKey, PolicyVerdict, Resumed } from './capability.ts';
import type { CompiledCapability } from './compile.ts';
import type { CompiledAgent } from './compiled-agent.ts';
import type { AgendaItem, Consent, KernelState } from './kernel-state.ts';
import { frozen } from './kernel-state.ts';

/** A piece of work on its way through a turn. */
export interface Work {
  readonly item: AgendaItem;
  /** A reading the model was not sure of: what to ask. */
  readonly ambiguous: string | null;
  /** The yes this work goes on with. */
  readonly consent: Consent | null;
  /** What its own question was answered with. */
  readonly resumed: Resumed | null;
  /** True when nobody asked for it by words in this turn. */
  readonly automatic: boolean;
}

export type Decision = { readonly work: Work } & (
  | { readonly kind: 'reject'; readonly code: string; readonly message: string }
  | { readonly kind: 'clarify'; readonly code: string; readonly question: string }
  | { readonly kind: 'await_facts'; readonly missing: readonly FactKey[]; readonly code: string }
  | {
      readonly kind: 'confirm';
      readonly text: string;
      readonly code: string;
      readonly input: unknown;
    }
  | { readonly kind: 'run'; readonly capability: CompiledCapability; readonly input: unknown }
);

/** Higher is asked first; ties go to what came first. */
export const priorities = {
  conflict: 110,
  ambiguous: 100,
  policy: 90,
  input: 80,
  capability: 75,
  facts: 70,
  confirmation: 60,
} as const;

export async function decide(
  context: TurnContext,
  agent: CompiledAgent,
  state: KernelState,
  work: Work,
): Promise<Decision> {
  const { item, consent } = work;
  if (work.ambiguous !== null) {
    return { work, kind: 'clarify', code: 'ambiguous', question: work.ambiguous };
  }
  const capability = agent.capabilities.byId.get(item.capability);
  if (capability === undefined) {
    const message = `there is no capability "${item.capability}"`;
    return { work, kind: 'reject', code: 'capability_not_registered', message };
  }
  const checked = validInput(capability, item.input);
  if ('problem' in checked) {
    return { work, kind: 'clarify', code: 'invalid_input', question: checked.problem };
  }
  const { input } = checked;
  const verdict = await askPolicies(context, agent, state, capability, input);
  if (verdict.kind === 'deny') {
    return { work, kind: 'reject', code: 'policy_denied', message: verdict.message };
  }
  if (verdict.kind === 'clarify') {
    return { work, kind: 'clarify', code: 'policy_clarify', question: verdict.question };
  }
  const missing = capability.requires.filter((fact) => !state.facts.has(fact));
  if (missing.length > 0) {
    return { work, kind: 'await_facts', missing, code: 'missing_required_facts' };
  }
  // Anything but the known modes counts as `required`, whatever compiled it (K-54).
  const asks = capability.confirmation !== 'none' && capability.confirmation !== 'capability';
  const policyAsks = verdict.kind === 'confirm';
  if (consent !== null && factsMoved(capability, state, consent)) {
    const text = confirmationText(capability, input);
    return { work, kind: 'confirm', code: 'facts_changed', text, input };
  }
  if (consent === null && (asks || policyAsks)) {
    const summary = policyAsks ? verdict.summary : undefined;
    const text = summary ?? confirmationText(capability, input);
    return { work, kind: 'confirm', code: 'confirmation_required', text, input };
  }
  return { work, kind: 'run', capability, input };
}

/** The input as the capability's schema makes it, or what is wrong with it. */
export function validInput(
  capability: CompiledCapability,
  input: unknown,
): { readonly input: unknown } | { readonly problem: string } {
  try {
    return { input: frozen(checkInput(capability.definition.input, input)) };
  } catch (error) {
    if (!(error instanceof TurnstoneError)) throw error;
    return { problem: `${capability.id}: ${error.message}` };
  }
}

async function askPolicies(
  context: TurnContext,
  agent: CompiledAgent,
  state: KernelState,
  capability: CompiledCapability,
  input: unknown,
): Promise<PolicyVerdict> {
  for (const policy of agent.policies) {
    const verdict = await policy.decide({
      capability: capability.id,
      effect: capability.effect,
      input,
      fact: (key) => state.facts.get(key)?.value,
      read: (call) => context.effect({ ...call, kind: policyKind(policy.id), mutates: false }),
    });
    if (verdict.kind !== 'allow') return verdict;
  }
  return { kind: 'allow' };
}

/** Effect kind of a policy's reads. */
export function policyKind(policy: string): string {
  return `policy.${policy}`;
}

/** Digests of the facts a question is shown under. */
export function factDigests(
  capability: CompiledCapability,
  state: KernelState,
): Readonly<Record<FactKey, string>> {
  return Object.fromEntries(
    capability.requires.map((fact) => [fact, digestOf(state.facts.get(fact)?.value ?? null)]),
  );
}

/** A consent is to an input under facts: when one of them reads otherwise now, it is asked again (K-46). */
function factsMoved(capability: CompiledCapability, state: KernelState, consent: Consent): boolean {
  const now = factDigests(capability, state);
  return Object.entries(now).some(([fact, digest]) => consent.facts[fact] !== digest);
}

function confirmationText(capability: CompiledCapability, input: unknown): string {
  const { confirmationText: own } = capability.definition;
  if (own !== undefined) return own(input);
  return `${capability.description} ${JSON.stringify(input)}: shall I?`;
}

/** Writes of this round that stand in no declared order to another one; empty when there is no conflict (K-81). */
export function conflicting(
  agent: CompiledAgent,
  decisions: readonly Decision[],
): readonly Decision[] {
  const writes = decisions.filter(
    ({ kind, work }) =>
      (kind === 'run' || kind === 'confirm') &&
      agent.capabilities.byId.get(work.item.capability)?.effect === 'write',
  );
  const { ordered } = agent.capabilities;
  const clash = writes.some(({ work: { item: first } }, index) =>
    writes
      .slice(index + 1)
      .some(
        ({ work: { item: second } }) =>
          !ordered(first.capability, second.capability) &&
          !ordered(second.capability, first.capability),
      ),
  );
  return clash ? writes : [];
}
