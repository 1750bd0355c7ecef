// `npm start`: the embedded server. Its first line on standard output says that it is ready.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { lineTelemetry } from '../adapters/system/line-telemetry.ts';
import type { AgentsModule } from '../agent/agents-module.ts';
import { httpServer } from './http-server.ts';
import { localHost } from './local-host.ts';
import { readSettings } from './settings.ts';

const settings = readSettings(process.env);
const lines = lineTelemetry((line) => process.stderr.write(line), Date.now);
const own: AgentsModule | undefined =
  settings.agents === undefined
    ? undefined
    : await import(pathToFileURL(resolve(settings.agents)).href);
const telemetry = own?.telemetry?.(lines) ?? lines;
const host = localHost(settings, telemetry, own);
const server = httpServer(host);

server.on('error', (error) => {
  process.stderr.write(
    `turnstone: cannot listen on ${settings.host}:${settings.port}: ${error.message}\n`,
  );
  process.exit(1);
});

server.listen(settings.port, settings.host, () => {
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : settings.port;
  const shown = settings.host.includes(':') ? `[${settings.host}]` : settings.host;
  const ready = {
    event: 'ready',
    url: `http://${shown}:${port}`,
    data: settings.data,
    pid: process.pid,
  };
  process.stdout.write(`${JSON.stringify(ready)}\n`);
  host.start();
});

let stopping = false;
async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const clean = await host.drain(settings.drainMs);
  server.closeAllConnections();
  await closed;
  telemetry.emit('server.stopped', { clean });
  process.exit(0);
}

process.on('SIGTERM', () => void stop());
process.on('SIGINT', () => void stop());
