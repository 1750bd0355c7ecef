// The promises of a queue as a suite, for every adapter: a list of cases over a harness.
//   T3  a group keeps its order across failures; groups hold nobody else up. K-69 an id is delivered once.
import { deepEqual, equal } from 'node:assert/strict';
import type { Handled, Queue } from '../ports/queue.ts';

/** A queue with a way to hand out what it holds. */
export interface QueueHarness {
  readonly queue: Queue;
  /**
   * Hands out messages, a batch of one group or of several at a time, until none is left; what a handler does not
   * call done comes again.
   */
  drain(
    handle: (
      messages: readonly { id: string; body: string; receives: number }[],
    ) => Promise<ReadonlyMap<string, Handled>>,
  ): Promise<void>;
  /** Hands a batch to a consumer that dies with it, and answers the bodies it had in hand; they come again by themselves. */
  lose(): Promise<readonly string[]>;
  close(): Promise<void>;
}

export interface QueueCase {
  readonly title: string;
  run(open: () => Promise<QueueHarness>): Promise<void>;
}

const message = (group: string, id: string) => ({ group, dedupId: id, body: `${group}:${id}` });

async function within(
  open: () => Promise<QueueHarness>,
  body: (harness: QueueHarness) => Promise<void>,
): Promise<void> {
  const harness = await open();
  try {
    await body(harness);
  } finally {
    await harness.close();
  }
}

/** Handles a batch in order, by group; the first that is not done holds back those behind it in its group (F25). */
function handler(
  seen: string[],
  verdict: (body: string, receives: number) => Handled,
): Parameters<QueueHarness['drain']>[0] {
  return async (messages) => {
    const outcomes = new Map<string, Handled>();
    const stopped = new Set<string>();
    for (const { id, body, receives } of messages) {
      const group = body.split(':')[0] ?? '';
      const outcome: Handled = stopped.has(group)
        ? { kind: 'failed', reason: 'behind another' }
        : verdict(body, receives);
      if (outcome.kind === 'done') seen.push(body);
      else stopped.add(group);
      outcomes.set(id, outcome);
    }
    return outcomes;
  };
}

export const queueCases: readonly QueueCase[] = [
  {
    title:
      'messages of a group come in the order they were sent, whatever the page they were sent in',
    run: (open) =>
      within(open, async ({ queue, drain }) => {
        const all = Array.from({ length: 23 }, (_, n) =>
          message('a', `m${String(n).padStart(2, '0')}`),
        );
        const sent = await queue.send(all);
        deepEqual(new Set(sent.map(({ kind }) => kind)), new Set(['done']));
        const seen: string[] = [];
        await drain(handler(seen, () => ({ kind: 'done' })));
        deepEqual(
          seen,
          all.map(({ body }) => body),
        );
      }),
  },
  {
    title: 'K-69 a message sent again under its id is delivered once',
    run: (open) =>
      within(open, async ({ queue, drain }) => {
        await queue.send([message('a', 'm1')]);
        await queue.send([message('a', 'm1'), message('a', 'm2')]);
        const seen: string[] = [];
        await drain(handler(seen, () => ({ kind: 'done' })));
        deepEqual(seen, ['a:m1', 'a:m2']);
      }),
  },
  {
    title:
      'F25 a failed message comes again before those behind it; another group goes on and is not run again',
    run: (open) =>
      within(open, async ({ queue, drain }) => {
        await queue.send([
          message('a', 'm1'),
          message('b', 'n1'),
          message('a', 'm2'),
          message('b', 'n2'),
        ]);
        const seen: string[] = [];
        let failures = 0;
        await drain(
          handler(seen, (body) => {
            if (body !== 'a:m1' || failures > 0) return { kind: 'done' };
            failures += 1;
            return { kind: 'failed', reason: 'once' };
          }),
        );
        const of = (group: string) => seen.filter((body) => body.startsWith(group));
        deepEqual(of('a'), ['a:m1', 'a:m2']);
        deepEqual(of('b'), ['b:n1', 'b:n2']);
        equal(failures, 1);
      }),
  },
  {
    title:
      'F1 F25 what a consumer had in hand when it died comes back before what was sent since; other groups go on meanwhile',
    run: (open) =>
      within(open, async ({ queue, drain, lose }) => {
        await queue.send([message('a', 'm1'), message('a', 'm2')]);
        equal((await lose())[0], 'a:m1');
        await queue.send([message('a', 'm3'), message('b', 'n1')]);
        const seen: string[] = [];
        await drain(handler(seen, () => ({ kind: 'done' })));
        deepEqual(seen, ['b:n1', 'a:m1', 'a:m2', 'a:m3']);
      }),
  },
  {
    title:
      'B-42 a consumer that dies with the same message again and again is not overtaken either',
    run: (open) =>
      within(open, async ({ queue, drain, lose }) => {
        await queue.send([message('a', 'm1')]);
        for (const later of ['m2', 'm3']) {
          let held: readonly string[] = [];
          while (held.length === 0) held = await lose();
          equal(held[0], 'a:m1');
          await queue.send([message('a', later)]);
        }
        const seen: string[] = [];
        await drain(handler(seen, () => ({ kind: 'done' })));
        deepEqual(seen, ['a:m1', 'a:m2', 'a:m3']);
      }),
  },
  {
    title: 'B12 a message that is told to come later does, in its place',
    run: (open) =>
      within(open, async ({ queue, drain }) => {
        await queue.send([message('a', 'm1'), message('a', 'm2')]);
        const seen: string[] = [];
        let told = 0;
        await drain(
          handler(seen, (body) => {
            if (body !== 'a:m1' || told > 1) return { kind: 'done' };
            told += 1;
            return { kind: 'later', afterMs: 50, reason: 'busy' };
          }),
        );
        deepEqual(seen, ['a:m1', 'a:m2']);
      }),
  },
];
