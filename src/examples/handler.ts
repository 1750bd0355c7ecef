// A Lambda handler somebody already has, made durable: the function stays, the last statement is new.
//
// An order that is delivered again is answered from the store and charges nothing; the same request id with another
// amount is refused; the receipt mail leaves only with the result. A process that dies while it charges is settled
// by repeating with the same key, because this payment provider takes one.
//
//   new NodejsFunction(stack, 'charge', { entry: 'src/examples/handler.ts' })  // beside a deployed Turnstone
//
// Give it the environment and grants of the turn function. List `handler.agent` in the agents of the deployment: the
// sweeper goes on with turns whose process died, and the effector sends the mail.
import type { APIGatewayProxyEventV2, Context } from 'aws-lambda';
import { type DurableOptions, durable, type HandlerTurn } from 'turnstone/durable';
import { lambdaRuntime } from 'turnstone/lambda';

interface Order {
  readonly request: string;
  readonly customer: string;
  readonly cents: number;
}

/** The payment provider and the mailer: both take a key, and answer it again. */
export interface Shop {
  post(path: string, body: unknown, key: string, signal: AbortSignal): Promise<{ id: string }>;
}

const shop: Shop = {
  post: async (path, body, key, signal) => {
    const headers = { 'content-type': 'application/json', 'idempotency-key': key };
    const request = { method: 'POST', headers, body: JSON.stringify(body), signal };
    const response = await fetch(`https://shop.example.com/${path}`, request);
    if (!response.ok) throw new Error(`${path} answered ${response.status}`);
    return (await response.json()) as { id: string };
  },
};

/** The handler as it was, with the turn as third argument. */
export const chargeWith =
  ({ post }: Shop) =>
  async (order: Order, _context: Context | null, turn: HandlerTurn) => {
    const { id } = await post('charges', { cents: order.cents }, turn.idempotencyKey, turn.signal);
    turn.send('mail', { to: order.customer, charge: id });
    return { statusCode: 200, body: JSON.stringify({ charge: id }) };
  };

const orderOf = ({ body }: APIGatewayProxyEventV2): Order => JSON.parse(body ?? '');

export const optionsFor = ({ post }: Shop): DurableOptions<APIGatewayProxyEventV2, Order> => ({
  name: 'charge',
  runtime: lambdaRuntime,
  turn: (event) => ({ turn: orderOf(event).request }),
  input: orderOf,
  recovery: 'idempotent',
  acts: {
    mail: (args) => ({
      recovery: 'idempotent',
      perform: ({ idempotencyKey, signal }) => post('mails', args, idempotencyKey, signal),
    }),
  },
});

export const handler = durable(chargeWith(shop), optionsFor(shop));
