// The queue suite on the queue in a file and on SQS of the local AWS.
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  ChangeMessageVisibilityCommand,
  CreateQueueCommand,
  DeleteMessageCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { describe, inject, test } from 'vitest';
import { SqsQueue } from '../../src/adapters/aws/sqs-queue.ts';
import { FileQueue } from '../../src/adapters/local/file-queue.ts';
import { QueueFile } from '../../src/adapters/local/queue-file.ts';
import { systemClock } from '../../src/adapters/system/system-clock.ts';
import type { QueueHarness } from '../../src/testing/queue-conformance.ts';
import { queueCases } from '../../src/testing/queue-conformance.ts';
import { skipLoudly } from '../stores.ts';

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** How long what a consumer that died had in hand stays hidden, seconds. */
const hiddenSeconds = 1;

async function inFile(): Promise<QueueHarness> {
  const folder = mkdtempSync(join(tmpdir(), 'turnstone-queue-'));
  const path = join(folder, 'queues.sqlite');
  const visibleMs = hiddenSeconds * 1_000;
  const queue = new FileQueue({ clock: systemClock, path, name: 'q', retryMs: 20, visibleMs });
  return {
    queue,
    drain: async (handle) => {
      queue.consume(handle);
      while (queue.depth > 0) await pause(5);
    },
    // Another process takes a batch and is not heard of again.
    lose: async () => {
      const file = new QueueFile(path, 'q');
      const now = systemClock.now();
      const batch = file.take(now, now + visibleMs, 'died');
      file.close();
      return (batch?.messages ?? []).map(({ body }) => body);
    },
    close: async () => {
      await queue.stop();
      queue.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A queue of SQS, polled the way an event source does: what is not done is hidden, or comes again at once. */
async function onSqs(endpoint: string): Promise<QueueHarness> {
  const client = new SQSClient({
    endpoint,
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
  const { QueueUrl = '' } = await client.send(
    new CreateQueueCommand({
      QueueName: `q-${randomUUID().slice(0, 8)}.fifo`,
      Attributes: { FifoQueue: 'true', VisibilityTimeout: '30' },
    }),
  );
  const left = async (): Promise<number> => {
    const names = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'] as const;
    const { Attributes = {} } = await client.send(
      new GetQueueAttributesCommand({ QueueUrl, AttributeNames: [...names] }),
    );
    return names.reduce((sum, name) => sum + Number(Attributes[name] ?? 0), 0);
  };
  return {
    queue: new SqsQueue(QueueUrl, async () => client),
    drain: async (handle) => {
      while ((await left()) > 0) {
        const { Messages = [] } = await client.send(
          new ReceiveMessageCommand({
            QueueUrl,
            MaxNumberOfMessages: 10,
            MessageSystemAttributeNames: ['ApproximateReceiveCount'],
          }),
        );
        const outcomes = await handle(
          Messages.map(({ MessageId = '', Body = '', Attributes }) => ({
            id: MessageId,
            body: Body,
            receives: Number(Attributes?.ApproximateReceiveCount ?? 1),
          })),
        );
        // What failed is shown again last first, so that the first of a group is the first to be seen.
        for (const { MessageId = '', ReceiptHandle } of Messages.toReversed()) {
          const outcome = outcomes.get(MessageId);
          if (outcome?.kind === 'done') {
            await client.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
          } else {
            await client.send(
              new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 0 }),
            );
          }
        }
        if (Messages.length === 0) await pause(50);
      }
    },
    lose: async () => {
      const { Messages = [] } = await client.send(
        new ReceiveMessageCommand({
          QueueUrl,
          MaxNumberOfMessages: 10,
          VisibilityTimeout: hiddenSeconds,
        }),
      );
      return Messages.map(({ Body = '' }) => Body);
    },
    close: async () => {
      await client.send(new DeleteQueueCommand({ QueueUrl }));
      client.destroy();
    },
  };
}

const endpoint = inject('dynamodb').ministack;
const backEnds: Record<string, (() => Promise<QueueHarness>) | string> = {
  'in a file': inFile,
  'SQS of the local AWS': 'url' in endpoint ? () => onSqs(endpoint.url) : endpoint.unavailable,
};

describe.each(Object.entries(backEnds))('queue: %s', (_name, open) => {
  for (const { title, run } of queueCases) {
    if (typeof open === 'string') skipLoudly(`${title}: no emulator: ${open}`, () => undefined);
    else test(title, () => run(open));
  }
});
