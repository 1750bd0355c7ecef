// Queues as the runtime sees them: ordered by group, deduplicated by id, at least once.
//   T3  one group is one thread: its messages are handled one after another.
/** A message on its way out. `dedupId` is stable over resends (K-69). */
export interface QueueMessage {
  readonly group: string;
  readonly dedupId: string;
  readonly body: string;
}

export type Sent =
  | { readonly kind: 'done' }
  /** The queue refused this message for good (size, shape). */
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'unknown'; readonly cause: unknown };

/** A FIFO queue that takes messages. One outcome a message, in order; stops at a group's first failure. */
export interface Queue {
  send(messages: readonly QueueMessage[]): Promise<readonly Sent[]>;
}

/** The queues a relay knows. */
export interface Queues {
  readonly inbox: Queue;
  readonly events: Queue;
  readonly intents: Queue;
  /** The error stream (page 03, section 8). */
  readonly errors: Queue;
}

/** What a consumer says of one delivered message. */
export type Handled =
  | { readonly kind: 'done' }
  /** Come again after `afterMs`; not a failure, burns no retry budget where the queue allows it. */
  | { readonly kind: 'later'; readonly afterMs: number; readonly reason: string }
  | { readonly kind: 'failed'; readonly reason: string };
