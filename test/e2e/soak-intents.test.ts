// A small run of `npm run soak:intents`: acts of every recovery while the processes that perform and relay them are killed.
import { expect, test } from 'vitest';
import { soakIntents } from '../../scripts/soak-intents.ts';

const load = { threads: 4, turnsPerThread: 2, actsPerTurn: 3, timeoutMs: 400 };

test('B-75 acts under SIGKILLs: ledger and journals agree on each, none lost, none twice, sending all again does nothing [T2 T6 T10]', async () => {
  const { acts, again, faults, rows, kills } = await soakIntents({ ...load, kills: 6, seed: 7 });
  expect(faults).toEqual([]);
  expect({ acts, again }).toEqual({ acts: 24, again: 0 });
  for (const [recovery, row] of rows) {
    expect(row, recovery).toMatchObject({ acts: 8, lost: 0, doubled: 0 });
    expect(row.completed + row.refused + row.uncertain, recovery).toBe(8);
  }
  expect(Object.keys(kills).length).toBeGreaterThan(0);
});

test('B-42 acts of a thread land in the order they were staged, with workers killed and without [T3]', async () => {
  for (const kills of [0, 6]) {
    const { acts, overtaken, faults } = await soakIntents({ ...load, kills, seed: 3 });
    expect({ acts, overtaken, faults }).toEqual({ acts: 24, overtaken: 0, faults: [] });
  }
});
