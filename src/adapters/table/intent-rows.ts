// Intents under the effector: claimed by a token under a lease, settled once (page 03, section 6).
//   T10  expiry is a condition of the claim itself, so no clock race performs what was refused as expired.
import type { SealedPayload } from '../../ports/store.ts';
import type { IntentClaimed, IntentOutcome, IntentRow } from '../../ports/waits.ts';
import type { EpochMs, TenantId } from '../../protocol/ids.ts';
import type { Clause, Item, WriteOp } from './driver.ts';
import { intentKey } from './layout.ts';
import { payloadOut } from './payload-codec.ts';
import type { TableContext } from './table-context.ts';
import { intentIn } from './wait-codec.ts';

export async function intent(
  table: TableContext,
  tenant: TenantId,
  id: string,
): Promise<IntentRow | null> {
  const [item] = await table.driver.batchGet([intentKey(await table.names.intent(tenant, id))]);
  const found = item === null || item === undefined ? null : intentIn(item);
  return found === null || found.ref.tenant !== tenant ? null : found;
}

export async function claimIntent(
  table: TableContext,
  row: IntentRow,
  claim: { readonly token: string; readonly until: EpochMs },
  now: EpochMs,
): Promise<IntentClaimed> {
  const free: Clause[] =
    row.claim === null
      ? [{ attr: 'ct', is: 'absent' }]
      : [
          { attr: 'ct', is: 'eq', value: row.claim.token },
          { attr: 'cu', is: 'le', value: now },
        ];
  const set = { ct: claim.token, cu: claim.until, a: row.attempt + 1 };
  const when: Clause[] = [
    { attr: 'oc', is: 'absent' },
    { attr: 'xa', is: 'gt', value: now },
    ...free,
  ];
  return change(table, row, { set }, when, (item) => item.ct === claim.token);
}

export async function renewIntent(
  table: TableContext,
  row: IntentRow,
  token: string,
  until: EpochMs,
): Promise<IntentClaimed> {
  const when: Clause[] = [
    { attr: 'ct', is: 'eq', value: token },
    { attr: 'oc', is: 'absent' },
  ];
  return change(table, row, { set: { cu: until } }, when, (item) => item.ct === token);
}

export async function releaseIntent(
  table: TableContext,
  row: IntentRow,
  token: string,
  doubt: boolean,
): Promise<IntentClaimed> {
  const when: Clause[] = [
    { attr: 'ct', is: 'eq', value: token },
    { attr: 'oc', is: 'absent' },
  ];
  return change(
    table,
    row,
    { remove: ['ct', 'cu'], ...(doubt ? { set: { db: true } } : {}) },
    when,
    (item) => item.ct === undefined,
  );
}

export async function settleIntent(
  table: TableContext,
  row: IntentRow,
  token: string | null,
  settled: { readonly outcome: IntentOutcome; readonly result: SealedPayload },
  now: EpochMs,
): Promise<IntentClaimed> {
  const held: Clause[] =
    token === null
      ? [
          { attr: 'ct', is: 'absent' },
          { attr: 'xa', is: 'le', value: now },
        ]
      : [{ attr: 'ct', is: 'eq', value: token }];
  const set = { oc: settled.outcome, r: payloadOut(settled.result), ua: now };
  const when: Clause[] = [{ attr: 'oc', is: 'absent' }, ...held];
  return change(
    table,
    row,
    { set },
    when,
    (item) => item.oc === settled.outcome && (item.ct ?? null) === token,
  );
}

async function change(
  table: TableContext,
  row: IntentRow,
  applied: { readonly set?: Item; readonly remove?: readonly string[] },
  when: readonly Clause[],
  mine: (item: Item) => boolean,
): Promise<IntentClaimed> {
  const key = intentKey(await table.names.intent(row.ref.tenant, row.id));
  const op: WriteOp = { kind: 'update', key, change: applied, when: [{ is: 'item' }, ...when] };
  const outcome = await table.driver.write([op]);
  if (outcome.kind !== 'lost') return outcome;
  const item = outcome.refused[0]?.item ?? null;
  if (item === null) return { kind: 'lost', intent: null };
  return mine(item) ? { kind: 'done' } : { kind: 'lost', intent: intentIn(item) };
}
