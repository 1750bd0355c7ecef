// What a person must hear of: old messages, an outbox that lags, dead letters, failing functions.
import { Duration } from 'aws-cdk-lib';
import type { IMetric } from 'aws-cdk-lib/aws-cloudwatch';
import { Alarm, ComparisonOperator, Metric, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { Construct } from 'constructs';
import type { Queues } from './queues.ts';

export class Alarms extends Construct {
  constructor(
    scope: Construct,
    id: string,
    queues: Queues,
    functions: Readonly<Record<string, NodejsFunction>>,
  ) {
    super(scope, id);
    this.#over(
      'InboxAge',
      queues.inbox.metricApproximateAgeOfOldestMessage(),
      900,
      'a turn waits in the inbox for 15 minutes',
    );
    this.#over(
      'EventsAge',
      queues.events.metricApproximateAgeOfOldestMessage(),
      3_600,
      'nobody takes events for an hour',
    );
    this.#over(
      'InboxDead',
      queues.inboxDead.metricApproximateNumberOfMessagesVisible(),
      0,
      'a turn message was dead-lettered',
    );
    this.#over(
      'EventsDead',
      queues.eventsDead.metricApproximateNumberOfMessagesVisible(),
      0,
      'an event was dead-lettered',
    );
    this.#over(
      'IntentsAge',
      queues.intents.metricApproximateAgeOfOldestMessage(),
      900,
      'an act waits for the effector for 15 minutes',
    );
    this.#over(
      'IntentsDead',
      queues.intentsDead.metricApproximateNumberOfMessagesVisible(),
      0,
      'an act was dead-lettered',
    );
    const lag = new Metric({
      namespace: 'Turnstone',
      metricName: 'OutboxLagMs',
      statistic: 'Maximum',
      period: Duration.minutes(5),
    });
    this.#over('OutboxLag', lag, 300_000, 'work is unsent or stranded for five minutes');
    for (const [name, fn] of Object.entries(functions)) {
      this.#over(
        `${name}Errors`,
        fn.metricErrors({ period: Duration.minutes(5) }),
        0,
        `function ${name} fails`,
      );
    }
  }

  #over(name: string, metric: IMetric, threshold: number, alarmDescription: string): void {
    new Alarm(this, name, {
      metric,
      threshold,
      alarmDescription,
      evaluationPeriods: 1,
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
      treatMissingData: TreatMissingData.NOT_BREACHING,
    });
  }
}
