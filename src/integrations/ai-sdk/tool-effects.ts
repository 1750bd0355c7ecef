// Tools of the AI SDK as effects of a turn: announced, gated, recorded and replayed, each call by its own id.
//
//   T5/T7  a call of a tool is one effect; its identity is the tool, the id the model gave the call, and its input.
//   T8     a tool that says how it is taken back runs in a step of its own.
//   T10    a tool that needs a person suspends the turn; the loop goes on from the answer, its other calls done.
import type { FlexibleSchema, ToolExecutionOptions, ToolSet } from 'ai';
import type { RetryPolicy } from '../../protocol/backoff.ts';
import type { Recovery } from '../../protocol/effect-decision.ts';
import { AgentError } from '../../protocol/errors.ts';
import type { Spend } from '../../protocol/record.ts';
import { never } from '../../runtime/never.ts';
import type {
  ApprovalAnswer,
  ApprovalRequest,
  Effect,
  EffectCall,
  ProbeAnswer,
  TurnContext,
} from '../../runtime/turn-context.ts';
import { TurnSuspendedError } from '../../runtime/turn-context.ts';
import { toolThrew } from './loop.ts';

/** How the calls of one tool are treated. Left out, a tool mutates and a crash in it waits for a person. */
export interface ToolTreatment<Input = unknown> {
  /** Effect kind. Default `tool.<name>`. */
  readonly kind?: string;
  /** Default true. */
  readonly mutates?: boolean;
  /** Default `operator` when it mutates, else `retry`. */
  readonly recovery?: Recovery;
  readonly retry?: Partial<RetryPolicy>;
  /** Default 30000. */
  readonly timeoutMs?: number;
  readonly cost?: Partial<Spend>;
  /** Business key of a call: within the thread it runs once. */
  readonly key?: (input: Input) => string;
  /** With recovery `reconcile`: asks what a call came to. */
  readonly probe?: (call: EffectCall, input: Input) => Promise<ProbeAnswer>;
  /** A person must allow the call first; beside the tool's own `needsApproval`. */
  readonly approval?: boolean | ((input: Input) => boolean | Omit<ApprovalRequest, 'action'>);
  /** Takes a call back when the turn fails or is stopped; `output` is null when it did not complete. */
  readonly undo?: (undo: TurnContext, done: { input: Input; output: unknown }) => Promise<unknown>;
}

/** Treatments by tool; names that no tool has are refused. */
export type ToolTreatments<Tools extends ToolSet> = {
  readonly [Name in keyof Tools]?: ToolTreatment<
    Tools[Name] extends { readonly inputSchema: FlexibleSchema<infer Input> } ? Input : unknown
  >;
};

/** What a tool throws when no person allowed its call; the model hears it. */
export class ToolRefusedError extends AgentError {
  readonly decision: ApprovalAnswer['decision'];
  readonly by: string | null;
  constructor(tool: string, { decision, by, note }: ApprovalAnswer) {
    const why = typeof note === 'string' && note !== '' ? `: ${note}` : '';
    const what = decision === 'expired' ? 'nobody allowed it in time' : `it was ${decision}${why}`;
    super(`the call of "${tool}" did not run; ${what}`, { code: 'tool_refused' });
    this.decision = decision;
    this.by = by;
  }
}

const callKey: unique symbol = Symbol.for('turnstone.effect-call');

/** The effect a tool runs in: its idempotency key, signal and bill. Throws outside a turn. */
export function effectCall(options: object): EffectCall {
  const call: unknown = Reflect.get(options, callKey);
  if (call === undefined)
    throw new AgentError('effectCall: expected the options of a tool made by toolEffects');
  return call as EffectCall;
}

/** Tools whose calls are effects of `context`; a tool without `execute` stays as it is. */
export function toolEffects<Tools extends ToolSet>(
  context: TurnContext,
  tools: Tools,
  treatments: ToolTreatments<Tools> = {},
): Tools {
  for (const name of Object.keys(treatments)) {
    if (!Object.hasOwn(tools, name))
      throw new AgentError(`toolEffects: treatment of "${name}": expected the name of a tool`, {
        code: 'invalid_effect',
      });
  }
  const steps = new Map<string, number>();
  const wrapped = Object.entries(tools).map(([name, tool]) => {
    const { execute } = tool;
    if (execute === undefined) return [name, tool];
    const treatment = (treatments[name] ?? {}) as ToolTreatment;
    const { needsApproval, ...rest } = tool;
    const run = (input: unknown, options: ToolExecutionOptions<unknown>): Promise<unknown> => {
      const call = { context, name, input, options, treatment, execute, needsApproval, steps };
      return runCall(call as ToolCall).catch((error: unknown) => {
        // The loop rests with its turn: it must not go on, to its model or past its end, without the answer.
        if (error instanceof TurnSuspendedError) return never();
        toolThrew(context, error);
        throw error;
      });
    };
    return [name, { ...rest, execute: run }];
  });
  return Object.fromEntries(wrapped) as Tools;
}

interface ToolCall {
  readonly context: TurnContext;
  readonly name: string;
  readonly input: unknown;
  readonly options: ToolExecutionOptions<unknown>;
  readonly treatment: ToolTreatment;
  readonly execute: (input: unknown, options: ToolExecutionOptions<unknown>) => unknown;
  readonly needsApproval: ToolSet[string]['needsApproval'];
  /** Calls by step name so far: providers repeat ids. */
  readonly steps: Map<string, number>;
}

async function runCall(call: ToolCall): Promise<unknown> {
  const { context, input, treatment } = call;
  const { undo } = treatment;
  const body = async (scope: TurnContext): Promise<unknown> => {
    await allowed(scope, call);
    return scope.effect(effectOf(call));
  };
  if (undo === undefined) return body(context);
  const takeBack = (scope: TurnContext, output: unknown) => undo(scope, { input, output });
  return context.step(stepName(call), { compensation: 'compensatable', undo: takeBack }, body);
}

function stepName({ name, options, steps }: ToolCall): string {
  const base = `${name} ${options.toolCallId}`;
  const before = steps.get(base) ?? 0;
  steps.set(base, before + 1);
  return before === 0 ? base : `${base} ${before + 1}`;
}

/** Waits for a person where one is needed; throws `ToolRefusedError` unless they agree. */
async function allowed(scope: TurnContext, call: ToolCall): Promise<void> {
  const { name, input } = call;
  const shown = await approvalOf(call);
  if (shown === null) return;
  const action = { tool: name, input };
  const answer = await scope.approval({ summary: `call ${name}`, ...shown, action });
  if (answer.decision !== 'approved') throw new ToolRefusedError(name, answer);
}

async function approvalOf(call: ToolCall): Promise<Omit<ApprovalRequest, 'action'> | null> {
  const { input, treatment, needsApproval, options } = call;
  const { approval = false } = treatment;
  const asked = typeof approval === 'function' ? approval(input) : approval;
  if (asked !== false) return asked === true ? {} : asked;
  const { toolCallId, messages, context } = options;
  const needed =
    typeof needsApproval === 'function'
      ? await needsApproval(input as never, { toolCallId, messages, context: context as never })
      : needsApproval;
  return needed === true ? {} : null;
}

function effectOf({ name, input, options, treatment, execute }: ToolCall): Effect<unknown> {
  const { kind, key, probe, approval: _approval, undo: _undo, ...declared } = treatment;
  return {
    ...declared,
    kind: kind ?? `tool.${name}`,
    args: { call: options.toolCallId, input },
    ...(key === undefined ? {} : { key: key(input) }),
    ...(probe === undefined ? {} : { probe: (call: EffectCall) => probe(call, input) }),
    perform: (call) => last(execute(input, within(options, call))),
  };
}

/** The options a tool sees: stopped with its attempt, and able to name its effect. */
function within(
  options: ToolExecutionOptions<unknown>,
  call: EffectCall,
): ToolExecutionOptions<unknown> {
  const { abortSignal } = options;
  const signals = abortSignal === undefined ? [call.signal] : [call.signal, abortSignal];
  const bound = { ...options, abortSignal: AbortSignal.any(signals) };
  Object.defineProperty(bound, callKey, { value: call, enumerable: false });
  return bound;
}

/** A tool that yields shows progress; what it yields last is its output. */
async function last(result: unknown): Promise<unknown> {
  if (typeof result !== 'object' || result === null || !(Symbol.asyncIterator in result))
    return result;
  let output: unknown;
  for await (const item of result as AsyncIterable<unknown>) output = item;
  return output;
}
