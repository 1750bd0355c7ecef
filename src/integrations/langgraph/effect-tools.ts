// Tools whose calls are effects, and the node that runs them.
//   T5/T7  a tool call is announced, journaled and replayed like any effect of the turn.
//   T10    a tool that needs a person asks before it acts; a refusal is told to the model as the tool's answer.

import { type ToolCall, ToolMessage } from '@langchain/core/messages';
import type { RunnableConfig } from '@langchain/core/runnables';
import { DynamicStructuredTool, type StructuredToolInterface } from '@langchain/core/tools';
import { isGraphBubbleUp, type LangGraphRunnableConfig } from '@langchain/langgraph';
import { ToolNode, type ToolNodeOptions } from '@langchain/langgraph/prebuilt';
import { TurnstoneError } from '../../protocol/errors.ts';
import type { ApprovalRequest, Effect, EffectCall } from '../../runtime/turn-context.ts';
import {
  BudgetExhaustedError,
  EffectError,
  TurnDroppedError,
  TurnSuspendedError,
} from '../../runtime/turn-context.ts';
import { GraphTurnError, turnOf } from './graph-turn.ts';

/** A tool as the model sees it. */
export interface ToolFace {
  readonly name: string;
  readonly description: string;
  /** What LangChain's `tool` takes: Zod, another Standard Schema, or a JSON Schema. */
  readonly schema: StructuredToolInterface['schema'];
}

/** How a call is treated: an effect without its arguments, which are the model's. Default kind: the tool's name. */
export type ToolTreatment<I> = Omit<Effect<unknown>, 'kind' | 'args' | 'perform' | 'probe'> & {
  readonly kind?: string;
  readonly perform: (input: I, call: EffectCall) => Promise<unknown>;
  readonly probe?: (
    input: I,
    call: EffectCall,
  ) => ReturnType<NonNullable<Effect<unknown>['probe']>>;
  /** A call that a person must allow first; null for one that needs nobody. */
  readonly approval?: (input: I) => ApprovalRequest | null;
};

/** A tool each of whose calls is one effect of the turn. */
export function effectTool<I = unknown>(
  face: ToolFace,
  treatment: ToolTreatment<I>,
): StructuredToolInterface {
  return effectToolOf<I>(
    face,
    (input) => {
      const { kind, perform, probe, approval: _, ...rest } = treatment;
      return {
        ...rest,
        kind: kind ?? face.name,
        args: input,
        perform: (call) => perform(input, call),
        ...(probe === undefined ? {} : { probe: (call) => probe(input, call) }),
      };
    },
    treatment.approval,
  );
}

/** A tool from a function that makes the effect, such as `httpCall`. */
export function effectToolOf<I = unknown>(
  face: ToolFace,
  effectOf: (input: I) => Effect<unknown>,
  approval?: (input: I) => ApprovalRequest | null,
): StructuredToolInterface {
  return new DynamicStructuredTool({
    ...face,
    func: async (input: unknown, _manager: unknown, config?: RunnableConfig) => {
      const turn = turnOf(config ?? {});
      const request = approval?.(input as I) ?? null;
      if (request !== null) {
        const { decision } = await turn.approval(config ?? {}, request);
        if (decision !== 'approved') return `not done: the approval was ${decision}`;
      }
      const output = await turn.effect(config ?? {}, effectOf(input as I));
      return typeof output === 'string' ? output : JSON.stringify(output);
    },
  });
}

/**
 * The node that runs the tool calls of the last message, side by side. A call that failed without doubt is told to
 * the model; a doubt, a wait and an exhausted budget stop the turn as they do everywhere.
 */
export class EffectToolNode extends ToolNode {
  constructor(tools: StructuredToolInterface[], options: ToolNodeOptions = {}) {
    super(tools, { ...options, handleToolErrors: false });
  }

  protected override async runTool(
    call: ToolCall,
    config: LangGraphRunnableConfig,
    state: unknown,
  ): ReturnType<ToolNode['runTool']> {
    try {
      return await super.runTool(call, config, state);
    } catch (error) {
      if (stops(error)) throw error;
      const text = error instanceof Error ? error.message : String(error);
      const content = `Error: ${text}`;
      return new ToolMessage({
        status: 'error',
        content,
        name: call.name,
        tool_call_id: call.id ?? '',
      });
    }
  }
}

function stops(error: unknown): boolean {
  if (error instanceof EffectError) return error.undecided;
  return (
    error instanceof TurnSuspendedError ||
    error instanceof BudgetExhaustedError ||
    error instanceof TurnDroppedError ||
    error instanceof TurnstoneError ||
    error instanceof GraphTurnError ||
    (error instanceof Error && isGraphBubbleUp(error))
  );
}
