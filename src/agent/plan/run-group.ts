// The group operation of a plan: eager members, invariants, deferred members, one of three endings [T9].
import type { HttpCaller } from '../../ports/http-caller.ts';
import { AgentError } from '../../protocol/errors.ts';
import type { EffectGroup, TurnContext } from '../../runtime/turn-context.ts';
import { EffectError } from '../../runtime/turn-context.ts';
import { holds } from './conditions.ts';
import { httpEffect } from './plan-effect.ts';
import type { PlanGroup } from './plan-language.ts';
import type { Roots } from './references.ts';

interface GroupRun {
  readonly roots: () => Roots;
  readonly names: Map<string, unknown>;
  readonly http: HttpCaller;
}

/** Answers `{status, members}`; with `onFail: "continue"` a group that was taken back is a value, not a failure. */
export async function runGroup(
  context: TurnContext,
  op: PlanGroup,
  run: GroupRun,
): Promise<unknown> {
  const group = context.openGroup(op.name, op.resources);
  const members: Record<string, unknown> = {};
  const keep = (as: string | undefined, output: unknown): void => {
    if (as === undefined) return;
    members[as] = output;
    run.names.set(as, output);
  };
  try {
    await eager(group, op, run, keep);
    const deferred = op.members.filter((member) => 'deferred' in member);
    for (const member of deferred) {
      group.deferred(httpEffect(member.deferred, run.roots(), run.http), member.resource);
    }
    const invariants = (op.invariants ?? []).map((invariant) => ({
      name: invariant.name,
      holds: holds(invariant, run.roots()),
    }));
    const outputs = await group.commit(invariants);
    for (const [at, member] of deferred.entries()) keep(member.as, outputs[at]);
    return { status: 'committed', members };
  } catch (error) {
    const known = error instanceof AgentError || (error instanceof EffectError && !error.undecided);
    if (!known || op.onFail !== 'continue') throw error;
    if (group.open) await group.abort(error.message);
    return { status: 'aborted', members };
  }
}

async function eager(
  group: EffectGroup,
  op: PlanGroup,
  run: GroupRun,
  keep: (as: string | undefined, output: unknown) => void,
): Promise<void> {
  for (const member of op.members) {
    if ('read' in member) {
      const effect = httpEffect({ ...member.read, mutates: false }, run.roots(), run.http);
      keep(member.as, await group.read(effect, member.resource));
    } else if ('reversible' in member) {
      const effect = httpEffect(member.reversible, run.roots(), run.http);
      const roots = run.roots();
      const undo = (output: unknown) => {
        const named: [string, unknown][] = member.as === undefined ? [] : [[member.as, output]];
        const own = new Map([...roots, ...named, ['output', output] as [string, unknown]]);
        return httpEffect(member.undo, own, run.http);
      };
      keep(member.as, await group.reversible(effect, member.resource, undo));
    }
  }
}
