// The turn function: inbox messages of SQS, each a reference to a turn that wants a pass.
//   F25  a thread's order holds across a failure; other threads of the batch are done and not run again.
import middy from '@middy/core';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { Handled } from '../src/ports/queue.ts';
import { handleInboxBatch } from '../src/runtime/drive.ts';
import { partialBatch } from './partial-batch.ts';
import { later } from './visibility.ts';
import { invocationBounds, lambdaRuntime, required } from './wiring.ts';

const runtime = lambdaRuntime();

async function work(event: SQSEvent, context: Context): Promise<ReadonlyMap<string, Handled>> {
  const messages = event.Records.map(({ messageId, body, attributes }) => ({
    id: messageId,
    body,
    receives: Number(attributes.ApproximateReceiveCount),
  }));
  const outcomes = await handleInboxBatch(
    runtime,
    messages,
    invocationBounds(context.getRemainingTimeInMillis()),
  );
  await later(required('TURNSTONE_QUEUE_INBOX'), event, outcomes);
  return outcomes;
}

export const handler = middy<SQSEvent, ReadonlyMap<string, Handled> | SQSBatchResponse>()
  .use(partialBatch())
  .handler(work);
