// A person's word on a business key in doubt, at the receipt's own door.
//   Ruling 2  a receipt and its effect are one doubt: while the turn stands, the word goes into its journal.
//   CH-5, QA-6  a journal that is sealed takes nothing more: the word then stands in the receipt, and the doubt stays
//   on record in the turn that was written off.
import type { TurnRef } from '../ports/store.ts';
import { encode } from '../protocol/canonical.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import { parseStatus, seals } from '../protocol/turn-status.ts';
import { sealText } from './payloads.ts';
import type { Assertion } from './person-acts.ts';
import { assertFact } from './person-acts.ts';
import type { ReceiptView } from './receipts.ts';
import { assertedContext, readReceipt } from './receipts.ts';
import { readStanding, standingStatus } from './resume-turn.ts';
import type { Runtime } from './runtime.ts';

/** Settles a receipt in doubt. Throws `not_found`, `not_undecided`, `thread_busy`, `subject_erased`. */
export async function answerReceipt(
  runtime: Runtime,
  tenant: TurnRef['tenant'],
  id: string,
  fact: Assertion,
  actor: string,
): Promise<ReceiptView> {
  const { view, ref } = await readReceipt(runtime, tenant, id);
  if (view.status !== 'uncertain' || view.effectKey === null) throw settledBefore(id, view.status);
  const { history, sealer } = await readStanding(runtime, ref);
  if (seals(parseStatus(standingStatus(history)))) {
    const at = runtime.clock.now();
    const said = encode({ output: fact.output ?? null, note: fact.note });
    const { payload, parts } = sealText(sealer, assertedContext(ref, id), said);
    if (parts !== null) await runtime.store.putParts(tenant, parts);
    await keep(runtime, tenant, id, { outcome: fact.outcome, by: actor, at, payload });
  } else await assertFact(runtime, ref, view.effectKey, fact, actor);
  return (await readReceipt(runtime, tenant, id)).view;
}

type Asserted = NonNullable<Awaited<ReturnType<typeof rowOf>>['asserted']>;

async function keep(
  runtime: Runtime,
  tenant: TurnRef['tenant'],
  id: string,
  asserted: Asserted,
): Promise<void> {
  const row = await rowOf(runtime, tenant, id);
  if (row.asserted !== undefined) throw settledBefore(id, row.asserted.outcome);
  const kept = await runtime.store.reserve({ ...row, asserted, updatedAt: asserted.at }, row);
  if (kept.kind === 'lost') throw settledBefore(id, 'answered or taken by another');
  if (kept.kind === 'unknown') {
    throw new TurnstoneError('store_unavailable', 'the answer of a receipt has no known outcome', {
      retry: 'now',
      cause: kept.cause,
    });
  }
}

async function rowOf(runtime: Runtime, tenant: TurnRef['tenant'], id: string) {
  const row = await runtime.store.receipt(tenant, id);
  if (row !== null) return row;
  throw new TurnstoneError('not_found', `receipt "${id}" is not known`, { retry: 'never' });
}

function settledBefore(id: string, status: string): TurnstoneError {
  return new TurnstoneError('not_undecided', `receipt "${id}" is ${status}`, {
    retry: 'never',
    details: { status },
  });
}
