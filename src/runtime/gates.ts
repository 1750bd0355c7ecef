// The gates in front of a live attempt: declaration, policy, then the budget beside the announcement (GA-1).
//   GA-2 a refusal is recorded under the refused attempt's key and takes its place; it is raised again verbatim.
//   GA-3 an undo passes declaration and policy like anything else; only the budget's verdict spares it.

import { exhausted } from './budget-pause.ts';
import type { Dispatch } from './dispatch.ts';
import type { JournalWriter } from './journal-writer.ts';
import { noPayload, payloadOf } from './journal-writer.ts';
import { EffectError } from './turn-context.ts';

type Settle = (deliver: () => void) => void;

/** False when the attempt was refused; its dispatch is then settled. */
export async function passesGates(
  dispatch: Dispatch,
  writer: JournalWriter,
  key: string,
  attempt: number,
  settle: Settle,
): Promise<boolean> {
  const { pass, declared, site } = dispatch;
  const { runtime, ref, agent, actor, subject, budget } = pass.setup;
  if (!agent.declares(declared.kind)) {
    deny(dispatch, writer, key, 'declaration', `agent "${agent.name}" does not declare it`, settle);
    return false;
  }
  const { policy } = runtime;
  if (policy === undefined) return true;
  if (
    site.phase === 'forward' &&
    pass.meter.denials > (budget?.denials ?? Number.POSITIVE_INFINITY)
  ) {
    refuse(dispatch, writer, key, settle);
    return false;
  }
  const answer = await policy.decide({
    tenant: ref.tenant,
    actor,
    agent: agent.name,
    // The read of whose an id is stands in front of the fact itself (ME-25).
    kind: declared.kind === 'memory.owner' ? 'memory.remember' : declared.kind,
    facts: declared.policyFacts,
    mutates: declared.mutates,
    recovery: declared.recovery,
    step: site.step,
    phase: site.phase,
    attempt,
    subject,
  });
  if (answer.allow) return true;
  deny(dispatch, writer, key, 'policy', answer.reason, settle);
  return false;
}

function deny(
  dispatch: Dispatch,
  writer: JournalWriter,
  key: string,
  by: 'declaration' | 'policy',
  reason: string,
  settle: Settle,
): void {
  const { pass, site } = dispatch;
  settle(() => {
    const ceiling = pass.setup.budget?.denials ?? Number.POSITIVE_INFINITY;
    const exhausts = by === 'policy' && pass.meter.denials + 1 > ceiling;
    const facts = { kind: 'PolicyDenied' as const, site, key, by, exhausts };
    const body = writer.ride(facts, payloadOf({ reason }));
    pass.meter.add(body);
    pass.heard(body);
    hearDenial(dispatch, key, by, reason, exhausts);
  });
}

/** E80: past the ceiling nobody is asked any more. */
function refuse(dispatch: Dispatch, writer: JournalWriter, key: string, settle: Settle): void {
  const { pass, site } = dispatch;
  settle(() => {
    const facts = { kind: 'BudgetRefused' as const, site, key, limit: 'denials' };
    pass.heard(writer.ride(facts, noPayload));
    dispatch.settle.reject(exhausted('denials', site.step));
  });
}

/** Tells the code that its call was refused; past the ceiling of denials the turn pauses. */
export function hearDenial(
  dispatch: Dispatch,
  key: string,
  by: string,
  reason: string,
  exhausts: boolean,
): void {
  const { site, declared } = dispatch;
  if (exhausts) return dispatch.settle.reject(exhausted('denials', site.step));
  dispatch.settle.reject(
    new EffectError(`${declared.kind} was refused by the ${by}: ${reason}`, {
      code: by === 'policy' ? 'policy_denied' : 'effect_undeclared',
      disposition: 'did_not_happen',
      effectKey: key,
      step: site.step,
      undecided: false,
    }),
  );
}
