// What models are asked and what they may answer: one schema a phase, and one bounded repair (K-79).
//
//   K-78  a model proposes; ids it invents have no place in these schemas, so they are dropped.
import * as v from 'valibot';
import type { Model, ModelMessage, ModelRequest } from '../../ports/model.ts';
import { AgentError } from '../../protocol/errors.ts';
import type { TurnContext } from '../../runtime/turn-context.ts';
import { completion, type ModelTreatment } from '../model-effect.ts';

/** One question to a model: the title names the phase, for logs and scripted models. */
export interface Phase<T> {
  readonly title: 'selection' | 'interpretation' | 'review' | 'reply' | 'grounding';
  readonly schema: v.GenericSchema<unknown, T>;
  readonly json: Readonly<Record<string, unknown>>;
  /** Code of an answer that is of no use twice. */
  readonly failure: string;
}

const texts = v.array(v.string());

export const selectionPhase: Phase<{ readonly capabilities: string[] }> = {
  title: 'selection',
  schema: v.object({ capabilities: texts }),
  json: object({ capabilities: { type: 'array', items: { type: 'string' } } }),
  failure: 'capability_selection_invalid',
};

const interpretation = v.object({
  intentions: v.array(
    v.object({
      capability: v.string(),
      input: v.unknown(),
      evidence: v.optional(texts, []),
      /** Set when the words fit several readings: what to ask. */
      ambiguous: v.nullish(v.string()),
    }),
  ),
  /** Wishes no capability serves. */
  unsupported: v.optional(texts, []),
  answer: v.nullish(v.object({ accepts: v.boolean(), evidence: texts })),
  option: v.nullish(v.string()),
  cancels: v.nullish(v.object({ evidence: texts })),
});
export type Interpretation = v.InferOutput<typeof interpretation>;

export const interpretationPhase: Phase<Interpretation> = {
  title: 'interpretation',
  schema: interpretation,
  json: object({
    intentions: {
      type: 'array',
      items: object(
        {
          capability: { type: 'string' },
          input: {},
          evidence: { type: 'array', items: { type: 'string' } },
          ambiguous: { type: ['string', 'null'] },
        },
        ['capability', 'input', 'evidence'],
      ),
    },
    unsupported: { type: 'array', items: { type: 'string' } },
    answer: {
      anyOf: [
        object({
          accepts: { type: 'boolean' },
          evidence: { type: 'array', items: { type: 'string' } },
        }),
        { type: 'null' },
      ],
    },
    option: { type: ['string', 'null'] },
    cancels: {
      anyOf: [object({ evidence: { type: 'array', items: { type: 'string' } } }), { type: 'null' }],
    },
  }),
  failure: 'model_output_invalid',
};

export const reviewPhase: Phase<{ readonly supported: boolean }> = {
  title: 'review',
  schema: v.strictObject({ supported: v.boolean() }),
  json: object({ supported: { type: 'boolean' } }),
  failure: 'review_invalid',
};

export const replyPhase: Phase<{
  readonly parts: { readonly text: string; readonly cites: string[] }[];
}> = {
  title: 'reply',
  schema: v.object({ parts: v.array(v.object({ text: v.string(), cites: texts })) }),
  json: object({
    parts: {
      type: 'array',
      items: object({
        text: { type: 'string' },
        cites: { type: 'array', items: { type: 'string' } },
      }),
    },
  }),
  failure: 'ungrounded_response',
};

export const groundingPhase: Phase<{ readonly supported: boolean }> = {
  ...reviewPhase,
  title: 'grounding',
  failure: 'ungrounded_response',
};

export interface ModelUse {
  readonly model: Model;
  readonly treatment: ModelTreatment;
  readonly maxOutputTokens: number | undefined;
}

/** Asks once and parses; null when the answer does not fit. Never repairs. */
export async function askOnce<T>(
  context: TurnContext,
  use: ModelUse,
  phase: Phase<T>,
  instructions: string,
  messages: readonly ModelMessage[],
): Promise<{ readonly value: T } | { readonly issues: string; readonly text: string }> {
  const request: ModelRequest = {
    instructions,
    messages,
    schema: { title: phase.title, ...phase.json },
    ...(use.maxOutputTokens === undefined ? {} : { maxOutputTokens: use.maxOutputTokens }),
  };
  const { text } = await context.effect(completion(use.model, request, use.treatment));
  return parsed(phase, text);
}

/** Asks, and once more with what was wrong; then fails the turn with the phase's code (K-79). */
export async function askWithRepair<T>(
  context: TurnContext,
  use: ModelUse,
  phase: Phase<T>,
  instructions: string,
  messages: readonly ModelMessage[],
  check: (value: T) => string | null = () => null,
): Promise<T> {
  let issues = '';
  let said = messages;
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const answer = await askOnce(context, use, phase, instructions, said);
    if ('value' in answer) {
      const problem = check(answer.value);
      if (problem === null) return answer.value;
      issues = problem;
    } else issues = answer.issues;
    const text = 'text' in answer ? answer.text : JSON.stringify(answer.value);
    const repair = `That answer cannot be used: ${issues}. Answer again.`;
    said = [...messages, { role: 'assistant', text }, { role: 'user', text: repair }];
  }
  throw new AgentError(`${phase.title}: the model's answer cannot be used: ${issues}`, {
    code: phase.failure,
  });
}

function parsed<T>(
  phase: Phase<T>,
  text: string,
): { readonly value: T } | { readonly issues: string; readonly text: string } {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { issues: 'it is not JSON', text };
  }
  const result = v.safeParse(phase.schema, json);
  if (result.success) return { value: result.output };
  const [issue] = result.issues;
  const path = (v.getDotPath(issue) ?? '') || 'the answer';
  return { issues: `${path}: ${issue.message}`, text };
}

function object(
  properties: Readonly<Record<string, unknown>>,
  required: readonly string[] = Object.keys(properties),
): Record<string, unknown> {
  return { type: 'object', properties, required, additionalProperties: false };
}
