// A Lambda function with the house's defaults: one ESM bundle by esbuild, arm64, Node 24, its own log group.
import { fileURLToPath } from 'node:url';
import { Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture, Runtime, Tracing } from 'aws-cdk-lib/aws-lambda';
import { NodejsFunction, OutputFormat } from 'aws-cdk-lib/aws-lambda-nodejs';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import type { Profile } from './profile.ts';

const engine = 'node_modules/@cedar-policy/cedar-wasm/nodejs/cedar_wasm_bg.wasm';
const root = fileURLToPath(new URL('..', import.meta.url));

export interface HouseFunctionProps {
  /** File below `functions/`, without its ending. */
  readonly entry: string;
  readonly seconds: number;
  readonly profile: Profile;
  /** Module of your own agents, absolute; none by default. */
  readonly agents?: string | undefined;
  readonly environment: Readonly<Record<string, string>>;
}

export class HouseFunction extends Construct {
  readonly function: NodejsFunction;
  readonly role: Role;

  constructor(scope: Construct, id: string, props: HouseFunctionProps) {
    super(scope, id);
    const { disposable } = props.profile;
    const logGroup = new LogGroup(this, 'Log', {
      retention: RetentionDays.ONE_MONTH,
      removalPolicy: disposable ? RemovalPolicy.DESTROY : RemovalPolicy.RETAIN,
    });
    this.role = new Role(this, 'Role', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    this.role.addToPolicy(
      new PolicyStatement({
        actions: ['logs:CreateLogStream', 'logs:PutLogEvents'],
        resources: [logGroup.logGroupArn],
      }),
    );
    this.function = new NodejsFunction(this, 'Function', {
      entry: `${root}functions/${props.entry}.ts`,
      projectRoot: root,
      depsLockFilePath: `${root}package-lock.json`,
      handler: 'handler',
      runtime: Runtime.NODEJS_24_X,
      architecture: Architecture.ARM_64,
      memorySize: 512,
      timeout: Duration.seconds(props.seconds),
      role: this.role,
      logGroup,
      tracing: Tracing.DISABLED,
      environment: { ...props.environment, NODE_OPTIONS: '--enable-source-maps' },
      bundling: {
        format: OutputFormat.ESM,
        target: 'node24',
        minify: true,
        sourceMap: false,
        mainFields: ['module', 'main'],
        externalModules: [],
        ...(props.agents === undefined
          ? {}
          : { esbuildArgs: { '--alias:turnstone/agents': props.agents } }),
        banner: [
          "import{createRequire as __cr}from'node:module';import{dirname as __dn}from'node:path'",
          "import{fileURLToPath as __fp}from'node:url';const require=__cr(import.meta.url)",
          'const __dirname=__dn(__fp(import.meta.url));',
        ].join(';'),
        // Cedar's engine is read beside the bundle with the first question to a policy, never before.
        commandHooks: {
          beforeInstall: () => [],
          beforeBundling: () => [],
          afterBundling: (input, output) => [`cp "${input}/${engine}" "${output}/"`],
        },
      },
    });
  }

  get region(): string {
    return Stack.of(this).region;
  }
}
