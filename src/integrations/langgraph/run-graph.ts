// A LangGraph graph inside a turn.
//
// Owns: where the graph's state comes from and goes to, and what an interrupt becomes. Does not own: the
// graph itself, effects (graph-turn.ts) or durability of a run half done: that is the journal's.
//   T1  the graph's checkpoint is the thread's state: it commits with the turn or not at all.
//   T7  a pass that goes on after a crash runs the graph from where the turn began and replays its effects.
// An interrupt is answered in one of two ways: `answer` asks somebody and the turn waits (approval, event),
// or the turn ends with the questions and another turn brings the answers (`resume`).
import type { RunnableConfig } from '@langchain/core/runnables';
import { Command, INTERRUPT, isInterrupted } from '@langchain/langgraph';
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import { encode } from '../../protocol/canonical.ts';
import { limits } from '../../protocol/limits.ts';
import type { TurnContext } from '../../runtime/turn-context.ts';
import { GraphSaver } from './graph-saver.ts';
import { GraphTurn, GraphTurnError } from './graph-turn.ts';
import { HeldGraphs } from './held-graphs.ts';
import { emptyHeld, type HeldState, heldIn } from './held-state.ts';

/** A compiled graph, as far as it is used here. */
export interface InvokableGraph {
  invoke(input: never, config?: never): Promise<unknown>;
}

export interface GraphRun {
  /** Compiles the graph with this saver: `(checkpointer) => builder.compile({ checkpointer })`. */
  readonly graph: (checkpointer: BaseCheckpointSaver) => InvokableGraph;
  /** The graph's input; left out when `resume` answers the questions the last turn ended with. */
  readonly input?: unknown;
  /** One answer for each question, in their order. */
  readonly resume?: readonly unknown[];
  /**
   * Answers an interrupt within this turn; `value` is what the node gave `interrupt`. The turn may wait here.
   * Absent: the turn ends with the questions.
   */
  readonly answer?: (value: unknown, index: number) => Promise<unknown>;
  /** Name of the graph's state in the thread; default `graph`. */
  readonly name?: string;
  /** Passed on: `recursionLimit`, `tags`, `configurable` and so on. */
  readonly config?: RunnableConfig;
}

export interface GraphEnd {
  /** The values of the graph. */
  readonly values: Readonly<Record<string, unknown>>;
  /** What nodes asked by `interrupt`; empty when the graph came to its end. */
  readonly questions: readonly unknown[];
}

/** Kept free for the rest of the thread's state. */
const elsewhereBytes = 16 * 1024;

interface Asked {
  readonly id: string;
  readonly value: unknown;
}

/** Runs a graph to its end or its next question. Throws `graph_resume`, `graph_too_large`. */
export async function runGraph(context: TurnContext, run: GraphRun): Promise<GraphEnd> {
  const name = run.name ?? 'graph';
  const stored: unknown = context.state.get(name);
  const before = stored === undefined ? emptyHeld : heldIn(name, stored);
  const held = new HeldGraphs(context.thread, before.rows);
  const saver = new GraphSaver({ ...held.sealing, graphs: held, tenant: context.tenant });
  const turn = new GraphTurn(context, run.resume === undefined ? {} : before.answers);
  const graph = run.graph(saver);
  const invoke = async (input: unknown): Promise<unknown> => {
    turn.again();
    const { configurable, ...rest } = run.config ?? {};
    const config = {
      ...rest,
      configurable: { ...configurable, ...turn.configurable, thread_id: context.thread },
    };
    return graph.invoke(input as never, config as never);
  };
  let values = await invoke(run.resume === undefined ? run.input : resumed(before, run.resume));
  let asked = askedBy(values);
  while (asked.length > 0 && run.answer !== undefined) {
    const { answer } = run;
    const answers = await Promise.all(asked.map(({ value }, index) => answer(value, index)));
    const pairs = asked.map(({ id }, index) => [id, answers[index]] as const);
    values = await invoke(new Command({ resume: Object.fromEntries(pairs) }));
    asked = askedBy(values);
  }
  const open = asked.length > 0;
  const after: HeldState = {
    version: 1,
    // Namespaces of tasks matter only while those tasks may run again.
    rows: held.newest((namespace) => open || !namespace.includes(':')),
    answers: open ? turn.answers : {},
    questions: asked.map(({ id }) => id),
  };
  assertFits(name, after);
  context.state.set(name, after);
  return { values: withoutInterrupt(values), questions: asked.map(({ value }) => value) };
}

/** A thread's state has a limit; a graph past it fails its turn here, where the turn can still conclude. */
function assertFits(name: string, after: HeldState): void {
  const bytes = Buffer.byteLength(encode(after));
  if (bytes <= limits.checkpointBytesMax - elsewhereBytes) return;
  throw new GraphTurnError(
    `state.${name}: expected at most ${limits.checkpointBytesMax - elsewhereBytes} bytes (checkpointBytesMax less what others keep), got ${bytes}`,
    { code: 'graph_too_large' },
  );
}

function resumed({ questions }: HeldState, answers: readonly unknown[]): Command {
  if (questions.length === 0 || questions.length !== answers.length) {
    throw new GraphTurnError(
      `resume: expected ${questions.length} answers, one for each open question, got ${answers.length}`,
      { code: 'graph_resume' },
    );
  }
  const pairs = questions.map((id, index) => [id, answers[index]] as const);
  return new Command({ resume: Object.fromEntries(pairs) });
}

function askedBy(values: unknown): readonly Asked[] {
  if (!isInterrupted(values)) return [];
  return values[INTERRUPT].map(({ id, value }) => {
    if (id !== undefined) return { id, value };
    throw new GraphTurnError('an interrupt: expected an id, got none', { code: 'graph_interrupt' });
  });
}

function withoutInterrupt(values: unknown): Readonly<Record<string, unknown>> {
  const entries = Object.entries(Object(values)).filter(([name]) => name !== INTERRUPT);
  return Object.fromEntries(entries);
}
