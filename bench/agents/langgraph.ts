// Contender: LangGraph with its own SQLite saver, durability `sync`, as its documentation writes an agent.
import { join } from 'node:path';
import { AIMessage, HumanMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { ToolNode } from '@langchain/langgraph/prebuilt';
import { z } from 'zod';
import { answerText, ask, callsOf, tools as names, prompt, started } from './script.ts';
import { openSaver } from './sqlite-for-langgraph.ts';

const { data, provider } = started();

const tools = names.map((name) =>
  tool(
    async (_, config: { toolCall?: { id?: string }; signal?: AbortSignal }) =>
      JSON.stringify(
        await ask(provider, `/tool/${name}`, config.toolCall?.id ?? '', config.signal),
      ),
    { name, description: name, schema: z.object({}) },
  ),
);

const graph = new StateGraph(MessagesAnnotation)
  .addNode('agent', async ({ messages }) => {
    const turn = messages.filter((message) => message.getType() === 'ai').length;
    await ask(provider, `/model/${turn}`, '');
    const calls = callsOf(turn);
    const tool_calls = calls.map(({ id, tool: name }) => ({ id, name, args: {} }));
    return {
      messages: [new AIMessage({ content: calls.length === 0 ? answerText : '', tool_calls })],
    };
  })
  .addNode('tools', new ToolNode(tools))
  .addEdge(START, 'agent')
  .addConditionalEdges('agent', ({ messages }) => {
    const last = messages.at(-1);
    return last instanceof AIMessage && (last.tool_calls?.length ?? 0) > 0 ? 'tools' : END;
  })
  .addEdge('tools', 'agent')
  .compile({ checkpointer: openSaver(join(data, 'graph.sqlite')) });

const config = { configurable: { thread_id: 'lamp' }, durability: 'sync' as const };
const { next } = await graph.getState(config);
const input = next.length === 0 ? { messages: [new HumanMessage(prompt)] } : null;
const { messages } = await graph.invoke(input, config);
process.stdout.write(String(messages.at(-1)?.content));
