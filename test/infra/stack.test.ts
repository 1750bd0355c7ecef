// The template is what we promise: no emulator enforces these, so they are asserted here.
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { App, Validations } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { AwsSolutionsChecks } from 'cdk-nag';
import { build } from 'esbuild';
import { beforeAll, expect, test } from 'vitest';
import { bedrockModels } from '../../infra/bedrock-models.ts';
import { ownEnvironment } from '../../infra/own-environment.ts';
import { profileOf } from '../../infra/profile.ts';
import { TurnstoneStack } from '../../infra/turnstone-stack.ts';

let template: Template;

function stackIn(
  app: App,
  atomicTables: readonly string[] = [],
  models: string = '',
): TurnstoneStack {
  return new TurnstoneStack(app, 'Turnstone', {
    profile: profileOf('standard'),
    issuer: 'https://issuer.example.com',
    audience: ['turnstone'],
    httpAllow: 'api.example.com',
    policy: '',
    tenantBudget: '',
    atomicTables,
    bedrockModels: bedrockModels(models),
  });
}

beforeAll(() => {
  template = Template.fromStack(stackIn(new App({ context: { 'aws:cdk:bundling-stacks': [] } })));
});

type Properties = Record<string, unknown>;

function resources(
  type: string,
): Record<string, { Properties: Properties; DeletionPolicy?: string }> {
  return template.findResources(type) as never;
}

test('four tables, on demand, keyed by pk and sk, without index or stream', () => {
  const tables = Object.values(resources('AWS::DynamoDB::GlobalTable'));
  expect(tables).toHaveLength(4);
  for (const { Properties: properties } of tables) {
    expect(properties.BillingMode).toBe('PAY_PER_REQUEST');
    expect(properties).not.toHaveProperty('GlobalSecondaryIndexes');
    expect(properties).not.toHaveProperty('LocalSecondaryIndexes');
    expect(properties).not.toHaveProperty('StreamSpecification');
    expect(properties.KeySchema).toEqual([
      { AttributeName: 'pk', KeyType: 'HASH' },
      { AttributeName: 'sk', KeyType: 'RANGE' },
    ]);
  }
});

test('T12 the key table has no recovery and its policy refuses every copy; the others recover', () => {
  const tables = Object.entries(resources('AWS::DynamoDB::GlobalTable'));
  const replica = (properties: Properties): Properties =>
    (properties.Replicas as Properties[])[0] ?? {};
  for (const [name, { Properties: properties, DeletionPolicy: policy }] of tables) {
    const recovery = replica(properties).PointInTimeRecoverySpecification as Properties;
    const isKeys = name.includes('Keys');
    expect(recovery.PointInTimeRecoveryEnabled, name).toBe(!isKeys);
    expect(replica(properties).DeletionProtectionEnabled, name).toBe(true);
    expect(policy).toBe('Retain');
    expect('ResourcePolicy' in replica(properties), name).toBe(isKeys);
    if (!isKeys) continue;
    const text = JSON.stringify(replica(properties).ResourcePolicy);
    for (const action of [
      'CreateBackup',
      'ExportTableToPointInTime',
      'RestoreTableToPointInTime',
    ]) {
      expect(text).toContain(`dynamodb:${action}`);
    }
    expect(text).toContain('"Effect":"Deny"');
  }
});

test('FIFO queues order by group, redrive to a dead-letter queue, and outlast six timeouts of their function', () => {
  const queues = Object.values(resources('AWS::SQS::Queue'));
  expect(queues).toHaveLength(6);
  for (const { Properties: properties } of queues) expect(properties.FifoQueue).toBe(true);
  const { functionSeconds } = profileOf('standard');
  template.hasResourceProperties('AWS::SQS::Queue', {
    FifoThroughputLimit: 'perMessageGroupId',
    DeduplicationScope: 'messageGroup',
    VisibilityTimeout: 6 * functionSeconds,
    RedrivePolicy: Match.objectLike({ maxReceiveCount: 25 }),
  });
  template.hasResourceProperties('AWS::Lambda::EventSourceMapping', {
    BatchSize: 10,
    FunctionResponseTypes: ['ReportBatchItemFailures'],
  });
});

test('functions are Node 24 on arm64 with their own retained logs; a lease outlives them', () => {
  const functions = Object.values(resources('AWS::Lambda::Function'));
  expect(functions).toHaveLength(5);
  for (const { Properties: properties } of functions) {
    expect(properties).toMatchObject({ Runtime: 'nodejs24.x', Architectures: ['arm64'] });
    expect(properties.LoggingConfig).toHaveProperty('LogGroup');
    const variables = (properties.Environment as Properties).Variables as Record<string, string>;
    expect(Number(variables.TURNSTONE_LEASE_MS)).toBeGreaterThan(Number(properties.Timeout) * 1000);
  }
  for (const { Properties: properties } of Object.values(resources('AWS::Logs::LogGroup'))) {
    expect(properties.RetentionInDays).toBe(30);
  }
});

test('no grant is wider than its use: no wildcard action or resource, keys only under a named context', () => {
  const policies = Object.values(resources('AWS::IAM::Policy'));
  expect(policies.length).toBeGreaterThanOrEqual(4);
  for (const { Properties: properties } of policies) {
    const { Statement: statements } = properties.PolicyDocument as { Statement: Properties[] };
    for (const statement of statements) {
      const actions = [statement.Action].flat() as string[];
      expect(actions.filter((action) => action.includes('*'))).toEqual([]);
      expect(statement.Resource).not.toBe('*');
      if (!actions.some((action) => action.startsWith('kms:'))) continue;
      expect(statement.Condition).toMatchObject({
        Null: { 'kms:EncryptionContext:tenant': 'false' },
      });
    }
  }
});

test('T9 atomic members write the tables that were named, and no function reads or scans them', () => {
  const app = new App({ context: { 'aws:cdk:bundling-stacks': [] } });
  const lending = Template.fromStack(stackIn(app, ['ledger-postings']));
  const statements = Object.values(lending.findResources('AWS::IAM::Policy')).flatMap(
    (policy) => (policy as { Properties: Properties }).Properties.PolicyDocument,
  ) as { Statement: Properties[] }[];
  const named = statements
    .flatMap(({ Statement }) => Statement)
    .filter(({ Resource }) => JSON.stringify(Resource).includes('table/ledger-postings'));
  expect(named).toHaveLength(5);
  for (const { Action } of named) {
    expect([Action].flat().sort()).toEqual([
      'dynamodb:ConditionCheckItem',
      'dynamodb:DeleteItem',
      'dynamodb:PutItem',
      'dynamodb:UpdateItem',
    ]);
  }
  expect(JSON.stringify(template.toJSON())).not.toContain('ledger-postings');
});

test('models of Bedrock are asked by the functions that run agents, on the named ARNs and no other', () => {
  const profile = 'arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.acme.large-v1:0';
  const named = (app: App) => stackIn(app, [], `acme.large-v1:0,${profile}`);
  const lending = Template.fromStack(
    named(new App({ context: { 'aws:cdk:bundling-stacks': [] } })),
  );
  const policies = Object.entries(lending.findResources('AWS::IAM::Policy')) as [
    string,
    { Properties: { PolicyDocument: { Statement: Properties[] } } },
  ][];
  const grants = policies.flatMap(([name, { Properties: properties }]) =>
    properties.PolicyDocument.Statement.filter(({ Action }) =>
      JSON.stringify(Action).includes('bedrock:'),
    ).map((statement) => ({ name: name.replace(/Role.*/, ''), statement })),
  );
  expect(grants.map(({ name }) => name).sort()).toEqual(['Api', 'Effector', 'Turn']);
  for (const { statement } of grants) {
    expect(statement.Action).toEqual([
      'bedrock:InvokeModel',
      'bedrock:InvokeModelWithResponseStream',
    ]);
    const [model, other] = statement.Resource as [{ 'Fn::Join': [string, unknown[]] }, string];
    expect(model['Fn::Join'][1].at(-1)).toBe('::foundation-model/acme.large-v1:0');
    expect(other).toBe(profile);
  }
  expect(JSON.stringify(template.toJSON())).not.toContain('bedrock');
  expect(findings(() => undefined, named)).not.toContain('AwsSolutions-');
});

test.each([
  ['*', 'the id or the ARN of a model'],
  ['arn:aws:bedrock:eu-west-1::foundation-model/*', 'the id or the ARN of a model'],
  ['arn:aws:s3:::bucket', 'the id or the ARN of a model'],
  ['large', 'the id or the ARN of a model'],
  ['eu.acme.large-v1:0', "an inference profile's ARN"],
])('a grant on the model %s is refused before anything is made', (entry, expected) => {
  expect(() => bedrockModels(`acme.small,${entry}`)).toThrow(`expected ${expected}`);
});

test('the key rotates, stays, and every route but the public three asks for a token', () => {
  template.hasResource('AWS::KMS::Key', {
    DeletionPolicy: 'Retain',
    Properties: { EnableKeyRotation: true },
  });
  const routes = Object.values(resources('AWS::ApiGatewayV2::Route'));
  const open = routes.filter(
    ({ Properties: properties }) => properties.AuthorizationType !== 'JWT',
  );
  expect(open.map(({ Properties: properties }) => properties.RouteKey).sort()).toEqual([
    'GET /',
    'GET /healthz',
    'GET /openapi.json',
  ]);
  template.hasResourceProperties('AWS::ApiGatewayV2::Authorizer', {
    AuthorizerType: 'JWT',
    JwtConfiguration: { Issuer: 'https://issuer.example.com', Audience: ['turnstone'] },
  });
});

test('alarms watch age, lag, dead letters and errors', () => {
  const names = Object.keys(resources('AWS::CloudWatch::Alarm'));
  for (const word of [
    'InboxAge',
    'EventsAge',
    'InboxDead',
    'EventsDead',
    'OutboxLag',
    'TurnErrors',
    'ApiErrors',
  ]) {
    expect(
      names.some((name) => name.includes(word)),
      word,
    ).toBe(true);
  }
});

/** Findings of the AWS Solutions pack over an app. */
function findings(
  change: (stack: TurnstoneStack) => void,
  make: (app: App) => TurnstoneStack = stackIn,
): string {
  const app = new App({
    outdir: mkdtempSync(join(tmpdir(), 'turnstone-nag-')),
    context: { 'aws:cdk:bundling-stacks': [], '@aws-cdk/core:validationReportJson': true },
  });
  change(make(app));
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  const said: string[] = [];
  const { error } = console;
  console.error = (...words: unknown[]) => {
    said.push(words.join(' '));
  };
  try {
    app.synth();
  } catch (thrown) {
    said.push(String(thrown));
  } finally {
    console.error = error;
    process.exitCode = 0;
  }
  return said.join('\n');
}

test('cdk-nag finds nothing but what is acknowledged with a reason, and would find a planted queue', async () => {
  const { Queue } = await import('aws-cdk-lib/aws-sqs');
  expect(findings((stack) => new Queue(stack, 'Planted'))).toContain('AwsSolutions-SQS');
  expect(findings(() => undefined)).not.toContain('AwsSolutions-');
});

test('own code in a function bundle stays under 400 KB without the AWS SDK (the aim is 90)', async () => {
  const made = await build({
    entryPoints: ['functions/api.ts', 'functions/turn.ts'],
    bundle: true,
    minify: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    mainFields: ['module', 'main'],
    metafile: true,
    write: false,
    outdir: join(tmpdir(), 'turnstone-size'),
  });
  for (const [name, output] of Object.entries(made.metafile.outputs)) {
    const own = Object.entries(output.inputs)
      .filter(
        ([path]) =>
          !/node_modules\/(?:@aws-sdk|@smithy|@aws-crypto|@aws|tslib|fast-xml-parser|strnum|uuid|bowser)\//.test(
            path,
          ),
      )
      .reduce((sum, [, { bytesInOutput }]) => sum + bytesInOutput, 0);
    expect(own, name).toBeLessThan(400 * 1024);
    expect(own, name).toBeGreaterThan(10 * 1024);
  }
});

test('the client of Bedrock is in no bundle that asks no model, and is loaded on first use where one does', async () => {
  const kinds = async (entryPoints: string[]): Promise<readonly string[]> => {
    const { metafile } = await build({
      entryPoints,
      bundle: true,
      platform: 'node',
      format: 'esm',
      target: 'node24',
      mainFields: ['module', 'main'],
      metafile: true,
      write: false,
      outdir: join(tmpdir(), 'turnstone-bedrock'),
    });
    const found = Object.entries(metafile.inputs)
      .filter(([path]) => !path.includes('node_modules'))
      .flatMap(([, { imports }]) => imports)
      .filter(({ path }) => path.includes('client-bedrock-runtime'));
    return found.map(({ kind }) => kind);
  };
  expect(await kinds(['functions/api.ts', 'functions/turn.ts', 'src/index.ts'])).toEqual([]);
  expect(await kinds(['src/adapters/bedrock/index.ts'])).toEqual(['dynamic-import']);
});

test('the profile refuses figures that contradict each other', () => {
  expect(() => profileOf('long')).toThrow('expected standard or short');
  expect(readFileSync('infra/profile.ts', 'utf8')).toContain(
    'a lease outlives the longest invocation',
  );
});

test('own agents get their variables in every function; bad pairs and names of ours are refused', () => {
  const app = new App({ context: { 'aws:cdk:bundling-stacks': [] } });
  const made = Template.fromStack(
    new TurnstoneStack(app, 'Own', {
      profile: profileOf('standard'),
      issuer: 'https://issuer.example.com',
      audience: ['turnstone'],
      httpAllow: '',
      policy: '',
      tenantBudget: '',
      agents: 'src/examples/checkout.ts',
      agentsEnv: ownEnvironment('SHOP_URL=https://shop.example.com/?a=b,SALES_TABLE=sales'),
      atomicTables: ['sales'],
    }),
  );
  const functions = Object.values(made.findResources('AWS::Lambda::Function'));
  expect(functions).toHaveLength(5);
  for (const { Properties } of functions)
    expect(Properties.Environment.Variables).toMatchObject({
      SHOP_URL: 'https://shop.example.com/?a=b',
      SALES_TABLE: 'sales',
    });
  const refusals: readonly [string, RegExp][] = [
    ['SHOP_URL', /NAME=value pairs/],
    ['1=2', /NAME=value pairs/],
    ['TURNSTONE_TABLE_KEYS=mine', /a name of your own/],
    ['AWS_REGION=x', /a name of your own/],
    ['A=1,A=2', /A is there twice/],
  ];
  for (const [text, why] of refusals) expect(() => ownEnvironment(text), text).toThrow(why);
  expect(ownEnvironment(',')).toEqual({});
});
