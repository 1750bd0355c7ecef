// Goal: the stack as deployed does the job: API Gateway, Lambda, SQS, DynamoDB and KMS of a local AWS.
// Method: `cdk bootstrap` and `cdk deploy` with the short profile, then only HTTP and the AWS API.
import { execFileSync } from 'node:child_process';
import { CreateTableCommand, DynamoDBClient, GetItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Deployed } from '../../scripts/deploy-local.ts';
import { deploy } from '../../scripts/deploy-local.ts';
import { InvokeCommand, LambdaClient } from '../../scripts/lambda-client.ts';
import type { Started } from '../../scripts/local-aws.ts';
import { emulatorEnv, startMinistack } from '../../scripts/local-aws.ts';
import type { ProviderServer } from '../../src/testing/provider-server.ts';
import { providerServer } from '../../src/testing/provider-server.ts';
import { checkerOnAws } from './check-aws.ts';
import type { Issuer } from './identity.ts';
import { startIssuer } from './identity.ts';
import { everyWait, threeCalls } from './plans.ts';

const started: Started = await startMinistack({ log: 'e2e-ministack' });
const reason = started.kind === 'unavailable' ? `: no emulator: ${started.reason}` : '';
const aws = started.kind === 'started' ? test : test.skip;

let issuer: Issuer;
let provider: ProviderServer;
let deployed: Deployed;

beforeAll(async () => {
  if (started.kind !== 'started') return;
  issuer = await startIssuer();
  provider = await providerServer();
  await salesTable(started.url);
  deployed = deploy({
    url: started.url,
    stack: 'TurnstoneTest',
    issuer: issuer.url,
    httpAllow: new URL(provider.url).host,
    profile: 'short',
    agents: 'src/examples/checkout.ts',
    agentsEnv: `SHOP_URL=${provider.url},SALES_TABLE=sales`,
    atomicTables: 'sales',
  });
});

afterAll(async () => {
  if (started.kind !== 'started') return;
  await provider?.close();
  await issuer?.close();
  await started.stop();
});

function dynamodb(url: string): DynamoDBClient {
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  return new DynamoDBClient({ endpoint: url, region: 'us-east-1', credentials });
}

/** The table of the checkout example: the user's own, beside the stack. */
async function salesTable(url: string): Promise<void> {
  await dynamodb(url).send(
    new CreateTableCommand({
      TableName: 'sales',
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
      KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
    }),
  );
}

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

interface CallFacts {
  readonly role?: string;
  readonly tenant?: string;
  readonly actor?: string;
  readonly token?: string | null;
  readonly prefer?: string;
}

async function call(
  method: string,
  path: string,
  body?: unknown,
  facts: CallFacts = {},
): Promise<Answer> {
  if (started.kind !== 'started') throw new Error('no emulator');
  const claims = {
    tenant: facts.tenant ?? 'acme',
    sub: facts.actor ?? 'ann',
    role: facts.role ?? 'operator',
  };
  const token = facts.token === undefined ? await issuer.token(claims) : facts.token;
  const { request } = await import('node:http');
  const url = new URL(path, started.url);
  return new Promise((resolve, reject) => {
    const sent = request(
      url,
      {
        method,
        headers: {
          host: `${deployed.apiId}.execute-api.localhost`,
          'content-type': 'application/json',
          ...(token === null ? {} : { authorization: `Bearer ${token}` }),
          ...(facts.prefer === undefined ? {} : { prefer: facts.prefer }),
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk) => chunks.push(chunk));
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          let parsed: Record<string, unknown> = { text };
          try {
            parsed = JSON.parse(text);
          } catch {
            // The gateway's own answers need not be JSON (ruling 23); the text is kept.
          }
          resolve({ status: response.statusCode ?? 0, body: parsed });
        });
      },
    );
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

async function until(what: string, look: () => Promise<boolean>, ms = 60_000): Promise<void> {
  const end = Date.now() + ms;
  while (Date.now() < end) {
    if (await look()) return;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  throw new Error(`${what} did not happen within ${ms} ms`);
}

async function sweep(): Promise<void> {
  if (started.kind !== 'started') return;
  const client = new LambdaClient(emulatorEnv(started.url));
  await client.send(new InvokeCommand(deployed.sweeper));
}

const turnOf = (turnId: string, input: unknown = threeCalls(provider.url)) => ({
  turnId,
  agent: 'plan',
  input,
});

aws(`a turn runs through API Gateway, and the same turnId is a replay [T2]${reason}`, async () => {
  const first = await call('POST', '/v1/threads/e2e-1/turns', turnOf('t1'));
  expect(first).toMatchObject({
    status: 200,
    body: {
      status: 'succeeded',
      replayed: false,
      revision: 1,
      result: { charge: 'charge-1', mail: 'mail-1' },
    },
  });
  const again = await call('POST', '/v1/threads/e2e-1/turns', turnOf('t1'));
  expect(again).toMatchObject({
    status: 200,
    body: { status: 'succeeded', replayed: true, result: { charge: 'charge-1', mail: 'mail-1' } },
  });
  expect(provider.ledger).toHaveLength(3);
  const changed = await call(
    'POST',
    '/v1/threads/e2e-1/turns',
    turnOf('t1', { steps: [], reply: 1 }),
  );
  expect(changed).toMatchObject({ status: 409, body: { code: 'turn_payload_changed' } });
});

aws(
  `an asynchronous turn is accepted with 202 and runs through the FIFO inbox [T1]${reason}`,
  async () => {
    const accepted = await call('POST', '/v1/threads/e2e-2/turns', turnOf('t1'), {
      prefer: 'respond-async',
    });
    expect(accepted).toMatchObject({ status: 202, body: { status: 'running' } });
    await until(
      'the turn',
      async () => (await call('GET', '/v1/threads/e2e-2/turns/t1')).body.status === 'succeeded',
    );
    const journal = await call('GET', '/v1/threads/e2e-2/turns/t1/journal');
    expect(journal).toMatchObject({ status: 200, body: { verified: true } });
    const verified = await call('POST', '/v1/threads/e2e-2/turns/t1/verify');
    expect(verified).toMatchObject({ status: 200, body: { verdict: 'verified' } });
  },
);

aws(
  `another tenant sees nothing, a role without the right is refused, no or a broken token is nobody${reason}`,
  async () => {
    const path = '/v1/threads/e2e-1/turns/t1';
    expect(await call('GET', path)).toMatchObject({ status: 200 });
    expect(await call('GET', path, undefined, { tenant: 'other' })).toMatchObject({ status: 404 });
    expect(await call('GET', `${path}/journal`, undefined, { role: 'user' })).toMatchObject({
      status: 403,
    });
    expect(await call('GET', path, undefined, { token: null })).toMatchObject({ status: 401 });
    expect(await call('GET', path, undefined, { token: 'a.b.c' })).toMatchObject({ status: 401 });
    expect(await call('GET', '/healthz', undefined, { token: null })).toMatchObject({
      status: 200,
    });
  },
);

aws(
  `a plan asks a person, defers an act to the effector, naps and waits for an event [T1 T10]${reason}`,
  async () => {
    const path = '/v1/threads/e2e-waits/turns';
    const asked = await call('POST', path, turnOf('t1', everyWait(provider.url, 'order-7')));
    expect(asked).toMatchObject({ status: 202, body: { status: 'suspended' } });
    const [wait] = asked.body.waits as { id: string; digest: string }[];
    const decided = await call(
      'POST',
      `/v1/approvals/${wait?.id}`,
      { decision: 'approve', digest: wait?.digest },
      { role: 'approver', actor: 'bob' },
    );
    expect(decided).toMatchObject({ status: 200, body: { status: 'approved' } });
    await call('POST', '/v1/events', {
      source: 'bank',
      id: 'e1',
      type: 'paid',
      correlation: 'order-7',
      data: 10,
    });
    await until(
      'the turn',
      async () => {
        await sweep();
        return (await call('GET', `${path}/t1`)).body.status === 'succeeded';
      },
      90_000,
    );
    expect(await call('GET', `${path}/t1`)).toMatchObject({
      body: { result: { by: 'bob', paid: 10 } },
    });
    expect(await call('POST', `${path}/t1/verify`)).toMatchObject({
      body: { verdict: 'verified' },
    });
  },
  120_000,
);

/** SIGKILLs every Node worker of the emulator: what runs in them dies inside its call. */
function killWorkers(): number {
  if (started.kind !== 'started') return 0;
  const listed = execFileSync('ps', ['-eo', 'pid,ppid,args'], { encoding: 'utf8' }).split('\n');
  const rows = listed
    .map((line) => /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line))
    .filter((row) => row !== null);
  const family = new Set([String(started.pid)]);
  for (let size = 0; size !== family.size; ) {
    size = family.size;
    for (const [, pid, parent] of rows)
      if (parent !== undefined && pid !== undefined && family.has(parent)) family.add(pid);
  }
  const workers = rows.filter(
    ([, pid, , args]) => pid !== undefined && family.has(pid) && /(^|\/)node\s/.test(args ?? ''),
  );
  for (const [, pid] of workers) {
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {
      // It ended by itself between the listing and the signal.
    }
  }
  return workers.length;
}

aws(
  `a worker killed inside a call leaves a turn that finishes with no call landing twice [T4 T6]${reason}`,
  async () => {
    const gate = Promise.withResolvers<void>();
    const before = provider.landed('/charge');
    provider.next('/charge', { holdAfter: gate.promise });
    const reached = provider.reached('/charge', provider.asked('/charge') + 1);
    await call('POST', '/v1/threads/e2e-3/turns', turnOf('t1'), { prefer: 'respond-async' });
    await reached;
    expect(killWorkers()).toBeGreaterThan(0);
    gate.resolve();
    await until(
      'the turn',
      async () => {
        await sweep();
        return (await call('GET', '/v1/threads/e2e-3/turns/t1')).body.status === 'succeeded';
      },
      90_000,
    );
    expect(provider.landed('/charge')).toBe(before + 1);
    const journal = await call('GET', '/v1/threads/e2e-3/turns/t1/journal');
    expect(JSON.stringify(journal.body)).toContain('EffectReconciled');
  },
  180_000,
);

aws(
  `twenty turns with workers killed at random: none lost, none landed twice [T1 T2 T6]${reason}`,
  async () => {
    const landed = ['/reserve', '/charge', '/mail'].map((path) => provider.landed(path));
    const turns = Array.from({ length: 20 }, (_, n) => `/v1/threads/soak-${n}/turns`);
    await Promise.all(
      turns.map((path) => call('POST', path, turnOf('t1'), { prefer: 'respond-async' })),
    );
    let kills = 0;
    const left = new Set(turns);
    await until(
      'every turn',
      async () => {
        if (kills < 4) {
          killWorkers();
          kills += 1;
        }
        await sweep();
        for (const path of left)
          if ((await call('GET', `${path}/t1`)).body.status === 'succeeded') left.delete(path);
        return left.size === 0;
      },
      200_000,
    );
    const after = ['/reserve', '/charge', '/mail'].map((path) => provider.landed(path));
    expect(after).toEqual(landed.map((count) => count + 20));
  },
  280_000,
);

aws(
  `agents of your own run as deployed: a checkout with its ledger row${reason} [T9]`,
  async () => {
    const input = { order: 'o1', sku: 'tea', quantity: 2, total: 1500 };
    const turns = '/v1/threads/shop-1/turns';
    const before = provider.ledger.length;
    const sold = await call('POST', turns, { turnId: 'c1', agent: 'checkout', input });
    expect(sold).toMatchObject({ status: 200, body: { status: 'succeeded', replayed: false } });
    const paths = provider.ledger.slice(before).map(({ path }) => path);
    expect(paths).toEqual(['/stock/hold', '/payments/charge', '/mail', '/carrier/ship']);
    const { Item } = await dynamodb(started.kind === 'started' ? started.url : '').send(
      new GetItemCommand({ TableName: 'sales', Key: { id: { S: 'sale-o1' } } }),
    );
    expect(Item?.cents).toEqual({ N: '1500' });
    const refused = { ...input, total: '15' };
    expect(
      await call('POST', turns, { turnId: 'c2', agent: 'checkout', input: refused }),
    ).toMatchObject({
      status: 422,
      body: { code: 'invalid_input', detail: expect.stringContaining('input.total') },
    });
  },
);

aws(
  `F29 check-deploy reads the deployed store: a waiting turn goes on under its build, and other builds are told what they lack${reason} [T7 T13]`,
  async () => {
    if (started.kind !== 'started') return;
    const path = '/v1/threads/check-1/turns';
    const input = { steps: [{ id: 'ask', do: [{ approve: { action: 'go' }, as: 'ok' }] }] };
    const asked = await call('POST', path, turnOf('t1', input));
    expect(asked).toMatchObject({ status: 202, body: { status: 'suspended' } });
    const env = { SHOP_URL: provider.url, SALES_TABLE: 'sales' };
    const check = await checkerOnAws(started.url, deployed.turn, env);
    const same = check('--agents', 'src/examples/checkout.ts');
    expect(same.error).toBe('');
    expect(same.out).toMatch(/^\d+ threads, [1-9]\d* open turns, \d+ acts: [1-9]\d* goes_on/);
    expect(same.out).not.toContain('check-1');
    const other = check('--json');
    expect(other.status).toBe(1);
    const findings = other.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(findings).toContainEqual(
      expect.objectContaining({ what: 'thread', status: 'checkout', code: 'agent_unknown' }),
    );
    // It only read: the turn waits as before.
    expect(await call('GET', `${path}/t1`)).toMatchObject({ body: { status: 'suspended' } });
  },
);
