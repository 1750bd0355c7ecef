// The size of a thread's state is bounded where it would grow, and never strands a thread (T11, T1).
import { expect, test } from 'vitest';
import { limits } from '../../src/protocol/limits.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

onEachStore(
  'T11 a turn that would grow the state past its limit concludes failed; the thread goes on, and shrinks again [T1 T2]',
  async (open) => {
    const scene = new Scene(
      await open(),
      agentOf(async (context, input) => {
        const { add, drop } = input as { add?: number; drop?: boolean };
        if (add !== undefined) context.state.append('log', 'x'.repeat(add));
        if (drop === true) context.state.delete('log');
        return (context.state.get('log') as string[] | undefined)?.length ?? 0;
      }),
    );
    const ask = (turn: string, input: unknown) => scene.conclude(turn, { input });
    const refused = { status: 'failed', error: { code: 'checkpoint_too_large' } };
    const tooLarge = limits.checkpointBytesMax + 1;
    expect(await ask('big', { add: tooLarge })).toMatchObject(refused);
    expect(await ask('big', { add: tooLarge })).toMatchObject({ ...refused, replayed: true });
    let grown = 0;
    for (; grown < 10; grown += 1) {
      const view = await ask(`grow-${grown}`, { add: 60_000 });
      if (view.status === 'failed') break;
      expect(view.revision).toBe(grown + 1);
    }
    expect(grown).toBe(4);
    expect(await ask('over', { add: 60_000 })).toMatchObject(refused);
    expect(await ask('small', { add: 10 })).toMatchObject({ status: 'succeeded', result: 5 });
    expect(await ask('drop', { drop: true })).toMatchObject({ status: 'succeeded', result: 0 });
    expect(await ask('again', { add: 60_000 })).toMatchObject({ status: 'succeeded', result: 1 });
  },
);

test('T11 a counter of a thread stays as small as it was, and a sum that is not whole is refused before anything acts', async () => {
  const outside = new Outside();
  const store = memoryStore();
  const putSnapshot = store.putSnapshot.bind(store);
  const sizes: number[] = [];
  store.putSnapshot = async (thread, revision, segments, archived) => {
    for (const { payload } of segments) {
      sizes.push(payload.kind === 'inline' ? payload.bytes.byteLength : payload.bytes);
    }
    return putSnapshot(thread, revision, segments, archived);
  };
  const scene = new Scene(
    store,
    agentOf(async (context, input) => {
      context.state.set('last', 'x'.repeat(300));
      for (let count = 0; count < 50; count += 1) context.state.add('n', input as number);
      await context.effect(outside.effect());
      return context.state.get('n');
    }),
  );
  for (let turn = 1; turn <= 60; turn += 1) {
    expect(await scene.conclude(`t${turn}`, { input: 2 })).toMatchObject({ result: turn * 100 });
  }
  expect(sizes.length).toBeGreaterThan(3);
  expect(Math.max(...sizes)).toBeLessThan(600);
  const sent = outside.requests;
  for (const [turn, input] of [0.5, Number.MAX_SAFE_INTEGER + 1].entries()) {
    expect(await scene.conclude(`bad-${turn}`, { input })).toMatchObject({
      status: 'failed',
      error: { code: 'invalid_request', message: expect.stringContaining('state.add("n")') },
    });
  }
  expect(outside.requests).toBe(sent);
});
