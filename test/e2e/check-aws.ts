// `npx turnstone check-deploy --aws` as a release script runs it, over the stack that a test has deployed.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { LambdaClient, storeVariables } from '../../scripts/lambda-client.ts';
import { emulatorEnv } from '../../scripts/local-aws.ts';

const command = fileURLToPath(new URL('../../scripts/turnstone.mjs', import.meta.url));

export interface Checked {
  readonly status: number | null;
  readonly out: string;
  readonly error: string;
}

/** A check of the store that a function of the stack uses; `variables` are those of the build's own agents. */
export async function checkerOnAws(
  url: string,
  functionName: string,
  variables: Readonly<Record<string, string>>,
): Promise<(...args: readonly string[]) => Checked> {
  const aws = emulatorEnv(url);
  const store = await storeVariables(new LambdaClient(aws), functionName);
  const env = { ...process.env, ...aws, ...store, ...variables, NO_COLOR: '1' };
  return (...args) => {
    const all = [command, 'check-deploy', '--aws', ...args];
    const ran = spawnSync(process.execPath, all, { encoding: 'utf8', env });
    return { status: ran.status, out: ran.stdout, error: ran.stderr };
  };
}
