// Powertools' own logger, metrics and tracer take what a turn tells, as they are.
import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics } from '@aws-lambda-powertools/metrics';
import { Tracer } from '@aws-lambda-powertools/tracer';
import xray from 'aws-xray-sdk-core';
import { expect, test } from 'vitest';
import { type PowertoolsTracer, powertools } from '../../../src/integrations/powertools/index.ts';
import { agentOf, Outside, Scene } from '../../simulation/scene.ts';
import { memoryStore } from '../../stores.ts';

/** The lines a logger writes, as it writes them. */
function heard(): { logger: Logger; items: () => readonly Record<string, unknown>[] } {
  const written: string[] = [];
  const logger = new Logger({ serviceName: 'shop' });
  const write = (line: string) => void written.push(line);
  Reflect.set(logger, 'console', { info: write, warn: write, error: write });
  return { logger, items: () => written.map((line) => JSON.parse(line)) };
}

/** The metrics of a turn's life, as the embedded metric format has them. */
const figures = (metrics: Metrics) => {
  const { _aws, service, executionEnvironment, ...rest } = metrics.serializeMetrics() as Record<
    string,
    unknown
  >;
  return rest;
};

function failingOnce() {
  const outside = new Outside();
  return agentOf((turn) =>
    turn.effect(
      outside.effect({
        recovery: 'idempotent',
        cost: { tokens: 4 },
        perform: async () => {
          outside.requests += 1;
          if (outside.requests === 1) throw new Error('socket hang up');
          return { id: outside.requests };
        },
      }),
    ),
  );
}

test('lines become log items, and what happened becomes counts', async () => {
  const { logger, items } = heard();
  const metrics = new Metrics({ namespace: 'turnstone', serviceName: 'shop' });
  const scene = new Scene(memoryStore(), failingOnce());
  scene.world.telemetry = powertools({ logger, metrics });
  scene.restart();
  await scene.conclude();
  await scene.conclude();
  await scene.strict();
  expect(items()).toContainEqual(
    expect.objectContaining({
      level: 'INFO',
      message: 'turn.committed',
      event: 'turn.committed',
      threadId: 'order-7',
      turnId: 't1',
    }),
  );
  expect(figures(metrics)).toMatchObject({
    TurnSucceeded: 1,
    TurnReplayed: 1,
    TurnCommitted: 1,
    EffectAttempt: [1, 1],
    EffectAttemptFailed: 1,
    EffectReplayed: 1,
    EffectTokens: [4, 4],
  });
});

test('what failed is a warning, and what is an error is one', () => {
  const { logger, items } = heard();
  const telemetry = powertools({ logger });
  telemetry.emit('relay.failed', { threadId: 'a', reason: 'throttled' });
  telemetry.emit('lease.lost', { turnId: 't1', epoch: 2 });
  telemetry.emit('error.orphaned_result', { id: 'x' });
  expect(items().map(({ level, message }) => [level, message])).toEqual([
    ['WARN', 'relay.failed'],
    ['WARN', 'lease.lost'],
    ['ERROR', 'error.orphaned_result'],
  ]);
});

test('subsegments of X-Ray tell live from replayed, nest, and are closed', async () => {
  const segment = new xray.Segment('lambda');
  const tracer: PowertoolsTracer = { isTracingEnabled: () => true, getSegment: () => segment };
  const scene = new Scene(memoryStore(), failingOnce());
  scene.world.telemetry = powertools({ tracer });
  scene.restart();
  await scene.conclude();
  await scene.strict();
  const told: unknown[] = [];
  const walk = (above: xray.Segment | xray.Subsegment, depth: number): void => {
    for (const each of above.subsegments ?? []) {
      const notes: unknown = Reflect.get(each, 'annotations');
      told.push([
        depth,
        each.name,
        Reflect.get(Object(notes), 'turnstone_replay'),
        each.isClosed(),
      ]);
      walk(each, depth + 1);
    }
  };
  walk(segment, 0);
  expect(told).toEqual([
    [0, 'turn shop', false, true],
    [1, 'pass shop', false, true],
    [2, 'attempt charge', false, true],
    [2, 'attempt charge', false, true],
    [0, 'pass shop', true, true],
    [1, 'replay charge', true, true],
  ]);
});

test('the real tracer fits, and outside Lambda it traces nothing', async () => {
  const scene = new Scene(memoryStore(), failingOnce());
  scene.world.telemetry = powertools({ tracer: new Tracer({ serviceName: 'shop' }) });
  scene.restart();
  expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
});
