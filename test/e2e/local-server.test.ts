// Goal: `npm start` as a user runs it keeps the HTTP contract and survives real kills.
// Method: real processes over one data folder, a real HTTP provider, nothing but HTTP in between.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { LocalServer } from '../../scripts/local-server.ts';
import { callApi, startServer } from '../../scripts/local-server.ts';
import type { ProviderServer } from '../../src/testing/provider-server.ts';
import { providerServer } from '../../src/testing/provider-server.ts';
import { everyWait, threeCalls } from './plans.ts';

let data: string;
let provider: ProviderServer;
let servers: LocalServer[];

beforeEach(async () => {
  data = mkdtempSync(join(tmpdir(), 'turnstone-e2e-'));
  provider = await providerServer();
  servers = [];
});

afterEach(async () => {
  for (const server of servers) await server.kill('SIGKILL');
  await provider.close();
  rmSync(data, { recursive: true, force: true });
});

async function start(env: Readonly<Record<string, string>> = {}): Promise<LocalServer> {
  const server = await startServer(data, env);
  servers.push(server);
  return server;
}

async function ended(url: string, path: string, ms = 20_000): Promise<Record<string, unknown>> {
  const end = Date.now() + ms;
  while (Date.now() < end) {
    const { status, body } = await callApi(url, 'GET', path);
    if (status === 200 && body.status !== 'running') return body;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${path} did not end within ${ms} ms`);
}

const turns = '/v1/threads/order-7/turns';
const turn = (turnId: string, input: unknown) => ({ turnId, agent: 'plan', input });

test('a turn, its replay, a changed payload, and what the contract refuses [T2 T11]', async () => {
  const { url } = await start();
  const body = turn('t1', threeCalls(provider.url));
  const first = await callApi(url, 'POST', turns, { body });
  expect(first).toMatchObject({
    status: 200,
    body: {
      status: 'succeeded',
      replayed: false,
      revision: 1,
      spend: { steps: 2, effects: 3, attempts: 3 },
    },
  });
  const again = await callApi(url, 'POST', turns, { body });
  expect(again).toMatchObject({ status: 200, body: { replayed: true, result: first.body.result } });
  expect(provider.ledger).toHaveLength(3);
  const refusals: readonly [unknown, number, string][] = [
    [turn('t1', { steps: [] }), 409, 'turn_payload_changed'],
    ['{', 400, 'request_invalid_json'],
    [{ ...turn('t2', {}), extra: 1 }, 422, 'invalid_request'],
    [turn('.', {}), 422, 'invalid_request'],
    [turn('t2', { steps: [{ id: 'a', do: [{ effekt: {} }] }] }), 422, 'invalid_plan'],
    [turn('t2', { steps: [{ id: 'a', needs: ['a'], do: [] }] }), 422, 'invalid_plan'],
    [{ turnId: 't2', agent: 'nobody' }, 422, 'agent_unknown'],
    [turn('t2', { vars: { big: 'x'.repeat(1_100_000) }, steps: [] }), 413, 'payload_too_large'],
  ];
  for (const [sent, status, code] of refusals) {
    const answer = await callApi(url, 'POST', turns, { body: sent });
    expect(answer, code).toMatchObject({ status, body: { code, status } });
    expect(answer.headers.get('content-type')).toContain('application/problem+json');
  }
  expect(await callApi(url, 'GET', `${turns}/t2`)).toMatchObject({ status: 404 });
});

test('roles, tenants and tokens decide before anything else', async () => {
  const { url } = await start();
  await callApi(url, 'POST', turns, { body: turn('t1', { steps: [], reply: 1 }) });
  const at = (path: string, token: string | null) => callApi(url, 'GET', path, { token });
  expect(await at(`${turns}/t1`, 'dev:acme:bob:user')).toMatchObject({ status: 200 });
  expect(await at(`${turns}/t1/journal`, 'dev:acme:bob:user')).toMatchObject({
    status: 403,
    body: { code: 'forbidden' },
  });
  expect(await at(`${turns}/t1`, 'dev:other:bob:operator')).toMatchObject({
    status: 404,
    body: { code: 'not_found' },
  });
  for (const token of [null, 'x', 'dev:acme:bob:king', 'dev:acme:bob']) {
    expect(await at(`${turns}/t1`, token)).toMatchObject({
      status: 401,
      body: { code: 'unauthorized' },
    });
  }
  expect(await at('/healthz', null)).toMatchObject({ status: 200 });
  expect(await at('/openapi.json', null)).toMatchObject({
    status: 200,
    body: { openapi: '3.1.0' },
  });
  expect(await callApi(url, 'DELETE', turns)).toMatchObject({
    status: 405,
    body: { code: 'method_not_allowed' },
  });
});

test('an asynchronous turn answers 202 at once and goes on by itself; a busy thread answers 409 with Retry-After [T3]', async () => {
  const { url } = await start();
  const gate = Promise.withResolvers<void>();
  provider.next('/reserve', { holdBefore: gate.promise });
  const accepted = await callApi(url, 'POST', turns, {
    body: turn('t1', threeCalls(provider.url)),
    headers: { prefer: 'respond-async' },
  });
  expect(accepted).toMatchObject({ status: 202, body: { status: 'running', turnId: 't1' } });
  await expect
    .poll(async () => (await callApi(url, 'GET', '/v1/threads/order-7')).body.openTurn)
    .toBe('t1');
  const busy = await callApi(url, 'POST', turns, { body: turn('t2', { steps: [] }) });
  expect(busy).toMatchObject({ status: 409, body: { code: 'thread_busy' } });
  expect(Number(busy.headers.get('retry-after'))).toBeGreaterThan(0);
  const same = await callApi(url, 'POST', turns, {
    body: turn('t1', threeCalls(provider.url)),
    headers: { prefer: 'wait=0' },
  });
  expect(same).toMatchObject({ status: 202, body: { status: 'running' } });
  gate.resolve();
  expect(await ended(url, `${turns}/t1`)).toMatchObject({ status: 'succeeded' });
});

test('F1 SIGKILL inside a call: a server started again finishes the turn within two leases, nothing lands twice [T4 T6]', async () => {
  const server = await start();
  const gate = Promise.withResolvers<void>();
  provider.next('/charge', { holdAfter: gate.promise });
  const cut = callApi(server.url, 'POST', turns, {
    body: turn('t1', threeCalls(provider.url)),
  }).catch(() => 'cut');
  await provider.reached('/charge', 1);
  await server.kill('SIGKILL');
  gate.resolve();
  expect(await cut).toBe('cut');
  const { url } = await start();
  const from = Date.now();
  expect(await ended(url, `${turns}/t1`)).toMatchObject({
    status: 'succeeded',
    result: { charge: 'charge-1', mail: 'mail-1' },
  });
  expect(Date.now() - from).toBeLessThan(2 * 2_000 + 1_500);
  expect(['/reserve', '/charge', '/mail'].map((path) => provider.landed(path))).toEqual([1, 1, 1]);
  const journal = await callApi(url, 'GET', `${turns}/t1/journal`);
  expect(journal.body).toMatchObject({ verified: true });
  expect(await callApi(url, 'POST', `${turns}/t1/verify`)).toMatchObject({
    status: 200,
    body: { verdict: 'verified' },
  });
});

test('an operator effect in doubt is quarantined and named, and the next turn of the thread goes on [T6]', async () => {
  const server = await start();
  const gate = Promise.withResolvers<void>();
  provider.next('/reserve', { holdAfter: gate.promise });
  void callApi(server.url, 'POST', turns, {
    body: turn('t1', threeCalls(provider.url, 'operator')),
  }).catch(() => 'cut');
  await provider.reached('/reserve', 1);
  await server.kill('SIGKILL');
  gate.resolve();
  const { url } = await start();
  expect(await ended(url, `${turns}/t1`)).toMatchObject({
    status: 'quarantined',
    error: { code: 'effect_undecided', step: 'order' },
    undecided: [{ step: 'order', phase: 'forward', kind: 'reserve', doubt: 'announced' }],
  });
  expect(provider.asked('/reserve')).toBe(1);
  expect(
    await callApi(url, 'POST', turns, { body: turn('t2', threeCalls(provider.url)) }),
  ).toMatchObject({ status: 200, body: { status: 'succeeded' } });
});

test('an operator answers a doubt over HTTP and reopens; another turn is written off [T6 T13]', async () => {
  const { url } = await start();
  provider.next('/reserve', { reset: true });
  const first = await callApi(url, 'POST', turns, {
    body: turn('t1', threeCalls(provider.url, 'operator')),
  });
  expect(first).toMatchObject({ status: 200, body: { status: 'quarantined' } });
  const listed = await callApi(url, 'GET', `${turns}/t1/undecided`);
  const [doubt] = listed.body.items as { effectKey: string }[];
  const answer = (body: unknown, token?: string) =>
    callApi(
      url,
      'POST',
      `${turns}/t1/undecided/${doubt?.effectKey}`,
      token === undefined ? { body } : { body, token },
    );
  expect(await answer({ outcome: 'landed', note: ' ' })).toMatchObject({ status: 422 });
  expect(await answer({ outcome: 'landed', note: 'x' }, 'dev:acme:bob:user')).toMatchObject({
    status: 403,
  });
  const output = { status: 200, headers: {}, body: { id: 'seen' } };
  expect(await answer({ outcome: 'landed', output, note: 'seen' })).toMatchObject({
    status: 200,
    body: { status: 'quarantined', undecided: [] },
  });
  expect(await answer({ outcome: 'landed', output, note: 'seen' })).toMatchObject({
    status: 409,
    body: { code: 'not_undecided' },
  });
  expect(await callApi(url, 'POST', `${turns}/t1/resume`, { body: {} })).toMatchObject({
    status: 409,
    body: { code: 'not_resumable' },
  });
  const reopened = await callApi(url, 'POST', `${turns}/t1/reopen`, {
    body: { reason: 'answered' },
  });
  expect(reopened).toMatchObject({
    status: 200,
    body: { status: 'succeeded', result: { charge: 'charge-1' } },
  });
  expect(provider.asked('/reserve')).toBe(1);
  provider.next('/reserve', { reset: true });
  await callApi(url, 'POST', turns, { body: turn('t2', threeCalls(provider.url, 'operator')) });
  const gone = await callApi(url, 'POST', `${turns}/t2/abandon`, {
    body: { reason: 'written off' },
  });
  expect(gone).toMatchObject({ status: 200, body: { status: 'abandoned' } });
  expect(
    await callApi(url, 'POST', `${turns}/t2/reopen`, { body: { reason: 'no' } }),
  ).toMatchObject({ status: 409, body: { code: 'not_quarantined' } });
});

test('SIGTERM drains: the call in flight is recorded, the exit is clean, the next server goes on [T6]', async () => {
  const server = await start();
  const gate = Promise.withResolvers<void>();
  provider.next('/reserve', { holdAfter: gate.promise });
  const cut = callApi(server.url, 'POST', turns, {
    body: turn('t1', threeCalls(provider.url, 'operator')),
  }).catch(() => 'cut');
  await provider.reached('/reserve', 1);
  const exit = server.kill('SIGTERM');
  setTimeout(gate.resolve, 300);
  expect(await exit).toBe(0);
  expect(await cut).toMatchObject({ status: 202 });
  const { url } = await start();
  expect(await ended(url, `${turns}/t1`)).toMatchObject({ status: 'succeeded' });
  expect(provider.asked('/reserve')).toBe(1);
});

test('two servers on one data folder fence each other: one turnId sent to both runs once [T2 T4]', async () => {
  const [left, right] = [await start(), await start()];
  const body = turn('t1', threeCalls(provider.url));
  const answers = await Promise.all(
    [left, right].map(({ url }) => callApi(url, 'POST', turns, { body })),
  );
  expect(answers.map((answer) => answer.body.status)).toEqual(['succeeded', 'succeeded']);
  expect(provider.ledger).toHaveLength(3);
});

test('ruling 22: no payload stands in clear anywhere in the data folder, and the key file is its owner’s alone', async () => {
  const { url } = await start();
  const secret = 'ann-secret-4711';
  const plan = {
    vars: { secret },
    steps: [{ id: 's', do: [{ note: `${secret}` }] }],
    reply: '${vars.secret}',
  };
  await callApi(url, 'POST', turns, { body: turn('t1', plan) });
  await callApi(url, 'POST', turns, {
    body: turn('t2', { ...plan, vars: { secret, pad: secret.repeat(900) } }),
    headers: { prefer: 'respond-async' },
  });
  await ended(url, `${turns}/t2`);
  const files = readdirSync(data, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  expect(files.length).toBeGreaterThan(2);
  for (const entry of files) {
    expect(readFileSync(join(entry.parentPath, entry.name)).includes(secret), entry.name).toBe(
      false,
    );
  }
  expect(statSync(join(data, 'keys', 'root.key')).mode & 0o077).toBe(0);
});

test('real kills: turns of three calls under random SIGKILLs are neither lost nor doubled [T1 T2 T6]', async () => {
  const count = 40;
  let server = await start();
  const sent = Array.from({ length: count }, (_, n) => `/v1/threads/soak-${n}/turns`);
  const deliver = async (path: string): Promise<void> => {
    for (;;) {
      const answer = await callApi(server.url, 'POST', path, {
        body: turn('t1', threeCalls(provider.url)),
        headers: { prefer: 'respond-async' },
      }).catch(() => null);
      if (answer?.status === 202 || answer?.status === 200) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  const deliveries = Promise.all(sent.map(deliver));
  for (let kill = 0; kill < 6; kill += 1) {
    await new Promise((resolve) => setTimeout(resolve, 150 + Math.floor(Math.random() * 500)));
    await server.kill('SIGKILL');
    server = await start();
  }
  await deliveries;
  for (const path of sent)
    expect(await ended(server.url, `${path}/t1`, 60_000)).toMatchObject({ status: 'succeeded' });
  for (const path of ['/reserve', '/charge', '/mail']) expect(provider.landed(path)).toBe(count);
}, 180_000);

test('the demo of the README ends well and says so', () => {
  const said = execFileSync(process.execPath, ['scripts/demo.ts'], {
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
  });
  expect(said).toContain('Every call landed exactly once.');
  expect(said).toContain('SIGKILL');
});

interface Wait {
  readonly id: string;
  readonly kind: string;
  readonly digest?: string;
}

/** Polls a turn until it satisfies `look`. */
async function until(
  url: string,
  path: string,
  look: (turn: Record<string, unknown>) => boolean,
): Promise<Record<string, unknown>> {
  let turnNow: Record<string, unknown> = {};
  await expect
    .poll(
      async () => {
        turnNow = (await callApi(url, 'GET', path)).body;
        return look(turnNow);
      },
      { timeout: 20_000, interval: 50 },
    )
    .toBe(true);
  return turnNow;
}

const waitsFor = (kind: string) => (view: Record<string, unknown>) =>
  view.status === 'suspended' && (view.waits as Wait[]).some((wait) => wait.kind === kind);

test('a plan asks a person, defers an act, naps and waits for an event, across SIGKILLs [T1 T7 T10]', async () => {
  let server = await start();
  const path = `${turns}/t1`;
  const suspended = await callApi(server.url, 'POST', turns, {
    body: turn('t1', everyWait(provider.url, 'order-7')),
    token: 'dev:acme:ann:user',
  });
  expect(suspended).toMatchObject({
    status: 202,
    body: { status: 'suspended', waits: [{ kind: 'approval' }] },
  });
  const [wait] = suspended.body.waits as Wait[];
  await server.kill('SIGKILL');
  server = await start();
  const listed = await callApi(server.url, 'GET', '/v1/approvals', {
    token: 'dev:acme:bob:approver',
  });
  expect(listed.body.items).toMatchObject([
    { id: wait?.id, digest: wait?.digest, action: { ship: 'hold-1' }, requestedBy: 'ann' },
  ]);
  const decide = (token: string, body: unknown) =>
    callApi(server.url, 'POST', `/v1/approvals/${wait?.id}`, { token, body });
  const yes = { decision: 'approve', digest: wait?.digest, note: 'fine' };
  expect(await decide('dev:acme:bob:user', yes)).toMatchObject({ status: 403 });
  expect(await decide('dev:acme:ann:approver', yes)).toMatchObject({
    status: 403,
    body: { code: 'four_eyes' },
  });
  expect(await decide('dev:other:bob:approver', yes)).toMatchObject({ status: 404 });
  expect(await decide('dev:acme:bob:approver', { ...yes, digest: 'x' })).toMatchObject({
    status: 409,
    body: { code: 'digest_mismatch' },
  });
  expect(await decide('dev:acme:bob:approver', yes)).toMatchObject({
    status: 200,
    body: { status: 'approved', decision: { decision: 'approve', by: 'bob', note: 'fine' } },
  });
  expect(await decide('dev:acme:carl:approver', { ...yes, decision: 'deny' })).toMatchObject({
    status: 409,
    body: { code: 'already_decided', details: { decision: 'approve', by: 'bob' } },
  });
  await provider.reached('/mail', 1);
  await server.kill('SIGKILL');
  server = await start();
  await until(server.url, path, waitsFor('event'));
  await until(
    server.url,
    path,
    (view) => (view.waits as Wait[]).length === 1 && provider.landed('/mail') === 1,
  );
  const paid = {
    source: 'bank',
    id: 'e1',
    type: 'paid',
    correlation: 'order-7',
    data: { sum: 10 },
  };
  const publish = () => callApi(server.url, 'POST', '/v1/events', { body: paid });
  expect(await publish()).toMatchObject({ status: 202, body: { stored: true } });
  expect(await publish()).toMatchObject({ status: 202, body: { stored: false } });
  const done = await until(server.url, path, (view) => view.status === 'succeeded');
  expect(done.result).toEqual({ by: 'bob', hold: 'hold-1', sent: 'mail-1', paid: { sum: 10 } });
  expect([provider.landed('/hold'), provider.landed('/mail')]).toEqual([1, 1]);
  expect(await callApi(server.url, 'POST', `${path}/verify`)).toMatchObject({
    body: { verdict: 'verified' },
  });
});

test('denied, expired and dropped approvals end the plan as it says, and what was done is undone [T8 T10]', async () => {
  const { url } = await start();
  const asking = (onExpiry: string, expiresInMs: number) => {
    const plan = everyWait(provider.url, 'x');
    const [hold, tell] = plan.steps;
    const [first] = hold?.do ?? [];
    return {
      ...plan,
      steps: [
        { ...hold, do: [first] },
        { ...tell, do: [{ approve: { action: 'ship', expiresInMs, onExpiry, fourEyes: false } }] },
      ],
      reply: null,
    };
  };
  const denied = await callApi(url, 'POST', turns, { body: turn('t1', asking('deny', 60_000)) });
  const [wait] = denied.body.waits as Wait[];
  const deny = { decision: 'deny', digest: wait?.digest };
  const path = `/v1/approvals/${wait?.id}`;
  expect(await callApi(url, 'POST', path, { body: deny })).toMatchObject({ status: 403 });
  const token = 'dev:acme:bob:approver';
  expect(await callApi(url, 'POST', path, { token, body: deny })).toMatchObject({ status: 200 });
  expect(
    await until(
      url,
      `${turns}/t1`,
      (view) => view.status !== 'suspended' && view.status !== 'running',
    ),
  ).toMatchObject({
    status: 'failed',
    error: { code: 'approval_denied', step: 'tell' },
  });
  expect(provider.landed('/release')).toBe(1);
  for (const [name, onExpiry, status] of [
    ['t2', 'deny', 'failed'],
    ['t3', 'drop', 'cancelled'],
    ['t4', 'escalate', 'failed'],
  ] as const) {
    const asked = await callApi(url, 'POST', turns, { body: turn(name, asking(onExpiry, 400)) });
    expect(asked).toMatchObject({ status: 202 });
    const ended = await until(
      url,
      `${turns}/${name}`,
      (view) => view.status !== 'suspended' && view.status !== 'running',
    );
    expect(ended).toMatchObject({ status, error: { code: 'approval_expired' } });
    const late = await callApi(
      url,
      'POST',
      `/v1/approvals/${(asked.body.waits as Wait[])[0]?.id}`,
      {
        token: 'dev:acme:bob:approver',
        body: { decision: 'approve', digest: (asked.body.waits as Wait[])[0]?.digest },
      },
    );
    expect(late).toMatchObject({ status: 409, body: { code: 'expired' } });
  }
  expect(provider.landed('/release')).toBe(4);
});

test('a stop takes back what a waiting turn did, in one call of an operator [T8]', async () => {
  const { url } = await start();
  await callApi(url, 'POST', turns, { body: turn('t1', everyWait(provider.url, 'x')) });
  const stop = () =>
    callApi(url, 'POST', `${turns}/t1/cancel`, { body: { reason: 'changed our mind' } });
  expect(await stop()).toMatchObject({ status: 202, body: { recorded: true } });
  expect(await until(url, `${turns}/t1`, (view) => view.status === 'cancelled')).toBeTruthy();
  expect(await stop()).toMatchObject({ status: 202, body: { recorded: false } });
  expect(provider.landed('/release')).toBe(1);
  expect(provider.ledger.at(-1)?.body).toEqual({ hold: 'hold-1' });
});

test('a plan takes a group whole or not at all, and uses a business key once [T2 T9]', async () => {
  const { url } = await start();
  const post = (kind: string, extra: Record<string, unknown> = {}) => ({
    kind,
    request: { method: 'POST', url: `\${vars.world}/${kind}`, body: extra.body ?? {} },
    recovery: 'idempotent',
    ...(extra.key === undefined ? {} : { key: extra.key }),
  });
  const plan = (least: string, onFail: string) => ({
    vars: { world: provider.url },
    steps: [
      {
        id: 's',
        do: [
          {
            group: {
              name: 'checkout',
              resources: ['stock'],
              members: [
                {
                  reversible: post('hold'),
                  resource: 'stock',
                  as: 'hold',
                  undo: post('release', { body: { hold: '${output.body.id}' } }),
                },
                {
                  read: { kind: 'look', request: { method: 'GET', url: '${vars.world}/look' } },
                  resource: 'stock',
                  as: 'look',
                },
                { deferred: post('mail'), resource: 'stock', as: 'sent' },
              ],
              invariants: [{ name: 'holds', left: '${hold.body.id}', op: 'ge', right: least }],
              onFail,
            },
            as: 'g',
          },
          { effect: post('charge', { key: 'charge:7' }), as: 'charge' },
        ],
      },
    ],
    reply: { status: '${g.status}', members: '${g.members}', charge: '${charge.body.id}' },
  });
  const first = await callApi(url, 'POST', turns, { body: turn('t1', plan('hold-1', 'fail')) });
  expect(first.body).toMatchObject({
    status: 'succeeded',
    result: {
      status: 'committed',
      members: { sent: { body: { id: 'mail-1' } } },
      charge: 'charge-1',
    },
  });
  const second = await callApi(url, 'POST', turns, { body: turn('t2', plan('z', 'continue')) });
  expect(second.body).toMatchObject({
    status: 'succeeded',
    result: { status: 'aborted', charge: 'charge-1' },
  });
  expect(await callApi(url, 'POST', turns, { body: turn('t3', plan('z', 'fail')) })).toMatchObject({
    body: {
      status: 'failed',
      error: { code: 'group_aborted', message: expect.stringContaining('holds') },
    },
  });
  const landed = ['/hold', '/release', '/mail', '/charge'].map((path) => provider.landed(path));
  expect(landed).toEqual([3, 2, 1, 1]);
  const receipts = await callApi(url, 'GET', '/v1/receipts?threadId=order-7');
  expect(receipts.body.items).toMatchObject([
    { kind: 'charge', key: 'charge:7', status: 'completed', turnId: 't1' },
  ]);
});

test('T12 a plan remembers and recalls; an erased person is noise in every file, and comes back empty', async () => {
  const { url } = await start();
  const planted = 'Ann is allergic to walnuts';
  const remember = {
    steps: [
      {
        id: 's',
        do: [
          { remember: { id: 'allergy', subject: 'ann', purpose: 'care', content: planted } },
          { recall: { subject: 'ann', purpose: 'care', limit: 5 }, as: 'known' },
          { case: { id: 'visit-7', status: 'open', state: { ward: 3 } }, as: 'visit' },
        ],
      },
    ],
    reply: { known: '${known.items}', visit: '${visit.version}' },
  };
  const first = await callApi(url, 'POST', turns, { body: turn('t1', remember) });
  expect(first.body).toMatchObject({
    status: 'succeeded',
    result: { known: [{ id: 'allergy', content: planted }], visit: 1 },
  });
  const admin = 'dev:acme:dora:admin';
  const at = (method: string, path: string, body?: unknown, token = admin) =>
    callApi(url, method, `/v1/subjects/ann/${path}`, {
      token,
      ...(body === undefined ? {} : { body }),
    });
  expect(
    await at('GET', 'memories?purpose=care', undefined, 'dev:acme:olga:operator'),
  ).toMatchObject({
    status: 200,
    body: { items: [{ id: 'allergy', content: planted, trust: 'untrusted' }] },
  });
  expect(await at('PUT', 'hold', { reason: 'court' })).toMatchObject({ status: 200 });
  expect(await at('POST', 'erase', { reason: 'asked' }, 'dev:acme:olga:operator')).toMatchObject({
    status: 403,
  });
  expect(await at('POST', 'erase', { reason: 'asked' })).toMatchObject({
    status: 409,
    body: { code: 'legal_hold' },
  });
  expect(await at('DELETE', 'hold')).toMatchObject({ status: 200 });
  expect(await at('POST', 'erase', { reason: 'asked' })).toMatchObject({
    status: 202,
    body: { erasure: { state: 'complete', destroyed: { items: 1, versions: 1 } } },
  });
  expect(await at('GET', 'erasure')).toMatchObject({ body: { erasure: { state: 'complete' } } });
  expect(await callApi(url, 'GET', `${turns}/t1`)).toMatchObject({
    status: 200,
    body: { status: 'succeeded', erased: true },
  });
  expect(await callApi(url, 'POST', turns, { body: turn('t1', remember) })).toMatchObject({
    status: 200,
    body: { erased: true, replayed: true },
  });
  expect(await callApi(url, 'POST', turns, { body: turn('t2', remember) })).toMatchObject({
    status: 410,
    body: { code: 'subject_erased' },
  });
  for (const name of readdirSync(data, { recursive: true, encoding: 'utf8' })) {
    const file = join(data, name);
    if (statSync(file).isFile()) expect(readFileSync(file).includes('walnuts'), name).toBe(false);
  }
  expect(await at('POST', 'readmit', { reason: 'returned' })).toMatchObject({
    status: 200,
    body: { generation: 2 },
  });
  const recall = {
    steps: [{ id: 's', do: [{ recall: { subject: 'ann', purpose: 'care' }, as: 'k' }] }],
    reply: '${k}',
  };
  expect(await callApi(url, 'POST', turns, { body: turn('t3', recall) })).toMatchObject({
    body: { status: 'succeeded', result: { items: [] } },
  });
  expect(await callApi(url, 'GET', '/v1/cases/visit-7')).toMatchObject({
    status: 200,
    body: {
      id: 'visit-7',
      status: 'open',
      version: 1,
      state: { ward: 3 },
      turns: [{ turnId: 't1' }],
    },
  });
});

test('T13 npx turnstone reads a journal for people and for programs, and says why an effect was called again', async () => {
  const { url } = await start();
  provider.next('/reserve', { status: 429, headers: { 'content-type': 'application/json' } });
  await callApi(url, 'POST', turns, { body: turn('t1', threeCalls(provider.url)) });
  const run = (...words: string[]) =>
    execFileSync(process.execPath, ['scripts/turnstone.mjs', ...words, '--url', url], {
      encoding: 'utf8',
      env: { ...process.env, NO_COLOR: '1' },
    });
  const lines = run('journal', 'order-7', 't1').trim().split('\n');
  expect(lines.at(-1)).toMatch(/^chain verified, \d+ records$/);
  expect(lines.some((line) => /EffectFailed.*order.*did_not_happen/.test(line))).toBe(true);
  const rows = run('journal', 'order-7', 't1', '--json').trim().split('\n');
  expect(rows).toHaveLength(lines.length - 1);
  expect(JSON.parse(rows[0] ?? '{}')).toMatchObject({ seq: 1, kind: 'RunAdmitted' });
  expect(run('why', 'order-7', 't1')).toMatch(/reserve: attempt 2 after .*did_not_happen/);
  expect(run('attention')).toContain('nothing needs a person');
  expect(run('approvals')).toContain('nothing waits for a person');
  expect(() => run('journal', 'order-7', 'nobody')).toThrow(/404 not_found/);
});

test('a small soak: the provider refuses, hangs, resets and answers garbage, the server is killed, and all agree [T6]', () => {
  const words = ['scripts/soak.ts', '--turns', '30', '--kills', '2', '--seed', '11'];
  const said = execFileSync(process.execPath, words, { encoding: 'utf8', timeout: 120_000 });
  expect(said).toContain('agree on every effect');
}, 150_000);

test('agents of your own in one environment variable: a checkout, its ledger, its refusals [T9]', async () => {
  const { url } = await start({
    TURNSTONE_AGENTS: 'src/examples/checkout.ts',
    SHOP_URL: provider.url,
  });
  const input = { order: 'o1', sku: 'tea', quantity: 2, total: 1500 };
  const post = (turnId: string, sent: unknown) =>
    callApi(url, 'POST', turns, { body: { turnId, agent: 'checkout', input: sent } });
  expect(await post('c1', input)).toMatchObject({ status: 200, body: { status: 'succeeded' } });
  const paths = ['/stock/hold', '/payments/charge', '/mail', '/carrier/ship'];
  expect(provider.ledger.map(({ path }) => path)).toEqual(paths);
  expect(await post('c2', { ...input, total: '15' })).toMatchObject({
    status: 422,
    body: { code: 'invalid_input', detail: expect.stringContaining('input.total') },
  });
  // The same order again under another turn: the ledger refuses its row, what was held is taken back.
  expect(await post('c3', input)).toMatchObject({ status: 200, body: { status: 'failed' } });
  expect(provider.ledger.slice(4).map(({ path }) => path)).toEqual([
    '/stock/hold',
    '/payments/charge',
    '/payments/refund',
    '/stock/release',
  ]);
});
