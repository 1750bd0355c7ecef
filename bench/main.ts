// `npm run bench`: what Turnstone adds, as ratios measured side by side in one run; bare times mean nothing
// elsewhere. Reads, writes and write units are counted, not timed.
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { type BuildOptions, build } from 'esbuild';
import { startMinistack } from '../scripts/local-aws.ts';
import { createTables } from '../src/adapters/dynamodb/create-tables.ts';
import { openDynamoStore } from '../src/adapters/dynamodb/open-dynamo-store.ts';
import { LocalVault, openLocalSecrets } from '../src/adapters/local/local-vault.ts';
import { openSqliteStore } from '../src/adapters/sqlite/open-sqlite-store.ts';
import { systemClock, systemEntropy } from '../src/adapters/system/system-clock.ts';
import type { RequestInfo } from '../src/adapters/table/driver.ts';
import type { TurnStore } from '../src/ports/store.ts';
import type { Vault } from '../src/ports/vault.ts';
import { tenantId, threadId, turnId } from '../src/protocol/ids.ts';
import type { AgentDefinition } from '../src/runtime/agent-definition.ts';
import { defineTurnAgent } from '../src/runtime/agent-definition.ts';
import type { Runtime } from '../src/runtime/runtime.ts';
import { withTurn } from '../src/runtime/with-turn.ts';
import { heldQueues } from '../src/testing/held-queue.ts';
import { MemoryVault } from '../src/testing/memory-vault.ts';

const tools = {
  names: { secret: async () => new Uint8Array(32).fill(7) },
  sleep: (ms: number) => systemClock.sleep(ms),
  random: Math.random,
};

function print(what: string, figure: string): void {
  process.stdout.write(`${what.padEnd(74)} ${figure}\n`);
}

function median(values: number[]): number {
  const sorted = values.sort((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

/** A vault that seals nothing: what a turn would cost without sealing. */
const clearVault: Vault = {
  create: async (_tenant, scope, generation) => ({
    scope,
    id: 'clear',
    generation,
    state: 'live',
    lifecycle: 0,
    wrapped: new Uint8Array(32),
  }),
  sealer: async (_tenant, row) => ({
    scope: row.scope,
    generation: row.generation,
    seal: (plain) => plain,
    open: (sealed) => sealed,
    mac: (domain) => domain,
  }),
};

/** What sealing adds to a turn of ten effects on the embedded store, pairs of turns in one run. */
async function sealing(folder: string): Promise<void> {
  const secrets = openLocalSecrets(join(folder, 'sealing-keys'));
  const ratios: number[] = [];
  const store = openSqliteStore({ path: join(folder, 'sealing.sqlite'), ...tools });
  const sealed = runtimeOf(store, new LocalVault(secrets, () => performance.now()));
  const clear = runtimeOf(
    openSqliteStore({ path: join(folder, 'clear.sqlite'), ...tools }),
    clearVault,
  );
  for (let n = 0; n < 60; n += 1) {
    const [left, right] = [await runTurn(sealed, agentOf(10)), await runTurn(clear, agentOf(10))];
    if (n >= 10) ratios.push(left / right);
  }
  await store.close();
  await clear.store.close();
  print(
    'a turn of 10 effects, sealed / in clear, embedded (median of 50 pairs)',
    `${median(ratios).toFixed(2)}x`,
  );
}

/** An agent of `count` sequential keyed effects that cost nothing themselves. */
function agentOf(count: number, marks: number[] = []): AgentDefinition {
  return defineTurnAgent({
    name: 'bench',
    run: async (context) => {
      for (let n = 0; n < count; n += 1) {
        await context.effect({
          kind: 'charge',
          args: { n },
          recovery: 'idempotent',
          perform: async () => {
            marks.push(performance.now());
            return { id: `ch_${n}` };
          },
        });
      }
      return count;
    },
  });
}

function runtimeOf(store: TurnStore, vault: Vault = new MemoryVault()): Runtime {
  return {
    store,
    vault,
    queues: heldQueues(),
    clock: systemClock,
    entropy: systemEntropy,
    telemetry: { emit: () => undefined },
    agents: new Map(),
    owner: 'bench',
    settings: { leaseMs: 600_000, turnTimeoutMs: 600_000, reserveMs: 0, renew: false },
    later: async () => undefined,
  };
}

let turns = 0;
async function runTurn(runtime: Runtime, agent: AgentDefinition): Promise<number> {
  turns += 1;
  const ref = {
    tenant: tenantId('tenant', 'acme'),
    thread: threadId('thread', `bench-${turns % 16}-${turns}`),
    turn: turnId('turn', 't1'),
  };
  const from = performance.now();
  const answer = await withTurn(runtime, {
    ref,
    agent,
    input: null,
    subject: null,
    budget: null,
    actor: 'bench',
  });
  if (answer.kind !== 'concluded') throw new Error(`the turn is ${answer.kind}`);
  return performance.now() - from;
}

async function costs(): Promise<void> {
  for (const count of [0, 1, 3, 10]) {
    const seen: RequestInfo[] = [];
    const store = openSqliteStore({
      path: ':memory:',
      ...tools,
      onRequest: (info) => seen.push(info),
    });
    const runtime = runtimeOf(store);
    for (let warm = 0; warm < 64; warm += 1) await runTurn(runtime, agentOf(0));
    seen.length = 0;
    await runTurn(runtime, agentOf(count));
    const writes = seen.filter((info) => info.writes > 0);
    const units = writes.reduce((sum, info) => sum + info.units, 0);
    print(
      `requests of a turn with ${count} effects`,
      `${seen.length - writes.length} read, ${writes.length} writes, ${units} units`,
    );
    await store.close();
  }
}

/** The same number and size of writes, bare. */
function bareSqlite(path: string): () => number {
  const db = new DatabaseSync(path);
  db.exec(
    'PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (k TEXT PRIMARY KEY, v BLOB) WITHOUT ROWID',
  );
  const put = db.prepare('INSERT INTO t VALUES (?, ?)');
  const get = db.prepare('SELECT v FROM t WHERE k = ?');
  let n = 0;
  const value = Buffer.alloc(700);
  const write = (rows: number): void => {
    db.exec('BEGIN IMMEDIATE');
    for (let row = 0; row < rows; row += 1) {
      n += 1;
      put.run(`row-${n}`, value);
    }
    db.exec('COMMIT');
  };
  return () => {
    const from = performance.now();
    for (let key = 0; key < 6; key += 1) get.get(`none-${key}`);
    write(3);
    for (let append = 0; append < 9; append += 1) write(1);
    write(5);
    return performance.now() - from;
  };
}

async function embedded(folder: string): Promise<void> {
  const store = openSqliteStore({ path: join(folder, 'turns.sqlite'), ...tools });
  const runtime = runtimeOf(store);
  const bare = bareSqlite(join(folder, 'bare.sqlite'));
  const agent = agentOf(10);
  const [own, plain]: [number[], number[]] = [[], []];
  for (let round = 0; round < 220; round += 1) {
    const [left, right] = [await runTurn(runtime, agent), bare()];
    if (round < 20) continue;
    own.push(left);
    plain.push(right);
  }
  print(
    'embedded turn of 10 effects : the same writes bare on node:sqlite',
    `${(median(own) / median(plain)).toFixed(2)} x`,
  );
  await store.close();
}

async function flat(): Promise<void> {
  const store = openSqliteStore({ path: ':memory:', ...tools });
  const marks: number[] = [];
  await runTurn(runtimeOf(store), agentOf(3_000, marks));
  const span = (from: number, to: number): number =>
    ((marks[to] ?? 0) - (marks[from] ?? 0)) / (to - from);
  print(
    'time per effect, effects 2,000 to 3,000 : effects 10 to 1,000 of one turn',
    `${(span(2_000, 2_999) / span(10, 1_000)).toFixed(2)} x`,
  );
  await store.close();
}

async function dynamo(): Promise<void> {
  const started = await startMinistack({ log: 'bench-ministack' });
  if (started.kind === 'unavailable')
    return print('on a local DynamoDB', `skipped: ${started.reason}`);
  const client = new DynamoDBClient({
    endpoint: started.url,
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
  const id = randomUUID().slice(0, 8);
  const tables = { DATA: `d-${id}`, WORK: `w-${id}`, KEYS: `k-${id}`, LEDGER: `l-${id}` };
  await createTables(client, tables);
  const inside = { ms: 0 };
  const send = client.send.bind(client);
  Reflect.set(client, 'send', async (command: Parameters<typeof send>[0]) => {
    const from = performance.now();
    try {
      return await send(command);
    } finally {
      inside.ms += performance.now() - from;
    }
  });
  const store = openDynamoStore({ client, tables, ...tools });
  const runtime = runtimeOf(store);
  const agent = agentOf(10);
  for (let warm = 0; warm < 64; warm += 1) await runTurn(runtime, agentOf(0));
  const ratios: number[] = [];
  for (let round = 0; round < 100; round += 1) {
    inside.ms = 0;
    const whole = await runTurn(runtime, agent);
    ratios.push(whole / inside.ms);
  }
  print(
    'turn of 10 effects on a local DynamoDB : its own SDK calls alone',
    `${median(ratios).toFixed(2)} x`,
  );
  await store.close();
  await started.stop();
}

async function bundle(folder: string): Promise<void> {
  const options = {
    bundle: true,
    minify: true,
    platform: 'node' as const,
    format: 'esm' as const,
    target: 'node24',
    mainFields: ['module', 'main'],
    metafile: true,
  } satisfies BuildOptions;
  const banner = {
    js: "import{createRequire as __cr}from'node:module';const require=__cr(import.meta.url);",
  };
  const api = await build({
    ...options,
    banner,
    entryPoints: ['functions/api.ts'],
    outfile: join(folder, 'api.mjs'),
  });
  const source =
    "import { DynamoDBClient } from '@aws-sdk/client-dynamodb';new DynamoDBClient({ region: 'us-east-1' });";
  await build({
    ...options,
    banner,
    stdin: { contents: source, resolveDir: process.cwd() },
    outfile: join(folder, 'bare.mjs'),
  });
  const own = Object.values(api.metafile.outputs).flatMap((output) =>
    Object.entries(output.inputs),
  );
  const bytes = own
    .filter(([path]) => !/node_modules\/@(?:aws-sdk|smithy|aws-crypto|aws)\//.test(path))
    .reduce((sum, [, { bytesInOutput }]) => sum + bytesInOutput, 0);
  print(
    'own code in the api bundle, without @aws-sdk and @smithy, minified',
    `${(bytes / 1024).toFixed(0)} KB`,
  );
  const env = {
    ...process.env,
    AWS_REGION: 'us-east-1',
    TURNSTONE_TABLE_DATA: 'd',
    TURNSTONE_TABLE_WORK: 'w',
    TURNSTONE_TABLE_KEYS: 'k',
    TURNSTONE_TABLE_LEDGER: 'l',
    TURNSTONE_QUEUE_INBOX: 'q',
    TURNSTONE_QUEUE_EVENTS: 'q',
    TURNSTONE_QUEUE_INTENTS: 'q',
    TURNSTONE_KEY_ID: 'k',
    TURNSTONE_LEASE_MS: '75000',
    TURNSTONE_TIMEOUT_MS: '60000',
    TURNSTONE_RESERVE_MS: '5000',
  };
  const load = (file: string): number => {
    const from = performance.now();
    const done = spawnSync(process.execPath, [join(folder, file)], { env, encoding: 'utf8' });
    if (done.status !== 0) throw new Error(`${file}: ${done.stderr}`);
    return performance.now() - from;
  };
  writeFileSync(join(folder, 'empty.mjs'), '');
  const [left, right, floor]: [number[], number[], number[]] = [[], [], []];
  for (let round = 0; round < 21; round += 1) {
    left.push(load('api.mjs'));
    right.push(load('bare.mjs'));
    floor.push(load('empty.mjs'));
  }
  const base = median(floor);
  print(
    'cold import of the api function : of a bare DynamoDB client (less an empty module)',
    `${((median(left) - base) / (median(right) - base)).toFixed(2)} x`,
  );
}

const folder = mkdtempSync(join(tmpdir(), 'turnstone-bench-'));
await costs();
await sealing(folder);
await embedded(folder);
await flat();
await bundle(folder);
await dynamo();
rmSync(folder, { recursive: true, force: true });
