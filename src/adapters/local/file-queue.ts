// A FIFO queue in a file: ordered by group, deduplicated by id, at least once, with a parking place.
//
// Several processes may send to it and take from it. What a process had in hand when it was killed stays hidden, and
// hides its group, until its time is over: nothing sent later overtakes it.
//   T3  a group has one batch in flight; a message that failed keeps its place before those behind it.

import { randomUUID } from 'node:crypto';
import type { Clock } from '../../ports/clock.ts';
import type { Handled, Queue, QueueMessage, Sent } from '../../ports/queue.ts';
import { limits } from '../../protocol/limits.ts';
import type { HeldBatch, HeldMessage, ParkedMessage, Settlement } from './queue-file.ts';
import { isFileBusy, QueueFile } from './queue-file.ts';

export interface Delivered {
  readonly id: string;
  readonly body: string;
  /** Deliveries so far, this one included. */
  readonly receives: number;
}

export interface FileQueueOptions {
  readonly clock: Clock;
  /** File of the queues; `:memory:` lives and dies with this one. */
  readonly path: string;
  readonly name: string;
  /** Groups handled side by side. Default 32. */
  readonly groupsAtOnce?: number;
  /** Deliveries before a failing message is parked. Default `limits.inboxTriesMax`. */
  readonly triesMax?: number;
  /** Wait before a failed message comes again, milliseconds. Default 1000. */
  readonly retryMs?: number;
  /** How long a batch of a process that died stays hidden, milliseconds; renewed by one that lives. Default 30000. */
  readonly visibleMs?: number;
  /** Told of a message that was parked, and of a file that cannot be read or written. */
  readonly onTrouble?: (what: { readonly id: string | null; readonly reason: string }) => void;
}

type Handle = (messages: readonly Delivered[]) => Promise<ReadonlyMap<string, Handled>>;

const busyRoundsMax = 200;

export class FileQueue implements Queue {
  readonly #options: Required<FileQueueOptions>;
  readonly #file: QueueFile;
  #consume: Handle | null = null;
  #active = 0;
  #stopped = false;
  #pumping: Promise<void> | null = null;
  #again = false;
  #cancelPoll: () => void = () => undefined;
  #wakers: (() => void)[] = [];

  constructor(options: FileQueueOptions) {
    this.#options = {
      groupsAtOnce: 32,
      triesMax: limits.inboxTriesMax,
      retryMs: 1_000,
      visibleMs: limits.leaseMs,
      onTrouble: () => undefined,
      ...options,
    };
    this.#file = new QueueFile(options.path, options.name);
  }

  /** Messages waiting or in flight, of all processes. */
  get depth(): number {
    return this.#file.depth();
  }

  get parked(): readonly ParkedMessage[] {
    return this.#file.parked();
  }

  async send(messages: readonly QueueMessage[]): Promise<readonly Sent[]> {
    try {
      await this.#whenFree(() => this.#file.add(messages, this.#options.clock.now()));
    } catch (cause) {
      return messages.map(() => ({ kind: 'unknown' as const, cause }));
    }
    this.#pump();
    return messages.map(() => ({ kind: 'done' as const }));
  }

  /** Starts handing out messages, up to ten of a group at a time. */
  consume(handle: Handle): void {
    this.#consume = handle;
    this.#poll();
  }

  /** Hands out nothing more and waits for what is in flight. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelPoll();
    await this.#pumping;
    while (this.#active > 0) await new Promise<void>((resolve) => this.#wakers.push(resolve));
  }

  close(): void {
    this.#file.close();
  }

  /** What other processes sent, or left behind, is found by looking. */
  #poll(): void {
    if (this.#stopped) return;
    this.#pump();
    this.#cancelPoll = this.#options.clock.timer(limits.queuePollMs, () => this.#poll());
  }

  #pump(): void {
    this.#again = true;
    if (this.#pumping !== null || this.#consume === null || this.#stopped) return;
    this.#pumping = this.#takeAll(this.#consume).then(
      () => {
        this.#pumping = null;
        // Asked for since the last look.
        if (this.#again) this.#pump();
      },
      (error: unknown) => {
        this.#pumping = null;
        this.#options.onTrouble({ id: null, reason: reasonOf(error) });
      },
    );
  }

  async #takeAll(consume: Handle): Promise<void> {
    this.#again = false;
    while (this.#active < this.#options.groupsAtOnce && !this.#stopped) {
      const batch = await this.#whenFree(() => this.#take());
      if (batch === null) return;
      this.#active += 1;
      void this.#hand(batch, consume);
    }
  }

  #take(): HeldBatch | null {
    const now = this.#options.clock.now();
    return this.#file.take(now, now + this.#options.visibleMs, randomUUID());
  }

  async #hand(batch: HeldBatch, consume: Handle): Promise<void> {
    const release = this.#keep(batch);
    const outcomes = await outcomesOf(batch, consume);
    release();
    const { clock } = this.#options;
    const settled = this.#settlement(batch, outcomes, clock.now());
    try {
      await this.#whenFree(() => this.#file.settle(batch, settled, clock.now()));
      if (settled.parked !== null) {
        const { message, reason } = settled.parked;
        this.#options.onTrouble({ id: message.id, reason });
      }
    } catch (error) {
      // The batch stays hidden for its time, then comes again.
      this.#options.onTrouble({ id: null, reason: reasonOf(error) });
    }
    this.#active -= 1;
    for (const wake of this.#wakers.splice(0)) wake();
    const wait = settled.againAt - clock.now();
    if (wait > 0) clock.timer(wait, () => this.#pump());
    this.#pump();
  }

  /** Renews the batch at a third of its time until told to stop. */
  #keep(batch: HeldBatch): () => void {
    const { clock, visibleMs, onTrouble } = this.#options;
    let cancel = (): void => undefined;
    let kept = true;
    const arm = (): void => {
      cancel = clock.timer(Math.floor(visibleMs / 3), () => {
        this.#whenFree(() => this.#file.renew(batch, clock.now() + visibleMs)).then(
          (held) => {
            if (held && kept) arm();
          },
          (error: unknown) => onTrouble({ id: null, reason: reasonOf(error) }),
        );
      });
    };
    arm();
    return () => {
      kept = false;
      cancel();
    };
  }

  /** Everything before the first message that did not get through leaves the queue. */
  #settlement(batch: HeldBatch, outcomes: ReadonlyMap<string, Handled>, now: number): Settlement {
    const done: HeldMessage[] = [];
    const stopped = { done, parked: null, uncounted: [] as readonly HeldMessage[], againAt: now };
    for (const [at, message] of batch.messages.entries()) {
      const outcome = outcomes.get(message.id) ?? noOutcome;
      if (outcome.kind === 'done') {
        done.push(message);
        continue;
      }
      // Those behind were not tried: their delivery does not count.
      const behind = batch.messages.slice(at + 1);
      if (outcome.kind === 'later') {
        const againAt = now + outcome.afterMs;
        return { ...stopped, uncounted: [message, ...behind], againAt };
      }
      if (message.receives >= this.#options.triesMax) {
        const parked = { message, reason: outcome.reason };
        return { ...stopped, parked, uncounted: behind };
      }
      return { ...stopped, uncounted: behind, againAt: now + this.#options.retryMs };
    }
    return stopped;
  }

  async #whenFree<T>(work: () => T): Promise<T> {
    for (let round = 1; ; round += 1) {
      try {
        return work();
      } catch (error) {
        if (!isFileBusy(error) || round === busyRoundsMax) throw error;
        await this.#options.clock.sleep(1 + (round % 10));
      }
    }
  }
}

const noOutcome: Handled = { kind: 'failed', reason: 'no outcome was given' };

async function outcomesOf(
  batch: HeldBatch,
  consume: Handle,
): Promise<ReadonlyMap<string, Handled>> {
  const delivered = batch.messages.map(({ id, body, receives }) => ({ id, body, receives }));
  try {
    return await consume(delivered);
  } catch (error) {
    const failed: Handled = { kind: 'failed', reason: reasonOf(error) };
    return new Map(delivered.map(({ id }) => [id, failed]));
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
