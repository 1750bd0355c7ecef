// Telemetry of a user's own, as `npm start` takes it from the module of agents.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { callApi, startServer } from '../../scripts/local-server.ts';

test('npm start tells the telemetry of the own module: lines and spans of every turn', async () => {
  const data = mkdtempSync(join(tmpdir(), 'turnstone-telemetry-'));
  const module = fileURLToPath(new URL('own-telemetry.ts', import.meta.url));
  const server = await startServer(data, { TURNSTONE_AGENTS: module });
  const told: string[] = [];
  server.child.stderr?.on('data', (chunk) => told.push(String(chunk)));
  try {
    const input = { steps: [{ id: 'hello', do: [{ note: 'hi' }] }], reply: 'done' };
    const body = { turnId: 't1', agent: 'plan', input };
    const answer = await callApi(server.url, 'POST', '/v1/threads/a/turns', { body });
    expect(answer.body).toMatchObject({ status: 'succeeded' });
    expect(await server.kill('SIGTERM')).toBe(0);
  } finally {
    await server.kill('SIGKILL');
    rmSync(data, { recursive: true, force: true });
  }
  const lines = told
    .join('')
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line): Record<string, unknown> => JSON.parse(line));
  const spans = lines.filter(({ event }) => event === 'span');
  expect(spans.map(({ kind, name, outcome }) => [kind, name, outcome])).toEqual([
    ['pass', 'plan', 'succeeded'],
    ['turn', 'plan', 'succeeded'],
  ]);
  expect(lines.map(({ event }) => event)).toContain('turn.committed');
});
