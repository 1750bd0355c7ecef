// A FIFO queue in this process: ordered by group, deduplicated by id, at least once, with a parking place.
//
// What it holds dies with the process; the store's work rows are what bring a message back. So a
// message is only a hint that a turn wants a pass.
//   T3  a group has one batch in flight; a message that failed keeps its place before those behind it.

import type { Clock } from '../../ports/clock.ts';
import type { Handled, Queue, QueueMessage, Sent } from '../../ports/queue.ts';
import { limits } from '../../protocol/limits.ts';

export interface Delivered {
  readonly id: string;
  readonly body: string;
  /** Deliveries so far, this one included. */
  readonly receives: number;
}

export interface ParkedMessage extends QueueMessage {
  readonly reason: string;
}

export interface MemoryQueueOptions {
  readonly clock: Clock;
  /** Groups handled side by side. Default 32. */
  readonly groupsAtOnce?: number;
  /** Deliveries before a failing message is parked. Default `limits.inboxTriesMax`. */
  readonly triesMax?: number;
  /** Wait before a failed message comes again, milliseconds. Default 1000. */
  readonly retryMs?: number;
}

interface Held extends QueueMessage {
  receives: number;
}

interface Group {
  readonly messages: Held[];
  busy: boolean;
  notBefore: number;
}

export class MemoryQueue implements Queue {
  readonly #options: Required<MemoryQueueOptions>;
  readonly #groups = new Map<string, Group>();
  readonly #ids = new Map<string, number>();
  readonly parked: ParkedMessage[] = [];
  #consume: ((messages: readonly Delivered[]) => Promise<ReadonlyMap<string, Handled>>) | null =
    null;
  #active = 0;
  #stopped = false;
  #wakers: (() => void)[] = [];

  constructor(options: MemoryQueueOptions) {
    this.#options = {
      groupsAtOnce: 32,
      triesMax: limits.inboxTriesMax,
      retryMs: 1_000,
      ...options,
    };
  }

  /** Messages waiting or in flight. */
  get depth(): number {
    let depth = 0;
    for (const group of this.#groups.values()) depth += group.messages.length;
    return depth;
  }

  send(messages: readonly QueueMessage[]): Promise<readonly Sent[]> {
    const now = this.#options.clock.now();
    for (const [id, until] of this.#ids) {
      if (until > now) break;
      this.#ids.delete(id);
    }
    for (const message of messages) {
      if (this.#ids.has(message.dedupId)) continue;
      this.#ids.set(message.dedupId, now + limits.queueDedupMs);
      const group = this.#groups.get(message.group) ?? { messages: [], busy: false, notBefore: 0 };
      group.messages.push({ ...message, receives: 0 });
      this.#groups.set(message.group, group);
    }
    this.#pump();
    return Promise.resolve(messages.map(() => ({ kind: 'done' as const })));
  }

  /** Starts handing out messages, up to ten of a group at a time. */
  consume(handle: (messages: readonly Delivered[]) => Promise<ReadonlyMap<string, Handled>>): void {
    this.#consume = handle;
    this.#pump();
  }

  /** Hands out nothing more and waits for what is in flight. */
  async stop(): Promise<void> {
    this.#stopped = true;
    while (this.#active > 0) await new Promise<void>((resolve) => this.#wakers.push(resolve));
  }

  #pump(): void {
    if (this.#consume === null || this.#stopped) return;
    const now = this.#options.clock.now();
    for (const [name, group] of this.#groups) {
      if (this.#active >= this.#options.groupsAtOnce) return;
      if (group.busy || group.notBefore > now) continue;
      if (group.messages.length === 0) this.#groups.delete(name);
      else void this.#hand(group, this.#consume);
    }
  }

  async #hand(
    group: Group,
    consume: (messages: readonly Delivered[]) => Promise<ReadonlyMap<string, Handled>>,
  ): Promise<void> {
    group.busy = true;
    this.#active += 1;
    const batch = group.messages.slice(0, limits.inboxBatch);
    for (const message of batch) message.receives += 1;
    let outcomes: ReadonlyMap<string, Handled>;
    try {
      outcomes = await consume(
        batch.map(({ dedupId, body, receives }) => ({ id: dedupId, body, receives })),
      );
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      outcomes = new Map(
        batch.map(({ dedupId }) => [dedupId, { kind: 'failed' as const, reason }]),
      );
    }
    this.#settle(group, batch, outcomes);
    group.busy = false;
    this.#active -= 1;
    for (const wake of this.#wakers.splice(0)) wake();
    this.#pump();
  }

  /** Everything before the first message that did not get through leaves the queue. */
  #settle(group: Group, batch: readonly Held[], outcomes: ReadonlyMap<string, Handled>): void {
    for (const message of batch) {
      const outcome = outcomes.get(message.dedupId) ?? {
        kind: 'failed',
        reason: 'no outcome was given',
      };
      if (outcome.kind === 'done') {
        group.messages.shift();
        continue;
      }
      if (outcome.kind === 'failed' && message.receives >= this.#options.triesMax) {
        group.messages.shift();
        this.parked.push({ ...message, reason: outcome.reason });
        continue;
      }
      if (outcome.kind === 'later') message.receives -= 1;
      this.#comeAgain(group, outcome.kind === 'later' ? outcome.afterMs : this.#options.retryMs);
      return;
    }
  }

  #comeAgain(group: Group, afterMs: number): void {
    const { clock } = this.#options;
    group.notBefore = clock.now() + afterMs;
    clock.timer(afterMs, () => {
      group.notBefore = 0;
      this.#pump();
    });
  }
}
