// What a thread demands of a new turn's agent, before anything is written.
//   K-63, decision 15  only the authority half of the fingerprint refuses.
//   Decision 19  a checkpoint newer than the code is held: nothing is migrated or mutated.
//   Ruling 10  a thread belongs to the agent of its first committed turn.

import type { Checkpoint, Head } from '../ports/store.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { AgentDefinition } from './agent-definition.ts';
import { checkSchema } from './thread-state.ts';

/** Throws `agent_mismatch`, `fingerprint_mismatch` or `schema_from_future`. */
export function checkThread(
  head: Head | null,
  checkpoint: Checkpoint | null,
  agent: AgentDefinition,
): void {
  if (head === null) return;
  if (head.agent !== null && head.agent !== agent.name) {
    throw new TurnstoneError(
      'agent_mismatch',
      `this thread belongs to agent "${head.agent}", not "${agent.name}"`,
      {
        retry: 'never',
        details: { expected: head.agent, got: agent.name },
      },
    );
  }
  if (head.authority !== null && !mayContinue(head.authority, agent)) {
    throw new TurnstoneError(
      'fingerprint_mismatch',
      `agent "${agent.name}" has another authority than the one this thread was written with`,
      { retry: 'never', details: { expected: head.authority, got: agent.authority } },
    );
  }
  checkState(head, checkpoint, agent);
}

/** Decision 19, for new turns and for passes of open ones: throws `schema_from_future` before anything is written. */
export function checkState(
  head: Head | null,
  checkpoint: Checkpoint | null,
  agent: AgentDefinition,
): void {
  checkSchema(Math.max(head?.schema ?? 0, checkpoint?.schema ?? 0), agent);
}

/** True when an agent may go on with what `authority` began (K-64). */
export function mayContinue(authority: string, agent: AgentDefinition): boolean {
  return authority === agent.authority || agent.accepts.has(authority);
}
