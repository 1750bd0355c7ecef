// `npx turnstone check-deploy` over the data folder of a server that was killed, as a release script runs it.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { callApi, startServer } from '../../scripts/local-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'turnstone-check-'));
const command = fileURLToPath(new URL('../../scripts/turnstone.mjs', import.meta.url));
const library = new URL('../../src/index.ts', import.meta.url).href;
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A build of the agent: what its first effect is called, and what else it declares. */
function build(name: string, kind: string, options = '{}'): string {
  const path = join(folder, `${name}.ts`);
  writeFileSync(
    path,
    `import { defineTurnAgent } from '${library}';
export const agents = () => [defineTurnAgent({ ...${options}, name: 'shop', run: async (context) => {
  await context.effect({ kind: '${kind}', args: 1, recovery: 'idempotent', perform: async () => 1 });
  return (await context.approval({ action: 'go' })).decision;
} })];
`,
  );
  return path;
}

function check(data: string, ...args: string[]) {
  const ran = spawnSync(process.execPath, [command, 'check-deploy', '--data', data, ...args], {
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
  });
  return { status: ran.status, out: ran.stdout, error: ran.stderr };
}

test('F29 the command line says what a build would hold, refuse or diverge on, and ends with 1 [T7 T13]', async () => {
  const data = join(folder, 'data');
  const first = build('first', 'charge');
  const server = await startServer(data, { TURNSTONE_AGENTS: first });
  const sent = await callApi(server.url, 'POST', '/v1/threads/order-7/turns', {
    body: { turnId: 't1', agent: 'shop', input: {} },
  });
  expect(sent.body).toMatchObject({ status: 'suspended' });
  await server.kill('SIGKILL');

  const same = check(data, '--agents', first);
  expect(same).toMatchObject({ status: 0, error: '' });
  expect(same.out).toMatch(/^1 threads, 1 open turns, 0 acts: 2 goes_on, 0 migrates/);

  const moved = check(data, '--agents', build('moved', 'invoice'));
  expect(moved.status).toBe(1);
  expect(moved.out).toContain('turn order-7/t1 (suspended): divergence: record ');
  expect(moved.out).toContain('recorded "charge", this build asks for "invoice" (kind)');

  const wider = check(data, '--json', '--agents', build('wider', 'charge', '{ version: 2 }'));
  expect(wider.status).toBe(1);
  const findings = wider.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(findings).toMatchObject([
    { what: 'turn', turn: 't1', outcome: 'refused', code: 'fingerprint_mismatch' },
  ]);

  expect(check(data).out).toContain('agent_unknown: this build has no agent "shop"');
  const nowhere = check(join(folder, 'nowhere'));
  expect(nowhere.status).toBe(1);
  expect(nowhere.error).toContain('turnstone.sqlite: expected a data file, found none');
});
