// A completion of the model port in Converse's words.
import type {
  ContentBlock,
  ConverseCommandInput,
  Message,
  Tool,
  ToolChoice,
  ToolConfiguration,
  ToolInputSchema,
  ToolResultBlock,
} from '@aws-sdk/client-bedrock-runtime';
import type { ModelMessage, ModelRequest, ModelToolResult } from '../../ports/model.ts';

/** The tool a model answers through when the answer has a schema. */
export const answerTool = 'answer';

/** Members of a request a user may add: guardrails, prompt variables, fields of one model family. */
export type ConverseExtras = Omit<
  ConverseCommandInput,
  'modelId' | 'messages' | 'system' | 'toolConfig'
>;

/** How an answer with a schema is asked for: by a forced tool, or by the service's own text format. */
export type Structured = 'tool' | 'format';

export interface ConverseSettings {
  readonly modelId: string;
  readonly structured: Structured;
  readonly extras: ConverseExtras;
}

/** True when an answer with a schema comes as the input of a tool. */
export function answersByTool({ schema }: ModelRequest, structured: Structured): boolean {
  return schema !== undefined && structured === 'tool';
}

/** Thrown for a request that Converse cannot say; nothing was sent. */
export class UnsayableRequest extends Error {
  override readonly name = 'ValidationException';
}

type Document = NonNullable<ToolInputSchema['json']>;

export function converseRequest(
  request: ModelRequest,
  { modelId, structured, extras }: ConverseSettings,
): ConverseCommandInput {
  const { instructions, messages, maxOutputTokens, temperature, schema } = request;
  const toolConfig = toolsOf(request, structured);
  const toolAnswer = answersByTool(request, structured);
  const inferenceConfig = {
    ...extras.inferenceConfig,
    ...(maxOutputTokens === undefined ? {} : { maxTokens: maxOutputTokens }),
    ...(temperature === undefined ? {} : { temperature }),
  };
  return {
    ...extras,
    modelId,
    messages: messages.map(messageOf),
    ...(instructions === undefined ? {} : { system: [{ text: instructions }] }),
    ...(Object.keys(inferenceConfig).length === 0 ? {} : { inferenceConfig }),
    ...(toolConfig === null ? {} : { toolConfig }),
    ...(schema === undefined || toolAnswer ? {} : { outputConfig: formatOf(schema) }),
  };
}

function messageOf({ role, text, calls = [], results = [] }: ModelMessage, index: number): Message {
  const content: ContentBlock[] = results.map((result) => ({ toolResult: resultOf(result) }));
  if (text !== '') content.push({ text });
  for (const { id, name, input } of calls) {
    content.push({ toolUse: { toolUseId: id, name, input: input as Document } });
  }
  if (content.length === 0) {
    throw new UnsayableRequest(`messages.${index}: expected text, calls or results, got none`);
  }
  return { role, content };
}

function resultOf({ id, output, failed = false }: ModelToolResult): ToolResultBlock {
  const block =
    typeof output === 'object' && output !== null && !Array.isArray(output)
      ? { json: output as Document }
      : { text: typeof output === 'string' ? output : JSON.stringify(output ?? null) };
  return {
    toolUseId: id,
    content: [block],
    ...(failed ? { status: 'error' as const } : {}),
  };
}

function toolsOf(request: ModelRequest, structured: Structured): ToolConfiguration | null {
  const { tools = [], toolChoice = 'auto', schema } = request;
  const specs: Tool[] = tools.map(({ name, description, input }) => ({
    toolSpec: {
      name,
      ...(description === undefined ? {} : { description }),
      inputSchema: { json: input as Document },
    },
  }));
  if (schema === undefined || !answersByTool(request, structured)) {
    return specs.length === 0 ? null : { tools: specs, toolChoice: choiceOf(toolChoice) };
  }
  if (tools.some(({ name }) => name === answerTool)) {
    throw new UnsayableRequest(`tools: expected a name other than "${answerTool}" beside a schema`);
  }
  const answer: Tool = {
    toolSpec: {
      name: answerTool,
      description: 'Gives the answer.',
      inputSchema: { json: schema as Document },
    },
  };
  const toolConfig = { tools: [...specs, answer] };
  // Beside tools of the caller's own the model either calls them or answers.
  const choice: ToolChoice = specs.length === 0 ? { tool: { name: answerTool } } : { any: {} };
  return { ...toolConfig, toolChoice: choice };
}

function choiceOf(choice: NonNullable<ModelRequest['toolChoice']>): ToolChoice {
  if (choice === 'auto') return { auto: {} };
  return choice === 'required' ? { any: {} } : { tool: { name: choice.tool } };
}

function formatOf(schema: Readonly<Record<string, unknown>>) {
  const jsonSchema = { schema: JSON.stringify(schema), name: answerTool };
  return { textFormat: { type: 'json_schema' as const, structure: { jsonSchema } } };
}
