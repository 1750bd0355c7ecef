// Running a plan: waves of steps whose needs are met, each wave awaited whole (CC-1).
//   T8-ready  every success of a wave is kept, in plan order, before a stop is reported; the more severe
//   stop is reported, plan order breaks ties (CC-2).

import type { HttpCaller } from '../../ports/http-caller.ts';
import { AgentError } from '../../protocol/errors.ts';
import { limits } from '../../protocol/limits.ts';
import type { StepOptions, TurnContext } from '../../runtime/turn-context.ts';
import {
  BudgetExhaustedError,
  EffectError,
  TurnSuspendedError,
} from '../../runtime/turn-context.ts';
import type { Plan, PlanStep } from './plan-language.ts';
import type { Roots } from './references.ts';
import { resolve } from './references.ts';
import { runOperation } from './run-operation.ts';

/** A step that stopped, with its place for the caller. */
class StepFailure extends AgentError {
  readonly step: string;
  constructor(step: string, error: AgentError) {
    super(error.message, { code: error.code, cause: error });
    this.step = step;
  }
}

/** What a step has named so far; complete once `output` is set. */
interface Progress {
  readonly names: Map<string, unknown>;
  finished: boolean;
  output: unknown;
}

/** A plan with everything its steps share. */
interface Running {
  readonly plan: Plan;
  readonly http: HttpCaller;
  readonly progress: Map<string, Progress>;
}

/** Runs a checked plan and answers the value of its reply. */
export async function runPlan(
  context: TurnContext,
  plan: Plan,
  http: HttpCaller,
): Promise<unknown> {
  const running: Running = { plan, http, progress: new Map() };
  const finished = (id: string): boolean => running.progress.get(id)?.finished === true;
  let left = plan.steps;
  while (left.length > 0) {
    const ready = left.filter((step) => step.needs.every(finished));
    const width = Math.min(context.parallel ?? limits.planParallel, limits.planParallel);
    await runWave(context, running, ready.slice(0, width));
    left = left.filter((step) => !finished(step.id));
  }
  return resolve(plan.reply ?? null, rootsOf(running, plan.steps));
}

async function runWave(
  context: TurnContext,
  running: Running,
  wave: readonly PlanStep[],
): Promise<void> {
  const endings = await Promise.allSettled(
    wave.map((step) =>
      context.step(step.id, stepOptions(running, step), (inner) => runStep(inner, running, step)),
    ),
  );
  const stops: unknown[] = [];
  for (const [index, ending] of endings.entries()) {
    const progress = running.progress.get(wave[index]?.id ?? '');
    if (ending.status === 'rejected') stops.push(ending.reason);
    else if (progress !== undefined) progress.finished = true;
  }
  if (stops.length > 0) throw worst(stops);
}

/** CC-2: doubt, then failure, then exhaustion, then waiting; plan order breaks ties. */
function worst(stops: readonly unknown[]): unknown {
  const waits = (stop: unknown): boolean => stop instanceof TurnSuspendedError;
  const exhausted = (stop: unknown): boolean => stop instanceof BudgetExhaustedError;
  return (
    stops.find((stop) => stop instanceof EffectError && stop.undecided) ??
    stops.find((stop) => !exhausted(stop) && !waits(stop)) ??
    stops.find(exhausted) ??
    stops[0]
  );
}

function stepOptions(running: Running, step: PlanStep): StepOptions {
  const { compensation, undo } = step;
  return {
    ...(compensation === undefined ? {} : { compensation }),
    ...(undo === undefined
      ? {}
      : {
          undo: (context: TurnContext, output: unknown) => runUndo(context, running, step, output),
        }),
  };
}

async function runStep(context: TurnContext, running: Running, step: PlanStep): Promise<unknown> {
  const progress: Progress = { names: new Map(), finished: false, output: null };
  running.progress.set(step.id, progress);
  const before = needed(running.plan, step);
  const roots = (): Roots => new Map([...rootsOf(running, before), ...progress.names]);
  try {
    for (const op of step.do) {
      await runOperation(context, op, { roots, names: progress.names, http: running.http });
    }
    progress.output = resolve(step.output ?? null, roots());
    return progress.output;
  } catch (error) {
    if (error instanceof AgentError) throw new StepFailure(step.id, error);
    throw error;
  }
}

/** Takes a step back with what it named, its recorded output, and what it needed. */
async function runUndo(
  context: TurnContext,
  running: Running,
  step: PlanStep,
  output: unknown,
): Promise<void> {
  const named = running.progress.get(step.id)?.names ?? new Map<string, unknown>();
  const names = new Map<string, unknown>();
  const before = needed(running.plan, step);
  const roots = (): Roots =>
    new Map([...rootsOf(running, before), ...named, ...names, ['output', output]]);
  for (const op of step.undo ?? []) {
    await runOperation(context, op, { roots, names, http: running.http });
  }
}

function rootsOf(running: Running, steps: readonly PlanStep[]): Map<string, unknown> {
  const roots = new Map<string, unknown>([['vars', running.plan.vars]]);
  const outputs: [string, unknown][] = [];
  for (const step of steps) {
    const ended = running.progress.get(step.id);
    if (ended?.finished !== true) continue;
    outputs.push([step.id, ended.output]);
    for (const [name, value] of ended.names) roots.set(name, value);
  }
  roots.set('steps', Object.fromEntries(outputs));
  return roots;
}

/** The steps a step needs, directly or through others, in plan order. */
function needed(plan: Plan, step: PlanStep): readonly PlanStep[] {
  const wanted = new Set(step.needs);
  for (let size = -1; size !== wanted.size; ) {
    size = wanted.size;
    for (const other of plan.steps)
      if (wanted.has(other.id)) for (const need of other.needs) wanted.add(need);
  }
  return plan.steps.filter((other) => wanted.has(other.id));
}
