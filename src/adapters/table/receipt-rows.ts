// Receipts: RCPT rows beside the thread they belong to (page 09, section 1).
import type { ReceiptRow, Reserved } from '../../ports/receipts.ts';
import type { ThreadRef } from '../../ports/store.ts';
import type { TenantId } from '../../protocol/ids.ts';
import { epochMs, tenantId, threadId, turnId } from '../../protocol/ids.ts';
import type { Attr, Clause, Item } from './driver.ts';
import { asCount, asList, asText, ItemReader, skew } from './item-reader.ts';
import { receiptKey } from './layout.ts';
import { payloadIn, payloadOut } from './payload-codec.ts';
import { sameAttr, type TableContext } from './table-context.ts';

export async function receiptId(
  table: TableContext,
  thread: ThreadRef,
  kind: string,
  key: string,
): Promise<string> {
  const [hash, name] = await Promise.all([
    table.names.thread(thread),
    table.names.receipt(thread.tenant, kind, key),
  ]);
  return `${hash}.${name}`;
}

export async function receipt(
  table: TableContext,
  tenant: TenantId,
  id: string,
): Promise<ReceiptRow | null> {
  const key = receiptKey(id);
  if (key === null) return null;
  const [item] = await table.driver.batchGet([key]);
  if (item === null || item === undefined) return null;
  const row = receiptIn(id, item);
  return row.thread.tenant === tenant ? row : null;
}

export async function receipts(
  table: TableContext,
  thread: ThreadRef,
): Promise<readonly ReceiptRow[]> {
  const hash = await table.names.thread(thread);
  const rows = await table.driver.query({ table: 'DATA', pk: hash, between: ['#r', '#r\u007f'] });
  return rows.map((row) => receiptIn(`${hash}.${row.sk.slice(2)}`, row.item));
}

/** Takes a key for one dispatch; ours already when the row that stands points at the same dispatch. */
export async function reserve(
  table: TableContext,
  row: ReceiptRow,
  seen: ReceiptRow | null,
): Promise<Reserved> {
  const key = receiptKey(row.id);
  if (key === null) throw new RangeError(`receipt id: expected two hashes, got "${row.id}"`);
  const item = receiptOut(row);
  const when: Clause[] =
    seen === null
      ? [{ is: 'no item' }]
      : [
          { attr: 'tu', is: 'eq', value: seen.turn },
          { attr: 'ua', is: 'eq', value: seen.updatedAt },
          { attr: 'as', is: seen.asserted === undefined ? 'absent' : 'present' },
        ];
  const outcome = await table.driver.write([{ kind: 'put', key, item, when }]);
  if (outcome.kind !== 'lost') return outcome;
  const stands = outcome.refused[0]?.item ?? null;
  if (stands === null) return { kind: 'lost', receipt: null };
  const same = stands.tu === item.tu && sameAttr(stands.si, item.si);
  const mine = same && (item.as === undefined || sameAttr(stands.as, item.as));
  return mine ? { kind: 'done' } : { kind: 'lost', receipt: receiptIn(row.id, stands) };
}

function receiptOut(row: ReceiptRow): Item {
  const { step, phase, ordinal } = row.site;
  return {
    tn: row.thread.tenant,
    th: row.thread.thread,
    ef: row.effect,
    ad: row.argsDigest,
    sc: row.scope,
    p: payloadOut(row.payload),
    tu: row.turn,
    si: [step, phase, ordinal],
    ...(row.asserted === undefined ? {} : { as: assertedOut(row.asserted) }),
    ca: row.createdAt,
    ua: row.updatedAt,
  };
}

function assertedOut({ outcome, by, at, payload }: NonNullable<ReceiptRow['asserted']>) {
  return [outcome, by, at, payloadOut(payload)];
}

function assertedIn(value: Attr | undefined): NonNullable<ReceiptRow['asserted']> {
  const [outcome, by, at, payload] = asList('RCPT.as', value);
  if (outcome !== 'landed' && outcome !== 'did_not_happen') {
    throw skew('RCPT.as', 'an outcome', outcome);
  }
  return {
    outcome,
    by: asText('RCPT.as', by),
    at: epochMs(asCount('RCPT.as', at)),
    payload: payloadIn('RCPT.as', payload),
  };
}

function receiptIn(id: string, item: Item): ReceiptRow {
  const read = new ItemReader('RCPT', item);
  const [step, phase, ordinal] = asList('RCPT.si', read.value('si'));
  if (phase !== 'forward' && phase !== 'compensating') throw skew('RCPT.si', 'a phase', phase);
  return {
    id,
    thread: {
      tenant: tenantId('tenant', read.text('tn')),
      thread: threadId('thread', read.text('th')),
    },
    effect: read.text('ef'),
    argsDigest: read.text('ad'),
    scope: read.text('sc'),
    payload: payloadIn('RCPT.p', read.value('p')),
    turn: turnId('turn', read.text('tu')),
    site: { step: asText('RCPT.si', step), phase, ordinal: asCount('RCPT.si', ordinal) },
    ...(item.as === undefined ? {} : { asserted: assertedIn(item.as) }),
    createdAt: epochMs(read.count('ca')),
    updatedAt: epochMs(read.count('ua')),
  };
}
