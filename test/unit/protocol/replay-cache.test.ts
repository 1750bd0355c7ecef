// The replay cache's bounds, one by one, and what makes two calls equal.
import { expect, test } from 'vitest';
import { turnId } from '../../../src/protocol/ids.ts';
import { limits } from '../../../src/protocol/limits.ts';
import type { CachedAnswer, ReplayKey } from '../../../src/protocol/replay-cache.ts';
import {
  cachedAnswer,
  findAnswer,
  keepAnswer,
  replayKeyText,
  useAnswer,
} from '../../../src/protocol/replay-cache.ts';

const turn = turnId('turn', 't1');
const hour = 3_600_000;

function entry(key: string, at = 0, answerBytes = 10): CachedAnswer {
  const place = { turn, seq: Number(key.replace(/\D/g, '')) || 1 };
  return cachedAnswer({ key, at, answerBytes, place, digest: () => `d${key}` });
}

const keep = (entries: readonly CachedAnswer[], ...more: readonly CachedAnswer[]) =>
  more.reduce((all, one) => keepAnswer(all, one, one.at), entries);
const keys = (entries: readonly CachedAnswer[]) => entries.map(({ key }) => key);
const named = (count: number) =>
  Array.from({ length: count }, (_, index) => entry(`k${index + 1}`));

test('T85 65 entries after the first was used: the second is gone, the first kept [T11]', () => {
  const full = keep([], ...named(64));
  expect(full).toHaveLength(64);
  const after = keep(useAnswer(full, 'k1'), entry('k65'));
  expect(after).toHaveLength(64);
  expect(keys(after)).toContain('k1');
  expect(keys(after)).not.toContain('k2');
  expect(keys(after).slice(-2)).toEqual(['k1', 'k65']);
  expect(keys(keep(full, entry('k65')))).not.toContain('k1');
});

test('T85 entries whose digest alone is kept count like any other', () => {
  const large = keep([], entry('k1', 0, 102_400), ...named(64).slice(1));
  expect(keys(keep(large, entry('k65')))).not.toContain('k1');
});

test('T86 an entry used every hour is served at six hours exactly, and not a millisecond later', () => {
  let entries = keep([], entry('k1'));
  for (let at = hour; at < 6 * hour; at += hour) {
    expect(findAnswer(entries, 'k1', at)).not.toBeNull();
    entries = useAnswer(entries, 'k1');
  }
  expect(findAnswer(entries, 'k1', 6 * hour - 1)).not.toBeNull();
  expect(findAnswer(entries, 'k1', 6 * hour)).not.toBeNull();
  expect(findAnswer(entries, 'k1', 6 * hour + 1)).toBeNull();
  expect(keys(keep(entries, entry('k2', 6 * hour)))).toEqual(['k1', 'k2']);
  expect(keys(keep(entries, entry('k2', 6 * hour + 1)))).toEqual(['k2']);
});

test('B-19 answers of 60 KiB: the second evicts the first; the newest always stays', () => {
  const kib = 1024;
  const first = keep([], entry('k1', 0, 60 * kib));
  expect(keys(keep(first, entry('k2', 0, 60 * kib)))).toEqual(['k2']);
  expect(keys(keep(first, entry('k2', 0, 40 * kib - 2 * 128)))).toEqual(['k1', 'k2']);
  expect(keys(keep(first, entry('k2', 0, 40 * kib - 2 * 128 + 1)))).toEqual(['k2']);
  const used = useAnswer(keep(first, entry('k2', 0, 30 * kib)), 'k1');
  expect(keys(keep(used, entry('k3', 0, 20 * kib)))).toEqual(['k1', 'k3']);
});

test('B-19 an answer over 100 KiB leaves the others alone and is kept as a digest', () => {
  const most = limits.replayCacheBytes - limits.replayEntryBytes;
  expect(entry('k9', 0, most).held).toEqual({ turn, seq: 9 });
  const large = entry('k9', 0, most + 1);
  expect(large).toMatchObject({ bytes: 128, held: { digest: 'dk9' } });
  expect(keys(keep([], ...named(3), large))).toEqual(['k1', 'k2', 'k3', 'k9']);
});

test('B-19 an entry takes the place of its older self before anybody is evicted', () => {
  const full = keep([], ...named(64));
  const again = { ...entry('k5', 7), held: { turn, seq: 99 } };
  const after = keep(full, again);
  expect(after).toHaveLength(64);
  expect(after.at(-1)).toEqual(again);
  expect(keep(full, entry('k5'))).toEqual(full);
});

const asked: ReplayKey = {
  model: 'm',
  messages: [{ role: 'user', text: 'Grüße' }],
  tools: { type: 'object' },
  sampling: { temperature: 0, topP: 1 },
};

test('B-16 a key is of model, messages, tools, sampling, thread and revision; the order of members is nothing', () => {
  const text = replayKeyText(asked, 'th', 5);
  expect(text).toBe(
    '{"messages":[{"role":"user","text":"Grüße"}],"model":"m","sampling":{"temperature":0,"topP":1},"seq":5,"thread":"th","tools":{"type":"object"}}',
  );
  const turned = { ...asked, sampling: { topP: 1, temperature: 0 } };
  expect(replayKeyText(turned, 'th', 5)).toBe(text);
  expect(replayKeyText({ ...asked, sample: 0 }, 'th', 5)).toBe(text);
  const others = [
    replayKeyText({ ...asked, model: 'n' }, 'th', 5),
    replayKeyText({ ...asked, messages: [] }, 'th', 5),
    replayKeyText({ ...asked, tools: null }, 'th', 5),
    replayKeyText({ ...asked, sampling: {} }, 'th', 5),
    replayKeyText({ ...asked, sample: 1 }, 'th', 5),
    replayKeyText(asked, 'ti', 5),
    replayKeyText(asked, 'th', 6),
  ];
  expect(new Set([text, ...others]).size).toBe(others.length + 1);
});

test.each([
  [{ sampling: { temperature: Number.NaN } }, 'effect.cache.sampling.temperature'],
  [{ sampling: { topP: Number.POSITIVE_INFINITY } }, 'effect.cache.sampling.topP'],
  [{ tools: [new Date(0)] }, 'effect.cache.tools.0'],
  [{ messages: { seen: 1n } }, 'effect.cache.messages.seen'],
  [{ sample: -1 }, 'effect.cache.sample'],
  [{ sample: 1.5 }, 'effect.cache.sample'],
] as const)('T90 what JSON cannot say is refused by name: %o', (changes, field) => {
  expect(() => replayKeyText({ ...asked, ...changes }, 'th', 5)).toThrowError(
    expect.objectContaining({
      code: 'invalid_effect',
      details: expect.objectContaining({ field }),
    }),
  );
});
