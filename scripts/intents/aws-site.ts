// The deployed stack on a local AWS: functions are processes of the emulator, found by their name and killed apart.
import { readdirSync, readFileSync } from 'node:fs';
import { request } from 'node:http';
import type { Issuer } from '../../test/e2e/identity.ts';
import { startIssuer } from '../../test/e2e/identity.ts';
import { openForCheck } from '../check-deploy.ts';
import type { Deployed } from '../deploy-local.ts';
import { deploy } from '../deploy-local.ts';
import { InvokeCommand, LambdaClient, storeVariables } from '../lambda-client.ts';
import type { Emulator } from '../local-aws.ts';
import { emulatorEnv, startMinistack } from '../local-aws.ts';
import type { Reply, Site } from './site.ts';
import { callMs, nothingOwed } from './site.ts';

/** Names of the functions' resources: who performs acts, who runs turns, who relays what was left. */
const roles = ['Effector', 'Turn', 'Sweeper'] as const;

/** Starts an emulator and deploys to it; throws where none can be had. */
export async function awsSite(providerUrl: string): Promise<Site> {
  const emulator = await startMinistack({ log: 'soak-ministack' });
  if (emulator.kind === 'unavailable') throw new Error(`no local AWS: ${emulator.reason}`);
  const issuer = await startIssuer();
  const stack = 'TurnstoneSoak';
  const { host: httpAllow } = new URL(providerUrl);
  const deployed = deploy({
    url: emulator.url,
    stack,
    issuer: issuer.url,
    httpAllow,
    profile: 'short',
  });
  const env = emulatorEnv(emulator.url);
  const lambda = new LambdaClient(env);
  Object.assign(process.env, env, await storeVariables(lambda, deployed.turn));
  const runtime = await openForCheck({ data: null, agents: undefined, policy: undefined });
  const token = await issuer.token(
    { tenant: 'acme', sub: 'ann', role: 'operator' },
    { expiresIn: '4h' },
  );
  return {
    title: 'local AWS',
    roles,
    call: (method, path, body) => call(emulator.url, deployed, token, { method, path, body }),
    kill: async (role) => killFunction(emulator.pid, stack, role),
    nudge: () => lambda.send(new InvokeCommand(deployed.sweeper)).catch(ignoreKilled),
    atRest: () => nothingOwed(runtime),
    stop: () => stop(runtime.store, issuer, emulator),
  };
}

/** A sweep whose worker was killed is made again by the next one. */
function ignoreKilled(error: unknown): void {
  if (!(error instanceof Error)) throw error;
}

async function stop(
  store: { close(): Promise<void> },
  issuer: Issuer,
  emulator: Emulator,
): Promise<void> {
  await store.close();
  await issuer.close();
  await emulator.stop();
}

/** Kills one process of a function; false when none runs at this moment. */
function killFunction(emulator: number, stack: string, role: string): boolean {
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || !isFunction(pid, emulator, `${stack}-${role}`)) continue;
    process.kill(pid, 'SIGKILL');
    return true;
  }
  return false;
}

/** True for a child of the emulator that runs a function of this name; what ended meanwhile is none. */
function isFunction(pid: number, emulator: number, prefix: string): boolean {
  try {
    const parent = /\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1];
    if (Number(parent) !== emulator) return false;
    const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
    return environment.some((line) => line.startsWith(`AWS_LAMBDA_FUNCTION_NAME=${prefix}`));
  } catch (error) {
    const code: unknown = Reflect.get(Object(error), 'code');
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'EACCES') return false;
    throw error;
  }
}

function call(
  url: string,
  deployed: Deployed,
  token: string,
  of: { readonly method: string; readonly path: string; readonly body: unknown },
): Promise<Reply | null> {
  return new Promise((resolve) => {
    const sent = request(
      new URL(of.path, url),
      {
        method: of.method,
        timeout: callMs,
        headers: {
          host: `${deployed.apiId}.execute-api.localhost`,
          'content-type': 'application/json',
          authorization: `Bearer ${token}`,
          prefer: 'respond-async',
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk) => chunks.push(chunk));
        response.on('error', () => resolve(null));
        response.on('end', () => resolve(replyOf(response.statusCode ?? 0, chunks)));
      },
    );
    sent.on('timeout', () => sent.destroy());
    sent.on('error', () => resolve(null));
    sent.end(of.body === undefined ? undefined : JSON.stringify(of.body));
  });
}

/** The gateway's own answers need not be JSON (ruling 23); the text is kept. */
function replyOf(status: number, chunks: readonly Buffer[]): Reply {
  const text = Buffer.concat(chunks).toString('utf8');
  try {
    return { status, body: JSON.parse(text) };
  } catch {
    return { status, body: { text } };
  }
}
