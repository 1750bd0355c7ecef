// The relay function: sends what a thread left unsent; invoked by an operator or a retry, the sweeper does
// the same on its schedule.
import middy from '@middy/core';
import { tenantId, threadId } from '../src/protocol/ids.ts';
import { sendThread } from '../src/runtime/relay.ts';
import { lambdaRuntime } from './wiring.ts';

const runtime = lambdaRuntime();

async function work(event: { tenant?: unknown; thread?: unknown }): Promise<{ sent: boolean }> {
  const thread = {
    tenant: tenantId('tenant', event.tenant),
    thread: threadId('thread', event.thread),
  };
  return { sent: await sendThread(runtime, thread) };
}

export const handler = middy<{ tenant?: unknown; thread?: unknown }, { sent: boolean }>().handler(
  work,
);
