// Evaluation suites: conversations against an agent, judged step by step, that may be stopped and gone on with.
//
//   K-95   every size has a limit, refused when the suite is read.
//   K-96   a scenario that writes outside runs only when the run says so; else it is `blocked`.
//   K-97   a case that may have written when its run died is `blocked` until a person has looked.
//   K-98   each case is a thread of its own; its turn ids are a function of the case, so a case that goes on replays.
//   K-99   an evaluator that throws is an error under every connective: it cannot turn into a pass.
import { digestOf } from '../protocol/canonical.ts';
import { TurnstoneError } from '../protocol/errors.ts';

export const evaluationLimits = Object.freeze({
  scenarios: 10_000,
  steps: 500,
  variants: 100,
  assertions: 200,
  repetitions: 100,
  cases: 100_000,
  casesDefault: 1_000,
  pathSegments: 40,
} as const);

export type Assertion =
  | { readonly path: readonly (string | number)[]; readonly equals: unknown }
  | { readonly evaluate: (result: unknown) => boolean | Promise<boolean> }
  | { readonly not: Assertion }
  | { readonly all: readonly Assertion[] }
  | { readonly any: readonly Assertion[] };

export interface EvaluationStep {
  readonly input: unknown;
  /** Inputs instead of `input`: each makes a case of its own, times those of other steps. */
  readonly variants?: readonly unknown[];
  readonly assertions: readonly Assertion[];
}

export interface EvaluationScenario {
  readonly id: string;
  /** Whether its turns may write outside. */
  readonly writes: 'read_only' | 'external';
  readonly steps: readonly EvaluationStep[];
}

export interface EvaluationSuite {
  readonly scenarios: readonly EvaluationScenario[];
  readonly repetitions?: number;
}

export type CaseStatus = 'pending' | 'running' | 'passed' | 'failed' | 'error' | 'blocked';

export interface CaseState {
  readonly id: string;
  readonly status: CaseStatus;
  readonly code: string | null;
}

/** A run as it is kept between processes. */
export interface RunState {
  readonly fingerprint: string;
  readonly cases: readonly CaseState[];
}

/** The agent under evaluation. */
export interface EvaluationTarget {
  /** Authority of the agent and whatever else its behaviour depends on. */
  readonly fingerprint: string;
  /** Delivers one turn and answers its result; throws when it did not succeed. */
  send(thread: string, turn: string, input: unknown): Promise<unknown>;
}

export interface EvaluationOptions {
  /** Default false (K-96). */
  readonly externalWrites?: boolean;
  readonly maxCases?: number;
  /** Ids of the scenarios to run; default all. */
  readonly select?: readonly string[];
  /** The run to go on with. */
  readonly resume?: RunState | null;
  /** Keeps the run; awaited before it goes on. */
  readonly save: (state: RunState) => Promise<void>;
}

export interface EvaluationReport {
  readonly state: RunState;
  /** True when every case passed: a run that merely completed is not accepted (K-99). */
  readonly accepted: boolean;
}

interface Case {
  readonly id: string;
  readonly scenario: EvaluationScenario;
  readonly inputs: readonly unknown[];
}

/** Runs or goes on with a suite; throws `invalid_request` naming the limit or what does not fit the kept run. */
export async function evaluate(
  suite: EvaluationSuite,
  target: EvaluationTarget,
  options: EvaluationOptions,
): Promise<EvaluationReport> {
  const cases = casesOf(suite, options);
  const fingerprint = digestOf({ target: target.fingerprint, cases: cases.map(({ id }) => id) });
  const kept = options.resume ?? null;
  if (kept !== null && kept.fingerprint !== fingerprint) {
    throw refused('resume.fingerprint', fingerprint, kept.fingerprint);
  }
  const states = new Map<string, CaseState>(
    cases.map(({ id }) => [id, { id, status: 'pending', code: null }]),
  );
  for (const state of kept?.cases ?? []) states.set(state.id, state);
  const state = (): RunState => ({ fingerprint, cases: [...states.values()] });
  const settle = async (id: string, status: CaseStatus, code: string | null): Promise<void> => {
    states.set(id, { id, status, code });
    await options.save(state());
  };
  for (const one of cases) {
    const before = states.get(one.id)?.status ?? 'pending';
    if (before !== 'pending' && before !== 'running') continue;
    const external = one.scenario.writes === 'external';
    if (external && options.externalWrites !== true) {
      await settle(one.id, 'blocked', 'external_writes_not_authorized');
    } else if (external && before === 'running') {
      await settle(one.id, 'blocked', 'external_writes_unreconciled');
    } else {
      await settle(one.id, 'running', null);
      const { status, code } = await runCase(one, target);
      await settle(one.id, status, code);
    }
  }
  const end = state();
  return { state: end, accepted: end.cases.every(({ status }) => status === 'passed') };
}

async function runCase(
  { id, scenario, inputs }: Case,
  target: EvaluationTarget,
): Promise<{ readonly status: CaseStatus; readonly code: string | null }> {
  let failed = false;
  for (const [index, step] of scenario.steps.entries()) {
    const thread = `eval-${digestOf(id)}`;
    try {
      const result = await target.send(thread, digestOf([thread, index]), inputs[index]);
      for (const assertion of step.assertions) {
        // A failed assertion does not keep later steps from being judged (K-99).
        if (!(await holds(assertion, result))) failed = true;
      }
    } catch (error) {
      const code = error instanceof Error ? error.message : String(error);
      return { status: 'error', code };
    }
  }
  return { status: failed ? 'failed' : 'passed', code: null };
}

/** Every member is asked, so that an evaluator that throws is heard whatever its neighbours say. */
async function holds(assertion: Assertion, result: unknown): Promise<boolean> {
  if ('not' in assertion) return !(await holds(assertion.not, result));
  if ('evaluate' in assertion) return (await assertion.evaluate(result)) === true;
  if ('path' in assertion) {
    return digestOf(at(result, assertion.path) ?? null) === digestOf(assertion.equals ?? null);
  }
  const members = 'all' in assertion ? assertion.all : assertion.any;
  const answers: boolean[] = [];
  for (const member of members) answers.push(await holds(member, result));
  return 'all' in assertion ? answers.every((answer) => answer) : answers.some((answer) => answer);
}

function at(value: unknown, path: readonly (string | number)[]): unknown {
  let here = value;
  for (const key of path) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, key)) return undefined;
    here = Reflect.get(here, key);
  }
  return here;
}

/** Every case of a suite, checked against the limits. */
function casesOf(suite: EvaluationSuite, options: EvaluationOptions): readonly Case[] {
  const limits = evaluationLimits;
  within('scenarios', suite.scenarios.length, 1, limits.scenarios);
  const repetitions = suite.repetitions ?? 1;
  within('repetitions', repetitions, 1, limits.repetitions);
  const maxCases = options.maxCases ?? limits.casesDefault;
  within('maxCases', maxCases, 1, limits.cases);
  const ids = suite.scenarios.map(({ id }) => id);
  if (new Set(ids).size !== ids.length) throw refused('scenarios', 'ids used once', 'one twice');
  for (const scenario of suite.scenarios) checkScenario(scenario);
  const { select } = options;
  const unknown = select?.find((id) => !ids.includes(id));
  if (unknown !== undefined) throw refused('select', 'a scenario of the suite', unknown);
  const chosen = suite.scenarios.filter(({ id }) => select === undefined || select.includes(id));
  if (chosen.length === 0) throw refused('select', 'at least one scenario', 'none');
  const count = chosen.reduce((sum, scenario) => sum + repetitions * product(scenario), 0);
  within('cases', count, 1, maxCases);
  return chosen.flatMap((scenario) =>
    Array.from({ length: repetitions }, (_, repetition) =>
      inputsOf(scenario).map((inputs, index) => ({
        id: `${scenario.id}/${index}/${repetition}/${digestOf(inputs).slice(0, 12)}`,
        scenario,
        inputs,
      })),
    ).flat(),
  );
}

function checkScenario({ id, steps, writes }: EvaluationScenario): void {
  within(`${id}.steps`, steps.length, 1, evaluationLimits.steps);
  if (writes !== 'read_only' && writes !== 'external') {
    throw refused(`${id}.writes`, 'read_only or external', String(writes));
  }
  for (const { variants, assertions } of steps) {
    within(`${id}.assertions`, assertions.length, 0, evaluationLimits.assertions);
    if (variants !== undefined) {
      within(`${id}.variants`, variants.length, 1, evaluationLimits.variants);
    }
    for (const assertion of assertions) checkPaths(id, assertion);
  }
}

/** K-100: short, and never through a prototype. */
function checkPaths(id: string, assertion: Assertion): void {
  if ('not' in assertion) return checkPaths(id, assertion.not);
  const members = 'all' in assertion ? assertion.all : 'any' in assertion ? assertion.any : [];
  for (const member of members) checkPaths(id, member);
  if (!('path' in assertion)) return;
  within(`${id}.path`, assertion.path.length, 0, evaluationLimits.pathSegments);
  const barred = assertion.path.find((key) =>
    ['__proto__', 'prototype', 'constructor'].includes(String(key)),
  );
  if (barred !== undefined) throw refused(`${id}.path`, 'no key of a prototype', String(barred));
}

function product({ steps }: EvaluationScenario): number {
  return steps.reduce((cases, { variants }) => cases * (variants?.length ?? 1), 1);
}

function inputsOf({ steps }: EvaluationScenario): readonly (readonly unknown[])[] {
  return steps.reduce<readonly (readonly unknown[])[]>(
    (before, { input, variants }) =>
      before.flatMap((inputs) => (variants ?? [input]).map((one) => [...inputs, one])),
    [[]],
  );
}

function within(field: string, got: number, least: number, most: number): void {
  if (Number.isSafeInteger(got) && got >= least && got <= most) return;
  throw refused(field, `${least} to ${most}`, String(got));
}

function refused(field: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError('invalid_request', `${field}: expected ${expected}, got ${got}`, {
    retry: 'never',
    details: { field, expected, got },
  });
}
