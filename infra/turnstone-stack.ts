// One stack: tables, queues, key, functions, front door, alarms. Every grant names what it is for.

import { resolve } from 'node:path';
import type { StackProps } from 'aws-cdk-lib';
import { CfnOutput, Duration, RemovalPolicy, Stack, Validations } from 'aws-cdk-lib';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import type { Construct } from 'constructs';
import { limits } from '../src/protocol/limits.ts';
import { Alarms } from './alarms.ts';
import type { BedrockModel } from './bedrock-models.ts';
import { FrontDoor } from './front-door.ts';
import { HouseFunction } from './house-function.ts';
import type { Profile } from './profile.ts';
import { Queues } from './queues.ts';
import { Tables } from './tables.ts';

export interface TurnstoneStackProps extends StackProps {
  readonly profile: Profile;
  /** Issuer and audience of the tokens the API takes. */
  readonly issuer: string;
  readonly audience: readonly string[];
  /** Hosts HTTP effects may reach, `host[:port]` separated by commas; nothing by default. */
  readonly httpAllow: string;
  /** Cedar policies asked before every live attempt; empty for none. */
  readonly policy: string;
  /** What each tenant may spend in a period, empty for no ceiling. */
  readonly tenantBudget: string;
  /** Module of your own agents, a path; none by default. */
  readonly agents?: string | undefined;
  /** Variables for your own agents; none by default. */
  readonly agentsEnv?: Readonly<Record<string, string>>;
  /** Names of your own tables in this account and region that atomic members write; none by default. */
  readonly atomicTables: readonly string[];
  /** Models of Bedrock that your own agents ask; none by default. */
  readonly bedrockModels?: readonly BedrockModel[];
}

export class TurnstoneStack extends Stack {
  constructor(scope: Construct, id: string, props: TurnstoneStackProps) {
    super(scope, id, props);
    const { profile } = props;
    const tables = new Tables(this, 'Tables', profile);
    const queues = new Queues(this, 'Queues', profile);
    const key = new Key(this, 'Key', {
      description: 'Wraps the data keys of Turnstone',
      enableKeyRotation: true,
      removalPolicy: profile.disposable ? RemovalPolicy.DESTROY : RemovalPolicy.RETAIN,
    });
    const environment = this.#environment(tables, queues, key, props);
    const make = (name: string, entry: string, seconds: number): HouseFunction => {
      const made = new HouseFunction(this, name, {
        entry,
        seconds,
        profile,
        environment,
        agents: props.agents === undefined ? undefined : resolve(props.agents),
      });
      grant(made, tables, queues, key);
      if (props.atomicTables.length > 0) this.#lend(made, props.atomicTables);
      return made;
    };
    const api = make('Api', 'api', profile.functionSeconds);
    const turn = make('Turn', 'turn', profile.functionSeconds);
    const effector = make('Effector', 'effector', profile.functionSeconds);
    const relay = make('Relay', 'relay', 30);
    const sweeper = make('Sweeper', 'sweeper', 30);
    for (const runsAgents of [api, turn, effector]) {
      this.#lendModels(runsAgents, props.bedrockModels ?? []);
    }
    turn.function.addEventSource(
      new SqsEventSource(queues.inbox, {
        batchSize: limits.inboxBatch,
        reportBatchItemFailures: true,
      }),
    );
    effector.function.addEventSource(
      new SqsEventSource(queues.intents, { batchSize: 1, reportBatchItemFailures: true }),
    );
    for (const [{ role }, { queueArn }] of [
      [turn, queues.inbox],
      [effector, queues.intents],
    ] as const) {
      const actions = ['sqs:ChangeMessageVisibility'];
      role.addToPolicy(new PolicyStatement({ actions, resources: [queueArn] }));
    }
    new Rule(this, 'EveryMinute', {
      schedule: Schedule.rate(Duration.minutes(1)),
      targets: [new LambdaFunction(sweeper.function, { retryAttempts: 0 })],
    });
    const door = new FrontDoor(this, 'FrontDoor', {
      api: api.function,
      issuer: props.issuer,
      audience: props.audience,
      profile,
    });
    new Alarms(this, 'Alarms', queues, {
      Api: api.function,
      Turn: turn.function,
      Effector: effector.function,
      Relay: relay.function,
      Sweeper: sweeper.function,
    });
    new CfnOutput(this, 'Url', { value: door.httpApi.apiEndpoint });
    new CfnOutput(this, 'ApiId', { value: door.httpApi.apiId });
    new CfnOutput(this, 'SweeperName', { value: sweeper.function.functionName });
    new CfnOutput(this, 'TurnName', { value: turn.function.functionName });
    new CfnOutput(this, 'EventsUrl', { value: queues.events.queueUrl });
    this.#acknowledge(door);
  }

  /** Atomic members write the caller's own tables inside the journal's transaction (GR-13), and read none. */
  #lend({ role }: HouseFunction, names: readonly string[]): void {
    role.addToPolicy(
      new PolicyStatement({
        actions: [
          'dynamodb:PutItem',
          'dynamodb:UpdateItem',
          'dynamodb:DeleteItem',
          'dynamodb:ConditionCheckItem',
        ],
        resources: names.map((resourceName) =>
          this.formatArn({ service: 'dynamodb', resource: 'table', resourceName }),
        ),
      }),
    );
  }

  /** Converse and ConverseStream are gated by these two actions, on the models that were named and no other. */
  #lendModels({ role }: HouseFunction, models: readonly BedrockModel[]): void {
    if (models.length === 0) return;
    role.addToPolicy(
      new PolicyStatement({
        actions: ['bedrock:InvokeModel', 'bedrock:InvokeModelWithResponseStream'],
        resources: models.map((model) =>
          'arn' in model
            ? model.arn
            : this.formatArn({
                service: 'bedrock',
                account: '',
                resource: 'foundation-model',
                resourceName: model.id,
              }),
        ),
      }),
    );
  }

  #environment(
    tables: Tables,
    queues: Queues,
    key: Key,
    props: TurnstoneStackProps,
  ): Record<string, string> {
    const { profile } = props;
    return {
      ...props.agentsEnv,
      TURNSTONE_TABLE_DATA: tables.data.tableName,
      TURNSTONE_TABLE_WORK: tables.work.tableName,
      TURNSTONE_TABLE_KEYS: tables.keys.tableName,
      TURNSTONE_TABLE_LEDGER: tables.ledger.tableName,
      TURNSTONE_QUEUE_INBOX: queues.inbox.queueUrl,
      TURNSTONE_QUEUE_EVENTS: queues.events.queueUrl,
      TURNSTONE_QUEUE_INTENTS: queues.intents.queueUrl,
      TURNSTONE_KEY_ID: key.keyId,
      TURNSTONE_LEASE_MS: String(profile.leaseMs),
      TURNSTONE_TIMEOUT_MS: String(profile.functionSeconds * 1000),
      TURNSTONE_RESERVE_MS: String(profile.reserveMs),
      TURNSTONE_HTTP_ALLOW: props.httpAllow,
      TURNSTONE_POLICY: props.policy,
      TURNSTONE_TENANT_BUDGET: props.tenantBudget,
    };
  }

  /** cdk-nag findings that stand, each with its reason. */
  #acknowledge(door: FrontDoor): void {
    for (const route of door.openRoutes) {
      Validations.of(route).acknowledge({
        id: 'AwsSolutions-APIG4',
        reason:
          'The service says nothing about tenants here: health, the API description and a start page.',
      });
    }
  }
}

/** Least grants: items of the tables, sends to the queues, the data keys of one CMK under a named context. */
function grant(made: HouseFunction, tables: Tables, queues: Queues, key: Key): void {
  const { role } = made;
  const items = [
    'dynamodb:BatchGetItem',
    'dynamodb:GetItem',
    'dynamodb:Query',
    'dynamodb:PutItem',
    'dynamodb:UpdateItem',
    'dynamodb:ConditionCheckItem',
  ];
  role.addToPolicy(
    new PolicyStatement({
      actions: [...items, 'dynamodb:DeleteItem'],
      resources: [tables.data.tableArn, tables.work.tableArn],
    }),
  );
  role.addToPolicy(
    new PolicyStatement({
      actions: items,
      resources: [tables.keys.tableArn, tables.ledger.tableArn],
    }),
  );
  role.addToPolicy(
    new PolicyStatement({
      actions: ['sqs:SendMessage'],
      resources: [queues.inbox.queueArn, queues.events.queueArn, queues.intents.queueArn],
    }),
  );
  role.addToPolicy(
    new PolicyStatement({
      actions: ['kms:Decrypt', 'kms:GenerateDataKey'],
      resources: [key.keyArn],
      conditions: {
        'ForAllValues:StringEquals': {
          'kms:EncryptionContextKeys': ['tenant', 'keyId', 'generation'],
        },
        Null: { 'kms:EncryptionContext:tenant': 'false' },
      },
    }),
  );
}
