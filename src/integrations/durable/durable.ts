// An existing handler, made durable: `durable(handler, { name, runtime, turn })`.
//
//   T2   an event that was handled is answered from the store; the same id with another input is refused.
//   T5/T6  its body is announced before it runs and recorded after; what a crash leaves open is never guessed.
import type { AgentDefinition } from '../../runtime/agent-definition.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { deliver, type EventIdentity, timeLeft } from './deliver.ts';
import { type HandlerTreatment, type HandlerTurn, handlerAgent } from './handler-agent.ts';

export interface DurableOptions<Event, Input = Event> extends HandlerTreatment<Input> {
  /** Made with the first event, once a process: `lambdaRuntime` of `turnstone/lambda`, or a runtime of your own. */
  readonly runtime: () => Runtime;
  /** What an event is known by. */
  readonly turn: (event: Event) => EventIdentity;
  /**
   * The part of an event that the handler is given, compared on a retry and kept: leave out what differs between
   * deliveries of one event (request ids, receipt handles). Default the whole event.
   */
  readonly input?: (event: Event) => Input;
}

/** `context` is the host's own second argument: null when a sweep goes on with a turn whose process died. */
export type PlainHandler<Input, Result> = (
  input: Input,
  context: never,
  turn: HandlerTurn,
) => Promise<Result> | Result;

export interface DurableHandler<Event, Result> {
  (event: Event, context?: unknown): Promise<Result>;
  /** For the agents of a deployment, so that a sweep can go on with turns whose process died. */
  readonly agent: AgentDefinition;
}

/** Wraps a handler; throws `TurnNotDoneError` where the turn did not succeed. */
export function durable<Event, Result, Input = Event>(
  handler: PlainHandler<Input, Result>,
  options: DurableOptions<Event, Input>,
): DurableHandler<Event, Result> {
  const { runtime: open, turn, input, ...treatment } = options;
  let runtime: Runtime | null = null;
  const handle = async (event: Event, context: unknown = null): Promise<Result> => {
    runtime ??= open();
    const { reserveMs } = runtime.settings;
    const left = timeLeft(context);
    const leftMs = left === null ? undefined : () => (timeLeft(context) ?? 0) - reserveMs;
    let thrown: unknown;
    const agent = handlerAgent<Input, Result>(
      () => async (given, facts) => {
        try {
          return await handler(given, context as never, facts);
        } catch (error) {
          thrown = error;
          throw error;
        }
      },
      treatment,
      leftMs,
    );
    const given = input === undefined ? event : input(event);
    const delivery = { runtime, agent, identity: turn(event), input: given, leftMs: left };
    return (await deliver(delivery, () => thrown)) as Result;
  };
  const agent = handlerAgent<Input, Result>(
    () => (given, facts) => handler(given, null as never, facts),
    treatment,
  );
  return Object.assign(handle, { agent });
}
