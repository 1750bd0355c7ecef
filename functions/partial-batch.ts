// Partial batch answers for a FIFO source: what did not get through comes back, in its thread's order.
import type { MiddlewareObj } from '@middy/core';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { Handled } from '../src/ports/queue.ts';

/** Turns a map of outcomes by message id into the batch response SQS understands. */
export function partialBatch(): MiddlewareObj<
  SQSEvent,
  ReadonlyMap<string, Handled> | SQSBatchResponse
> {
  return {
    after: (request) => {
      const outcomes = request.response;
      if (!(outcomes instanceof Map)) return;
      const failed = request.event.Records.filter(
        ({ messageId }) => outcomes.get(messageId)?.kind !== 'done',
      );
      request.response = {
        batchItemFailures: failed.map(({ messageId }) => ({ itemIdentifier: messageId })),
      };
    },
  };
}
