// Opens a store for `npx turnstone check-deploy`, with the agents of the build in hand. Nothing is sent or written.
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { allowList } from '../src/adapters/http/allow-list.ts';
import { NodeHttpCaller } from '../src/adapters/http/node-http-caller.ts';
import { LocalVault, openLocalSecrets } from '../src/adapters/local/local-vault.ts';
import { CedarPolicy } from '../src/adapters/policy/cedar-policy.ts';
import { openSqliteStore } from '../src/adapters/sqlite/open-sqlite-store.ts';
import { systemClock, systemEntropy } from '../src/adapters/system/system-clock.ts';
import type { AgentsModule } from '../src/agent/agents-module.ts';
import { agentsOf } from '../src/agent/agents-module.ts';
import { planAgent } from '../src/agent/plan/plan-agent.ts';
import type { Queue } from '../src/ports/queue.ts';
import type { Runtime } from '../src/runtime/runtime.ts';

const retry = { sleep: (ms: number) => systemClock.sleep(ms), random: Math.random };

/** A queue that refuses: a check has nothing to say to anybody. */
const noQueue: Queue = {
  send: () => Promise.reject(new Error('a check before a deployment sends nothing')),
};

export interface CheckOptions {
  /** Data folder of the embedded store, or null for DynamoDB. */
  readonly data: string | null;
  readonly agents: string | undefined;
  readonly policy: string | undefined;
}

/** The runtime of a check; throws naming what is missing. */
export async function openForCheck(options: CheckOptions): Promise<Runtime> {
  const { agents, policy } = options;
  const own: AgentsModule =
    agents === undefined ? { agents: () => [] } : await import(pathToFileURL(resolve(agents)).href);
  const http = new NodeHttpCaller(allowList([], { loopback: false }));
  const opened = options.data === null ? await onAws() : embedded(options.data);
  const text = policy === undefined || policy === '' ? null : readFileSync(policy, 'utf8');
  return {
    ...opened,
    ...(text === null ? {} : { policy: new CedarPolicy(text) }),
    queues: { inbox: noQueue, events: noQueue, intents: noQueue, errors: noQueue },
    clock: systemClock,
    entropy: systemEntropy,
    telemetry: { emit: () => undefined },
    agents: agentsOf([planAgent(http)], own, agents ?? 'agents', { http, env: process.env }),
    owner: `check-${process.pid}`,
    settings: { leaseMs: 30_000, turnTimeoutMs: 60_000, reserveMs: 0, renew: false },
    later: (work) => work(),
  };
}

type Opened = Pick<Runtime, 'store' | 'vault'>;

function embedded(data: string): Opened {
  const path = join(data, 'turnstone.sqlite');
  if (!existsSync(path)) throw new Error(`${path}: expected a data file, found none`);
  const secrets = openLocalSecrets(join(data, 'keys'));
  const keysPath = join(data, 'keys', 'keys.sqlite');
  return {
    store: openSqliteStore({ path, keysPath, names: secrets, ...retry }),
    vault: new LocalVault(secrets, systemClock.monotonicMs),
  };
}

async function onAws(): Promise<Opened> {
  const [{ DynamoDBClient }, { KMSClient }] = await Promise.all([
    import('@aws-sdk/client-dynamodb'),
    import('@aws-sdk/client-kms'),
  ]);
  const { KmsNames } = await import('../src/adapters/aws/kms-names.ts');
  const { KmsVault } = await import('../src/adapters/aws/kms-vault.ts');
  const { openDynamoStore } = await import('../src/adapters/dynamodb/open-dynamo-store.ts');
  const keyId = required('TURNSTONE_KEY_ID');
  const tables = {
    DATA: required('TURNSTONE_TABLE_DATA'),
    WORK: required('TURNSTONE_TABLE_WORK'),
    KEYS: required('TURNSTONE_TABLE_KEYS'),
    LEDGER: required('TURNSTONE_TABLE_LEDGER'),
  };
  const dynamo = new DynamoDBClient({});
  const client = new KMSClient({});
  const kms = async () => client;
  const names = new KmsNames({ table: tables.KEYS, keyId, dynamo, kms });
  return {
    store: openDynamoStore({ client: dynamo, tables, names, ...retry }),
    vault: new KmsVault({ keyId, client: kms, monotonicMs: systemClock.monotonicMs }),
  };
}

function required(name: string): string {
  const value = process.env[name];
  if (value !== undefined && value !== '') return value;
  throw new Error(`${name}: expected a value in the environment`);
}
