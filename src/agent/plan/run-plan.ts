// Running a plan: waves of steps whose needs are met, each wave awaited whole (CC-1).
//   T8-ready  every success of a wave is kept, in plan order, before a stop is reported; the more severe
//   stop is reported, plan order breaks ties (CC-2).

import type { HttpCaller, HttpRequest } from '../../ports/http-caller.ts';
import { encode } from '../../protocol/canonical.ts';
import { AgentError } from '../../protocol/errors.ts';
import { limits } from '../../protocol/limits.ts';
import type { Effect, EffectCall, ProbeAnswer, TurnContext } from '../../runtime/turn-context.ts';
import { BudgetExhaustedError, EffectError, EffectFailure } from '../../runtime/turn-context.ts';
import type { Condition, Operation, Plan, PlanEffect, PlanStep } from './plan-language.ts';
import type { Roots } from './references.ts';
import { resolve } from './references.ts';

/** A step that stopped, with its place for the caller. */
class StepFailure extends AgentError {
  readonly step: string;
  constructor(step: string, error: AgentError) {
    super(error.message, { code: error.code, cause: error });
    this.step = step;
  }
}

interface Finished {
  readonly names: ReadonlyMap<string, unknown>;
  readonly output: unknown;
}

/** Runs a checked plan and answers the value of its reply. */
export async function runPlan(
  context: TurnContext,
  plan: Plan,
  http: HttpCaller,
): Promise<unknown> {
  const finished = new Map<string, Finished>();
  let left = plan.steps;
  while (left.length > 0) {
    const ready = left.filter((step) => step.needs.every((need) => finished.has(need)));
    const wave = ready.slice(
      0,
      Math.min(context.parallel ?? limits.planParallel, limits.planParallel),
    );
    await runWave(context, plan, wave, finished, http);
    left = left.filter((step) => !finished.has(step.id));
  }
  return resolve(plan.reply ?? null, rootsOf(plan, plan.steps, finished));
}

async function runWave(
  context: TurnContext,
  plan: Plan,
  wave: readonly PlanStep[],
  finished: Map<string, Finished>,
  http: HttpCaller,
): Promise<void> {
  const endings = await Promise.allSettled(
    wave.map((step) => {
      const options = step.compensation === undefined ? {} : { compensation: step.compensation };
      return context.step(step.id, options, (inner) => runStep(inner, plan, step, finished, http));
    }),
  );
  const stops: unknown[] = [];
  for (const [index, ending] of endings.entries()) {
    const step = wave[index];
    if (ending.status === 'rejected') stops.push(ending.reason);
    else if (step !== undefined) finished.set(step.id, ending.value);
  }
  const worst =
    stops.find((stop) => stop instanceof EffectError && stop.undecided) ??
    stops.find((stop) => !(stop instanceof BudgetExhaustedError)) ??
    stops[0];
  if (worst !== undefined) throw worst;
}

async function runStep(
  context: TurnContext,
  plan: Plan,
  step: PlanStep,
  finished: ReadonlyMap<string, Finished>,
  http: HttpCaller,
): Promise<Finished> {
  const names = new Map<string, unknown>();
  const before = needed(plan, step);
  const roots = (): Roots => new Map([...rootsOf(plan, before, finished), ...names]);
  try {
    for (const op of step.do) await runOperation(context, op, roots, names, http);
    return { names, output: resolve(step.output ?? null, roots()) };
  } catch (error) {
    if (error instanceof AgentError) throw new StepFailure(step.id, error);
    throw error;
  }
}

async function runOperation(
  context: TurnContext,
  op: Operation,
  roots: () => Roots,
  names: Map<string, unknown>,
  http: HttpCaller,
): Promise<void> {
  if ('note' in op) return context.note(text(resolve(op.note, roots())));
  if ('fail' in op) {
    if (op.when !== undefined && !holds(op.when, roots())) return;
    throw new AgentError(text(resolve(op.fail, roots())), { code: 'step_failed' });
  }
  const output = await context.effect(httpEffect(op.effect, roots(), http));
  if (op.as !== undefined) names.set(op.as, output);
}

/** An effect of a plan: its identity is the request with its references resolved. */
function httpEffect(effect: PlanEffect, roots: Roots, http: HttpCaller): Effect<unknown> {
  const withKey = (idempotencyKey: string): Roots =>
    new Map([...roots, ['idempotencyKey', idempotencyKey]]);
  const placeholder = '${idempotencyKey}';
  const args = resolve(effect.request, withKey(placeholder));
  const mutates = effect.mutates ?? true;
  const probe = effect.probe;
  return {
    kind: effect.kind,
    args,
    mutates,
    ...(effect.recovery === undefined ? {} : { recovery: effect.recovery }),
    ...(effect.retry === undefined ? {} : { retry: defined(effect.retry) }),
    ...(effect.timeoutMs === undefined ? {} : { timeoutMs: effect.timeoutMs }),
    ...(effect.cost === undefined ? {} : { cost: defined(effect.cost) }),
    perform: async (call) =>
      perform(http, resolve(effect.request, withKey(call.idempotencyKey)), mutates, call),
    ...(probe === undefined
      ? {}
      : {
          probe: (call: EffectCall) =>
            ask(http, text(resolve(probe.url, withKey(call.idempotencyKey))), call),
        }),
  };
}

function defined<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

async function perform(
  http: HttpCaller,
  resolved: unknown,
  mutates: boolean,
  call: EffectCall,
): Promise<unknown> {
  const { method, url, headers, body } = resolved as PlanEffect['request'];
  const request: HttpRequest = {
    method,
    url,
    headers: { ...headers, 'idempotency-key': call.idempotencyKey },
    mutates,
    ...(body === undefined ? {} : { body }),
  };
  const result = await http.call(request, call.signal);
  if (result.kind === 'done') return result.answer;
  const { message, code, disposition, permanent, adviceMs } = result;
  const advice = adviceMs === undefined ? {} : { adviceMs };
  throw new EffectFailure(message, { code, disposition, permanent, ...advice });
}

async function ask(http: HttpCaller, url: string, call: EffectCall): Promise<ProbeAnswer> {
  const request: HttpRequest = { method: 'GET', url, headers: {}, mutates: false };
  const result = await http.call(request, call.signal);
  if (result.kind === 'failed') return { outcome: 'inconclusive', detail: result.message };
  const { status, body } = result.answer;
  if (status === 200 && typeof body === 'object' && body !== null && 'outcome' in body) {
    if (body.outcome === 'landed')
      return { outcome: 'landed', output: 'output' in body ? body.output : null };
    if (body.outcome === 'did_not_happen') return { outcome: 'did_not_happen' };
  }
  return { outcome: 'inconclusive', detail: `the probe answered ${status} without an outcome` };
}

function rootsOf(
  plan: Plan,
  steps: readonly PlanStep[],
  finished: ReadonlyMap<string, Finished>,
): Map<string, unknown> {
  const roots = new Map<string, unknown>([['vars', plan.vars]]);
  const outputs: [string, unknown][] = [];
  for (const step of steps) {
    const ended = finished.get(step.id);
    if (ended === undefined) continue;
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

/** Compares two values: equality by canonical form, order for two numbers or two texts. */
export function holds(condition: Condition, roots: Roots): boolean {
  const left = resolve(condition.left, roots);
  const right = resolve(condition.right, roots);
  if (condition.op === 'eq') return encode(left) === encode(right);
  if (condition.op === 'ne') return encode(left) !== encode(right);
  const comparable =
    (typeof left === 'number' && typeof right === 'number') ||
    (typeof left === 'string' && typeof right === 'string');
  if (!comparable) {
    throw new AgentError(`cannot compare ${typeof left} ${condition.op} ${typeof right}`, {
      code: 'not_comparable',
    });
  }
  switch (condition.op) {
    case 'lt':
      return left < right;
    case 'le':
      return left <= right;
    case 'gt':
      return left > right;
    case 'ge':
      return left >= right;
  }
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : encode(value);
}
