// What a LangGraph config asks for, checked: thread, namespace, checkpoint.
import type { RunnableConfig } from '@langchain/core/runnables';
import { TurnstoneError } from '../../protocol/errors.ts';

const idPattern = /^[A-Za-z0-9-]{1,64}$/;

export interface Wanted {
  readonly thread: string | undefined;
  /** Undefined for the newest. */
  readonly id: string | undefined;
}

export function wanted(config: RunnableConfig): Wanted {
  const { thread_id: thread, checkpoint_id: id, thread_ts: old } = config.configurable ?? {};
  const given = id || old || undefined;
  return {
    thread: optionalText('configurable.thread_id', thread),
    id: given === undefined ? undefined : checkpointId('configurable.checkpoint_id', given),
  };
}

/** Undefined when the config names none. */
export function namespaceOf(config: RunnableConfig): string | undefined {
  return optionalText('configurable.checkpoint_ns', config.configurable?.checkpoint_ns);
}

/** Checks the id of a checkpoint; LangGraph makes them as UUIDs, whose order is their age. */
export function checkpointId(field: string, value: unknown): string {
  if (typeof value === 'string' && idPattern.test(value)) return value;
  throw invalid(field, '1 to 64 characters of A-Z a-z 0-9 -', value);
}

function optionalText(field: string, value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return value;
  throw invalid(field, 'a text', value);
}

function invalid(field: string, expected: string, value: unknown): TurnstoneError {
  const got = typeof value === 'string' ? JSON.stringify(value.slice(0, 80)) : typeof value;
  return new TurnstoneError('invalid_request', `${field}: expected ${expected}, got ${got}`, {
    retry: 'never',
    details: { field, expected, got },
  });
}
