// FIFO queues with their dead-letter queues: order is per group, and a group is a thread.
import { Duration } from 'aws-cdk-lib';
import {
  DeduplicationScope,
  FifoThroughputLimit,
  Queue,
  QueueEncryption,
} from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { Profile } from './profile.ts';

/** Receives before a message is dead-lettered: far above what a busy thread costs. */
const receivesMax = 25;

export class Queues extends Construct {
  readonly inbox: Queue;
  readonly inboxDead: Queue;
  readonly events: Queue;
  readonly eventsDead: Queue;
  readonly intents: Queue;
  readonly intentsDead: Queue;

  constructor(scope: Construct, id: string, profile: Profile) {
    super(scope, id);
    [this.inbox, this.inboxDead] = this.#pair('Inbox', profile.visibilitySeconds);
    [this.events, this.eventsDead] = this.#pair('Events', 30);
    [this.intents, this.intentsDead] = this.#pair('Intents', profile.visibilitySeconds);
  }

  #pair(name: string, visibilitySeconds: number): [Queue, Queue] {
    const common = {
      fifo: true,
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
      retentionPeriod: Duration.days(14),
    };
    const dead = new Queue(this, `${name}Dead`, common);
    const queue = new Queue(this, name, {
      ...common,
      visibilityTimeout: Duration.seconds(visibilitySeconds),
      deduplicationScope: DeduplicationScope.MESSAGE_GROUP,
      fifoThroughputLimit: FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
      deadLetterQueue: { queue: dead, maxReceiveCount: receivesMax },
    });
    return [queue, dead];
  }
}
