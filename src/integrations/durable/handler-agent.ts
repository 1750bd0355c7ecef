// A plain handler as an agent: its whole body is one effect, what it hands to its outbox are acts.
//
//   T1   result and outbox leave in one transaction, or neither.
//   T6   a body that died between its work and its record follows the recovery it declares; a person by default.

import type { TurnRef } from '../../ports/store.ts';
import type { RetryPolicy } from '../../protocol/backoff.ts';
import { digestOf, encode } from '../../protocol/canonical.ts';
import type { Recovery } from '../../protocol/effect-decision.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import { limits } from '../../protocol/limits.ts';
import type { Spend } from '../../protocol/record.ts';
import type { ActPerformer, AgentDefinition } from '../../runtime/agent-definition.ts';
import { defineTurnAgent } from '../../runtime/agent-definition.ts';
import type { Act, EffectCall, ProbeAnswer, TurnContext } from '../../runtime/turn-context.ts';

/** What a handler learns of its turn. */
export interface HandlerTurn extends EffectCall {
  readonly thread: string;
  readonly turn: string;
  /** Hands a deferred act over: it leaves with the handler's result, or not at all. */
  send(kind: string, args: unknown, options?: { readonly expiresInMs?: number }): void;
}

/** How the body of a handler is treated. Left out, it mutates, and a crash in it waits for a person. */
export interface HandlerTreatment<Input = unknown> {
  /** Name of the handler's agent: part of what its turns are known by. */
  readonly name: string;
  /** Default true. */
  readonly mutates?: boolean;
  /** Default `operator` when it mutates, else `retry`. `idempotent` when all it does takes `turn.idempotencyKey`. */
  readonly recovery?: Recovery;
  readonly retry?: Partial<RetryPolicy>;
  /** Default: what the host leaves, at most 15 minutes. */
  readonly timeoutMs?: number;
  readonly cost?: Partial<Spend>;
  /** With recovery `reconcile`: asks what a body came to. Answers the result it would have returned. */
  readonly probe?: (call: EffectCall, input: Input) => Promise<ProbeAnswer>;
  /** What the outbox may carry, by kind, and how the effector performs it. */
  readonly acts?: Readonly<Record<string, ActPerformer>>;
  /** Business key: within the thread the handler runs once for it, whatever turn asks; gives it a receipt. */
  readonly key?: (input: Input) => string;
}

/** What one body is run with. */
export type HandlerBody<Input, Result> = (
  input: Input,
  turn: HandlerTurn,
) => Promise<Result> | Result;

interface Done {
  readonly result: unknown;
  readonly acts: readonly Act[];
}

/** The agent of a handler; `leftMs` is how long its host still lives. */
export function handlerAgent<Input, Result>(
  body: (context: TurnContext) => HandlerBody<Input, Result>,
  treatment: HandlerTreatment<Input>,
  leftMs: () => number = () => limits.effectTimeoutMaxMs,
): AgentDefinition {
  const { name, acts = {}, key, probe, timeoutMs, ...declared } = treatment;
  const kinds = new Set(Object.keys(acts));
  return defineTurnAgent({
    name,
    acts,
    authority: { handler: name, acts: [...kinds].sort() },
    run: async (context, given) => {
      const input = given as Input;
      const run = body(context);
      const done = await context.effect<Done>({
        ...declared,
        kind: `handler.${name}`,
        args: { payload: digestOf(input) },
        timeoutMs: timeoutMs ?? Math.max(1, Math.min(limits.effectTimeoutMaxMs, leftMs())),
        ...(key === undefined ? {} : { key: key(input) }),
        ...(probe === undefined ? {} : { probe: async (call) => probed(await probe(call, input)) }),
        perform: (call) => perform(run, input, context, call, kinds),
      });
      for (const act of done.acts) await context.act(act);
      return done.result;
    },
  });
}

async function perform<Input, Result>(
  run: HandlerBody<Input, Result>,
  input: Input,
  { thread, turn }: Pick<TurnRef, 'thread' | 'turn'>,
  call: EffectCall,
  kinds: ReadonlySet<string>,
): Promise<Done> {
  const acts: Act[] = [];
  const send: HandlerTurn['send'] = (kind, args, options = {}) => {
    if (!kinds.has(kind))
      throw refused('kind', `one of the declared acts (${[...kinds].join(', ')})`, kind);
    if (acts.length >= limits.actsPerCommitMax)
      throw refused('kind', `at most ${limits.actsPerCommitMax} acts a turn`, 'one more');
    encode(args);
    acts.push({ kind, args, ...options });
  };
  const { idempotencyKey, effectKey, attempt, signal } = call;
  const bill: EffectCall['bill'] = (spend) => call.bill(spend);
  const facts = { idempotencyKey, effectKey, attempt, signal, bill, thread, turn, send };
  const result = await run(input, facts);
  return { result: result ?? null, acts };
}

/** A probe speaks of the result; what the body sent is not known to it. */
function probed(answer: ProbeAnswer): ProbeAnswer {
  if (answer.outcome !== 'landed') return answer;
  return { ...answer, output: { result: answer.output ?? null, acts: [] } };
}

function refused(field: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError('invalid_effect', `send.${field}: expected ${expected}, got ${got}`, {
    retry: 'never',
    details: { field: `send.${field}`, expected, got },
  });
}
