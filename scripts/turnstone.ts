// `npx turnstone`: reads a running Turnstone over its HTTP API; `check-deploy` alone opens the store, and only reads.
import { parseArgs } from 'node:util';
import { checkDeploy } from '../src/operator/check-deploy.ts';
import {
  approvalLines,
  attemptLines,
  attentionLines,
  auditLines,
  clean,
  deployLines,
  journalLines,
  painter,
  verdictLines,
} from '../src/operator/render.ts';

const usage = `usage: turnstone <command> [--json] [--url URL] [--token TOKEN]

  journal <thread> <turn>   every record of a turn, one line each, with the verdict over its chain
  audit <thread> <turn>     a strict pass over a turn, and what its journal leaves open
  why <thread> <turn>       why its effects were called more than once
  verify <thread> <turn>    whether its code still agrees with its journal; 1 if not, 3 if that cannot be told
  approvals [--all]         what waits for a person
  attention                 what needs a person, with the remedy
  check-deploy              what the build in hand would refuse, hold, migrate or diverge on; ends with 1 if
                            anything would not go on. [--agents MODULE] [--policy FILE], and the store:
                            --data DIR (TURNSTONE_DATA, .turnstone), or --aws with TURNSTONE_TABLE_DATA, _WORK,
                            _KEYS, _LEDGER and TURNSTONE_KEY_ID as the functions have them

URL and TOKEN default to TURNSTONE_URL (http://127.0.0.1:3000) and TURNSTONE_TOKEN.
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'boolean', default: false },
    all: { type: 'boolean', default: false },
    url: { type: 'string' },
    agents: { type: 'string' },
    policy: { type: 'string' },
    data: { type: 'string' },
    aws: { type: 'boolean', default: false },
    token: { type: 'string' },
  },
});

const url = values.url ?? process.env.TURNSTONE_URL ?? 'http://127.0.0.1:3000';
const paint = painter(process.stdout.isTTY === true && process.env.NO_COLOR === undefined);

async function get(path: string, role: string, method = 'GET'): Promise<Record<string, unknown>> {
  const token = values.token ?? process.env.TURNSTONE_TOKEN ?? `dev:acme:cli:${role}`;
  const headers = { authorization: `Bearer ${token}` };
  const answer = await fetch(`${url}${path}`, { method, headers });
  const body = (await answer.json()) as Record<string, unknown>;
  if (answer.ok) return body;
  throw new Error(`${answer.status} ${String(body.code ?? '')}: ${String(body.detail ?? '')}`);
}

function print(body: Record<string, unknown>, lines: readonly string[], rows: string): void {
  if (!values.json) return void process.stdout.write(`${lines.join('\n')}\n`);
  const list = Array.isArray(body[rows]) ? (body[rows] as readonly unknown[]) : [body];
  process.stdout.write(list.map((row) => `${JSON.stringify(row)}\n`).join(''));
}

function pathOf(thread: string, turn: string): string {
  return `/v1/threads/${encodeURIComponent(thread)}/turns/${encodeURIComponent(turn)}`;
}

/** Every page of a journal. */
async function journal(thread: string, turn: string): Promise<Record<string, unknown>> {
  const path = `${pathOf(thread, turn)}/journal`;
  const records: unknown[] = [];
  for (;;) {
    const page = await get(`${path}?after=${records.length}`, 'operator');
    const more = Array.isArray(page.records) ? page.records : [];
    records.push(...more);
    const head = page.head as { seq: number };
    if (more.length === 0 || records.length >= head.seq) return { ...page, records };
  }
}

async function run(): Promise<number> {
  const [command, thread = '', turn = ''] = positionals;
  switch (command) {
    case 'journal': {
      const found = await journal(thread, turn);
      print(found, journalLines(found, paint), 'records');
      return found.verified === true ? 0 : 1;
    }
    case 'audit': {
      const found = await get(`${pathOf(thread, turn)}/verify`, 'operator', 'POST');
      print(found, auditLines(found, paint), '');
      return clean(found) ? 0 : 1;
    }
    case 'why': {
      const lines = attemptLines(await journal(thread, turn));
      print({}, lines.length === 0 ? ['every effect was called once'] : lines, '');
      return 0;
    }
    case 'verify': {
      const path = `/v1/threads/${encodeURIComponent(thread)}/turns/${encodeURIComponent(turn)}/verify`;
      const found = await get(path, 'operator', 'POST');
      print(found, verdictLines(found, paint), '');
      if (found.verdict === 'verified') return 0;
      return found.verdict === 'diverged' ? 1 : 3;
    }
    case 'approvals': {
      const found = await get(`/v1/approvals?status=${values.all ? 'all' : 'pending'}`, 'approver');
      print(found, approvalLines(found, paint), 'items');
      return 0;
    }
    case 'attention': {
      const found = await get('/v1/attention', 'operator');
      print(found, attentionLines(found, paint), 'items');
      return 0;
    }
    case 'check-deploy': {
      const { openForCheck } = await import('./check-deploy.ts');
      const runtime = await openForCheck({
        data: values.aws ? null : (values.data ?? process.env.TURNSTONE_DATA ?? '.turnstone'),
        agents: values.agents ?? process.env.TURNSTONE_AGENTS,
        policy: values.policy ?? process.env.TURNSTONE_POLICY,
      });
      const report = await checkDeploy(runtime);
      await runtime.store.close();
      print({ ...report }, deployLines(report, paint), 'findings');
      const { held, refused, diverges, fails } = report.counts;
      return held + refused + diverges + fails === 0 ? 0 : 1;
    }
    default:
      process.stderr.write(usage);
      return 2;
  }
}

try {
  process.exitCode = await run();
} catch (error) {
  process.stderr.write(`turnstone: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
