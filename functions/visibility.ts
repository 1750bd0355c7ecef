// A message that must come later is hidden for that long, so that waiting burns no receive count (B12).
import type { SQSClient } from '@aws-sdk/client-sqs';
import type { SQSEvent } from 'aws-lambda';
import type { Handled } from '../src/ports/queue.ts';

let client: SQSClient | null = null;
const visibilityMaxSeconds = 43_200;

/** Moves the visibility of messages that were told to come later past what they wait for. */
export async function later(
  queueUrl: string,
  event: SQSEvent,
  outcomes: ReadonlyMap<string, Handled>,
): Promise<void> {
  const waiting = event.Records.flatMap((record) => {
    const outcome = outcomes.get(record.messageId);
    return outcome?.kind === 'later' ? [{ record, afterMs: outcome.afterMs }] : [];
  });
  if (waiting.length === 0) return;
  const { ChangeMessageVisibilityCommand, SQSClient: Client } = await import('@aws-sdk/client-sqs');
  client ??= new Client({});
  for (const { record, afterMs } of waiting) {
    const seconds = Math.min(visibilityMaxSeconds, Math.max(1, Math.ceil(afterMs / 1000)));
    await client.send(
      new ChangeMessageVisibilityCommand({
        QueueUrl: queueUrl,
        ReceiptHandle: record.receiptHandle,
        VisibilityTimeout: seconds,
      }),
    );
  }
}
