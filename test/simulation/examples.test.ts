// The examples as a user copies them, on both stores: what they promise in their own header holds.
import { expect } from 'vitest';
import { agentsOf } from '../../src/agent/agents-module.ts';
import * as checkout from '../../src/examples/checkout.ts';
import type { HttpCaller, HttpRequest, HttpResult } from '../../src/ports/http-caller.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import type { Lending } from '../lenders.ts';
import { onEachLender } from '../lenders.ts';
import { Scene } from './scene.ts';

/** The shop the examples call: it counts what landed and refuses what it is told to. */
class Shop implements HttpCaller {
  readonly calls: string[] = [];
  readonly refuses = new Set<string>();

  async call({ url, method }: HttpRequest): Promise<HttpResult> {
    const path = new URL(url).pathname.slice(1);
    if (method === 'GET') {
      const body = { outcome: 'did_not_happen' };
      return { kind: 'done', answer: { status: 200, headers: {}, body } };
    }
    if (this.refuses.has(path))
      return {
        kind: 'failed',
        disposition: 'did_not_happen',
        permanent: true,
        code: 'http_409',
        message: 'the shop refused',
      };
    this.calls.push(path);
    const body = { id: `${path}-${this.calls.length}` };
    return { kind: 'done', answer: { status: 200, headers: {}, body } };
  }
}

const order = { order: 'o-1', sku: 'book', quantity: 1, total: 1250 };

function sceneOf(lending: Lending, shop: Shop): Scene {
  const agents = agentsOf([], checkout, 'checkout.ts', {
    http: shop,
    env: { SALES_TABLE: lending.table },
  });
  const agent = agents.get('checkout');
  if (agent === undefined) throw new Error('the example has no agent "checkout"');
  return new Scene(lending.store, agent);
}

async function answer(scene: Scene, decision: 'approve' | 'deny', actor: string): Promise<void> {
  const { runtime } = scene.process;
  const { tenant } = scene.ref();
  const { items } = await listApprovals(runtime, tenant, {
    status: 'pending',
    limit: 10,
    cursor: null,
  });
  const [only] = items;
  if (items.length !== 1 || only === undefined) throw new Error(`${items.length} approvals wait`);
  const given = { decision, digest: only.digest, note: null };
  await answerApproval(runtime, tenant, only.id, given, actor);
  await scene.inbox();
}

const onSales = (title: string, body: (open: () => Promise<Lending>) => Promise<void>): void =>
  onEachLender(title, body, { name: 'sales', column: 'cents', ownTables: checkout.ownTables });

onSales('checkout: stock, money, ledger row and mail stand together [T9]', async (open) => {
  const [lending, shop] = [await open(), new Shop()];
  const scene = sceneOf(lending, shop);
  const turn = await scene.conclude('t1', { input: order });
  expect(turn).toMatchObject({
    status: 'succeeded',
    result: { sale: { charge: { id: 'payments/charge-2' } }, shipment: { id: 'carrier/ship-4' } },
  });
  expect(shop.calls).toEqual(['stock/hold', 'payments/charge', 'mail', 'carrier/ship']);
  expect(await lending.rows()).toEqual(['sale-o-1:1250']);
  expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  expect(await scene.conclude('t1', { input: order })).toMatchObject({ replayed: true });
  expect(await lending.rows()).toEqual(['sale-o-1:1250']);
});

onSales(
  'checkout: money refused, so the held stock goes back and no mail leaves [T9]',
  async (open) => {
    const [lending, shop] = [await open(), new Shop()];
    shop.refuses.add('payments/charge');
    const scene = sceneOf(lending, shop);
    expect(await scene.conclude('t1', { input: order })).toMatchObject({ status: 'failed' });
    expect(shop.calls).toEqual(['stock/hold', 'stock/release']);
    expect(await lending.rows()).toEqual([]);
  },
);

onSales(
  'checkout: a failed shipment is undone once a second person agrees, never by who asked [T8 T10]',
  async (open) => {
    const [lending, shop] = [await open(), new Shop()];
    shop.refuses.add('carrier/ship');
    const scene = sceneOf(lending, shop);
    await scene.suspend('t1', { input: order });
    await expect(answer(scene, 'approve', 'ann')).rejects.toMatchObject({
      code: 'four_eyes',
    });
    expect(shop.calls).toEqual(['stock/hold', 'payments/charge', 'mail']);
    await answer(scene, 'approve', 'bob');
    expect(await scene.view()).toMatchObject({ status: 'failed', error: { step: 'ship' } });
    expect([...shop.calls].slice(3).sort()).toEqual(['payments/refund', 'stock/release']);
    expect(await lending.rows()).toEqual(['refund-o-1:-1250', 'sale-o-1:1250']);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'failed' });
  },
);

onSales(
  'checkout: a refund denied leaves the sale, and the turn names what was not undone [T8 T10]',
  async (open) => {
    const [lending, shop] = [await open(), new Shop()];
    shop.refuses.add('carrier/ship');
    const scene = sceneOf(lending, shop);
    await scene.suspend('t1', { input: order });
    await answer(scene, 'deny', 'bob');
    expect(await scene.view()).toMatchObject({ status: 'quarantined' });
    expect(await scene.kinds()).toContain('SC(sell,failed)');
    expect(await lending.rows()).toEqual(['sale-o-1:1250']);
  },
);

onSales(
  'checkout: an order that does not fit is refused before anything is written [T11]',
  async (open) => {
    const [lending, shop] = [await open(), new Shop()];
    const scene = sceneOf(lending, shop);
    const { parseInput } = scene.agent;
    expect(() => parseInput({ ...order, total: 12.5 })).toThrow(/^input\.total: /);
    expect(shop.calls).toEqual([]);
  },
);
