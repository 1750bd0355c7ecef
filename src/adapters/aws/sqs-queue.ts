// A FIFO queue of SQS: group = thread, deduplication id = entry id, in order (page 04, section 2).
//   K-69  a message is confirmed only when SQS accepted it; a group stops at its first failure.
import type { SQSClient } from '@aws-sdk/client-sqs';
import type { Queue, QueueMessage, Sent } from '../../ports/queue.ts';
import { describeError } from '../../protocol/errors.ts';
import { limits } from '../../protocol/limits.ts';

export class SqsQueue implements Queue {
  readonly #url: string;
  readonly #client: () => Promise<SQSClient>;

  /** `client` is asked for on first use, so that a turn without entries never loads it. */
  constructor(url: string, client: () => Promise<SQSClient>) {
    this.#url = url;
    this.#client = client;
  }

  async send(messages: readonly QueueMessage[]): Promise<readonly Sent[]> {
    const outcomes: Sent[] = [];
    const stopped = new Set<string>();
    for (let from = 0; from < messages.length; from += limits.queueBatch) {
      const page = messages.slice(from, from + limits.queueBatch);
      const sendable = page.filter((message) => !stopped.has(message.group));
      const sent = await this.#sendPage(sendable);
      for (const message of page) {
        const outcome: Sent = stopped.has(message.group)
          ? {
              kind: 'unknown',
              cause: new Error('an earlier message of this group was not confirmed'),
            }
          : (sent.get(message.dedupId) ?? {
              kind: 'unknown',
              cause: new Error('SQS gave no outcome'),
            });
        if (outcome.kind !== 'done') stopped.add(message.group);
        outcomes.push(outcome);
      }
    }
    return outcomes;
  }

  async #sendPage(page: readonly QueueMessage[]): Promise<ReadonlyMap<string, Sent>> {
    const outcomes = new Map<string, Sent>();
    if (page.length === 0) return outcomes;
    const { SendMessageBatchCommand } = await import('@aws-sdk/client-sqs');
    const client = await this.#client();
    try {
      const answer = await client.send(
        new SendMessageBatchCommand({
          QueueUrl: this.#url,
          Entries: page.map((message, index) => ({
            Id: `m${index}`,
            MessageBody: message.body,
            MessageGroupId: message.group,
            MessageDeduplicationId: message.dedupId,
          })),
        }),
      );
      const at = (id: string | undefined) => page[Number(id?.slice(1))]?.dedupId ?? '';
      for (const ok of answer.Successful ?? []) outcomes.set(at(ok.Id), { kind: 'done' });
      for (const no of answer.Failed ?? []) {
        const reason = no.Message ?? no.Code ?? 'refused';
        const refused = no.SenderFault === true;
        outcomes.set(
          at(no.Id),
          refused ? { kind: 'refused', reason } : { kind: 'unknown', cause: new Error(reason) },
        );
      }
    } catch (cause) {
      const { message } = describeError(cause);
      for (const { dedupId } of page)
        outcomes.set(dedupId, { kind: 'unknown', cause: new Error(message, { cause }) });
    }
    return outcomes;
  }
}
