// The statuses of page 01, 0.1, and the severity of CC-2, written once more.
import { expect, test } from 'vitest';
import type { TurnStatus } from '../../../src/protocol/turn-status.ts';
import {
  isConclusion,
  parseStatus,
  seals,
  severity,
  turnStatuses,
} from '../../../src/protocol/turn-status.ts';

const table: readonly (readonly [TurnStatus, conclusion: boolean, seals: boolean])[] = [
  ['running', false, false],
  ['suspended', false, false],
  ['succeeded', true, true],
  ['cancelled', true, true],
  ['abandoned', true, true],
  ['failed', true, false],
  ['exhausted', true, false],
  ['quarantined', true, false],
];

test('page 01, 0.1: which statuses conclude a pass, and which of them seal a journal (CH-5)', () => {
  expect([...turnStatuses].sort()).toEqual(table.map(([status]) => status).sort());
  for (const [status, concludes, sealing] of table) {
    expect(isConclusion(status), status).toBe(concludes);
    expect(seals(status), status).toBe(sealing);
    expect(parseStatus(status)).toBe(status);
  }
});

test('page 01, 0.1: an unknown word fails closed as quarantined', () => {
  for (const word of ['', 'Succeeded', 'replanning', 'toString']) {
    expect(parseStatus(word)).toBe('quarantined');
  }
});

test('CC-2 quarantined over failed and cancelled over exhausted over suspended over the rest', () => {
  const ranks: readonly (readonly TurnStatus[])[] = [
    ['running', 'succeeded'],
    ['suspended'],
    ['exhausted'],
    ['failed', 'cancelled'],
    ['quarantined', 'abandoned'],
  ];
  expect(ranks.map((rank) => rank.map(severity))).toEqual([[0, 0], [1], [2], [3, 3], [4, 4]]);
});
