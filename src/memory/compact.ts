// Compaction and formation: summaries and facts that a model makes from what is remembered or said (13.5).
//   ME-16 what a model may not see is refused before it is asked; ME-17 a summary carries the join of what went into
//         it; ME-18 it names the versions that were read; ME-19 a model proposes keys and content, nothing else.
import { base64url, hashParts } from '../protocol/digest.ts';
import { AgentError } from '../protocol/errors.ts';
import type { Sensitivity } from '../protocol/labels.ts';
import { joinLabels, within } from '../protocol/labels.ts';
import { limits } from '../protocol/limits.ts';
import { Labelled } from '../runtime/labelled.ts';
import type { Effect, TurnContext } from '../runtime/turn-context.ts';
import { EffectFailure } from '../runtime/turn-context.ts';

export interface Compaction {
  /** Where the summary stands. */
  readonly id: string;
  /** What is summarised, and what the summary is kept for. */
  readonly purpose: string;
  readonly instruction: string;
  /** Facts at most. Default 20. */
  readonly limit?: number;
  /** Highest sensitivity the model may see. Default public. */
  readonly maxSensitivity?: Sensitivity;
  /** The call that summarises; its output is the summary. */
  readonly summarise: (of: {
    readonly instruction: string;
    readonly contents: readonly unknown[];
  }) => Effect<unknown>;
}

/** Summarises what is remembered for a purpose; the originals stay. Answers how many facts went in. */
export async function compact(context: TurnContext, of: Compaction): Promise<number> {
  const { id, purpose, instruction, limit, maxSensitivity = 'public' } = of;
  const items = (
    await context.recall({ purpose, ...(limit === undefined ? {} : { limit }) })
  ).filter((item) => item.id !== id);
  const over = items.find((item) => !within(item, maxSensitivity));
  if (over !== undefined) {
    throw new AgentError(
      `compaction of "${purpose}": expected at most "${maxSensitivity}", "${over.id}" is "${over.sensitivity}"`,
      { code: 'label_refused' },
    );
  }
  if (items.length === 0) return 0;
  const effect = of.summarise({ instruction, contents: items.map(({ content }) => content) });
  const said = await context.labelled(effect);
  const label = joinLabels([said.label, ...items]);
  const content = new Labelled(Labelled.valueOf(said), label);
  await context.remember({ id, purpose, content, derivedFrom: items });
  return items.length;
}

export interface Formation {
  readonly purpose: string;
  /** What facts are formed from: something said, with its label when it is wrapped. */
  readonly source: unknown;
  /** The call that proposes: its output is `[{ key, content }]`. */
  readonly propose: (source: unknown) => Effect<unknown>;
  /** First distinct keys that win; at most `limits.memoriesPerTurnMax`. */
  readonly maxItems: number;
  readonly expiresInMs?: number;
}

/** Forms facts about the turn's subject; answers their ids. A malformed answer fails the call, and nothing is written. */
export async function formMemories(
  context: TurnContext,
  of: Formation,
): Promise<readonly string[]> {
  const { purpose, maxItems, expiresInMs } = of;
  if (!Number.isSafeInteger(maxItems) || maxItems < 1 || maxItems > limits.memoriesPerTurnMax) {
    throw new AgentError(
      `formation.maxItems: expected 1 to ${limits.memoriesPerTurnMax}, got ${maxItems}`,
      { code: 'invalid_request' },
    );
  }
  const wrapped = of.source instanceof Labelled ? of.source : null;
  const inner = of.propose(wrapped === null ? of.source : Labelled.valueOf(wrapped));
  const proposed = await context.labelled<readonly Proposal[]>({
    ...inner,
    perform: async (call) => proposalsIn(await inner.perform(call), maxItems),
  });
  const label = joinLabels(wrapped === null ? [proposed.label] : [proposed.label, wrapped.label]);
  const ids: string[] = [];
  for (const { key, content } of Labelled.valueOf(proposed)) {
    const id = formedId(context.subject ?? '', purpose, key);
    const labelled = new Labelled(content, label);
    await context.remember({
      id,
      purpose,
      // An unwrapped source may hold anything the turn has seen: the fact then carries the turn's mark as well.
      content: wrapped === null ? context.open(labelled) : labelled,
      ...(expiresInMs === undefined ? {} : { expiresInMs }),
    });
    ids.push(id);
  }
  return ids;
}

/** The id of a formed fact: the same key forms the same fact again. */
export function formedId(subject: string, purpose: string, key: string): string {
  return `formed-${base64url(hashParts('turnstone.formed.1', [subject, purpose, key])).slice(0, 27)}`;
}

interface Proposal {
  readonly key: string;
  readonly content: unknown;
}

function proposalsIn(answer: unknown, maxItems: number): readonly Proposal[] {
  if (!Array.isArray(answer)) throw malformed('a list', typeof answer);
  const byKey = new Map<string, Proposal>();
  for (const entry of answer as readonly unknown[]) {
    const { key, content } = (entry ?? {}) as { key?: unknown; content?: unknown };
    if (typeof key !== 'string' || key === '' || content === undefined)
      throw malformed(
        'entries { key, content }',
        JSON.stringify(entry)?.slice(0, 100) ?? 'nothing',
      );
    if (!byKey.has(key)) byKey.set(key, { key, content });
  }
  return [...byKey.values()].slice(0, maxItems);
}

function malformed(expected: string, got: string): EffectFailure {
  return new EffectFailure(`formation: expected ${expected}, got ${got}`, {
    code: 'formation_malformed',
    disposition: 'landed',
    permanent: true,
  });
}
