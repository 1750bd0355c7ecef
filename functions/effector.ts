// The effector function: intents of SQS, each a reference to a deferred act of a turn.
//   T10  expired acts are refused; T6 one whose outcome is unknown follows its declared recovery.
import middy from '@middy/core';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { Handled } from '../src/ports/queue.ts';
import { handleIntentBatch } from '../src/runtime/effector.ts';
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
  const outcomes = await handleIntentBatch(
    runtime,
    messages,
    invocationBounds(context.getRemainingTimeInMillis()),
  );
  await later(required('TURNSTONE_QUEUE_INTENTS'), event, outcomes);
  return outcomes;
}

export const handler = middy<SQSEvent, ReadonlyMap<string, Handled> | SQSBatchResponse>()
  .use(partialBatch())
  .handler(work);
