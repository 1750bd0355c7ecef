// Rows of graph checkpoints: one partition a thread, a checkpoint and the writes upon it side by side (layout.ts).
//
// Newest first is a descending query: the writes upon a checkpoint come before it, so one request brings
// the newest checkpoint with what was written upon it. Writes whose checkpoint is not there yet are passed over.
//   T5  rows are immutable: a repeated put finds its own or changes nothing.
import type {
  GraphCheckpoint,
  GraphPlace,
  GraphStore,
  GraphTuple,
  GraphWrites,
} from '../../ports/graphs.ts';
import type { SealedPayload } from '../../ports/store.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import type { TenantId, ThreadId } from '../../protocol/ids.ts';
import { threadId } from '../../protocol/ids.ts';
import { limits } from '../../protocol/limits.ts';
import type { Attr, Item, ItemKey, Row, WriteOp } from './driver.ts';
import { asCount, asList, asText, ItemReader } from './item-reader.ts';
import {
  graphBetween,
  graphCheckpointKey,
  graphPartition,
  graphSpaceKey,
  graphThreadKey,
  graphThreadsPartition,
  graphWritesKey,
  type ThreadHash,
} from './layout.ts';
import { payloadIn, payloadOut } from './payload-codec.ts';
import { dropParts } from './payload-parts.ts';
import { inTurns, putPlain } from './reads.ts';
import type { TableContext } from './table-context.ts';

type GraphThread = Omit<GraphPlace, 'namespace'>;

const dropsAtOnce = 8;

export class GraphRows implements GraphStore {
  readonly #table: TableContext;

  constructor(table: TableContext) {
    this.#table = table;
  }

  async putCheckpoint(place: GraphPlace, row: GraphCheckpoint): Promise<void> {
    const { driver, names, shards } = this.#table;
    const [thread, space] = await this.#at(place);
    const ops: WriteOp[] = [put(graphCheckpointKey(thread, space, row.id), checkpointOut(row))];
    if (row.parent === null) {
      const tenant = await names.tenant(place.tenant);
      ops.push(
        put(graphSpaceKey(thread, space), { ns: place.namespace }),
        put(graphThreadKey(tenant, thread, shards), { th: place.thread }),
      );
    }
    const outcome = await driver.write(ops);
    if (outcome.kind !== 'done') throw unknownPut(outcome);
  }

  async putWrites(
    place: GraphPlace,
    checkpoint: string,
    row: GraphWrites,
    once: boolean,
  ): Promise<readonly number[] | null> {
    const [thread, space] = await this.#at(place);
    const task = await this.#table.names.graph(place.tenant, row.task);
    const key = graphWritesKey(thread, space, checkpoint, task, row.slot);
    const op = { ...put(key, writesOut(row)), when: once ? [{ is: 'no item' } as const] : [] };
    const outcome = await this.#table.driver.write([op]);
    if (outcome.kind === 'done') return null;
    const stands = outcome.kind === 'lost' ? outcome.refused[0]?.item : undefined;
    if (stands === undefined || stands === null) throw unknownPut(outcome);
    return writesIn(key.sk, stands).indices;
  }

  async checkpoint(place: GraphPlace, id: string): Promise<GraphCheckpoint | null> {
    const [thread, space] = await this.#at(place);
    const [item] = await this.#table.driver.batchGet([graphCheckpointKey(thread, space, id)]);
    return item === null || item === undefined ? null : checkpointIn(id, item);
  }

  async tuple(place: GraphPlace, id: string | null): Promise<GraphTuple | null> {
    if (id === null) {
      for await (const newest of this.older(place, null)) return newest;
      return null;
    }
    const [thread, space] = await this.#at(place);
    const rows = await this.#table.driver.query({
      table: 'DATA',
      pk: graphPartition(thread),
      between: graphBetween(space, id),
    });
    const [first, ...writes] = rows;
    if (first === undefined || !isCheckpoint(first)) return null;
    return {
      checkpoint: checkpointIn(id, first.item),
      writes: writes.map(({ sk, item }) => writesIn(sk, item)),
    };
  }

  async *older(place: GraphPlace, before: string | null): AsyncGenerator<GraphTuple> {
    const [thread, space] = await this.#at(place);
    const [from, newest] = graphBetween(space, null);
    let to = before === null ? newest : graphBetween(space, before)[0];
    let above: Row[] = [];
    for (;;) {
      // Both ends of a range belong to it, so a page starts with the last row of the page before.
      const page = await this.#table.driver.query({
        table: 'DATA',
        pk: graphPartition(thread),
        between: [from, to],
        last: limits.graphRowsPage,
      });
      for (const row of page.filter(({ sk }) => sk < to)) {
        if (!isCheckpoint(row)) {
          above.push(row);
          continue;
        }
        const id = idOf(row.sk);
        const writes = above.filter(({ sk }) => idOf(sk) === id).reverse();
        above = [];
        yield {
          checkpoint: checkpointIn(id, row.item),
          writes: writes.map(({ sk, item }) => writesIn(sk, item)),
        };
      }
      const last = page.at(-1);
      if (last === undefined || page.length < limits.graphRowsPage) return;
      to = last.sk;
    }
  }

  async threads(tenant: TenantId): Promise<readonly ThreadId[]> {
    const { driver, names, shards } = this.#table;
    const hash = await names.tenant(tenant);
    const found = await Promise.all(
      Array.from({ length: shards }, (_, shard) =>
        driver.query({ table: 'DATA', pk: graphThreadsPartition(hash, shard) }),
      ),
    );
    return found
      .flat()
      .map(({ item }) => threadId('GTHR.th', new ItemReader('GTHR', item).text('th')));
  }

  async namespaces(place: GraphThread): Promise<readonly string[]> {
    const pk = graphPartition(await this.#table.names.thread(place));
    const rows = await this.#table.driver.query({ table: 'DATA', pk, between: ['n', 'n~'] });
    return rows.map(({ item }) => new ItemReader('GSPC', item).text('ns')).sort();
  }

  async drop(place: GraphThread): Promise<void> {
    const { driver, names, shards } = this.#table;
    const thread = await names.thread(place);
    const pk = graphPartition(thread);
    const rows = await driver.query({ table: 'DATA', pk });
    const parts = new Map(
      rows.flatMap(payloadsOf).flatMap((payload) => {
        return payload.kind === 'parts' ? [[payload.digest, payload] as const] : [];
      }),
    );
    for (const ref of parts.values()) await dropParts(this.#table, place.tenant, ref);
    const listed = graphThreadKey(await names.tenant(place.tenant), thread, shards);
    const keys: ItemKey[] = rows.map(({ sk }) => ({ table: 'DATA', pk, sk }));
    await inTurns([...keys, listed], dropsAtOnce, (key) =>
      putPlain(this.#table, { kind: 'delete', key, when: [] }),
    );
  }

  #at(place: GraphPlace): Promise<[ThreadHash, string]> {
    const { names } = this.#table;
    return Promise.all([names.thread(place), names.graph(place.tenant, place.namespace)]);
  }
}

function put(key: ItemKey, item: Item): WriteOp & { kind: 'put' } {
  return { kind: 'put', key, item, when: [] };
}

function isCheckpoint({ sk }: Row): boolean {
  return sk.endsWith(':c');
}

/** The checkpoint id in a sort key; neither a namespace's hash nor an id holds a colon. */
function idOf(sk: string): string {
  return sk.split(':')[1] ?? '';
}

function payloadsOf({ sk, item }: Row): readonly SealedPayload[] {
  if (!sk.startsWith('c')) return [];
  if (!isCheckpoint({ sk, item })) return [writesIn(sk, item).payload];
  const { head, metadata, values } = checkpointIn(idOf(sk), item);
  return [head, metadata, ...values.map(({ payload }) => payload)];
}

function checkpointOut(row: GraphCheckpoint): Item {
  return {
    ns: row.namespace,
    ...(row.parent === null ? {} : { pa: row.parent }),
    sc: row.scope,
    h: payloadOut(row.head),
    m: payloadOut(row.metadata),
    b: row.values.map(({ scope, payload }): Attr => [scope, payloadOut(payload)]),
  };
}

function checkpointIn(id: string, item: Item): GraphCheckpoint {
  const read = new ItemReader('GCKP', item);
  return {
    namespace: read.text('ns'),
    id,
    parent: read.textOrNull('pa'),
    scope: read.text('sc'),
    head: payloadIn('GCKP.h', read.value('h')),
    metadata: payloadIn('GCKP.m', read.value('m')),
    values: read.list('b').map((entry) => {
      const [scope, payload] = asList('GCKP.b', entry);
      return { scope: asText('GCKP.b', scope), payload: payloadIn('GCKP.b', payload) };
    }),
  };
}

function writesOut(row: GraphWrites): Item {
  return {
    tk: row.task,
    tp: row.path,
    i: row.indices,
    sc: row.scope,
    p: payloadOut(row.payload),
  };
}

function writesIn(sk: string, item: Item): GraphWrites {
  const read = new ItemReader('GWRT', item);
  return {
    task: read.text('tk'),
    path: read.text('tp'),
    slot: sk.slice(sk.lastIndexOf('.') + 1),
    indices: read.list('i').map((index) => asCount('GWRT.i', index)),
    scope: read.text('sc'),
    payload: payloadIn('GWRT.p', read.value('p')),
  };
}

function unknownPut(outcome: { readonly kind: string; readonly cause?: unknown }): TurnstoneError {
  return new TurnstoneError('store_unavailable', 'a graph row has no known outcome', {
    retry: 'now',
    cause: outcome.cause,
  });
}
