// A small version of `npm run bench:agents`: real processes, a real provider, SIGKILL.
import { expect, test } from 'vitest';
import { type Figures, killEverywhere, killOnce } from '../../bench/agents/kill.ts';
import { requestsPerTurn } from '../../bench/agents/requests.ts';
import { callCount, tokensPerCompletion } from '../../bench/agents/script.ts';

const clean = { actsTwice: 0, actsMissing: 0, answersLost: 0, tokensTwice: 0, unanswered: 0 };

test('an agent of the AI SDK on Turnstone, killed at every call whose answer is on the way: nothing done twice, lost or paid twice [T2 T5 T6 T7]', async () => {
  const figures = await killEverywhere('turnstone', ['landed']);
  expect(figures).toMatchObject({ ...clean, kills: callCount, needed: callCount * callCount });
  // What no client can save: the completion that was on its way, once for each of the five.
  expect(figures.tokensInFlight).toBe(5 * tokensPerCompletion);
  // Besides those completions, only the search is asked again.
  expect(figures.landed).toBe(figures.needed + 5 + 1);
});

test('an agent of the AI SDK on Turnstone, killed before a call happens, makes it once [T6]', async () => {
  const figures = await killEverywhere('turnstone', ['arrived'], [3, 4, 6, 8]);
  expect(figures).toMatchObject({ ...clean, kills: 4, tokensInFlight: 0 });
  expect(figures.landed).toBe(figures.needed);
});

test('the bench counts what goes wrong: the AI SDK alone starts over, LangGraph repeats what was on its way', async () => {
  const alone = await killOnce('ai-sdk-alone', { call: 8, instant: 'landed' });
  const expected: Partial<Figures> = {
    actsTwice: 3,
    answersLost: 7,
    tokensTwice: 3 * tokensPerCompletion,
    tokensInFlight: tokensPerCompletion,
    unanswered: 0,
  };
  expect(alone).toMatchObject(expected);
  const graph = await killOnce('langgraph', { call: 9, instant: 'landed' });
  expect(graph).toMatchObject({ actsTwice: 1, answersLost: 0, tokensTwice: 0, unanswered: 0 });
});

test('a turn of ten steps asks its store for one read and eleven writes, fewer than any other that announces', async () => {
  const [own, graph, atMostOnce, atLeastOnce] = await requestsPerTurn();
  expect(own).toMatchObject({ reads: 1, writes: 11 });
  expect(graph?.writes).toBeGreaterThan(11);
  expect(atMostOnce?.writes).toBeGreaterThan(11);
  // It announces nothing: whether a step ran before a crash is not known afterwards.
  expect(atLeastOnce?.writes).toBe(10);
});
