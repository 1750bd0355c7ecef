// `cdk deploy`: context names the profile, the token issuer and audience, and the hosts effects may reach.
import { readFileSync } from 'node:fs';
import { App, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { bedrockModels } from './bedrock-models.ts';
import { ownEnvironment } from './own-environment.ts';
import { profileOf } from './profile.ts';
import { TurnstoneStack } from './turnstone-stack.ts';

const app = new App();
const context = (name: string, standard?: string): string => {
  const value: unknown = app.node.tryGetContext(name) ?? standard;
  if (typeof value !== 'string' || value === '')
    throw new Error(`context ${name}: expected a text, e.g. -c ${name}=...`);
  return value;
};

/** Cedar policies from the file that context `policy` names, small enough for a function's environment. */
function policyText(): string {
  const file: unknown = app.node.tryGetContext('policy');
  if (typeof file !== 'string' || file === '') return '';
  const text = readFileSync(file, 'utf8');
  if (Buffer.byteLength(text) > 3_000) throw new Error(`${file}: expected at most 3000 bytes`);
  return text;
}

/** Names in a context, separated by commas; none by default. */
function listed(name: string): readonly string[] {
  const value: unknown = app.node.tryGetContext(name) ?? '';
  if (typeof value !== 'string') throw new Error(`context ${name}: expected names with commas`);
  return value.split(',').filter((entry) => entry !== '');
}

new TurnstoneStack(app, context('stack', 'Turnstone'), {
  profile: profileOf(context('profile', 'standard')),
  issuer: context('issuer', 'https://issuer.example.com'),
  audience: context('audience', 'turnstone').split(','),
  httpAllow: app.node.tryGetContext('httpAllow') ?? '',
  policy: policyText(),
  tenantBudget: app.node.tryGetContext('tenantBudget') ?? '',
  agents: app.node.tryGetContext('agents'),
  agentsEnv: ownEnvironment(context('agentsEnv', ',')),
  atomicTables: listed('atomicTables'),
  bedrockModels: bedrockModels(app.node.tryGetContext('bedrockModels') ?? ''),
});
Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
