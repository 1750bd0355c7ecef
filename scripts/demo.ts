// `npm run demo`: a refund that survives SIGKILL at its worst instant, told in the terminal.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { styleText } from 'node:util';
import { providerServer } from '../src/testing/provider-server.ts';
import { callApi, startServer } from './local-server.ts';

const colours = process.stdout.isTTY === true && process.env.NO_COLOR === undefined;
const paint = (
  style: 'bold' | 'green' | 'red' | 'yellow' | 'cyan' | 'dim',
  text: string,
): string => (colours ? styleText(style, text) : text);
const say = (text: string): void => {
  process.stdout.write(`${text}\n`);
};

const data = mkdtempSync(join(tmpdir(), 'turnstone-demo-'));
const provider = await providerServer();
provider.dedup('/restock');
const plan: { vars: { world: string } } = JSON.parse(
  readFileSync(new URL('../examples/refund.json', import.meta.url), 'utf8'),
);
plan.vars.world = provider.url;
const path = '/v1/threads/order-7/turns';

say(paint('bold', 'A refund, a restock and a mail, each a real HTTP call.'));
let server = await startServer(data);
say(`  server   ${server.url}, process ${server.child.pid}, one SQLite file`);

const gate = Promise.withResolvers<void>();
provider.next('/refund', { holdAfter: gate.promise });
const cut = callApi(server.url, 'POST', path, {
  body: { turnId: 't1', agent: 'plan', input: plan },
}).then(
  () => 'an answer',
  () => 'a broken connection',
);
await provider.reached('/refund', 1);
say(`  provider ${paint('yellow', 'the refund has landed; its answer is on the way')}`);
await server.kill('SIGKILL');
gate.resolve();
say(
  `  ${paint('red', 'SIGKILL')}  between the act and its record: the worst instant. The caller sees ${await cut}.`,
);

server = await startServer(data);
say(`  server   started again, process ${server.child.pid}; nobody sends the turn a second time`);
let turn = await callApi(server.url, 'GET', `${path}/t1`);
const dots = setInterval(() => colours && process.stdout.write(paint('dim', '.')), 200);
while (turn.body.status === 'running') {
  await new Promise((resolve) => setTimeout(resolve, 100));
  turn = await callApi(server.url, 'GET', `${path}/t1`);
}
clearInterval(dots);
if (colours) say('');
say(
  `  turn     ${paint('green', String(turn.body.status))}, result ${JSON.stringify(turn.body.result)}`,
);

say(paint('bold', "\nThe provider's own ledger"));
for (const entry of provider.ledger)
  say(`  ${entry.landed ? 'landed  ' : 'repeated'} ${entry.method} ${entry.path}`);
say(paint('bold', '\nThe journal'));
const journal = await callApi(server.url, 'GET', `${path}/t1/journal`);
for (const record of journal.body.records as Record<string, unknown>[]) {
  const what = [record.step, record.effectKind, record.disposition, record.outcome]
    .filter(Boolean)
    .join(' ');
  say(
    `  ${String(record.seq).padStart(3)}  epoch ${record.epoch}  ${paint('cyan', String(record.kind).padEnd(17))} ${what}`,
  );
}
say(`  chain verified: ${JSON.stringify(journal.body.verified)}`);
const twice = ['/refund', '/restock', '/mail'].filter((at) => provider.landed(at) !== 1);
say(
  twice.length === 0
    ? paint('green', '\nEvery call landed exactly once.')
    : paint('red', `\nLanded otherwise: ${twice}`),
);
await server.kill('SIGTERM');
await provider.close();
rmSync(data, { recursive: true, force: true });
process.exitCode = twice.length === 0 && turn.body.status === 'succeeded' ? 0 : 1;
