// A task of a graph and what it did: each effect happens once, however often LangGraph runs the task again.
//
// Owns: which call of which task was answered before. Does not own: performing and journaling (the turn's
// context) or when a task runs again (LangGraph: after an interrupt, from its first line).
//   T7  a call that was recorded is answered from its record; one that asks for something else is refused.
//
//   first run of a task     effect A -> announced, performed, recorded      interrupt()
//   the same task, resumed  effect A -> answered from what was recorded     interrupt() answers   effect B -> performed
import type { RunnableConfig } from '@langchain/core/runnables';
import { digestOf } from '../../protocol/canonical.ts';
import { AgentError } from '../../protocol/errors.ts';
import type {
  ApprovalAnswer,
  ApprovalRequest,
  Effect,
  TurnContext,
} from '../../runtime/turn-context.ts';
import { EffectError } from '../../runtime/turn-context.ts';

/** A graph that cannot go on as it is; never told to a model as a tool's failure. */
export class GraphTurnError extends AgentError {}

/** What one call of a task came to, as plain data. */
export type Answered = {
  readonly asked: string;
} & (
  | { readonly value: unknown }
  | {
      readonly failure: Readonly<
        Pick<EffectError, 'message' | 'code' | 'disposition' | 'effectKey' | 'step'>
      >;
    }
);

/** Answers by task, then by the call's place in it. */
export type Answers = Readonly<Record<string, Readonly<Record<string, Answered>>>>;

/** Where a graph's config carries it. */
const place = 'turnstone';

export class GraphTurn {
  readonly context: TurnContext;
  readonly #answers = new Map<string, Map<string, Answered>>();
  readonly #calls = new Map<string, number>();
  #run = 0;

  constructor(context: TurnContext, answers: Answers) {
    this.context = context;
    for (const [task, calls] of Object.entries(answers)) {
      this.#answers.set(task, new Map(Object.entries(calls)));
    }
  }

  /** The `configurable` that makes this turn known to the tasks of a run. */
  get configurable(): Readonly<Record<string, unknown>> {
    return { [place]: this };
  }

  /** What was answered so far; kept while a task may run again. */
  get answers(): Answers {
    const tasks = [...this.#answers].map(([task, calls]) => [task, Object.fromEntries(calls)]);
    return Object.fromEntries(tasks);
  }

  /** Tasks run from their first line again. */
  again(): void {
    this.#run += 1;
  }

  effect<T>(config: RunnableConfig, effect: Effect<T>): Promise<T> {
    const asked = digestOf({ kind: effect.kind, args: effect.args });
    return this.#once(config, 'effect', asked, () => this.context.effect(effect));
  }

  approval(config: RunnableConfig, request: ApprovalRequest): Promise<ApprovalAnswer> {
    const asked = digestOf({ approval: request.action });
    return this.#once(config, 'approval', asked, () => this.context.approval(request));
  }

  async #once<T>(
    config: RunnableConfig,
    what: string,
    asked: string,
    call: () => Promise<T>,
  ): Promise<T> {
    const task = taskOf(config);
    const slot = this.#slot(task, what, config);
    const calls = this.#answers.get(task) ?? new Map<string, Answered>();
    this.#answers.set(task, calls);
    const known = calls.get(slot);
    if (known !== undefined) return answer(known, asked, `${slot} of ${task.split(':')[0]}`);
    try {
      const value = await call();
      calls.set(slot, { asked, value: structuredClone(value) });
      return value;
    } catch (error) {
      if (error instanceof EffectError && !error.undecided) {
        const { message, code, disposition, effectKey, step } = error;
        calls.set(slot, { asked, failure: { message, code, disposition, effectKey, step } });
      }
      throw error;
    }
  }

  /** A tool call has an id; other calls are counted in the order the task makes them. */
  #slot(task: string, what: string, config: RunnableConfig): string {
    const tool = toolCallOf(config);
    const name = tool === null ? what : `${what} of tool call ${tool}`;
    const counter = JSON.stringify([this.#run, attemptOf(config), task, name]);
    const count = this.#calls.get(counter) ?? 0;
    this.#calls.set(counter, count + 1);
    return `${name} ${count + 1}`;
  }
}

/** The turn a node or tool runs in; throws `graph_without_turn` outside of `runGraph`. */
export function turnOf(config: RunnableConfig): GraphTurn {
  const turn: unknown = config.configurable?.[place];
  if (turn instanceof GraphTurn) return turn;
  throw new GraphTurnError(
    'expected a config of a graph that runGraph runs; pass on the one your node got',
    {
      code: 'graph_without_turn',
    },
  );
}

/** An effect of a node: announced, journaled, and answered from its record when the node runs again. */
export function effectIn<T>(config: RunnableConfig, effect: Effect<T>): Promise<T> {
  return turnOf(config).effect(config, effect);
}

function answer<T>(known: Answered, asked: string, where: string): T {
  if (known.asked !== asked) {
    throw new GraphTurnError(
      `${where}: expected the call it made before the interrupt, got another; a node must ask for the same again`,
      { code: 'graph_diverged' },
    );
  }
  if ('failure' in known) {
    const { message, ...facts } = known.failure;
    throw new EffectError(message, { ...facts, undecided: false });
  }
  return structuredClone(known.value) as T;
}

/** A task's namespace holds its id, which a checkpoint and the place in the graph determine. */
function taskOf(config: RunnableConfig): string {
  const task: unknown = config.configurable?.checkpoint_ns;
  if (typeof task === 'string' && task !== '') return task;
  throw new GraphTurnError('expected the config of a node, got one outside of any node', {
    code: 'graph_without_turn',
  });
}

function toolCallOf(config: RunnableConfig): string | null {
  const call: unknown = Reflect.get(config, 'toolCall');
  const id: unknown = typeof call === 'object' && call !== null ? Reflect.get(call, 'id') : null;
  return typeof id === 'string' ? id : null;
}

/** LangGraph counts attempts of a node that has a retry policy. */
function attemptOf(config: RunnableConfig): number {
  const info: unknown = Reflect.get(config, 'executionInfo');
  const attempt: unknown =
    typeof info === 'object' && info !== null ? Reflect.get(info, 'nodeAttempt') : 1;
  return typeof attempt === 'number' ? attempt : 1;
}
