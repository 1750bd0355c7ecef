// The local AWS: an emulator for deployments (MiniStack) and a second implementation of the stores (moto).
//
// Installed into `.local/` from a pinned requirements file on first use; needs Python 3 and nothing else.
// As a command: `start` leaves MiniStack running with a pid file, `stop` ends it, `status` tells.

import type { ChildProcess } from 'node:child_process';
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { delimiter, join, resolve } from 'node:path';
import { setTimeout as after } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const root = resolve(fileURLToPath(new URL('..', import.meta.url)));
const local = join(root, '.local');
const venv = join(local, 'venv');
const requirements = join(root, 'scripts', 'requirements-local-aws.txt');
const pidFile = join(local, 'ministack.pid');

export interface Emulator {
  readonly kind: 'started';
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

export type Started = Emulator | { readonly kind: 'unavailable'; readonly reason: string };

/** Installs the emulators when the requirements changed; answers why not when that is impossible. */
function install(): string | null {
  const wanted = createHash('sha256').update(readFileSync(requirements)).digest('hex');
  const stamp = join(venv, 'installed');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return null;
  mkdirSync(local, { recursive: true });
  const made = spawnSync('python3', ['-m', 'venv', venv], { encoding: 'utf8' });
  if (made.error !== undefined) return `python3 cannot be started: ${made.error.message}`;
  if (made.status !== 0) return `python3 -m venv failed: ${made.stderr.trim().split('\n').at(-1)}`;
  const pip = spawnSync(
    join(venv, 'bin', 'pip'),
    ['install', '--quiet', '--disable-pip-version-check', '-r', requirements],
    {
      encoding: 'utf8',
    },
  );
  if (pip.status !== 0) return `pip install failed: ${pip.stderr.trim().split('\n').at(-1)}`;
  writeFileSync(stamp, wanted);
  return null;
}

/** A port nobody listens on. */
export function freePort(): Promise<number> {
  return new Promise((done, failed) => {
    const server = createServer();
    server.on('error', failed);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => done(port));
    });
  });
}

/** Starts MiniStack on a free port (or `port`) with Node 24 first on its path. */
export async function startMinistack(
  options: { port?: number; log?: string; env?: Record<string, string> } = {},
): Promise<Started> {
  const reason = install();
  if (reason !== null) return { kind: 'unavailable', reason };
  const port = options.port ?? (await freePort());
  return launch(
    join(venv, 'bin', 'ministack'),
    [],
    `http://127.0.0.1:${port}`,
    '/_ministack/health',
    options.log ?? 'ministack',
    {
      GATEWAY_PORT: String(port),
      LAMBDA_STRICT: '0',
      ...options.env,
    },
  );
}

/** Starts moto's server on a free port. */
export async function startMoto(): Promise<Started> {
  const reason = install();
  if (reason !== null) return { kind: 'unavailable', reason };
  const port = await freePort();
  return launch(
    join(venv, 'bin', 'moto_server'),
    ['-H', '127.0.0.1', '-p', String(port)],
    `http://127.0.0.1:${port}`,
    '/moto-api/data.json',
    'moto',
    {},
  );
}

async function launch(
  command: string,
  args: readonly string[],
  url: string,
  health: string,
  name: string,
  env: Readonly<Record<string, string>>,
): Promise<Started> {
  const log = openSync(join(local, `${name}.log`), 'w');
  const child = spawn(command, args, {
    cwd: local,
    detached: true,
    stdio: ['ignore', log, log],
    env: {
      ...process.env,
      ...env,
      PATH: [join(root, 'node_modules', '.bin'), join(venv, 'bin'), process.env.PATH ?? ''].join(
        delimiter,
      ),
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
      AWS_REGION: 'us-east-1',
      AWS_DEFAULT_REGION: 'us-east-1',
    },
  });
  const up = await healthy(child, `${url}${health}`);
  if (!up) {
    // A command that could not be started has no group; group 0 would be our own.
    if (child.pid !== undefined) stopGroup(child.pid, 'SIGKILL');
    return {
      kind: 'unavailable',
      reason: `${name} did not answer on ${url}; see .local/${name}.log`,
    };
  }
  const pid = child.pid ?? 0;
  child.unref();
  return { kind: 'started', url, pid, stop: () => stopPid(pid) };
}

async function healthy(child: ChildProcess, url: string): Promise<boolean> {
  let ended = false;
  child.once('exit', () => {
    ended = true;
  });
  child.once('error', () => {
    ended = true;
  });
  for (let tries = 0; tries < 300 && !ended; tries += 1) {
    const answer = await fetch(url).catch(() => null);
    if (answer?.ok === true) return true;
    await after(200);
  }
  return false;
}

function stopGroup(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-pid, signal);
    return true;
  } catch {
    return false;
  }
}

async function stopPid(pid: number): Promise<void> {
  if (!stopGroup(pid, 'SIGTERM')) return;
  for (let tries = 0; tries < 50; tries += 1) {
    await after(100);
    if (!stopGroup(pid, 0 as never)) return;
  }
  stopGroup(pid, 'SIGKILL');
}

/** Environment under which the SDK and the CDK talk to an emulator. */
export function emulatorEnv(url: string): Record<string, string> {
  return {
    AWS_ENDPOINT_URL: url,
    AWS_ENDPOINT_URL_S3: url,
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    AWS_REGION: 'us-east-1',
    AWS_DEFAULT_REGION: 'us-east-1',
    CDK_DEFAULT_ACCOUNT: '000000000000',
    CDK_DEFAULT_REGION: 'us-east-1',
  };
}

async function command(verb: string | undefined): Promise<void> {
  const pid = existsSync(pidFile) ? Number(readFileSync(pidFile, 'utf8')) : 0;
  if (verb === 'start') {
    const started = await startMinistack({ port: Number(process.env.GATEWAY_PORT ?? 4566) });
    if (started.kind === 'started') writeFileSync(pidFile, String(started.pid));
    process.stdout.write(`${JSON.stringify(started)}\n`);
    process.exit(started.kind === 'started' ? 0 : 1);
  }
  if (verb === 'stop') {
    if (pid > 0) await stopPid(pid);
    rmSync(pidFile, { force: true });
    process.stdout.write(`${JSON.stringify({ stopped: pid > 0 })}\n`);
    return;
  }
  process.stdout.write(
    `${JSON.stringify({ running: pid > 0 && stopGroup(pid, 0 as never), pid })}\n`,
  );
}

if (import.meta.main) await command(process.argv[2]);
