// Spans of turns as OpenTelemetry's own SDK exports them: live and replayed parts apart, no payload in any.
import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { generateText, isStepCount, tool, wrapLanguageModel } from 'ai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { modelEffects, toolEffects } from '../../src/integrations/ai-sdk/index.ts';
import { openTelemetry } from '../../src/integrations/otel/index.ts';
import type { Telemetry, TelemetryFields } from '../../src/ports/telemetry.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';
import { type Line, Talk } from './talk.ts';

const exporter = new InMemorySpanExporter();
const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
const tracer = provider.getTracer('test');

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
});
afterAll(() => context.disable());

/** Spans finished since the last question, in the order they were opened. */
function taken(): readonly ReadableSpan[] {
  const spans = exporter.getFinishedSpans();
  exporter.reset();
  return [...spans];
}

const named = (spans: readonly ReadableSpan[]) =>
  spans.map(({ name, attributes }) => [name, attributes['turnstone.replay']]);

const lines: readonly Line[] = [
  { calls: [['search', { query: 'secret tides' }]] },
  { calls: [['charge', { cents: 5 }]] },
  { text: 'Paid.' },
];

/** A loop with a search and a charge. */
function desk(talk: Talk, charge: () => Promise<{ id: string }>) {
  return agentOf(async (turn) => {
    const model = wrapLanguageModel({ model: talk.model, middleware: modelEffects(turn) });
    const tools = toolEffects(
      turn,
      {
        search: tool({
          inputSchema: z.object({ query: z.string() }),
          execute: async ({ query }) => ({ found: query }),
        }),
        charge: tool({ inputSchema: z.object({ cents: z.number() }), execute: charge }),
      },
      { search: { mutates: false }, charge: { recovery: 'idempotent' } },
    );
    const stopWhen = isStepCount(9);
    return (await generateText({ model, tools, prompt: 'Pay.', stopWhen })).text;
  });
}

onEachStore(
  'a turn killed and resumed leaves spans whose live and replayed parts are told apart [T7]',
  async (open) => {
    taken();
    const talk = new Talk(lines);
    let dies = true;
    const scene: Scene = new Scene(
      await open(),
      desk(talk, async () => {
        if (dies) scene.process.kill();
        return { id: 'charge-1' };
      }),
    );
    scene.world.telemetry = openTelemetry({ tracer });
    scene.restart();
    expect(await scene.deliver()).toBe('died');
    const before = taken();
    expect(named(before).slice(0, 3)).toEqual([
      ['chat talk-1', false],
      ['execute_tool search', false],
      ['chat talk-1', false],
    ]);
    dies = false;
    await scene.world.recover();
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'Paid.' });
    const after = taken();
    expect(named(after)).toEqual([
      ['chat talk-1', true],
      ['execute_tool search', true],
      ['chat talk-1', true],
      ['execute_tool charge', false],
      ['chat talk-1', false],
      ['turnstone.pass shop', false],
    ]);
    const pass = after.at(-1);
    expect(pass?.attributes).toMatchObject({
      'turnstone.pass.began': 'takeover',
      'turnstone.outcome': 'succeeded',
      'turnstone.turn.id': 't1',
      'gen_ai.conversation.id': 'order-7',
    });
    const parents = after.slice(0, -1).map((span) => span.parentSpanContext?.spanId);
    expect(new Set(parents)).toEqual(new Set([pass?.spanContext().spanId]));
    scene.restart();
    expect(await scene.conclude()).toMatchObject({ replayed: true });
    expect(named(taken())).toEqual([['invoke_agent shop', true]]);
    expect(talk.seen).toHaveLength(3);
  },
);

test('spans follow the conventions for GenAI, stand below the active span, and carry no payload', async () => {
  taken();
  const scene = new Scene(
    memoryStore(),
    desk(new Talk(lines), async () => ({ id: 'charge-1' })),
  );
  scene.world.telemetry = openTelemetry({ tracer });
  scene.restart();
  const above = tracer.startSpan('POST /pay');
  await context.with(trace.setSpan(context.active(), above), () => scene.conclude());
  above.end();
  const spans = taken();
  const [chat, search] = spans;
  expect(chat).toMatchObject({ name: 'chat talk-1', kind: SpanKind.CLIENT });
  expect(chat?.attributes).toMatchObject({
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'fake',
    'gen_ai.request.model': 'talk-1',
    'gen_ai.usage.input_tokens': 10,
    'gen_ai.usage.output_tokens': 5,
    'turnstone.effect.kind': 'model.complete',
    'turnstone.effect.attempt': 1,
    'turnstone.outcome': 'done',
    'turnstone.replay': false,
  });
  expect(search).toMatchObject({ name: 'execute_tool search', kind: SpanKind.INTERNAL });
  expect(search?.attributes).toMatchObject({
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'search',
    'gen_ai.tool.call.id': 'call-0-0',
  });
  const turn = spans.find(({ name }) => name === 'invoke_agent shop');
  expect(turn?.attributes).toMatchObject({
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.agent.name': 'shop',
    'turnstone.outcome': 'succeeded',
  });
  expect(turn?.parentSpanContext?.spanId).toBe(above.spanContext().spanId);
  expect(new Set(spans.map((span) => span.spanContext().traceId)).size).toBe(1);
  const said = JSON.stringify(
    spans.map(({ attributes, events, status }) => [attributes, events, status]),
  );
  for (const payload of ['secret tides', 'charge-1', 'Pay.', 'Paid.', 'cents'])
    expect(said).not.toContain(payload);
});

test('a failed attempt is an error of its span, its retry another span, and what perform opens stands below it', async () => {
  taken();
  let calls = 0;
  const outside = new Outside();
  const scene = new Scene(
    memoryStore(),
    agentOf((turn) =>
      turn.effect(
        outside.effect({
          recovery: 'idempotent',
          perform: async () => {
            tracer.startSpan('HTTP POST').end();
            calls += 1;
            if (calls === 1) throw new Error('socket hang up');
            return { id: calls };
          },
        }),
      ),
    ),
  );
  scene.world.telemetry = openTelemetry({ tracer });
  scene.restart();
  expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
  const spans = taken();
  const attempts = spans.filter(({ name }) => name === 'charge');
  expect(attempts.map(({ attributes, status }) => [attributes, status.code])).toMatchObject([
    [
      {
        'turnstone.effect.attempt': 1,
        'turnstone.effect.disposition': 'in_doubt',
        'error.type': 'effect_failed',
      },
      SpanStatusCode.ERROR,
    ],
    [{ 'turnstone.effect.attempt': 2, 'turnstone.outcome': 'done' }, SpanStatusCode.UNSET],
  ]);
  const below = spans.filter(({ name }) => name === 'HTTP POST');
  expect(below.map((span) => span.parentSpanContext?.spanId)).toEqual(
    attempts.map((span) => span.spanContext().spanId),
  );
});

test('a strict pass calls nobody, and its spans say so [T13]', async () => {
  const scene = new Scene(
    memoryStore(),
    desk(new Talk(lines), async () => ({ id: 'charge-1' })),
  );
  await scene.conclude();
  scene.world.telemetry = openTelemetry({ tracer });
  taken();
  expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  expect(named(taken())).toEqual([
    ['chat talk-1', true],
    ['execute_tool search', true],
    ['chat talk-1', true],
    ['execute_tool charge', true],
    ['chat talk-1', true],
    ['turnstone.pass shop', true],
  ]);
});

test('a sink that throws everywhere changes nothing of a turn, and runs no work twice', async () => {
  const boom = (): never => {
    throw new Error('the collector is gone');
  };
  const sinks: readonly Telemetry[] = [
    { emit: boom, open: boom },
    { emit: boom, open: () => ({ below: { emit: boom }, within: boom, end: boom }) },
    {
      emit: boom,
      open: () => ({
        below: { emit: boom },
        within: (work) => {
          work();
          return boom();
        },
        end: boom,
      }),
    },
  ];
  for (const sink of sinks) {
    const talk = new Talk(lines);
    let charged = 0;
    const scene = new Scene(
      memoryStore(),
      desk(talk, async () => {
        charged += 1;
        return { id: `charge-${charged}` };
      }),
    );
    scene.world.telemetry = sink;
    scene.restart();
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded', result: 'Paid.' });
    expect([charged, talk.seen.length]).toEqual([1, 3]);
  }
});

test('lines go on to the host, and are events of the span they were told in', async () => {
  taken();
  const told: (readonly [string, TelemetryFields])[] = [];
  const lines: Telemetry = { emit: (name, fields) => void told.push([name, fields]) };
  const scene = new Scene(
    memoryStore(),
    agentOf(async () => 'done'),
  );
  scene.world.telemetry = openTelemetry({ tracer, lines });
  scene.restart();
  await scene.conclude();
  const names = told.map(([name]) => name);
  expect(names).toContain('turn.committed');
  const events = taken().flatMap((span) => span.events.map(({ name }) => name));
  expect(events).toContain('turn.committed');
});
