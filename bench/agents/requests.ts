// What a turn of ten steps asks of its store: Turnstone and LangGraph's own saver on the same SQLite, and the
// requests `@aws/durable-execution-sdk-js` sends to its service, counted at a stub of it.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type DurableExecutionClient,
  type DurableExecutionInvocationInput,
  StepSemantics,
  withDurableExecution,
} from '@aws/durable-execution-sdk-js';
import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
import { openSqliteStore } from '../../src/adapters/sqlite/open-sqlite-store.ts';
import { systemClock, systemEntropy } from '../../src/adapters/system/system-clock.ts';
import { tenantId, threadId, turnId } from '../../src/protocol/ids.ts';
import { defineTurnAgent } from '../../src/runtime/agent-definition.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import { heldQueues } from '../../src/testing/held-queue.ts';
import { MemoryVault } from '../../src/testing/memory-vault.ts';
import { openSaver } from './sqlite-for-langgraph.ts';

export const steps = 10;

/** One turn: what its store was asked, and what the act of each step answered, in order. */
export interface Asked {
  readonly reads: number;
  readonly writes: number;
  readonly answers: readonly string[];
}

/** A contender that runs one turn a call, each on a thread of its own. */
export interface TenSteps {
  turn(): Promise<Asked>;
  close(): Promise<void>;
}

/** Turnstone: ten keyed effects, each announced durably before it acts. */
export function turnstoneSteps(path: string): TenSteps {
  const asked = { reads: 0, writes: 0 };
  const store = openSqliteStore({
    path,
    names: { secret: async () => new Uint8Array(32).fill(7) },
    sleep: (ms) => systemClock.sleep(ms),
    random: Math.random,
    onRequest: ({ writes }) => {
      if (writes === 0) asked.reads += 1;
      else asked.writes += 1;
    },
  });
  const agent = defineTurnAgent({
    name: 'ten',
    run: async (context) => {
      const answers: string[] = [];
      for (let n = 0; n < steps; n += 1) {
        const perform = async () => ({ id: `act-${n}` });
        const kind = 'act';
        const done = await context.effect({ kind, args: { n }, recovery: 'idempotent', perform });
        answers.push(done.id);
      }
      return answers;
    },
  });
  const runtime = {
    store,
    vault: new MemoryVault(),
    queues: heldQueues(),
    clock: systemClock,
    entropy: systemEntropy,
    telemetry: { emit: () => undefined },
    agents: new Map(),
    owner: 'bench',
    settings: { leaseMs: 600_000, turnTimeoutMs: 600_000, reserveMs: 0, renew: false },
    later: async () => undefined,
  };
  let turns = 0;
  return {
    turn: async () => {
      turns += 1;
      Object.assign(asked, { reads: 0, writes: 0 });
      const ref = {
        tenant: tenantId('tenant', 'acme'),
        thread: threadId('thread', `ten-${turns}`),
        turn: turnId('turn', 't1'),
      };
      const request = { ref, agent, input: null, subject: null, budget: null, actor: 'bench' };
      const answer = await withTurn(runtime, request);
      if (answer.kind !== 'concluded') throw new Error(`the turn is ${answer.kind}`);
      return { ...asked, answers: answer.turn.result as string[] };
    },
    close: () => store.close(),
  };
}

/** LangGraph: ten nodes in a row over its own saver, durability `sync`; nothing is announced before a node acts. */
export function langgraphSteps(path: string): TenSteps {
  const State = Annotation.Root({
    answers: Annotation<string[]>({
      reducer: (left, right) => [...left, ...right],
      default: () => [],
    }),
  });
  const asked = { reads: 0, writes: 0 };
  const names = Array.from({ length: steps }, (_, n) => `act-${n}`);
  const node = (name: string) => async () => ({ answers: [name] });
  const graph = new StateGraph(State).addNode(
    names.map((name): [string, ReturnType<typeof node>] => [name, node(name)]),
  );
  const path_ = [START, ...names, END] as const;
  const link = Reflect.get(graph, 'addEdge') as (from: string, to: string) => unknown;
  for (const [index, from] of path_.slice(0, -1).entries())
    Reflect.apply(link, graph, [from, path_[index + 1]]);
  const compiled = graph.compile({ checkpointer: openSaver(path, asked) });
  let turns = 0;
  return {
    turn: async () => {
      turns += 1;
      Object.assign(asked, { reads: 0, writes: 0 });
      const config = { configurable: { thread_id: `ten-${turns}` }, durability: 'sync' as const };
      const { answers } = await compiled.invoke({ answers: [] }, config);
      return { ...asked, answers };
    },
    close: async () => undefined,
  };
}

/** The service of durable executions, as far as steps need it: it applies updates, and counts. */
class CountingService implements DurableExecutionClient {
  reads = 0;
  writes = 0;
  readonly #operations = new Map<string, Operation>();

  getExecutionState: DurableExecutionClient['getExecutionState'] = async () => {
    this.reads += 1;
    return { Operations: [...this.#operations.values()] };
  };

  checkpoint: DurableExecutionClient['checkpoint'] = async ({ Updates = [] }) => {
    this.writes += 1;
    const changed = Updates.map((update): Operation => {
      const { Id, ParentId, Name, Type, SubType, Action, Payload } = update;
      const known = this.#operations.get(Id ?? '');
      const operation: Operation = {
        Id,
        ParentId,
        Name,
        Type,
        SubType,
        StartTimestamp: known?.StartTimestamp ?? new Date(),
        Status: Action === 'SUCCEED' ? 'SUCCEEDED' : 'STARTED',
        StepDetails: { Attempt: 1, ...(Payload === undefined ? {} : { Result: Payload }) },
      };
      this.#operations.set(Id ?? '', operation);
      return operation;
    });
    return { CheckpointToken: `token-${this.writes}`, NewExecutionState: { Operations: changed } };
  };
}

type Operation = DurableExecutionInvocationInput['InitialExecutionState']['Operations'][number];

/** Lambda durable functions: ten steps under one of their two semantics; the stub answers at once. */
export function durableSteps(semantics: 'AtLeastOncePerRetry' | 'AtMostOncePerRetry'): TenSteps {
  let turns = 0;
  return {
    turn: async () => {
      turns += 1;
      const service = new CountingService();
      const handler = withDurableExecution(
        async (_event: unknown, context) => {
          const answers: string[] = [];
          for (let n = 0; n < steps; n += 1) {
            const options = { semantics: StepSemantics[semantics] };
            answers.push(await context.step(`act-${n}`, async () => `act-${n}`, options));
          }
          return answers;
        },
        { durableExecutionClient: service },
      );
      const event: DurableExecutionInvocationInput = {
        DurableExecutionArn: `arn:aws:lambda:us-east-1:123456789012:function:ten:1/durable-execution/ten-${turns}/1`,
        CheckpointToken: 'token-0',
        InitialExecutionState: {
          Operations: [
            {
              Id: 'execution',
              Type: 'EXECUTION',
              StartTimestamp: new Date(),
              Status: 'STARTED',
              ExecutionDetails: { InputPayload: '{}' },
            },
          ],
        },
      };
      const output = await handler(event, lambdaContext(turns));
      if (output.Status !== 'SUCCEEDED') throw new Error(`it is ${JSON.stringify(output)}`);
      const answers: string[] = JSON.parse(output.Result ?? '[]');
      return { reads: service.reads, writes: service.writes, answers };
    },
    close: async () => undefined,
  };
}

function lambdaContext(turn: number): Parameters<ReturnType<typeof withDurableExecution>>[1] {
  return {
    callbackWaitsForEmptyEventLoop: false,
    functionName: 'ten',
    functionVersion: '1',
    invokedFunctionArn: 'arn:aws:lambda:us-east-1:123456789012:function:ten:1',
    memoryLimitInMB: '128',
    awsRequestId: `request-${turn}`,
    logGroupName: 'ten',
    logStreamName: 'ten',
    getRemainingTimeInMillis: () => 60_000,
    done: () => undefined,
    fail: () => undefined,
    succeed: () => undefined,
  };
}

export interface StepRow {
  readonly name: string;
  readonly reads: number;
  readonly writes: number;
}

/** Requests of one turn after a warm one: everybody's first turn of a process does more. */
export async function requestsPerTurn(): Promise<readonly StepRow[]> {
  const contenders: readonly (readonly [string, () => TenSteps])[] = [
    ['Turnstone, SQLite', () => turnstoneSteps(':memory:')],
    ["LangGraph, its own saver, SQLite, durability 'sync'", () => langgraphSteps(':memory:')],
    ['durable execution SDK, at most once per retry', () => durableSteps('AtMostOncePerRetry')],
    ['durable execution SDK, at least once per retry', () => durableSteps('AtLeastOncePerRetry')],
  ];
  const rows: StepRow[] = [];
  for (const [name, open] of contenders) {
    const contender = open();
    await contender.turn();
    const { reads, writes, answers } = await contender.turn();
    await contender.close();
    if (answers.length !== steps || answers.some((answer, n) => answer !== `act-${n}`))
      throw new Error(`${name}: expected ${steps} answers in order, got ${answers.join(', ')}`);
    rows.push({ name, reads, writes });
  }
  return rows;
}

/** A turn of ten steps on Turnstone in turns of LangGraph's, on SQLite files of the same engine, side by side. */
export async function overheadRatio(rounds: number): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'turnstone-steps-'));
  const [left, right] = [
    turnstoneSteps(join(folder, 'turns.sqlite')),
    langgraphSteps(join(folder, 'graph.sqlite')),
  ];
  const timed = async (contender: TenSteps): Promise<number> => {
    const from = performance.now();
    await contender.turn();
    return performance.now() - from;
  };
  const ratios: number[] = [];
  for (let round = -5; round < rounds; round += 1) {
    const [own, other] = [await timed(left), await timed(right)];
    if (round >= 0) ratios.push(own / other);
  }
  await left.close();
  await right.close();
  rmSync(folder, { recursive: true, force: true });
  return ratios.sort((a, b) => a - b)[Math.floor(ratios.length / 2)] ?? 0;
}
