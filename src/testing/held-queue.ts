// A FIFO queue held in memory until a test takes its messages: deduplicated by id, ordered by group.
import type { Queue, QueueMessage, Queues, Sent } from '../ports/queue.ts';

export class HeldQueue implements Queue {
  readonly #seen = new Set<string>();
  #messages: QueueMessage[] = [];
  /** Every message that was ever accepted, in order. */
  readonly accepted: QueueMessage[] = [];

  send(messages: readonly QueueMessage[]): Promise<readonly Sent[]> {
    for (const message of messages) {
      if (this.#seen.has(message.dedupId)) continue;
      this.#seen.add(message.dedupId);
      this.#messages.push(message);
      this.accepted.push(message);
    }
    return Promise.resolve(messages.map(() => ({ kind: 'done' as const })));
  }

  /** Removes and returns what waits. */
  take(): readonly QueueMessage[] {
    const taken = this.#messages;
    this.#messages = [];
    return taken;
  }

  /** Forgets which ids were seen, as five minutes do. */
  forgetIds(): void {
    this.#seen.clear();
  }
}

export interface HeldQueues extends Queues {
  readonly inbox: HeldQueue;
  readonly events: HeldQueue;
  readonly intents: HeldQueue;
  readonly errors: HeldQueue;
}

export function heldQueues(): HeldQueues {
  return {
    inbox: new HeldQueue(),
    events: new HeldQueue(),
    intents: new HeldQueue(),
    errors: new HeldQueue(),
  };
}
