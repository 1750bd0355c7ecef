// The sweeper function: every minute, whatever nobody drives; and the figures the alarms watch.
import middy from '@middy/core';
import type { SweepReport } from '../src/runtime/sweep.ts';
import { sweep } from '../src/runtime/sweep.ts';
import { lambdaRuntime } from './wiring.ts';

const runtime = lambdaRuntime();

async function work(): Promise<SweepReport> {
  const report = await sweep(runtime);
  const { rows, stranded, woken, relayed, oldestMs } = report;
  process.stdout.write(
    `${JSON.stringify({
      _aws: {
        Timestamp: runtime.clock.now(),
        CloudWatchMetrics: [
          {
            Namespace: 'Turnstone',
            Dimensions: [[]],
            Metrics: [
              { Name: 'OutboxLagMs', Unit: 'Milliseconds' },
              { Name: 'StrandedTurns', Unit: 'Count' },
            ],
          },
        ],
      },
      OutboxLagMs: oldestMs,
      StrandedTurns: stranded,
      rows,
      woken,
      relayed,
    })}\n`,
  );
  return report;
}

export const handler = middy<unknown, SweepReport>().handler(work);
