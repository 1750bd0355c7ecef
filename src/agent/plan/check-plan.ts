// Everything about a plan that can be known before anything runs: a bad plan is refused whole (422).
//   T11  steps and width are bounded; every error names its path, what was expected and what came.
import * as v from 'valibot';
import { TurnstoneError } from '../../protocol/errors.ts';
import type {
  Operation,
  OperationName,
  Plan,
  PlanEffect,
  PlanGroup,
  PlanStep,
} from './plan-language.ts';
import { notYet, operations, planShape } from './plan-language.ts';
import { referencesIn, splitReference } from './references.ts';

/** The plan as the runner takes it; throws `invalid_plan` or `not_supported_yet`. */
export function checkPlan(input: unknown): Plan {
  const shape = parse(planShape, input, 'input');
  const steps = shape.steps.map((step, index): PlanStep => {
    const path = `input.steps[${index}]`;
    const checked = {
      id: step.id,
      needs: step.needs ?? [],
      do: step.do.map((op, at) => operation(op, `${path}.do[${at}]`)),
    };
    const undo = step.undo?.map((op, at) => operation(op, `${path}.undo[${at}]`));
    return {
      ...checked,
      ...(undo === undefined ? {} : { undo }),
      ...(step.compensation === undefined ? {} : { compensation: step.compensation }),
      ...('output' in step ? { output: step.output } : {}),
    };
  });
  const plan: Plan = {
    vars: shape.vars ?? {},
    steps,
    ...('reply' in shape ? { reply: shape.reply } : {}),
  };
  checkNeeds(plan);
  checkReferences(plan);
  return plan;
}

function parse<S extends v.GenericSchema>(
  schema: S,
  input: unknown,
  path: string,
): v.InferOutput<S> {
  const result = v.safeParse(schema, input, { abortEarly: true });
  if (result.success) return result.output;
  const [issue] = result.issues;
  throw bad(`${path}${pathOf(issue)}`, issue.expected ?? issue.message, issue.received);
}

function pathOf(issue: v.BaseIssue<unknown>): string {
  return (issue.path ?? [])
    .map(({ key }) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`))
    .join('');
}

function operation(input: unknown, path: string): Operation {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    throw bad(path, 'an operation object', Array.isArray(input) ? 'a list' : String(input));
  }
  const known = Object.keys(operations) as OperationName[];
  const names = known.filter((name) => Object.hasOwn(input, name));
  const [name] = names;
  if (name === undefined || names.length > 1) {
    const came = Object.keys(input).join(', ') || 'an empty object';
    throw bad(path, `one of ${known.join(', ')}`, came);
  }
  const parsed = parse<v.GenericSchema>(operations[name], input, path);
  if (notYet.has(name)) {
    throw new TurnstoneError(
      'not_supported_yet',
      `${path}.${name}: this build does not run "${name}" yet`,
      {
        retry: 'never',
        details: { path: `${path}.${name}`, operation: name },
      },
    );
  }
  const checked = parsed as Operation;
  if ('effect' in checked) checkEffect(checked.effect, `${path}.effect`);
  if ('act' in checked) checkEffect(checked.act, `${path}.act`);
  if ('group' in checked) checkGroup(checked.group, `${path}.group`);
  return checked;
}

/** Every member in the footprint, a read that does not mutate, no name twice. */
function checkGroup(group: PlanGroup, path: string): void {
  for (const [at, member] of group.members.entries()) {
    const place = `${path}.members[${at}]`;
    if (!group.resources.includes(member.resource)) {
      throw bad(`${place}.resource`, group.resources.join(', '), member.resource);
    }
    if ('read' in member && member.read.mutates === true) {
      throw bad(`${place}.read.mutates`, 'false', 'true');
    }
    for (const [name, effect] of effectsOf(member)) checkEffect(effect, `${place}.${name}`);
  }
}

function effectsOf(member: PlanGroup['members'][number]): readonly [string, PlanEffect][] {
  if ('reversible' in member) {
    return [
      ['reversible', member.reversible],
      ['undo', member.undo],
    ];
  }
  return 'read' in member ? [['read', member.read]] : [['deferred', member.deferred]];
}

function checkEffect(effect: PlanEffect, path: string): void {
  const { url } = effect.request;
  if (!url.includes('${') && URL.parse(url) === null)
    throw bad(`${path}.request.url`, 'an absolute URL', url);
}

function checkNeeds(plan: Plan): void {
  const ids = new Map<string, number>();
  for (const [index, step] of plan.steps.entries()) {
    if (ids.has(step.id)) throw bad(`input.steps[${index}].id`, 'an id no other step has', step.id);
    ids.set(step.id, index);
  }
  for (const [index, step] of plan.steps.entries()) {
    for (const [at, need] of step.needs.entries()) {
      if (!ids.has(need)) throw bad(`input.steps[${index}].needs[${at}]`, 'the id of a step', need);
    }
  }
  const done = new Set<string>();
  let left = plan.steps;
  while (left.length > 0) {
    const ready = left.filter((step) => step.needs.every((need) => done.has(need)));
    const [stuck] = left;
    if (ready.length === 0 && stuck !== undefined) {
      throw bad(
        `input.steps[${ids.get(stuck.id)}].needs`,
        'steps that do not wait for each other',
        'a cycle',
      );
    }
    for (const step of ready) done.add(step.id);
    left = left.filter((step) => !done.has(step.id));
  }
}

function checkReferences(plan: Plan): void {
  const byId = new Map(plan.steps.map((step) => [step.id, step]));
  for (const [index, step] of plan.steps.entries()) {
    const path = `input.steps[${index}]`;
    const inherited = namesOf([...ancestors(step, byId)]);
    const names = new Set([...inherited]);
    const before = new Set([...ancestors(step, byId)].map((other) => other.id));
    const taken = new Set<string>();
    for (const [at, op] of step.do.entries()) {
      checkOperation(op, `${path}.do[${at}]`, {
        names,
        steps: before,
        vars: plan.vars,
        output: false,
      });
      for (const name of namedBy(op)) {
        if (taken.has(name))
          throw bad(`${path}.do[${at}].as`, 'a name no other operation of the step has', name);
        taken.add(name);
        names.add(name);
      }
    }
    const undoNames = new Set(names);
    for (const [at, op] of (step.undo ?? []).entries()) {
      checkOperation(op, `${path}.undo[${at}]`, {
        names: undoNames,
        steps: before,
        vars: plan.vars,
        output: true,
      });
      for (const name of namedBy(op)) undoNames.add(name);
    }
    const scope = { names, steps: before, vars: plan.vars, output: false };
    checkValue(step.output, `${path}.output`, { ...scope, key: false });
  }
  const all = {
    names: namesOf(plan.steps),
    steps: new Set(byId.keys()),
    vars: plan.vars,
    output: false,
  };
  checkValue(plan.reply, 'input.reply', { ...all, key: false });
}

interface Scope {
  readonly names: ReadonlySet<string>;
  readonly steps: ReadonlySet<string>;
  readonly vars: Readonly<Record<string, unknown>>;
  readonly output: boolean;
}

function checkOperation(op: Operation, path: string, scope: Scope): void {
  if ('effect' in op) {
    checkValue(op.effect, `${path}.effect`, { ...scope, key: true });
    return;
  }
  if ('group' in op) return checkMembers(op.group, `${path}.group`, scope);
  if ('act' in op) {
    checkValue(op.act, `${path}.act`, { ...scope, key: true });
    return;
  }
  const value =
    'fail' in op ? { fail: op.fail, ...(op.when === undefined ? {} : { when: op.when }) } : op;
  checkValue(value, path, { ...scope, key: false });
}

/** Eager members see those before them; deferred ones and invariants see every eager one; an undo its own output. */
function checkMembers(group: PlanGroup, path: string, scope: Scope): void {
  const names = new Set(scope.names);
  const entries = [...group.members.entries()];
  const eager = entries.filter(([, member]) => !('deferred' in member));
  const deferred = entries.filter(([, member]) => 'deferred' in member);
  for (const [at, member] of [...eager, ...deferred]) {
    const place = `${path}.members[${at}]`;
    for (const [kind, effect] of effectsOf(member)) {
      const output = kind === 'undo';
      checkValue(effect, `${place}.${kind}`, { ...scope, names, output, key: true });
    }
    if (member.as !== undefined) names.add(member.as);
  }
  checkValue(group.invariants, `${path}.invariants`, { ...scope, names, key: false });
}

/** Names an operation gives to what it found: its own, and those of a group's members. */
function namedBy(op: Operation): readonly string[] {
  const own = 'as' in op && op.as !== undefined ? [op.as] : [];
  if (!('group' in op)) return own;
  return [...op.group.members.flatMap(({ as }) => (as === undefined ? [] : [as])), ...own];
}

function checkValue(value: unknown, path: string, scope: Scope & { readonly key: boolean }): void {
  for (const found of referencesIn(value, path)) {
    const split = splitReference(found.reference);
    const came = `\${${found.reference}}`;
    if (split === null) throw bad(found.path, 'a reference of names and dots', came);
    const { root, rest } = split;
    const [first] = rest;
    if (root === 'vars') {
      if (first !== undefined && !Object.hasOwn(scope.vars, first))
        throw bad(found.path, 'a name in vars', came);
    } else if (root === 'steps') {
      if (first !== undefined && !scope.steps.has(first))
        throw bad(found.path, 'a step this one needs', came);
    } else if (root === 'output') {
      if (!scope.output && !scope.names.has(root))
        throw bad(found.path, 'output in an undo only', came);
    } else if (root === 'idempotencyKey') {
      if (!scope.key) throw bad(found.path, 'idempotencyKey inside an effect only', came);
    } else if (!scope.names.has(root)) {
      throw bad(found.path, 'vars, steps, or an "as" name of this step or one it needs', came);
    }
  }
}

function* ancestors(step: PlanStep, byId: ReadonlyMap<string, PlanStep>): Iterable<PlanStep> {
  const seen = new Set<string>();
  const queue = [...step.needs];
  for (let need = queue.pop(); need !== undefined; need = queue.pop()) {
    const other = byId.get(need);
    if (other === undefined || seen.has(need)) continue;
    seen.add(need);
    queue.push(...other.needs);
    yield other;
  }
}

function namesOf(steps: readonly PlanStep[]): Set<string> {
  return new Set(steps.flatMap((step) => step.do.flatMap((op) => namedBy(op))));
}

function bad(path: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError('invalid_plan', `${path}: expected ${expected}, got ${got}`, {
    retry: 'never',
    details: { path, expected, got },
  });
}

/** The one subject a plan's memory operations name; throws `foreign_subject` for two (ruling 19). */
export function subjectOfPlan(plan: Plan): string | null {
  const named = new Set(
    plan.steps.flatMap((step) =>
      [...step.do, ...(step.undo ?? [])].flatMap((op) => {
        if ('remember' in op && op.remember.subject !== undefined) return [op.remember.subject];
        if ('recall' in op && op.recall.subject !== undefined) return [op.recall.subject];
        return [];
      }),
    ),
  );
  if (named.size > 1) {
    throw new TurnstoneError(
      'foreign_subject',
      'a turn is about one subject; this plan names two',
      {
        retry: 'never',
        details: { subjects: named.size },
      },
    );
  }
  return [...named][0] ?? null;
}
