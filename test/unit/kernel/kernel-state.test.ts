// The kernel's checkpoint over a long life: small, whole, and the model is told what it does not see.
import { expect, test } from 'vitest';
import type { CompiledAgent } from '../../../src/agent/kernel/compiled-agent.ts';
import { projected } from '../../../src/agent/kernel/interpret.ts';
import { loadKernel, storeKernel } from '../../../src/agent/kernel/kernel-state.ts';
import { TurnBook } from '../../../src/agent/kernel/turn-book.ts';
import type { FoldedState, StateChange } from '../../../src/protocol/checkpoint.ts';
import {
  applyChange,
  changesText,
  emptyState,
  foldState,
  sharesOf,
  valueAt,
} from '../../../src/protocol/checkpoint.ts';
import { limits } from '../../../src/protocol/limits.ts';
import type { ThreadState } from '../../../src/runtime/turn-context.ts';

/** A thread's state as commits fold it. */
class Thread {
  folded: FoldedState = emptyState;

  get state(): ThreadState {
    const stage = (change: StateChange): void => {
      applyChange(change.key, valueAt(this.folded, change.key), change);
      this.folded = foldState(this.folded, 'scope', [change]);
    };
    return {
      get: (key) => valueAt(this.folded, key),
      set: (key, value) => stage({ op: 'set', key, value }),
      delete: (key) => stage({ op: 'delete', key }),
      append: (key, value) => stage({ op: 'append', key, value }),
      add: (key, by) => stage({ op: 'add', key, by }),
    };
  }

  get bytes(): number {
    const changes = [...sharesOf(this.folded).values()].flat().map(({ change }) => change);
    return Buffer.byteLength(changesText(changes));
  }
}

const names = { facts: [], capabilities: ['look'] };
const agentOf = (messages: number) =>
  ({ limits: { messages }, redactions: ['s3cret'] }) as unknown as CompiledAgent;

function live(thread: Thread, turns: number, keep: number): number {
  let most = 0;
  for (let turn = 0; turn < turns; turn += 1) {
    const loaded = loadKernel(thread.state, names);
    const book = new TurnBook(loaded, 0);
    book.say('user', `t${turn}`, `question ${turn} ${'x'.repeat(2000)}`);
    book.say('assistant', `t${turn}`, `answer ${turn}`);
    storeKernel(thread.state, names, loaded, book.state, keep);
    most = Math.max(most, thread.bytes);
  }
  return most;
}

test('T65 after 5000 turns the checkpoint is small, and the model sees the last N by their own index and what is left out', () => {
  const thread = new Thread();
  expect(live(thread, 5000, 20)).toBeLessThan(limits.itemBytes / 4);
  const shown = projected(agentOf(4), loadKernel(thread.state, names));
  expect(shown.map(({ role, text }) => [role, text.slice(0, 24).trim()])).toEqual([
    ['user', '[0..9995] left out: 9996'],
    ['user', '[9996] question 4998 xxx'],
    ['assistant', '[9997] answer 4998'],
    ['user', '[9998] question 4999 xxx'],
    ['assistant', '[9999] answer 4999'],
  ]);
}, 60_000);

test('K-62 fifty messages and a limit of twenty are 30 to 49', () => {
  const thread = new Thread();
  live(thread, 25, 20);
  const [omitted, first, ...others] = projected(agentOf(20), loadKernel(thread.state, names));
  expect(omitted?.text).toBe('[0..29] left out: 30 messages');
  expect(first?.text).toMatch(/^\[30\] /);
  expect(others.at(-1)?.text).toMatch(/^\[49\] /);
});

test('K-89 K-92 redacted and protected text is not what a model sees', () => {
  const thread = new Thread();
  const loaded = loadKernel(thread.state, names);
  const book = new TurnBook(loaded, 0);
  book.say('assistant', 't1', 'your code is 1234', true);
  book.say('user', 't2', 'my word is s3cret');
  storeKernel(thread.state, names, loaded, book.state, 20);
  const texts = projected(agentOf(20), loadKernel(thread.state, names)).map(({ text }) => text);
  expect(texts).toEqual(['[0] (protected)', '[1] my word is [redacted]']);
});

test('K-08 two turns that overlapped both keep their messages [T1]', () => {
  const thread = new Thread();
  const loaded = loadKernel(thread.state, names);
  for (const turn of ['t1', 't2']) {
    const book = new TurnBook(loaded, 0);
    book.say('user', turn, turn);
    storeKernel(thread.state, names, loaded, book.state, 20);
  }
  const { messages } = loadKernel(thread.state, names);
  expect(messages.map(({ turn }) => turn)).toEqual(['t1', 't2']);
});

test('K-61 long messages are cut by their size, and the last one stays whole', () => {
  const thread = new Thread();
  for (let turn = 0; turn < 30; turn += 1) {
    const loaded = loadKernel(thread.state, names);
    const book = new TurnBook(loaded, 0);
    book.say('user', `t${turn}`, 'y'.repeat(32_768));
    storeKernel(thread.state, names, loaded, book.state, 20);
    expect(thread.bytes).toBeLessThan(limits.checkpointBytesMax);
  }
  const last = loadKernel(thread.state, names).messages.at(-1);
  expect([last?.index, last?.text.length]).toEqual([29, 32_768]);
});
