// What a receipt stands for, read from its dispatch (ruling 2): one doubt, never called again until somebody says.
import { expect, test } from 'vitest';
import type { ReceiptState } from '../../../src/protocol/receipts.ts';
import { receiptState } from '../../../src/protocol/receipts.ts';
import type { RecordFacts } from '../../../src/protocol/record.ts';
import { done, failed, journalOf, reconciled, site, started } from './bodies.ts';

const state = (open: boolean, ...facts: readonly RecordFacts[]): ReceiptState =>
  receiptState(journalOf(...facts), site(), open);
const either = (...facts: readonly RecordFacts[]): ReceiptState => {
  const came = state(true, ...facts);
  expect(state(false, ...facts)).toEqual(came);
  return came;
};
const inDoubt = failed({ disposition: 'in_doubt' });
const again = started({ key: 'k2', attempt: 2 });

test('K-31 a key that nothing was announced under is reserved', () => {
  expect(either()).toEqual({ kind: 'reserved' });
  expect(either({ kind: 'StepStarted', step: 'pay' })).toEqual({ kind: 'reserved' });
  expect(either(done(), failed(), reconciled())).toEqual({ kind: 'reserved' });
});

test('an announcement is prepared while its turn is driven, and uncertain when nobody drives it', () => {
  expect(state(true, started())).toEqual({ kind: 'prepared', effectKey: 'k1' });
  expect(state(false, started())).toEqual({ kind: 'uncertain', effectKey: 'k1' });
  expect(state(true, started(), inDoubt, again)).toEqual({ kind: 'prepared', effectKey: 'k2' });
  const read = started({ mutates: false });
  expect(state(false, read)).toEqual({ kind: 'uncertain', effectKey: 'k1' });
});

test('K-33 what ended in doubt is uncertain, driven or not; a later refusal clears nothing [T6]', () => {
  expect(either(started(), inDoubt)).toEqual({ kind: 'uncertain', effectKey: 'k1' });
  expect(either(started(), reconciled({ disposition: 'in_doubt' })).kind).toBe('uncertain');
  expect(either(started(), inDoubt, again, failed({ key: 'k2' }))).toEqual({
    kind: 'uncertain',
    effectKey: 'k2',
  });
});

test('what is done, or found to have landed, is completed with the record that says so [T6]', () => {
  const finished = journalOf(started(), done());
  expect(receiptState(finished, site(), true)).toEqual({
    kind: 'completed',
    record: finished[1],
    effectKey: 'k1',
  });
  const found = journalOf(started(), inDoubt, reconciled({ disposition: 'landed' }));
  expect(receiptState(found, site(), false)).toEqual({
    kind: 'completed',
    record: found[2],
    effectKey: 'k1',
  });
});

test('K-32 what is certified as not applied may be taken again; a bad answer may not', () => {
  expect(either(started(), failed())).toEqual({ kind: 'failed', effectKey: 'k1' });
  expect(either(started(), inDoubt, reconciled())).toEqual({ kind: 'failed', effectKey: 'k1' });
  expect(either(started(), failed({ disposition: 'landed', code: 'garbled' }))).toEqual({
    kind: 'landed',
    effectKey: 'k1',
    code: 'garbled',
  });
});

test('decision 21 another dispatch, or an undo of this one, says nothing of the receipt', () => {
  const places = [site(1), site(0, 'ship'), site(0, 'pay', 'compensating')];
  for (const place of places) {
    const other = [started({ site: place, key: 'k9' }), done({ site: place, key: 'k9' })];
    expect(either(...other)).toEqual({ kind: 'reserved' });
    expect(either(started(), inDoubt, ...other)).toEqual({ kind: 'uncertain', effectKey: 'k1' });
  }
});
