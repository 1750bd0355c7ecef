// A checkout: stock and payment are held, the sale is posted to a ledger of our own in the journal's transaction,
// and the mail leaves only when both stand. Shipping follows; if it fails, the sale is undone, which a second
// person must allow.
//
//   TURNSTONE_AGENTS=src/examples/checkout.ts npm start
//   npx cdk deploy -c agents=src/examples/checkout.ts -c atomicTables=sales -c httpAllow=shop.example.com \
//     -c agentsEnv=SHOP_URL=https://shop.example.com,SALES_TABLE=sales

import type { AgentHost, AtomicEntries, Effect, HttpAnswer, TurnContext } from 'turnstone';
import { AgentError, defineTurnAgent, httpCall } from 'turnstone';
import * as v from 'valibot';

/** What the shop sends with a turn; `total` in whole cents. */
const Order = v.object({
  order: v.string(),
  sku: v.string(),
  quantity: v.pipe(v.number(), v.integer(), v.minValue(1)),
  total: v.pipe(v.number(), v.integer(), v.minValue(1)),
});
type Order = v.InferOutput<typeof Order>;

/** The ledger in the embedded store; on AWS it is a DynamoDB table with the key `id` (text). */
export const ownTables =
  'CREATE TABLE IF NOT EXISTS sales (id TEXT PRIMARY KEY, cents INTEGER NOT NULL) STRICT';

export const agents = ({ http, env }: AgentHost) => {
  const shop = env.SHOP_URL ?? 'http://127.0.0.1:4000';
  const table = env.SALES_TABLE ?? 'sales';
  // Stock, payments and the carrier can be asked what a call came to; the mail cannot, and knows no keys.
  const asked = (path: string, body: unknown): Effect<HttpAnswer> =>
    httpCall(
      http,
      { method: 'POST', url: `${shop}/${path}`, body },
      {
        kind: path.replace('/', '.'),
        recovery: 'reconcile',
        probeUrl: (key) => `${shop}/probe/${key}`,
      },
    );
  const mail = (body: unknown): Effect<HttpAnswer> =>
    httpCall(http, { method: 'POST', url: `${shop}/mail`, body }, { kind: 'mail' });

  const sell = async (step: TurnContext, order: Order) => {
    const group = step.openGroup('sale', ['stock', 'money', 'ledger', 'mail']);
    const held = await group.reversible(asked('stock/hold', order), 'stock', ({ body }) =>
      asked('stock/release', body),
    );
    const paid = await group.reversible(asked('payments/charge', order), 'money', ({ body }) =>
      asked('payments/refund', body),
    );
    const row = posting(table, `sale-${order.order}`, order.total);
    group.atomic({ kind: 'ledger.post', args: order, entries: row }, 'ledger');
    group.deferred(mail({ order: order.order, text: 'thank you' }), 'mail');
    await group.commit([{ name: 'the charge has an id', holds: idOf(paid) !== null }]);
    return { hold: held.body, charge: paid.body };
  };

  /** Money goes back only when a second person agrees; the ledger gets a row of its own, nothing is deleted. */
  const takeBack = async (undo: TurnContext, order: Order, sale: unknown) => {
    const action = { refund: order.total, of: order.order };
    const { decision } = await undo.approval({ action, summary: `refund ${order.order}` });
    if (decision !== 'approved')
      throw new AgentError(`the refund was ${decision}`, { code: 'refund_refused' });
    const group = undo.openGroup('refund', ['money', 'stock', 'ledger']);
    const entries = posting(table, `refund-${order.order}`, -order.total);
    group.atomic({ kind: 'ledger.post', args: action, entries }, 'ledger');
    group.deferred(asked('payments/refund', sale), 'money');
    group.deferred(asked('stock/release', sale), 'stock');
    await group.commit();
  };

  const checkout = defineTurnAgent({
    name: 'checkout',
    input: Order,
    run: async (context, input) => {
      const order = input as Order;
      const sale = await context.step(
        'sell',
        {
          compensation: 'compensatable',
          undo: (undo, output) => takeBack(undo, order, output),
        },
        (step) => sell(step, order),
      );
      const shipped = await context.step('ship', {}, (step) =>
        step.effect(asked('carrier/ship', { order: order.order })),
      );
      context.state.append('orders', order.order);
      return { sale, shipment: shipped.body };
    },
  });
  return [checkout];
};

/** A row of the ledger for both engines; a second one with the same id is refused. */
function posting(table: string, id: string, cents: number): AtomicEntries {
  return {
    sqlite: [{ sql: 'INSERT INTO sales (id, cents) VALUES (?, ?)', params: [id, cents] }],
    dynamodb: [
      {
        Put: {
          TableName: table,
          Item: { id: { S: id }, cents: { N: `${cents}` } },
          ConditionExpression: 'attribute_not_exists(id)',
        },
      },
    ],
  };
}

function idOf(answer: HttpAnswer): string | null {
  const { body } = answer;
  return typeof body === 'object' && body !== null && 'id' in body ? String(body.id) : null;
}
