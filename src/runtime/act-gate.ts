// The gate in front of a deferred act: the policy in force when the effector performs it, not when it was staged.
//   T11  asked before every live attempt; OR-2 a send that a crash left open is repeated under its key unasked.
//   GA-1  the agent's declaration stands before it: a kind that is no act of the agent any more is refused.

import type { Sealer } from '../ports/vault.ts';
import type { IntentRow } from '../ports/waits.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { Site } from '../protocol/record.ts';
import type { DeclaredEffect } from './declared-effect.ts';
import { historyOf, openRecord } from './history.ts';
import type { Runtime } from './runtime.ts';
import { admissionFrom } from './turn-request.ts';

/**
 * Why this attempt of an act may not be made, or null. Actor, subject and place are read from the journal of the
 * turn that staged it. Throws when the engine or the journal cannot be asked: nothing is performed then.
 */
export async function actDenied(
  runtime: Runtime,
  row: IntentRow,
  declared: DeclaredEffect,
  sealer: Sealer,
): Promise<string | null> {
  const { policy } = runtime;
  if (policy === undefined || row.claim !== null) return null;
  const history = historyOf(await runtime.store.journal(row.ref));
  const { admission } = history;
  const site = stagedAt(history.bodies(), row.id);
  if (admission === null || site === null) {
    throw new TurnstoneError('journal_corrupt', `intent ${row.id} is in no journal`, {
      retry: 'never',
      details: { intent: row.id },
    });
  }
  const opened = await openRecord(runtime.store, sealer, row.ref, admission.record);
  const { actor, subject } = admissionFrom(opened);
  const answer = await policy.decide({
    tenant: row.ref.tenant,
    actor,
    agent: row.agent,
    kind: row.effect,
    facts: declared.policyFacts,
    mutates: declared.mutates,
    recovery: declared.recovery,
    step: site.step,
    phase: site.phase,
    attempt: row.attempt + 1,
    subject,
  });
  return answer.allow ? null : answer.reason;
}

function stagedAt(
  bodies: ReturnType<ReturnType<typeof historyOf>['bodies']>,
  intent: string,
): Site | null {
  for (const body of bodies) {
    if (body.kind === 'ActStaged' && body.intent === intent) return body.site;
  }
  return null;
}
