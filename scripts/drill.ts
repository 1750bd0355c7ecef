// `npm run drill`: yesterday's copy of the data beside today's keys. Who was erased since then stays unreadable, the
// others are readable, and every chain verifies.
//
// Real servers over real files: the copy is of the data file alone, as a restore of the data table would be.
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callApi, type LocalServer, startServer } from './local-server.ts';

const admin = 'dev:acme:dora:admin';
const operator = 'dev:acme:olga:operator';

function say(what: string, fact: string): void {
  process.stdout.write(`${what.padEnd(10)} ${fact}\n`);
}

function demand(holds: boolean, what: string): void {
  if (!holds) throw new Error(`the drill failed: ${what}`);
}

function planOf(subject: string, secret: string): unknown {
  const content = { note: secret };
  return {
    steps: [
      {
        id: 's',
        do: [
          { remember: { id: `note-${subject}`, subject, purpose: 'care', content } },
          { note: `about ${subject}` },
        ],
      },
    ],
    reply: secret,
  };
}

async function remember(url: string, subject: string, secret: string): Promise<void> {
  const body = { turnId: 't1', agent: 'plan', input: planOf(subject, secret) };
  const answer = await callApi(url, 'POST', `/v1/threads/${subject}/turns`, { body });
  demand(answer.body.status === 'succeeded', `the turn about ${subject} succeeds`);
}

interface Seen {
  readonly memories: number;
  readonly erased: boolean;
  readonly result: unknown;
  readonly verified: unknown;
  readonly records: number;
}

async function look(url: string, subject: string): Promise<Seen> {
  const at = `/v1/threads/${subject}/turns/t1`;
  const known = await callApi(url, 'GET', `/v1/subjects/${subject}/memories`, { token: operator });
  const turn = await callApi(url, 'GET', at);
  const journal = await callApi(url, 'GET', `${at}/journal`, { token: operator });
  const { items } = known.body as { items?: readonly unknown[] };
  const { records, verified } = journal.body as { records?: readonly unknown[]; verified: unknown };
  return {
    memories: items?.length ?? 0,
    erased: turn.body.erased === true,
    result: turn.body.result ?? null,
    verified,
    records: records?.length ?? 0,
  };
}

function inClear(folder: string, secret: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => {
    const file = join(folder, name);
    return statSync(file).isFile() && readFileSync(file).includes(secret);
  });
}

async function drill(folder: string): Promise<void> {
  const data = join(folder, 'turnstone.sqlite');
  const copy = join(folder, '..', `${Date.now()}-yesterday.db`);
  let server: LocalServer = await startServer(folder);
  try {
    await remember(server.url, 'ann', 'walnuts');
    await remember(server.url, 'bob', 'rhubarb');
    await server.kill('SIGTERM');
    copyFileSync(data, copy);
    say('yesterday', 'two people are remembered; the data file is copied, the keys are not');
    server = await startServer(folder);
    const path = '/v1/subjects/ann/erase';
    const erased = await callApi(server.url, 'POST', path, {
      token: admin,
      body: { reason: 'asked' },
    });
    demand(erased.status === 202, 'ann is erased');
    await server.kill('SIGTERM');
    say('today', 'ann is erased');
    for (const end of ['', '-wal', '-shm']) rmSync(`${data}${end}`, { force: true });
    copyFileSync(copy, data);
    server = await startServer(folder);
    say('restore', 'yesterday’s data stands beside today’s keys');
    const [ann, bob] = [await look(server.url, 'ann'), await look(server.url, 'bob')];
    demand(ann.erased && ann.result === null && ann.memories === 0, 'ann stays unreadable');
    demand(!bob.erased && bob.result === 'rhubarb' && bob.memories === 1, 'bob is readable');
    demand(ann.verified === true && bob.verified === true, 'both chains verify');
    demand(ann.records > 0 && ann.records === bob.records, 'both journals are whole');
    demand(inClear(folder, 'walnuts').length === 0, 'nothing of ann stands in clear');
    say('ann', `erased; no memory, no result; ${ann.records} records, chain verified`);
    say('bob', `readable; ${bob.memories} memory; ${bob.records} records, chain verified`);
    process.stdout.write('\nThe backup cannot read who was erased.\n');
  } finally {
    await server.kill('SIGKILL');
    rmSync(copy, { force: true });
  }
}

if (import.meta.main) {
  const folder = mkdtempSync(join(tmpdir(), 'turnstone-drill-'));
  try {
    await drill(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
