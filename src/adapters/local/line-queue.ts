// A queue whose messages leave as telemetry lines: where the embedded server publishes its events.
import type { Queue, QueueMessage, Sent } from '../../ports/queue.ts';
import type { Telemetry } from '../../ports/telemetry.ts';

export class LineQueue implements Queue {
  readonly #telemetry: Telemetry;
  readonly #name: string;

  constructor(name: string, telemetry: Telemetry) {
    this.#name = name;
    this.#telemetry = telemetry;
  }

  send(messages: readonly QueueMessage[]): Promise<readonly Sent[]> {
    for (const { dedupId, group, body } of messages) {
      this.#telemetry.emit(`${this.#name}.published`, { id: dedupId, group, body });
    }
    return Promise.resolve(messages.map(() => ({ kind: 'done' as const })));
  }
}
