// A trip, as a LangGraph graph: a model plans it, its tool calls hold seats and beds, a node takes a quote and asks
// with interrupt(). LangGraph runs that node again from its first line when the answer comes; the quote is answered
// from its record and is not taken a second time.
//
//   TURNSTONE_AGENTS=src/examples/graph.ts npm start
//
// `trip` ends its turn with the question; the next turn of the thread brings the answer: {"answer": "yes"}.
// `trip-approved` waits for a person (GET /v1/approvals) and ends when the trip is paid or refused.

import { AIMessage } from '@langchain/core/messages';
import {
  Annotation,
  END,
  interrupt,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  START,
  StateGraph,
} from '@langchain/langgraph';
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import type { AgentHost, Effect, HttpAnswer } from 'turnstone';
import { defineTurnAgent, httpCall } from 'turnstone';
import { EffectToolNode, effectIn, effectToolOf, runGraph } from 'turnstone/langgraph';
import * as v from 'valibot';

/** A wish starts a trip, an answer goes on with the one that asked. */
const Input = v.union([v.object({ wish: v.string() }), v.object({ answer: v.string() })]);

const Trip = Annotation.Root({
  ...MessagesAnnotation.spec,
  wish: Annotation<string>,
  paid: Annotation<boolean>,
});
type Trip = typeof Trip.State;

/** What the model answers: the tools it wants called. */
const Plan = v.object({
  calls: v.array(
    v.object({ id: v.string(), name: v.string(), args: v.record(v.string(), v.unknown()) }),
  ),
});

const place = {
  type: 'object',
  properties: { to: { type: 'string' } },
  required: ['to'],
  additionalProperties: false,
} as const;

export const agents = ({ http, env }: AgentHost) => {
  const desk = env.DESK_URL ?? 'http://127.0.0.1:4000';
  const post = (
    path: string,
    body: unknown,
    treatment: Partial<Effect<HttpAnswer>> = { recovery: 'idempotent' },
  ): Effect<HttpAnswer> => {
    const kind = path.replace('/', '.');
    return httpCall(http, { method: 'POST', url: `${desk}/${path}`, body }, { ...treatment, kind });
  };

  const holdFlight = effectToolOf<{ to: string }>(
    { name: 'hold_flight', description: 'Holds a seat for a day.', schema: place },
    (input) => post('flight/hold', input),
  );
  const holdHotel = effectToolOf<{ to: string }>(
    { name: 'hold_hotel', description: 'Holds a bed for a day.', schema: place },
    (input) => post('hotel/hold', input),
  );

  // A completion is paid for, so its declared cost has it recorded at once. Give a model contents, not message
  // objects: their ids are drawn anew on every pass.
  const plan = async ({ wish }: Trip, config: LangGraphRunnableConfig) => {
    const asked = post('model/plan', { wish }, { mutates: false, cost: { tokens: 500 } });
    const { calls } = v.parse(Plan, (await effectIn(config, asked)).body);
    const tool_calls = calls.map((call) => ({ ...call, type: 'tool_call' as const }));
    return { messages: [new AIMessage({ content: '', tool_calls })] };
  };

  const confirm = async ({ wish }: Trip, config: LangGraphRunnableConfig) => {
    const { body } = await effectIn(config, post('quote', { wish }));
    const answer: unknown = interrupt({ question: 'pay?', quote: body });
    if (answer !== 'yes') return { paid: false };
    await effectIn(config, post('pay', { quote: body }));
    return { paid: true };
  };

  const graph = (checkpointer: BaseCheckpointSaver) =>
    new StateGraph(Trip)
      .addNode('plan', plan)
      .addNode('tools', new EffectToolNode([holdFlight, holdHotel]))
      .addNode('confirm', confirm)
      .addEdge(START, 'plan')
      .addEdge('plan', 'tools')
      .addEdge('tools', 'confirm')
      .addEdge('confirm', END)
      .compile({ checkpointer });

  const trip = defineTurnAgent({
    name: 'trip',
    input: Input,
    run: async (context, input) => {
      const given = input as v.InferOutput<typeof Input>;
      const about = 'wish' in given ? { input: given } : { resume: [given.answer] };
      const { values, questions } = await runGraph(context, { graph, ...about });
      return { questions, paid: values.paid ?? null };
    },
  });

  const tripApproved = defineTurnAgent({
    name: 'trip-approved',
    input: v.object({ wish: v.string() }),
    run: async (context, input) => {
      const { values } = await runGraph(context, {
        graph,
        input,
        answer: async (action) => {
          const { decision } = await context.approval({ action, summary: 'pay for a trip' });
          return decision === 'approved' ? 'yes' : 'no';
        },
      });
      return { paid: values.paid };
    },
  });
  return [trip, tripApproved];
};
