// T8 of turns.md: an engine without transactions must be found out by the suite.
import { expect, test } from 'vitest';
import type { Item, Refusal, Row, TableDriver, WriteOp } from '../../src/adapters/table/driver.ts';
import { changed, holds } from '../../src/adapters/table/evaluate.ts';
import { Names } from '../../src/adapters/table/names.ts';
import { TableStore } from '../../src/adapters/table/table-store.ts';
import { storeCases } from '../../src/testing/store-conformance.ts';
import { tools } from '../stores.ts';

/** Applies the operations of a transaction one by one, keeping those before the first that is refused. */
class OneByOne implements TableDriver {
  readonly lender = null;
  readonly #items = new Map<string, { sk: string; pk: string; item: Item }>();

  async batchGet(keys: Parameters<TableDriver['batchGet']>[0]): Promise<readonly (Item | null)[]> {
    return keys.map(({ table, pk, sk }) => this.#items.get(`${table}|${pk}|${sk}`)?.item ?? null);
  }

  async query(range: Parameters<TableDriver['query']>[0]): Promise<readonly Row[]> {
    const [from, to] = range.between ?? ['', '\uffff'];
    return [...this.#items.entries()]
      .filter(([name, row]) => name.startsWith(`${range.table}|`) && row.pk === range.pk)
      .map(([, { sk, item }]) => ({ sk, item }))
      .filter(({ sk }) => sk >= from && sk <= to)
      .sort((left, right) => (left.sk < right.sk ? -1 : 1));
  }

  async scan(of: Parameters<TableDriver['scan']>[0]): ReturnType<TableDriver['scan']> {
    const rows = [...this.#items.entries()]
      .filter(([name, { sk }]) => name.startsWith(`${of.table}|`) && sk === (of.sk ?? sk))
      .map(([, row]) => row);
    return { rows, after: null };
  }

  async write(ops: readonly WriteOp[]): ReturnType<TableDriver['write']> {
    for (const [index, op] of ops.entries()) {
      const { table, pk, sk } = op.key;
      const name = `${table}|${pk}|${sk}`;
      const standing = this.#items.get(name)?.item ?? null;
      if (!holds(op.when, standing)) {
        const refused: readonly Refusal[] = [{ op: index, item: standing }];
        return { kind: 'lost', refused };
      }
      if (op.kind === 'delete') this.#items.delete(name);
      if (op.kind === 'put') this.#items.set(name, { pk, sk, item: op.item });
      if (op.kind === 'update') {
        this.#items.set(name, { pk, sk, item: changed(standing, op.change) });
      }
    }
    return { kind: 'done' };
  }

  async close(): Promise<void> {
    this.#items.clear();
  }
}

test('T8 K-04 a store whose transactions are applied in part fails the suite, by the cases that are about it [T1]', async () => {
  const failed: string[] = [];
  for (const { title, run } of storeCases) {
    const open = async () =>
      new TableStore({
        driver: new OneByOne(),
        names: new Names(tools.names),
        shards: 1,
        retry: tools,
      });
    await run(open).catch(() => failed.push(title));
  }
  expect(failed.length).toBeGreaterThan(0);
  expect(failed.length).toBeLessThan(storeCases.length);
  expect(failed.join('\n')).toMatch(/T1|T4/);
});
