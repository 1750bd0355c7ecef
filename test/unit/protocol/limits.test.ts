// Sizes as the pages give them, in bytes, and relations that no edit of a figure may break [T11].
import { expect, test } from 'vitest';
import { checkLimits, limits } from '../../../src/protocol/limits.ts';

test('T11 sizes of pages 04, 05 and 09, in bytes', () => {
  const sizes: Partial<Record<keyof typeof limits, number>> = {
    requestBodyBytes: 1_048_576,
    effectAnswerBytes: 4_194_304,
    payloadBytesMax: 5_242_880,
    inlinePayloadBytes: 2_048,
    graphInlineBytes: 16_384,
    graphValueInlineBytes: 4_096,
    partBytes: 389_120,
    itemBytes: 409_600,
    batchBytes: 307_200,
    recordBodyBytes: 16_384,
    transactionBytes: 4_194_304,
    checkpointTailBytes: 3_072,
    checkpointBytesMax: 262_144,
    noteBytes: 4_096,
    errorTextBytes: 2_048,
    memoryBytesMax: 102_400,
    searchTextBytes: 8_192,
    replayCacheBytes: 102_400,
    replayEntryBytes: 128,
  };
  expect(limits).toMatchObject(sizes);
  const bytes = Object.keys(limits).filter((name) => name.includes('Bytes'));
  expect(Object.keys(sizes).sort()).toEqual(bytes.sort());
  expect(limits.waitMaxMs).toBe(31_622_400_000);
  expect(Object.isFrozen(limits)).toBe(true);
});

test.each<
  [
    Partial<Record<keyof typeof limits, number>>,
    Partial<Record<keyof typeof limits, number>>,
    string,
  ]
>([
  [{ partBytes: 408_575 }, { partBytes: 408_576 }, 'a part with its key fits an item'],
  [{ batchBytes: 344_063 }, { batchBytes: 344_064 }, 'a position with its key fits an item'],
  [{ leaseMs: 2_000 }, { leaseMs: 1_999 }, 'the default lease is legal'],
  [
    { effectTimeoutMs: 60_000 },
    { effectTimeoutMs: 60_001 },
    'an effect may use its whole timeout in a turn',
  ],
  [
    { payloadBytesMax: 4_194_304 },
    { payloadBytesMax: 4_194_303 },
    'every legal answer can be stored',
  ],
  [{ retryInitialMs: 10_000 }, { retryInitialMs: 10_001 }, 'the first wait is at most the longest'],
])('T11 limits relate: %j is the last that holds, %j breaks it', (last, broken, relation) => {
  expect(() => checkLimits({ ...limits, ...last })).not.toThrow();
  expect(() => checkLimits({ ...limits, ...broken })).toThrow(`limits: ${relation}`);
});
