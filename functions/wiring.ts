// The composition root of the Lambda functions: reads the environment once, builds one Runtime a container.
//
// Clients other than DynamoDB are loaded on first use. Nothing past this folder sees a Lambda type.
import { randomUUID } from 'node:crypto';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { KMSClient } from '@aws-sdk/client-kms';
import type { SQSClient } from '@aws-sdk/client-sqs';
import * as own from 'turnstone/agents';
import { KmsNames } from '../src/adapters/aws/kms-names.ts';
import { KmsVault } from '../src/adapters/aws/kms-vault.ts';
import { SqsQueue } from '../src/adapters/aws/sqs-queue.ts';
import { openDynamoStore } from '../src/adapters/dynamodb/open-dynamo-store.ts';
import { allowList, parseAllow } from '../src/adapters/http/allow-list.ts';
import { NodeHttpCaller } from '../src/adapters/http/node-http-caller.ts';
import { CedarPolicy } from '../src/adapters/policy/cedar-policy.ts';
import { lineTelemetry } from '../src/adapters/system/line-telemetry.ts';
import { systemClock, systemEntropy } from '../src/adapters/system/system-clock.ts';
import { type AgentsModule, agentsOf } from '../src/agent/agents-module.ts';
import { planAgent } from '../src/agent/plan/plan-agent.ts';
import type { GraphHolder } from '../src/ports/graphs.ts';
import type { TurnStore } from '../src/ports/store.ts';
import type { Vault } from '../src/ports/vault.ts';
import type { EpochMs } from '../src/protocol/ids.ts';
import { limits } from '../src/protocol/limits.ts';
import { parseTenantBudget } from '../src/protocol/tenant-budget.ts';
import { dueMessage } from '../src/runtime/inbox-message.ts';
import type { Runtime } from '../src/runtime/runtime.ts';
import type { HostBounds } from '../src/runtime/turn-request.ts';

/** A value of the function's environment; throws naming it. */
export function required(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '')
    throw new Error(`${name}: expected a value in the function's environment`);
  return value;
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | null = null;
  return () => {
    made ??= make();
    return made;
  };
}

const requestHandler = { requestTimeout: 3_000, connectionTimeout: 1_000 };

/** The store and the vault of this container. */
export function lambdaStore(): { readonly store: TurnStore & GraphHolder; readonly vault: Vault } {
  const dynamo = new DynamoDBClient({ maxAttempts: 1, requestHandler });
  const kms = once(async (): Promise<KMSClient> => {
    const { KMSClient: Client } = await import('@aws-sdk/client-kms');
    return new Client({ requestHandler });
  });
  const keyId = required('TURNSTONE_KEY_ID');
  const tables = {
    DATA: required('TURNSTONE_TABLE_DATA'),
    WORK: required('TURNSTONE_TABLE_WORK'),
    KEYS: required('TURNSTONE_TABLE_KEYS'),
    LEDGER: required('TURNSTONE_TABLE_LEDGER'),
  };
  const store = openDynamoStore({
    client: dynamo,
    tables,
    names: new KmsNames({ table: tables.KEYS, keyId, dynamo, kms }),
    sleep: (ms) => systemClock.sleep(ms),
    random: Math.random,
  });
  const vault = new KmsVault({ keyId, client: kms, monotonicMs: systemClock.monotonicMs });
  return { store, vault };
}

/** The Runtime of this container. */
export function lambdaRuntime(): Runtime {
  const { store, vault } = lambdaStore();
  const sqs = once(async (): Promise<SQSClient> => {
    const { SQSClient: Client } = await import('@aws-sdk/client-sqs');
    return new Client({ requestHandler });
  });
  const inbox = new SqsQueue(required('TURNSTONE_QUEUE_INBOX'), sqs);
  const events = new SqsQueue(required('TURNSTONE_QUEUE_EVENTS'), sqs);
  const module: AgentsModule = own;
  const lines = lineTelemetry((line) => process.stdout.write(line), Date.now);
  const http = new NodeHttpCaller(
    allowList(parseAllow(process.env.TURNSTONE_HTTP_ALLOW), { loopback: false }),
  );
  const policyText = process.env.TURNSTONE_POLICY ?? '';
  const ceiling = process.env.TURNSTONE_TENANT_BUDGET ?? '';
  return {
    store,
    ...(policyText === '' ? {} : { policy: new CedarPolicy(policyText) }),
    vault,
    queues: {
      inbox,
      events,
      intents: new SqsQueue(required('TURNSTONE_QUEUE_INTENTS'), sqs),
      // One queue tells the outside both: an entry of the error stream has the type `error`.
      errors: events,
    },
    clock: systemClock,
    entropy: systemEntropy,
    telemetry: module.telemetry?.(lines) ?? lines,
    agents: agentsOf([planAgent(http)], own, 'agents', { http, env: process.env }),
    owner: `lambda-${randomUUID()}`,
    settings: {
      leaseMs: Number(required('TURNSTONE_LEASE_MS')),
      turnTimeoutMs: Number(required('TURNSTONE_TIMEOUT_MS')),
      reserveMs: Number(required('TURNSTONE_RESERVE_MS')),
      renew: false,
      ...(ceiling === ''
        ? {}
        : { tenantBudget: parseTenantBudget('TURNSTONE_TENANT_BUDGET', ceiling) }),
    },
    alarm: async (ref, at) => {
      if (at - systemClock.now() <= limits.alarmMaxMs) await inbox.send([dueMessage(ref, at)]);
    },
    later: (work) => work(),
  };
}

/** What an invocation allows: the lesser of what Lambda says and what the function is configured with. */
export function invocationBounds(remainingMs: number): HostBounds {
  const configuredMs = Number(required('TURNSTONE_TIMEOUT_MS'));
  const left = Math.min(remainingMs, configuredMs);
  return { deadlineAt: (systemClock.now() + left) as EpochMs };
}
