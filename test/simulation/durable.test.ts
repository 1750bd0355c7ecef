// Plain handlers made durable, and the same under middy: what a caller sees when events come again, or processes die.
import middy from '@middy/core';
import type { APIGatewayProxyEventV2, Context } from 'aws-lambda';
import { expect, test } from 'vitest';
import {
  chargeWith,
  handler as exampleHandler,
  optionsFor,
  type Shop,
} from '../../src/examples/handler.ts';
import { refOf } from '../../src/integrations/durable/deliver.ts';
import {
  type DurableHandler,
  type DurableOptions,
  durable,
  durableTurn,
  type HandlerTurn,
  TurnNotDoneError,
  turnOf,
} from '../../src/integrations/durable/index.ts';
import type { TurnStore } from '../../src/ports/store.ts';
import { EffectNotAppliedError } from '../../src/protocol/errors.ts';
import { never } from '../../src/runtime/never.ts';
import { exploreCrashes, type Scenario } from '../../src/testing/crash-explorer.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { Scene } from './scene.ts';

interface Order {
  readonly request: string;
  readonly cents: number;
  readonly order?: string;
}

interface Example {
  readonly request: string;
  readonly customer: string;
  readonly cents: number;
}

const example: Example = { request: 'r1', customer: 'ann@example.com', cents: 5 };

type Body = (order: Order, turn: HandlerTurn) => Promise<unknown>;

/** One handler over one world; `body` may be exchanged, as a bug fix does. */
class Desk {
  body: Body;
  readonly mails: unknown[] = [];
  readonly scene: Scene;
  readonly #more: Partial<DurableOptions<Order>>;
  #handler: DurableHandler<Order, unknown>;

  constructor(store: TurnStore, body: Body, more: Partial<DurableOptions<Order>> = {}) {
    this.body = body;
    this.#more = more;
    this.#handler = this.#load();
    this.scene = new Scene(store, this.#handler.agent);
  }

  /** The module of the handler as a process loads it. */
  #load(): DurableHandler<Order, unknown> {
    return durable<Order, unknown>((order, _context, turn) => this.body(order, turn), {
      name: 'charge',
      runtime: () => this.scene.process.runtime,
      turn: ({ request }) => ({ turn: request }),
      acts: {
        mail: (args) => ({ recovery: 'idempotent', perform: async () => this.mails.push(args) }),
      },
      ...this.#more,
    });
  }

  restart(): void {
    this.scene.restart();
    this.#handler = this.#load();
  }

  /** Delivers an event to the process that runs. */
  async send(order: Order, context: unknown = null): Promise<unknown> {
    return this.scene.world.settle(this.scene.process, this.#handler(order, context));
  }
}

const order: Order = { request: 'r1', cents: 5 };

async function refused(work: Promise<unknown>): Promise<TurnNotDoneError> {
  const error: unknown = await work.then(
    (value) => new Error(`expected a refusal, got ${JSON.stringify(value)}`),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof TurnNotDoneError)) throw error;
  return error;
}

onEachStore(
  'durable: an event that comes again is answered from the store; its outbox leaves once, with its result [T1 T2]',
  async (open) => {
    let charged = 0;
    const desk = new Desk(await open(), async ({ cents }, turn) => {
      charged += 1;
      turn.send('mail', { cents });
      return { charged: cents };
    });
    expect(await desk.send(order)).toEqual({ charged: 5 });
    expect(await desk.send(order)).toEqual({ charged: 5 });
    await desk.scene.world.recover();
    expect([charged, desk.mails]).toEqual([1, [{ cents: 5 }]]);
    await expect(desk.send({ ...order, cents: 6 })).rejects.toMatchObject({
      code: 'turn_payload_changed',
    });
    expect(await desk.send({ ...order, request: 'r2' })).toEqual({ charged: 5 });
    expect(charged).toBe(2);
  },
);

onEachStore(
  'durable: a handler that fails before it acts concludes failed, sends nothing, and says so again [T1 T2]',
  async (open) => {
    let tried = 0;
    const why = new EffectNotAppliedError('the card is not known');
    const body: Body = async (_, turn) => {
      tried += 1;
      turn.send('mail', {});
      throw why;
    };
    const desk = new Desk(await open(), body, { retry: { maxAttempts: 1 } });
    expect(await refused(desk.send(order))).toMatchObject({
      status: 'failed',
      code: 'effect_not_applied',
      retryable: false,
      cause: why,
    });
    expect(await refused(desk.send(order))).toMatchObject({ status: 'failed' });
    await desk.scene.world.recover();
    expect([tried, desk.mails]).toEqual([1, []]);
  },
);

onEachStore(
  'durable: a process that dies in the body is never guessed about: a person by default, the same key where declared [T6]',
  async (open) => {
    const keys: string[] = [];
    const dying: Body = async (_, turn) => {
      keys.push(turn.idempotencyKey);
      desk.scene.process.kill();
      return never();
    };
    let desk = new Desk(await open(), dying);
    expect(await desk.send(order)).toBe('died');
    desk.restart();
    expect(await refused(desk.send(order))).toMatchObject({
      code: 'turn_pending',
      status: 'running',
      retryable: true,
    });
    desk.scene.world.clock.advance(11_000);
    expect(await refused(desk.send(order))).toMatchObject({
      status: 'quarantined',
      retryable: false,
    });
    desk = new Desk(await open(), dying, { recovery: 'idempotent' });
    expect(await desk.send(order)).toBe('died');
    desk.body = async (_, turn) => {
      keys.push(turn.idempotencyKey);
      return 'charged';
    };
    await desk.scene.world.recover();
    desk.restart();
    expect(await desk.send(order)).toBe('charged');
    expect(keys).toHaveLength(3);
    expect(keys[2]).toBe(keys[1]);
  },
);

onEachStore(
  'durable: a business key has a receipt: it runs once in its thread, whatever event asks [T2]',
  async (open) => {
    let charged = 0;
    const desk = new Desk(await open(), async () => ({ charge: ++charged }), {
      turn: ({ request }) => ({ turn: request, thread: 'orders' }),
      key: ({ order: id = '' }) => id,
      input: ({ cents, order: id = '' }) => ({ request: '', cents, order: id }),
    });
    expect(await desk.send({ ...order, order: 'o-1' })).toEqual({ charge: 1 });
    expect(await desk.send({ request: 'r2', cents: 5, order: 'o-1' })).toEqual({ charge: 1 });
    expect(await desk.send({ request: 'r3', cents: 5, order: 'o-2' })).toEqual({ charge: 2 });
    expect(await refused(desk.send({ request: 'r4', cents: 6, order: 'o-1' }))).toMatchObject({
      status: 'failed',
      code: 'effect_arguments_changed',
    });
  },
);

onEachStore(
  'durable: dying at any port call charges once and mails once, for a body that takes its key [T1 T2 T4 T5 T6]',
  async (open) => {
    const scenario: Scenario<CountedShop> = {
      name: 'a plain handler',
      provider: () => new CountedShop(),
      agents: (shop, current) => {
        const post: Shop['post'] = (...asked) =>
          current().provider(asked[0], () => shop.post(...asked));
        const { input: _input, turn: _turn, ...treatment } = optionsFor({ post });
        const runtime = () => current().runtime;
        const turn = ({ request }: Example) => ({ turn: request });
        return [
          durable<Example, unknown>(chargeWith({ post }), { ...treatment, runtime, turn }).agent,
        ];
      },
      request: ([agent]) => {
        if (agent === undefined) throw new Error('a scenario has an agent');
        const ref = refOf(agent.name, { turn: 'r1' });
        return { ref, agent, input: example, subject: null, budget: null, actor: 'handler' };
      },
      check: ({ turn, provider }) => {
        expect(turn).toMatchObject({ status: 'succeeded', result: { statusCode: 200 } });
        expect(provider.landed).toEqual([
          'charges {"cents":5}',
          'mails {"charge":"charges-1","to":"ann@example.com"}',
        ]);
      },
    };
    const explored = await exploreCrashes(scenario, () => open());
    expect(explored.statuses).toEqual({ succeeded: explored.runs });
    expect(explored.runs).toBeGreaterThan(15);
  },
);

test('durable: an act nobody declared is refused before the handler goes on [T11]', async () => {
  let after = false;
  const desk = new Desk(memoryStore(), async (_, turn) => {
    turn.send('fax', {});
    after = true;
  });
  expect(await refused(desk.send(order))).toMatchObject({ status: 'quarantined' });
  expect(after).toBe(false);
});

test('durable: a body ends with its host: what was not heard by then is in doubt, and named [T6]', async () => {
  const context = { getRemainingTimeInMillis: () => 5_000 };
  let heard: AbortSignal | null = null;
  const desk = new Desk(memoryStore(), (_, turn) => {
    heard = turn.signal;
    return never();
  });
  const from = desk.scene.world.clock.now();
  expect(await refused(desk.send(order, context))).toMatchObject({
    status: 'quarantined',
    code: 'effect_undecided',
  });
  expect(desk.scene.world.clock.now() - from).toBeLessThan(5_000);
  expect(heard).toMatchObject({ aborted: true });
});

const lambda = { getRemainingTimeInMillis: () => 50_000 } as Context;

function middyDesk(store: TurnStore, body: (order: Order, context: Context) => Promise<unknown>) {
  const mails: unknown[] = [];
  const performer = () => ({ recovery: 'idempotent' as const, perform: async () => mails.push(1) });
  const options = { name: 'charge', acts: { mail: performer } };
  const plain = durable<Order, unknown>(async () => null, {
    ...options,
    runtime: () => scene.process.runtime,
    turn: ({ request }) => ({ turn: request }),
  });
  const scene: Scene = new Scene(store, plain.agent);
  const handler = middy<Order, unknown>()
    .use(
      durableTurn<Order, unknown>({
        ...options,
        runtime: () => scene.process.runtime,
        turn: ({ request }) => ({ turn: request }),
      }),
    )
    .handler(body);
  const send = (event: Order) => scene.world.settle(scene.process, handler(event, { ...lambda }));
  return { scene, mails, send };
}

onEachStore(
  'middy: an event that comes again never reaches the handler, another payload neither [T1 T2]',
  async (open) => {
    let charged = 0;
    const { scene, mails, send } = middyDesk(await open(), async ({ cents }, context) => {
      charged += 1;
      turnOf(context).send('mail', { cents });
      return { charged: cents };
    });
    expect(await send(order)).toEqual({ charged: 5 });
    expect(await send(order)).toEqual({ charged: 5 });
    await expect(send({ ...order, cents: 6 })).rejects.toMatchObject({
      code: 'turn_payload_changed',
    });
    await scene.world.recover();
    expect([charged, mails]).toEqual([1, [1]]);
  },
);

test('middy: what the handler throws is the cause of how its turn ended [T6]', async () => {
  const why = new EffectNotAppliedError('the card is not known');
  let tried = 0;
  const { send } = middyDesk(memoryStore(), async () => {
    tried += 1;
    throw why;
  });
  expect(await refused(send(order))).toMatchObject({ status: 'failed', cause: why });
  expect(await refused(send(order))).toMatchObject({ status: 'failed' });
  expect(tried).toBe(1);
  const other = middyDesk(memoryStore(), async () => {
    throw new Error('socket hang up');
  });
  expect(await refused(other.send(order))).toMatchObject({ status: 'quarantined' });
});

test('middy: a handler without a response is answered from the store too [T2]', async () => {
  let ran = 0;
  const { send } = middyDesk(memoryStore(), async () => {
    ran += 1;
  });
  expect(await send(order)).toBeNull();
  expect(await send(order)).toBeNull();
  expect(ran).toBe(1);
});

/** The shop of the example: it answers a key again. */
class CountedShop implements Shop {
  readonly landed: string[] = [];
  readonly #answers = new Map<string, { id: string }>();
  readonly post: Shop['post'] = async (path, body, key) => {
    const known = this.#answers.get(key);
    if (known !== undefined) return known;
    this.landed.push(`${path} ${JSON.stringify(body)}`);
    const made = { id: `${path}-${this.landed.length}` };
    this.#answers.set(key, made);
    return made;
  };
}

onEachStore(
  'handler: the example charges once however often its event comes, and mails once [T1 T2 T6]',
  async (open) => {
    const shop = new CountedShop();
    const store = await open();
    const handle = durable(chargeWith(shop), {
      ...optionsFor(shop),
      runtime: () => scene.process.runtime,
    });
    const scene: Scene = new Scene(store, handle.agent);
    const event = (cents: number, requestId: string) =>
      ({
        body: JSON.stringify({ request: 'r1', customer: 'ann@example.com', cents }),
        requestContext: { requestId },
      }) as APIGatewayProxyEventV2;
    const send = (cents: number, id: string) =>
      scene.world.settle(scene.process, handle(event(cents, id), lambda));
    const answer = { statusCode: 200, body: JSON.stringify({ charge: 'charges-1' }) };
    expect(await send(5, 'first')).toEqual(answer);
    expect(await send(5, 'second')).toEqual(answer);
    await expect(send(6, 'third')).rejects.toMatchObject({ code: 'turn_payload_changed' });
    await scene.world.recover();
    expect(shop.landed).toEqual([
      'charges {"cents":5}',
      'mails {"charge":"charges-1","to":"ann@example.com"}',
    ]);
    expect(exampleHandler.agent.name).toBe('charge');
  },
);
