// The same for a middy handler: `middy().use(durableTurn({...})).handler(...)`, as the last middleware.
//
// The turn opens in `before`, whose effect waits while middy runs the handler, and closes in `after` or `onError`.
// A middleware cannot run the handler of another event: so each turn is a thread of its own, and its body is
// attempted once a delivery.
import type { MiddlewareObj } from '@middy/core';
import type { Runtime } from '../../runtime/runtime.ts';
import { deliver, type EventIdentity, timeLeft } from './deliver.ts';
import { type HandlerTreatment, type HandlerTurn, handlerAgent } from './handler-agent.ts';

export interface DurableMiddlewareOptions<Event>
  extends Omit<HandlerTreatment, 'key' | 'retry' | 'probe'> {
  readonly runtime: () => Runtime;
  readonly turn: (event: Event) => Omit<EventIdentity, 'thread'>;
  /** The part of an event that is compared on a retry, and kept. Default the whole event. */
  readonly input?: (event: Event) => unknown;
}

/** An open turn between `before` and `after`. */
interface Open {
  readonly turn: HandlerTurn;
  resolve(response: unknown): void;
  reject(error: unknown): void;
  readonly answer: Promise<unknown>;
}

const opened = new WeakMap<object, Open>();

/** The turn of a middy handler, for its outbox and its idempotency key: by the context it is called with. */
export function turnOf(context: object): HandlerTurn {
  const open = opened.get(context);
  if (open === undefined)
    throw new Error('turnOf: expected the context of a handler under durableTurn');
  return open.turn;
}

/** A middleware that gives a handler turn dedup, a payload check and an outbox; answered events never reach it. */
export function durableTurn<Event, Result>(
  options: DurableMiddlewareOptions<Event>,
): MiddlewareObj<Event, Result> {
  const { runtime: make, turn: identify, input, ...treatment } = options;
  let runtime: Runtime | null = null;
  return {
    name: 'durableTurn',
    before: async (request) => {
      runtime ??= make();
      const { event, context } = request;
      const given = input === undefined ? event : input(event);
      const first = await begin(runtime, treatment, identify(event), given, context);
      if (first.kind === 'open') opened.set(context, first.open);
      // middy tells an early response by its presence, so that one without a value counts too.
      else Object.assign(request, { earlyResponse: first.result });
    },
    after: async (request) => {
      const open = taken(request.context);
      if (open === null) return;
      open.resolve(request.response);
      request.response = (await open.answer) as Result;
    },
    onError: async (request) => {
      const open = taken(request.context);
      if (open === null) return;
      open.reject(request.error);
      await open.answer;
    },
  };
}

function taken(context: object): Open | null {
  const open = opened.get(context) ?? null;
  opened.delete(context);
  return open;
}

type First =
  | { readonly kind: 'open'; readonly open: Open }
  | { readonly kind: 'answered'; readonly result: unknown };

function begin(
  runtime: Runtime,
  treatment: HandlerTreatment,
  identity: EventIdentity,
  input: unknown,
  context: unknown,
): Promise<First> {
  return new Promise((resolve, reject) => {
    let thrown: unknown;
    const left = timeLeft(context);
    const { reserveMs } = runtime.settings;
    const body = (_: unknown, turn: HandlerTurn): Promise<unknown> =>
      new Promise((finish, fail) => {
        const failed = (error: unknown): void => {
          thrown = error;
          fail(error);
        };
        resolve({ kind: 'open', open: { turn, resolve: finish, reject: failed, answer } });
      });
    const agent = handlerAgent(
      () => body,
      { ...treatment, retry: { maxAttempts: 1 } },
      left === null ? undefined : () => (timeLeft(context) ?? 0) - reserveMs,
    );
    const delivery = { runtime, agent, identity, input, leftMs: left };
    const answer = deliver(delivery, () => thrown);
    answer.then((result) => resolve({ kind: 'answered', result }), reject);
  });
}
