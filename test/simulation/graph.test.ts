// A LangGraph graph inside a turn, on both stores: the example as a user copies it, and what it must not do.
import { AIMessage } from '@langchain/core/messages';
import type { RunnableConfig } from '@langchain/core/runnables';
import {
  Annotation,
  Command,
  END,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  START,
  StateGraph,
} from '@langchain/langgraph';
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import { expect, test } from 'vitest';
import { agentsOf } from '../../src/agent/agents-module.ts';
import * as example from '../../src/examples/graph.ts';
import {
  EffectToolNode,
  effectIn,
  effectTool,
  runGraph,
} from '../../src/integrations/langgraph/index.ts';
import type { HttpCaller, HttpRequest, HttpResult } from '../../src/ports/http-caller.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import { EffectFailure } from '../../src/runtime/turn-context.ts';
import { faultKinds } from '../../src/testing/crash-explorer.ts';
import type { OpenStore } from '../stores.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';

/** The travel desk: it knows keys, so what counts is what landed. */
class Desk implements HttpCaller {
  readonly landed = new Map<string, string>();
  requests = 0;

  async call({ url, headers }: HttpRequest): Promise<HttpResult> {
    const path = new URL(url).pathname.slice(1);
    this.requests += 1;
    this.landed.set(headers?.['idempotency-key'] ?? '', path);
    const calls = [
      { id: 'call-1', name: 'hold_flight', args: { to: 'Oslo' } },
      { id: 'call-2', name: 'hold_hotel', args: { to: 'Oslo' } },
    ];
    const body = path === 'model/plan' ? { calls } : { id: path };
    return { kind: 'done', answer: { status: 200, headers: {}, body } };
  }

  get calls(): readonly string[] {
    return [...this.landed.values()];
  }
}

async function sceneOf(open: OpenStore, desk: Desk, name: string): Promise<Scene> {
  const agent = agentsOf([], example, 'graph.ts', { http: desk, env: {} }).get(name);
  if (agent === undefined) throw new Error(`the example has no agent "${name}"`);
  return new Scene(await open(), agent);
}

const wish = { input: { wish: 'a week in Oslo' } };
const held = ['model/plan', 'flight/hold', 'hotel/hold', 'quote'];
const question = { question: 'pay?', quote: { id: 'quote' } };

onEachStore(
  'graph: interrupt() does not repeat what ran before it, when another turn answers [T7]',
  async (open) => {
    const desk = new Desk();
    const scene = await sceneOf(open, desk, 'trip');
    expect(await scene.conclude('t1', wish)).toMatchObject({
      status: 'succeeded',
      result: { questions: [question], paid: null },
    });
    expect(desk.calls).toEqual(held);
    expect(await scene.conclude('t2', { input: { answer: 'yes' } })).toMatchObject({
      status: 'succeeded',
      result: { questions: [], paid: true },
    });
    expect(desk.calls).toEqual([...held, 'pay']);
    expect(desk.requests).toBe(5);
    for (const turn of ['t1', 't2']) {
      expect(await scene.strict(turn)).toMatchObject({ verdict: 'verified' });
    }
  },
);

onEachStore(
  'graph: interrupt() does not repeat what ran before it, when a person is waited for [T7 T10]',
  async (open) => {
    const desk = new Desk();
    const scene = await sceneOf(open, desk, 'trip-approved');
    await scene.suspend('t1', wish);
    expect(desk.calls).toEqual(held);
    const { runtime } = scene.process;
    const { tenant } = scene.ref();
    const page = { status: 'pending', limit: 10, cursor: null } as const;
    const [only] = (await listApprovals(runtime, tenant, page)).items;
    if (only === undefined) throw new Error('nobody is asked');
    const given = { decision: 'approve', digest: only.digest, note: null } as const;
    await answerApproval(runtime, tenant, only.id, given, 'bob');
    await scene.inbox();
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: { paid: true } });
    expect(desk.calls).toEqual([...held, 'pay']);
    expect(desk.requests).toBe(5);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

test('graph: LangGraph alone takes the same quote twice, so the test above can fail [T7]', async () => {
  const calls: string[] = [];
  const graph = new StateGraph(Annotation.Root({ paid: Annotation<boolean> }))
    .addNode('confirm', () => {
      calls.push('quote');
      return { paid: interrupt('pay?') === 'yes' };
    })
    .addEdge(START, 'confirm')
    .addEdge('confirm', END)
    .compile({ checkpointer: new MemorySaver() });
  const config = { configurable: { thread_id: 't' } };
  await graph.invoke({}, config);
  expect(await graph.invoke(new Command({ resume: 'yes' }), config)).toEqual({ paid: true });
  expect(calls).toEqual(['quote', 'quote']);
});

test('graph: killed at every call it makes, each act still lands once [T2 T5 T7]', async () => {
  let tried = 0;
  for (const kind of faultKinds) {
    for (let call = 1; ; call += 1) {
      const desk = new Desk();
      const scene = await sceneOf(async () => memoryStore(), desk, 'trip');
      scene.restart({ kind, call });
      const first = await scene.deliver('t1', wish);
      await scene.world.recover();
      scene.restart();
      // A death before the first write leaves nothing: the caller sends its turn again.
      expect(await scene.conclude('t1', wish)).toMatchObject({ status: 'succeeded' });
      await scene.conclude('t2', { input: { answer: 'yes' } });
      expect(desk.calls.toSorted(), `${kind} at ${call}`).toEqual([...held, 'pay'].toSorted());
      tried += 1;
      if (first !== 'died') break;
    }
  }
  expect(tried).toBeGreaterThan(10);
});

/** A graph of one node, for what goes wrong. */
function oneNode(node: (config: RunnableConfig) => Promise<object>) {
  return (checkpointer: BaseCheckpointSaver) =>
    new StateGraph(Annotation.Root({ said: Annotation<unknown> }))
      .addNode('node', (_state, config) => node(config))
      .addEdge(START, 'node')
      .addEdge('node', END)
      .compile({ checkpointer });
}

const turnsOf = (graph: ReturnType<typeof oneNode>) =>
  agentOf(async (context: TurnContext, input) => {
    const given = input as { resume?: unknown[] };
    const about = given.resume === undefined ? { input: {} } : { resume: given.resume };
    return { ...(await runGraph(context, { graph, ...about })) };
  });

onEachStore(
  'graph: a node that asks for another call after its interrupt is refused before it acts [T7]',
  async (open) => {
    const calls: unknown[] = [];
    let version = 0;
    const graph = oneNode(async (config) => {
      const args = { version };
      await effectIn(config, {
        kind: 'act',
        args,
        recovery: 'idempotent',
        perform: async () => calls.push(args),
      });
      return { said: interrupt('go on?') };
    });
    const scene = new Scene(await open(), turnsOf(graph));
    await scene.conclude('t1', { input: {} });
    version = 1;
    expect(await scene.conclude('t2', { input: { resume: ['yes'] } })).toMatchObject({
      status: 'failed',
      error: { code: 'graph_diverged' },
    });
    expect(calls).toEqual([{ version: 0 }]);
    version = 0;
    expect(await scene.conclude('t3', { input: { resume: ['yes'] } })).toMatchObject({
      status: 'succeeded',
      result: { values: { said: 'yes' } },
    });
    expect(calls).toEqual([{ version: 0 }]);
  },
);

onEachStore('graph: a failure a node got past is met again, not tried again [T7]', async (open) => {
  let tries = 0;
  const graph = oneNode(async (config) => {
    const refused = await effectIn(config, {
      kind: 'act',
      args: {},
      perform: async () => {
        tries += 1;
        throw new EffectFailure('sold out', {
          code: 'sold_out',
          disposition: 'did_not_happen',
          permanent: true,
        });
      },
    }).catch((error: unknown) => Reflect.get(Object(error), 'code'));
    return { said: [refused, interrupt('another?')] };
  });
  const scene = new Scene(await open(), turnsOf(graph));
  await scene.conclude('t1', { input: {} });
  expect(await scene.conclude('t2', { input: { resume: ['no'] } })).toMatchObject({
    result: { values: { said: ['sold_out', 'no'] } },
  });
  expect(tries).toBe(1);
});

onEachStore('graph: answers that fit no open question are refused [T10]', async (open) => {
  const scene = new Scene(await open(), turnsOf(oneNode(async () => ({ said: 'done' }))));
  await scene.conclude('t1', { input: {} });
  expect(await scene.conclude('t2', { input: { resume: ['yes'] } })).toMatchObject({
    status: 'failed',
    error: { code: 'graph_resume' },
  });
});

onEachStore(
  'graph: a tool that failed is told to the model, a tool in doubt quarantines the turn [T6]',
  async (open) => {
    const doubtful = new Set<string>();
    const tool = effectTool(
      { name: 'book', description: 'Books.', schema: { type: 'object', properties: {} } },
      {
        perform: async () => {
          const disposition = doubtful.size > 0 ? 'in_doubt' : 'did_not_happen';
          throw new EffectFailure('no seats', { code: 'full', disposition, permanent: true });
        },
      },
    );
    const calling = (id: string) =>
      new AIMessage({
        content: '',
        tool_calls: [{ id, name: 'book', args: {}, type: 'tool_call' as const }],
      });
    const graph = (checkpointer: BaseCheckpointSaver) =>
      new StateGraph(MessagesAnnotation)
        .addNode('plan', ({ messages }) => ({ messages: [calling(`call-${messages.length}`)] }))
        .addNode('tools', new EffectToolNode([tool]))
        .addEdge(START, 'plan')
        .addEdge('plan', 'tools')
        .addEdge('tools', END)
        .compile({ checkpointer });
    const agent = agentOf(async (context) => {
      const { values } = await runGraph(context, { graph, input: { messages: [] } });
      const messages = values.messages as readonly { readonly content: unknown }[];
      return messages.map(({ content }) => content);
    });
    const scene = new Scene(await open(), agent);
    const told = await scene.conclude('t1');
    expect(told).toMatchObject({
      status: 'succeeded',
      result: ['', expect.stringMatching(/no seats/)],
    });
    doubtful.add('now');
    expect(await scene.conclude('t2')).toMatchObject({
      status: 'quarantined',
      error: { code: 'effect_undecided' },
    });
  },
);

onEachStore(
  'graph: its state goes on in the next turn, and commits with the turn [T1]',
  async (open) => {
    const State = Annotation.Root({
      lines: Annotation<string[]>({ reducer: (all, more) => [...all, ...more], default: () => [] }),
    });
    const graph = (checkpointer: BaseCheckpointSaver) =>
      new StateGraph(State)
        .addNode('echo', ({ lines }) => ({ lines: [`heard ${lines.at(-1)}`] }))
        .addEdge(START, 'echo')
        .addEdge('echo', END)
        .compile({ checkpointer });
    const agent = agentOf(async (context, input) => {
      const { line, fails } = input as { line: string; fails?: boolean };
      const { values } = await runGraph(context, { graph, input: { lines: [line] } });
      if (fails === true) throw new Error('after the graph');
      return values.lines;
    });
    const scene = new Scene(await open(), agent);
    await scene.conclude('t1', { input: { line: 'one' } });
    expect(await scene.conclude('t2', { input: { line: 'lost', fails: true } })).toMatchObject({
      status: 'failed',
    });
    expect(await scene.conclude('t3', { input: { line: 'two' } })).toMatchObject({
      result: ['one', 'heard one', 'two', 'heard two'],
    });
  },
);

onEachStore(
  'graph: a state past the limit of a thread fails the turn, with the limit named [T11]',
  async (open) => {
    const graph = oneNode(async () => ({ said: 'x'.repeat(400_000) }));
    const scene = new Scene(await open(), turnsOf(graph));
    expect(await scene.conclude('t1', { input: {} })).toMatchObject({
      status: 'failed',
      error: { code: 'graph_too_large', message: expect.stringContaining('checkpointBytesMax') },
    });
  },
);

onEachStore(
  'graph: a turn asks the store for its effects, not for its supersteps',
  async (open) => {
    const desk = new Desk();
    const requests: string[] = [];
    const scene = await sceneOf(() => open(({ op }) => requests.push(op)), desk, 'trip');
    await scene.conclude('t1', wish);
    // Begin and key; the key is made; four effects, the paid one recorded at once; the graph's state, over 2 KB,
    // in a part; the commit; the relay. The supersteps of the graph cost nothing.
    const key = ['batchGet', 'batchGet', 'put'];
    const relay = ['query', 'delete'];
    expect(requests.splice(0)).toEqual([
      ...key,
      ...['transact', 'put', 'put', 'put', 'put', 'transact'],
      ...relay,
    ]);
    await scene.conclude('t2', { input: { answer: 'yes' } });
    expect(requests).toEqual(['batchGet', 'batchGet', 'transact', 'put', 'transact', ...relay]);
  },
);

onEachStore(
  'graph: branches side by side and a subgraph that asks repeat nothing either [T7]',
  async (open) => {
    const calls: string[] = [];
    const act = (config: RunnableConfig, kind: string) =>
      effectIn(config, {
        kind,
        args: { kind },
        recovery: 'idempotent',
        perform: async () => calls.push(kind),
      });
    const State = Annotation.Root({
      said: Annotation<unknown[]>({ reducer: (all, more) => [...all, ...more], default: () => [] }),
    });
    const asks = (name: string) => async (_state: unknown, config: RunnableConfig) => {
      await act(config, `before ${name}`);
      const said: unknown = interrupt(name);
      await act(config, `after ${name}`);
      return { said: [said] };
    };
    const inner = new StateGraph(State)
      .addNode('first', asks('inner'))
      .addEdge(START, 'first')
      .addEdge('first', END)
      .compile();
    const graph = (checkpointer: BaseCheckpointSaver) =>
      new StateGraph(State)
        .addNode('sub', inner)
        .addNode('left', asks('left'))
        .addNode('right', async (_state, config) => {
          await act(config, 'right');
          return { said: ['right'] };
        })
        .addEdge(START, 'sub')
        .addEdge(START, 'left')
        .addEdge(START, 'right')
        .addEdge('sub', END)
        .addEdge('left', END)
        .addEdge('right', END)
        .compile({ checkpointer });
    const agent = agentOf(async (context, input) => {
      const { resume } = input as { resume?: unknown[] };
      const about = resume === undefined ? { input: {} } : { resume };
      return { ...(await runGraph(context, { graph, ...about })) };
    });
    const scene = new Scene(await open(), agent);
    const asked = await scene.conclude('t1', { input: {} });
    expect(asked.error).toBeUndefined();
    expect(asked.result).toMatchObject({ questions: expect.arrayContaining(['inner', 'left']) });
    expect(calls.toSorted()).toEqual(['before inner', 'before left', 'right']);
    const { questions } = asked.result as { questions: string[] };
    const resume = questions.map((name) => `yes, ${name}`);
    const done = await scene.conclude('t2', { input: { resume } });
    expect(done).toMatchObject({ status: 'succeeded', result: { questions: [] } });
    const { values } = done.result as { values: { said: string[] } };
    expect(values.said.toSorted()).toEqual(['right', 'yes, inner', 'yes, left']);
    expect(calls.slice(3).toSorted()).toEqual(['after inner', 'after left']);
    for (const turn of ['t1', 't2'])
      expect(await scene.strict(turn)).toMatchObject({ verdict: 'verified' });
  },
);
