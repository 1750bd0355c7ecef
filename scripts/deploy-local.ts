// Bootstraps and deploys the stack into a local AWS, as `cdk deploy` does into an account.
//
// As a command (`npm run deploy:local`): starts the emulator when none runs, starts nothing else, prints
// one JSON line with the URL and the Host header to send.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { emulatorEnv, startMinistack } from './local-aws.ts';

const root = resolve(fileURLToPath(new URL('..', import.meta.url)));

export interface Deployed {
  readonly apiId: string;
  readonly sweeper: string;
  readonly turn: string;
  readonly eventsUrl: string;
}

export interface DeployOptions {
  readonly url: string;
  readonly stack: string;
  readonly issuer: string;
  readonly httpAllow: string;
  readonly profile: 'short' | 'standard';
  /** Module of your own agents. */
  readonly agents?: string | undefined;
  /** Their variables, `NAME=value` separated by commas. */
  readonly agentsEnv?: string | undefined;
  /** Tables of your own that they write, separated by commas. */
  readonly atomicTables?: string | undefined;
}

/** `cdk bootstrap` and `cdk deploy`; throws with the end of what the CDK said. */
export function deploy(options: DeployOptions): Deployed {
  const out = join(root, '.local', `${options.stack}-cdk.out`);
  const outputs = join(root, '.local', `${options.stack}-outputs.json`);
  mkdirSync(join(root, '.local'), { recursive: true });
  rmSync(outputs, { force: true });
  const env = { ...process.env, ...emulatorEnv(options.url), NO_COLOR: '1' };
  const context = [
    `stack=${options.stack}`,
    `profile=${options.profile}`,
    `issuer=${options.issuer}`,
    `httpAllow=${options.httpAllow}`,
    ...(options.agents === undefined ? [] : [`agents=${options.agents}`]),
    ...(options.agentsEnv === undefined ? [] : [`agentsEnv=${options.agentsEnv}`]),
    ...(options.atomicTables === undefined ? [] : [`atomicTables=${options.atomicTables}`]),
  ].flatMap((pair) => ['-c', pair]);
  run(['bootstrap', 'aws://000000000000/us-east-1', '--output', out, ...context], env);
  run(
    [
      'deploy',
      '--require-approval',
      'never',
      '--output',
      out,
      '--outputs-file',
      outputs,
      ...context,
    ],
    env,
  );
  const made: unknown = JSON.parse(readFileSync(outputs, 'utf8'));
  return outputsOf(made, options.stack);
}

function run(args: readonly string[], env: NodeJS.ProcessEnv): void {
  const cdk = join(root, 'node_modules', '.bin', 'cdk');
  const done = spawnSync(cdk, args, { cwd: root, env, encoding: 'utf8' });
  if (done.status === 0) return;
  const said = `${done.stdout}\n${done.stderr}`.trim().split('\n').slice(-25).join('\n');
  throw new Error(`cdk ${args[0]} failed:\n${said}`);
}

function outputsOf(made: unknown, stack: string): Deployed {
  if (typeof made !== 'object' || made === null) throw new Error('the deployment gave no outputs');
  const outputs: unknown = Reflect.get(made, stack);
  const read = (name: string): string => {
    const value: unknown =
      typeof outputs === 'object' && outputs !== null ? Reflect.get(outputs, name) : undefined;
    if (typeof value !== 'string') throw new Error(`the deployment gave no output ${name}`);
    return value;
  };
  return {
    apiId: read('ApiId'),
    sweeper: read('SweeperName'),
    turn: read('TurnName'),
    eventsUrl: read('EventsUrl'),
  };
}

async function command(): Promise<void> {
  const port = Number(process.env.GATEWAY_PORT ?? 4566);
  const url = `http://127.0.0.1:${port}`;
  const running = await fetch(`${url}/_ministack/health`).catch(() => null);
  if (running?.ok !== true) {
    const started = await startMinistack({ port });
    if (started.kind === 'unavailable') throw new Error(`no local AWS: ${started.reason}`);
    writeFileSync(join(root, '.local', 'ministack.pid'), String(started.pid));
  }
  const issuer = process.env.TURNSTONE_ISSUER ?? 'http://127.0.0.1:9090';
  const deployed = deploy({
    url,
    stack: 'Turnstone',
    issuer,
    httpAllow: process.env.TURNSTONE_HTTP_ALLOW ?? '',
    profile: 'short',
    agents: process.env.TURNSTONE_AGENTS,
    agentsEnv: process.env.TURNSTONE_AGENTS_ENV,
    atomicTables: process.env.TURNSTONE_ATOMIC_TABLES,
  });
  const host = `${deployed.apiId}.execute-api.localhost`;
  process.stdout.write(
    `${JSON.stringify({ event: 'deployed', url, host, issuer, ...deployed })}\n`,
  );
}

if (import.meta.main) {
  if (!existsSync(join(root, 'node_modules'))) throw new Error('run npm ci first');
  await command();
}
