// Reading a message: what it asks for, and what it says about the question that is pending.
//
//   K-62  cut messages keep their index, and the model is told what it does not see.
//   K-78  selection sees summaries, interpretation only the contracts that were selected.
//   K-56  a claimed yes is reviewed on its own; a review that cannot be read supports nothing.
//   K-89, K-92  hidden facts, redacted texts and protected messages never reach a model.
import type { ModelMessage } from '../../ports/model.ts';
import type { TurnContext } from '../../runtime/turn-context.ts';
import type { CompiledCapability } from './compile.ts';
import type { CompiledAgent } from './compiled-agent.ts';
import type { Interaction, KernelState } from './kernel-state.ts';
import type { Interpretation } from './model-words.ts';
import {
  askOnce,
  askWithRepair,
  interpretationPhase,
  reviewPhase,
  selectionPhase,
} from './model-words.ts';

/** What the words of this turn come to. Throws `capability_selection_invalid` or `model_output_invalid`. */
export async function interpret(
  context: TurnContext,
  agent: CompiledAgent,
  state: KernelState,
): Promise<Interpretation> {
  const messages = projected(agent, state);
  const selected = await select(context, agent, messages);
  return askWithRepair(
    context,
    agent.model,
    interpretationPhase,
    interpretationGuide(agent, state, selected),
    messages,
  );
}

async function select(
  context: TurnContext,
  agent: CompiledAgent,
  messages: readonly ModelMessage[],
): Promise<readonly CompiledCapability[]> {
  const all = [...agent.capabilities.byId.values()];
  if (all.length <= agent.limits.selectAbove) return all;
  const summaries = all.map(({ id, description }) => `${id}: ${description}`).join('\n');
  const guide = `Name the capabilities the last message may need.\n${summaries}`;
  const { capabilities } = await askWithRepair(
    context,
    agent.model,
    selectionPhase,
    redacted(agent, guide),
    messages,
    ({ capabilities: named }) => {
      const unknown = named.find((id) => !agent.capabilities.byId.has(id));
      return unknown === undefined ? null : `there is no capability "${unknown}"`;
    },
  );
  return all.filter(({ id }) => capabilities.includes(id));
}

/** What words may be claimed to say about a pending question. */
export type Meaning = 'a yes' | 'a no' | 'a wish to give up what it is about, in answer';

/** A separate look at a claimed yes or no: true only when it is supported, in readable words (K-56). */
export async function answerSupported(
  context: TurnContext,
  agent: CompiledAgent,
  asked: Interaction,
  message: string,
  claim: { readonly meaning: Meaning; readonly evidence: readonly string[] },
): Promise<boolean> {
  // Evidence that was not said supports nothing, whoever reviews it.
  const quoted =
    claim.evidence.length > 0 && claim.evidence.every((text) => message.includes(text));
  if (!quoted) return false;
  const guide =
    'A person was asked a question and wrote a message. Is the message clearly and unconditionally ' +
    `${claim.meaning} to exactly this question?`;
  const text = `Question: ${asked.text}\nMessage: ${message}\nClaimed words: ${claim.evidence.join(' | ')}`;
  const answer = await askOnce(context, agent.model, reviewPhase, guide, [
    { role: 'user', text: redacted(agent, text) },
  ]);
  return 'value' in answer && answer.value.supported;
}

function interpretationGuide(
  agent: CompiledAgent,
  state: KernelState,
  selected: readonly CompiledCapability[],
): string {
  const contracts = selected.map(({ id, description, inputJson }) => ({
    id,
    description,
    input: inputJson,
  }));
  const asked = state.interaction;
  const pending =
    asked === null
      ? null
      : {
          kind: asked.kind,
          text: asked.text,
          options: asked.kind === 'confirmation' ? [] : asked.options,
        };
  const parts = [
    agent.guidance,
    'Say what the last message asks for, quoting its words as evidence. Do not act.',
    `Capabilities: ${JSON.stringify(contracts)}`,
    `Known facts: ${JSON.stringify(visibleFacts(agent, state))}`,
    `Pending question: ${JSON.stringify(pending)}`,
  ];
  return redacted(agent, parts.filter((part) => part !== '').join('\n'));
}

function visibleFacts(agent: CompiledAgent, state: KernelState): Record<string, unknown> {
  const entries = [...state.facts].flatMap(([key, { value }]) => {
    const visibility = agent.capabilities.providers.get(key)?.visibility ?? 'hidden';
    if (visibility === 'hidden') return [];
    return [[key, visibility === 'full' ? value : 'known'] as const];
  });
  return Object.fromEntries(entries);
}

/** The last messages under their absolute index, and what was left out. */
export function projected(agent: CompiledAgent, state: KernelState): readonly ModelMessage[] {
  const last = state.messages.at(-1);
  const kept = agent.limits.messages === 0 ? [] : state.messages.slice(-agent.limits.messages);
  const shown = kept.length === 0 && last !== undefined ? [last] : kept;
  const first = shown[0]?.index ?? 0;
  const omitted: readonly ModelMessage[] =
    first === 0 ? [] : [{ role: 'user', text: `[0..${first - 1}] left out: ${first} messages` }];
  const messages = shown.map(({ index, role, text, protected: sealed }) => ({
    role,
    text: `[${index}] ${redacted(agent, sealed === true ? '(protected)' : text)}`,
  }));
  return [...omitted, ...messages];
}

export function redacted(agent: CompiledAgent, text: string): string {
  return agent.redactions.reduce((left, secret) => left.replaceAll(secret, '[redacted]'), text);
}
