// One event as one turn: who it is, and what its answer means to whoever called the handler.
import type { TurnRef } from '../../ports/store.ts';
import type { EpochMs } from '../../protocol/ids.ts';
import { subjectId, tenantId, threadId, turnId } from '../../protocol/ids.ts';
import type { TurnStatus } from '../../protocol/turn-status.ts';
import type { AgentDefinition } from '../../runtime/agent-definition.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import type { TurnAnswer } from '../../runtime/turn-view.ts';
import { withTurn } from '../../runtime/with-turn.ts';

/** What an event is known by. The same turn with another input is refused as `turn_payload_changed` [T2]. */
export interface EventIdentity {
  /** The caller's own id of this delivery: the same on every retry of it. */
  readonly turn: string;
  /** Turns of one thread run one after another. Default: a thread of its own. */
  readonly thread?: string;
  /** Default `default`. */
  readonly tenant?: string;
  /** Whose data the event is. */
  readonly subject?: string;
  /** Who sent it. Default `handler`. */
  readonly actor?: string;
}

/** The turn of an event did not succeed, or not yet: `retryable` says whether the same event may be sent again. */
export class TurnNotDoneError extends Error {
  override readonly name = 'TurnNotDoneError';
  readonly code: string;
  readonly status: TurnStatus | 'busy';
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  constructor(
    message: string,
    facts: {
      code: string;
      status: TurnStatus | 'busy';
      retryable: boolean;
      retryAfterMs?: number;
      cause?: unknown;
    },
  ) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = facts.code;
    this.status = facts.status;
    this.retryable = facts.retryable;
    this.retryAfterMs = facts.retryAfterMs;
  }
}

export interface Delivery {
  readonly runtime: Runtime;
  readonly agent: AgentDefinition;
  readonly identity: EventIdentity;
  readonly input: unknown;
  /** Milliseconds the host still lives; null where nothing bounds it. */
  readonly leftMs: number | null;
}

export function refOf(name: string, { tenant, thread, turn }: EventIdentity): TurnRef {
  return {
    tenant: tenantId('tenant', tenant ?? 'default'),
    thread: threadId('thread', thread ?? `${name}:${turn}`),
    turn: turnId('turn', turn),
  };
}

/** Delivers an event and answers its result; throws `TurnNotDoneError`, with `thrown()` as its cause, or TurnstoneError. */
export async function deliver(delivery: Delivery, thrown: () => unknown): Promise<unknown> {
  const { runtime, agent, identity, input, leftMs } = delivery;
  const agents = new Map([...runtime.agents, [agent.name, agent]]);
  const deadlineAt = (runtime.clock.now() + (leftMs ?? 0)) as EpochMs;
  const answer = await withTurn(
    { ...runtime, agents },
    {
      ref: refOf(agent.name, identity),
      agent,
      input: agent.parseInput(input),
      subject: identity.subject === undefined ? null : subjectId('subject', identity.subject),
      budget: null,
      actor: identity.actor ?? 'handler',
      ...(leftMs === null ? {} : { deadlineAt }),
    },
  );
  return resultOf(answer, thrown);
}

function resultOf(answer: TurnAnswer, thrown: () => unknown): unknown {
  if (answer.kind === 'busy') {
    const { holder, retryAfterMs } = answer;
    const facts = { code: 'thread_busy', status: 'busy' as const, retryable: true, retryAfterMs };
    throw new TurnNotDoneError(`turn "${holder}" holds the thread`, facts);
  }
  const { turn } = answer;
  const { status } = turn;
  if (answer.kind === 'pending') {
    const facts = { code: 'turn_pending', status, retryable: true };
    throw new TurnNotDoneError(`turn "${turn.turn}" is ${status}`, facts);
  }
  if (status === 'succeeded') return turn.result;
  const { code, message } = turn.error ?? { code: `turn_${status}`, message: `it is ${status}` };
  const cause = thrown();
  const facts = { code, status, retryable: false, ...(cause === undefined ? {} : { cause }) };
  throw new TurnNotDoneError(`turn "${turn.turn}" is ${status}: ${message}`, facts);
}

/** What a Lambda context says of the time left; null for any other second argument. */
export function timeLeft(context: unknown): number | null {
  if (typeof context !== 'object' || context === null) return null;
  const ask: unknown = Reflect.get(context, 'getRemainingTimeInMillis');
  return typeof ask === 'function' ? Number(Reflect.apply(ask, context, [])) : null;
}
