// A refund desk: people write in their own words, a model reads what they want, and no money moves before a yes
// to exactly what was shown. The model only proposes: it can neither pay nor answer for the person.
//
//   npm install ai
//   AI_GATEWAY_API_KEY=... TURNSTONE_AGENTS=src/examples/refund-desk.ts npm start
//   npx cdk deploy -c agents=src/examples/refund-desk.ts -c httpAllow=shop.example.com,ai-gateway.vercel.sh
//
//   {"message": "I want my money back for order 7"}            asks, with an interaction and its id
//   {"confirm": {"interactionId": "...", "value": true}}       pays, once
//   {"message": "yes please", "answering": "..."}              the same in words
import { gateway } from 'ai';
import type { AgentHost, Capability, HttpCaller, Model, Policy } from 'turnstone';
import { defineAgent, httpCall } from 'turnstone';
import { aiSdkModel } from 'turnstone/ai-sdk';
import * as z from 'zod';

const Order = z.object({ id: z.number(), cents: z.number(), paid: z.boolean() });
type Order = z.infer<typeof Order>;
const Refund = z.object({ order: z.number(), cents: z.number().int().positive() });
type Refund = z.infer<typeof Refund>;

const euros = (cents: number) => `${(cents / 100).toFixed(2)} EUR`;

/** What the desk can do, over the shop's HTTP interface. */
function capabilities(http: HttpCaller, shop: string): readonly Capability[] {
  const look: Capability = {
    id: 'orders.look',
    description: 'Look an order up by its number.',
    effect: 'read',
    input: z.object({ order: z.number() }),
    output: Order,
    provides: { 'order@1': Order },
    // Whoever needs an order gets the one its own input names.
    automatic: ({ input }) => ({ order: (input as { order: number }).order }),
    run: async (context) => {
      const { order } = context.input as { order: number };
      const url = `${shop}/orders/${order}`;
      const { status, body } = await context.read(httpCall(http, { method: 'GET', url }, get));
      if (status !== 200) {
        return { kind: 'failed', code: 'no_order', message: `There is no order ${order}.` };
      }
      const found = Order.parse(body);
      const evidence = [context.cite(`the shop's record of order ${order}`)];
      const message = `Order ${order} came to ${euros(found.cents)}.`;
      const facts = [{ fact: 'order@1', value: found, evidence }];
      return { kind: 'completed', output: found, facts, message };
    },
  };

  const refund: Capability = {
    id: 'refunds.pay',
    description: 'Pay money of an order back.',
    effect: 'write',
    confirmation: 'required',
    input: Refund,
    output: z.object({ refund: z.string() }),
    requires: ['order@1'],
    provides: { 'refund@1': z.string() },
    invalidates: ['order@1'],
    confirmationText: (input) => {
      const { order, cents } = input as Refund;
      return `Refund ${euros(cents)} for order ${order}?`;
    },
    run: async (context) => {
      const { order, cents } = context.input as Refund;
      const known = context.fact('order@1') as Order;
      if (known.id !== order) {
        return { kind: 'needs_dependency', fact: 'order@1', capability: look.id, input: { order } };
      }
      if (cents > known.cents) {
        const message = `Order ${order} came to ${euros(known.cents)} only.`;
        return { kind: 'failed', code: 'too_much', message };
      }
      // The key is the business operation: an order is refunded once, however often it is asked for.
      const request = { method: 'POST', url: `${shop}/refunds`, body: { order, cents } };
      const { body } = await context.write(`order-${order}`, httpCall(http, request, post));
      const id = String((body as { id: unknown }).id);
      return {
        kind: 'completed',
        output: { refund: id },
        facts: [{ fact: 'refund@1', value: id, evidence: ['f:order@1'] }],
        protectedMessage: `${euros(cents)} are on their way back to you. Reference: ${id}`,
      };
    },
  };

  const goodwill: Capability = {
    id: 'goodwill.credit',
    description: 'Give a voucher for trouble with an order.',
    effect: 'write',
    // It asks by itself: what it offers depends on what it finds.
    confirmation: 'capability',
    input: z.object({ order: z.number() }),
    output: z.object({ voucher: z.string() }),
    run: async (context) => {
      const { order } = context.input as { order: number };
      if (context.resumed === null) {
        const url = `${shop}/goodwill/${order}`;
        const { body } = await context.read(httpCall(http, { method: 'GET', url }, get));
        const { cents } = z.object({ cents: z.number() }).parse(body);
        const summary = `Take a voucher over ${euros(cents)} for order ${order}?`;
        return { kind: 'needs_confirmation', summary, payload: { cents }, expiresInMs: 3_600_000 };
      }
      const { cents } = context.resumed.payload as { cents: number };
      const request = { method: 'POST', url: `${shop}/vouchers`, body: { order, cents } };
      const { body } = await context.write(`order-${order}`, httpCall(http, request, post));
      const voucher = String((body as { id: unknown }).id);
      return { kind: 'completed', output: { voucher }, protectedMessage: `Voucher ${voucher}` };
    },
  };
  return [look, refund, goodwill];
}

const get = { kind: 'http', mutates: false };
/** The shop deduplicates on the key it is sent. */
const post = { kind: 'http', recovery: 'idempotent' as const };

/** Large sums are not the desk's to give. */
const ceiling: Policy = {
  id: 'ceiling',
  decide: ({ capability, input }) => {
    if (capability !== 'refunds.pay' || (input as Refund).cents <= 50_000) return { kind: 'allow' };
    return { kind: 'deny', message: 'Refunds over 500.00 EUR are decided by the office.' };
  },
};

/** The agent over any model. */
export function refundDesk(model: Model, http: HttpCaller, shop: string) {
  return defineAgent({
    name: 'refund-desk',
    model,
    capabilities: capabilities(http, shop),
    policies: [ceiling],
    guidance: 'You read messages to the refund desk of a shop. Amounts are in cents.',
    limits: { confirmationMs: 86_400_000 },
  });
}

export const agents = ({ http, env }: AgentHost) => {
  const now = () => Math.round(performance.timeOrigin + performance.now());
  const model = aiSdkModel(gateway(env.MODEL ?? 'openai/gpt-5-mini'), now);
  return [refundDesk(model, http, env.SHOP_URL ?? 'http://127.0.0.1:4000')];
};
