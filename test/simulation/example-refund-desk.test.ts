// The refund desk as a user copies it, on both stores: what its header promises holds.
import { expect, test } from 'vitest';
import { agents, refundDesk } from '../../src/examples/refund-desk.ts';
import type { HttpCaller, HttpRequest, HttpResult } from '../../src/ports/http-caller.ts';
import type { ScriptedModel } from '../../src/testing/scripted-model.ts';
import { memoryStore, type OpenStore, onEachStore } from '../stores.ts';
import { asked, reader, Talking, wants } from './desk.ts';

const url = 'https://shop.example';

/** The shop: it knows the keys it was sent. */
class Shop implements HttpCaller {
  readonly calls: string[] = [];
  readonly paid = new Map<unknown, unknown>();
  /** Set: the process dies in the next payment, after it landed. */
  dies: (() => void) | null = null;

  async call({ method, url: to, headers, body }: HttpRequest): Promise<HttpResult> {
    const path = to.slice(url.length);
    this.calls.push(`${method} ${path}`);
    if (method === 'POST') return this.#pay(headers['idempotency-key'], body);
    const order = Number(path.split('/').at(-1));
    if (order > 9) return answer(404, { none: true });
    return answer(
      200,
      path.startsWith('/orders') ? { id: order, cents: 2000, paid: true } : { cents: 500 },
    );
  }

  #pay(key: unknown, body: unknown): HttpResult {
    const known = this.paid.get(key) ?? { id: `p-${this.paid.size + 1}`, body };
    this.paid.set(key, known);
    this.dies?.();
    this.dies = null;
    return answer(200, known);
  }
}

const answer = (status: number, body: unknown): HttpResult => ({
  kind: 'done',
  answer: { status, headers: {}, body },
});

const refund = (order: number, cents: number, said: string) => ({
  intentions: [wants('refunds.pay', { order, cents }, said)],
});

const readings = {
  'my money back for 7': refund(7, 2000, 'money back'),
  'refund 8': refund(8, 2000, 'refund 8'),
  'refund 700 for 7': refund(7, 70_000, '700'),
  'refund 30 for 7': refund(7, 3000, '30'),
  'order 12?': { intentions: [wants('orders.look', { order: 12 }, '12')] },
  'yes please': { answer: { accepts: true, evidence: ['yes please'] } },
  'it came late, 7': { intentions: [wants('goodwill.credit', { order: 7 }, 'late')] },
};

async function opened(
  open: OpenStore,
): Promise<{ shop: Shop; talk: Talking; model: ScriptedModel }> {
  const shop = new Shop();
  const model = reader(readings);
  return { shop, model, talk: await Talking.open(open, refundDesk(model, shop, url)) };
}

onEachStore(
  'refund desk: the order is looked up unasked, the sum is shown, a yes in words pays once whatever dies [T2 T10]',
  async (open) => {
    const { shop, talk, model } = await opened(open);
    const question = asked(await talk.say('my money back for 7'));
    expect(question).toMatchObject({
      text: 'Refund 20.00 EUR for order 7?',
      input: { order: 7, cents: 2000 },
    });
    expect(shop.calls).toEqual(['GET /orders/7']);
    shop.dies = () => talk.process.kill();
    const sent = { input: { message: 'yes please', answering: question.id } };
    expect(await talk.deliver('pay', sent)).toBe('died');
    await talk.world.recover();
    talk.restart();
    const paid = await talk.conclude('pay', sent);
    expect(paid).toMatchObject({
      status: 'succeeded',
      replayed: true,
      result: {
        reply: '20.00 EUR are on their way back to you. Reference: p-1',
        interaction: null,
      },
    });
    expect(shop.paid.size).toBe(1);
    // Asked for again, it is shown again; the yes is answered from the ledger.
    const again = asked(await talk.say('my money back for 7'));
    expect((await talk.yes(again.id)).reply).toContain('Reference: p-1');
    expect(shop.paid.size).toBe(1);
    expect(JSON.stringify(model.requests)).not.toContain('Reference: p-1');
  },
);

onEachStore(
  'refund desk: a yes shown under another order is asked again under its own [T10]',
  async (open) => {
    const { shop, talk } = await opened(open);
    await talk.say('my money back for 7');
    const first = asked(await talk.say('refund 8'));
    const again = await talk.yes(first.id);
    expect(asked(again)).toMatchObject({ input: { order: 8, cents: 2000 } });
    expect(shop.paid.size).toBe(0);
    await talk.yes(asked(again).id);
    expect([...shop.paid.values()]).toMatchObject([{ body: { order: 8 } }]);
  },
);

test('refund desk: what is too much, or unknown, is refused in words and moves nothing', async () => {
  const { shop, talk } = await opened(async () => memoryStore());
  expect((await talk.say('refund 700 for 7')).reply).toContain('decided by the office');
  const { id } = asked(await talk.say('refund 30 for 7'));
  expect((await talk.yes(id)).reply).toBe('Order 7 came to 20.00 EUR only.');
  expect((await talk.say('order 12?')).reply).toBe('There is no order 12.');
  expect(shop.paid.size).toBe(0);
});

test('refund desk: a voucher is offered for what was found, and given once', async () => {
  const { shop, talk } = await opened(async () => memoryStore());
  const offer = asked(await talk.say('it came late, 7'));
  expect(offer.text).toBe('Take a voucher over 5.00 EUR for order 7?');
  expect((await talk.yes(offer.id)).reply).toBe('Voucher p-1');
  expect(shop.calls).toEqual(['GET /goodwill/7', 'POST /vouchers']);
});

test('refund desk: the module offers its agent to a host', () => {
  const [agent] = agents({ http: new Shop(), env: {} });
  expect(agent?.name).toBe('refund-desk');
  expect(agent?.declares('refunds.pay')).toBe(true);
  expect(agent?.declares('http')).toBe(false);
  expect(() => agent?.parseInput({ confirm: { interactionId: '' } })).toThrow(/^input/);
});
