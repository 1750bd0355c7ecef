// The HTTP API: a JWT authorizer in front of everything but what the service says about itself.
import { RemovalPolicy } from 'aws-cdk-lib';
import { CfnStage, HttpApi, HttpMethod, type HttpRoute } from 'aws-cdk-lib/aws-apigatewayv2';
import { HttpJwtAuthorizer } from 'aws-cdk-lib/aws-apigatewayv2-authorizers';
import { HttpLambdaIntegration } from 'aws-cdk-lib/aws-apigatewayv2-integrations';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import type { Profile } from './profile.ts';

export interface FrontDoorProps {
  readonly api: NodejsFunction;
  readonly issuer: string;
  readonly audience: readonly string[];
  readonly profile: Profile;
}

export class FrontDoor extends Construct {
  readonly httpApi: HttpApi;
  /** Routes without an authorizer. */
  readonly openRoutes: HttpRoute[] = [];

  constructor(scope: Construct, id: string, props: FrontDoorProps) {
    super(scope, id);
    const integration = new HttpLambdaIntegration('Api', props.api);
    const authorizer = new HttpJwtAuthorizer('Jwt', props.issuer, {
      jwtAudience: [...props.audience],
    });
    this.httpApi = new HttpApi(this, 'HttpApi');
    this.httpApi.addRoutes({
      path: '/{proxy+}',
      methods: [HttpMethod.ANY],
      integration,
      authorizer,
    });
    for (const path of ['/healthz', '/openapi.json', '/']) {
      this.openRoutes.push(
        ...this.httpApi.addRoutes({ path, methods: [HttpMethod.GET], integration }),
      );
    }
    this.#logAccess(props.profile);
  }

  #logAccess(profile: Profile): void {
    const log = new LogGroup(this, 'Access', {
      retention: RetentionDays.ONE_MONTH,
      removalPolicy: profile.disposable ? RemovalPolicy.DESTROY : RemovalPolicy.RETAIN,
    });
    const stage = this.httpApi.defaultStage?.node.defaultChild;
    if (!(stage instanceof CfnStage)) throw new Error('the HTTP API has no default stage');
    const format = JSON.stringify({
      at: '$context.requestTime',
      route: '$context.routeKey',
      status: '$context.status',
      requestId: '$context.requestId',
      latencyMs: '$context.responseLatency',
    });
    stage.accessLogSettings = { destinationArn: log.logGroupArn, format };
  }
}
