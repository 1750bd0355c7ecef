// A small run of `npm run soak:intents`: acts of every recovery while the process that performs them is killed.
import { expect, test } from 'vitest';
import { soakIntents } from '../../scripts/soak-intents.ts';

test('B-75 acts under SIGKILLs: ledger and journals agree on each, none lost, none twice, sending all again does nothing [T2 T6 T10]', async () => {
  const { acts, again, faults, rows } = await soakIntents({ turns: 8, kills: 3, seed: 7 });
  expect(faults).toEqual([]);
  expect({ acts, again }).toEqual({ acts: 24, again: 0 });
  for (const [recovery, row] of rows) {
    expect(row, recovery).toMatchObject({ acts: 8, lost: 0, doubled: 0 });
    expect(row.completed + row.refused + row.uncertain, recovery).toBe(8);
  }
});

test('B-42 without a kill the acts of a thread land in the order they were staged [T3]', async () => {
  const { acts, overtaken, faults } = await soakIntents({ turns: 6, kills: 0, seed: 3 });
  expect({ acts, overtaken, faults }).toEqual({ acts: 18, overtaken: 0, faults: [] });
});
