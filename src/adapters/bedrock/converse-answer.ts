// What Converse answered, whole or as a stream, in the words of the model port.
import type {
  ConverseResponse,
  ConverseStreamOutput,
  TokenUsage,
} from '@aws-sdk/client-bedrock-runtime';
import type {
  ModelAnswer,
  ModelFailure,
  ModelOutcome,
  ModelToolCall,
  ModelUsage,
} from '../../ports/model.ts';
import { describeError } from '../../protocol/errors.ts';
import { bedrockFailure } from './bedrock-failure.ts';
import { answerTool } from './converse-request.ts';

const finishes: Readonly<Record<string, ModelAnswer['finish']>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'calls',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  content_filtered: 'filtered',
  guardrail_intervened: 'filtered',
};

/** Stop reasons of an answer that is none; it was paid for. */
const malformed: ReadonlySet<string> = new Set(['malformed_model_output', 'malformed_tool_use']);

/** Tokens as they are billed: what was read from or written to a prompt cache counts as input. */
export function usageOf(usage: TokenUsage | undefined): ModelUsage {
  const {
    inputTokens = 0,
    outputTokens = 0,
    cacheReadInputTokens = 0,
    cacheWriteInputTokens = 0,
  } = usage ?? {};
  return {
    inputTokens: inputTokens + cacheReadInputTokens + cacheWriteInputTokens,
    outputTokens,
  };
}

/** The outcome of Converse; `byTool` says that a call of `answerTool` is the answer. */
export function wholeAnswer(
  response: ConverseResponse,
  byTool: boolean,
): ModelOutcome<ModelAnswer> {
  const usage = usageOf(response.usage);
  const { stopReason } = response;
  const content = response.output?.message?.content;
  if (content === undefined || stopReason === undefined) {
    return unreadable('the response holds no message', usage);
  }
  const calls = content.flatMap(({ toolUse }): readonly ModelToolCall[] => {
    if (toolUse === undefined) return [];
    const { toolUseId = '', name = '', input = null } = toolUse;
    return [{ id: toolUseId, name, input }];
  });
  const text = content.map((block) => block.text ?? '').join('');
  return outcomeOf({ text, calls, stopReason, usage, byTool });
}

interface Heard {
  generated: boolean;
  stopReason: string | null;
  usage: ModelUsage | null;
  readonly blocks: Map<number, { text: string } | { id: string; name: string; json: string }>;
}

/** The outcome of ConverseStream; `live` sees text as it comes. */
export async function streamedAnswer(
  stream: AsyncIterable<ConverseStreamOutput>,
  byTool: boolean,
  live: (text: string) => void,
  signal: AbortSignal,
): Promise<ModelOutcome<ModelAnswer>> {
  const heard: Heard = { generated: false, stopReason: null, usage: null, blocks: new Map() };
  try {
    for await (const event of stream) {
      signal.throwIfAborted();
      hear(heard, event, live);
    }
  } catch (error) {
    const { generated, usage } = heard;
    return bedrockFailure(error, { generated, ...(usage === null ? {} : { usage }) });
  }
  const { stopReason, usage } = heard;
  if (stopReason === null || usage === null) {
    const message = 'the stream ended without saying how the answer finished';
    return {
      kind: 'failed',
      disposition: 'in_doubt',
      permanent: false,
      code: 'model_cut',
      message,
    };
  }
  return assembled(heard.blocks, { stopReason, usage, byTool });
}

function hear(heard: Heard, event: ConverseStreamOutput, live: (text: string) => void): void {
  const { contentBlockStart, contentBlockDelta, messageStop, metadata } = event;
  const tool = contentBlockStart?.start?.toolUse;
  if (tool !== undefined) {
    const { toolUseId: id = '', name = '' } = tool;
    heard.blocks.set(contentBlockStart?.contentBlockIndex ?? 0, { id, name, json: '' });
    heard.generated = true;
  }
  if (contentBlockDelta?.delta !== undefined) {
    const { delta, contentBlockIndex = 0 } = contentBlockDelta;
    heard.generated = true;
    const block = heard.blocks.get(contentBlockIndex) ?? { text: '' };
    heard.blocks.set(contentBlockIndex, block);
    if ('json' in block) block.json += delta.toolUse?.input ?? '';
    else if (delta.text !== undefined) {
      block.text += delta.text;
      live(delta.text);
    }
  }
  if (messageStop?.stopReason !== undefined) heard.stopReason = messageStop.stopReason;
  if (metadata !== undefined) heard.usage = usageOf(metadata.usage);
}

interface Ending {
  readonly stopReason: string;
  readonly usage: ModelUsage;
  readonly byTool: boolean;
}

function assembled(blocks: Heard['blocks'], ending: Ending): ModelOutcome<ModelAnswer> {
  const inOrder = [...blocks].sort(([left], [right]) => left - right).map(([, block]) => block);
  const text = inOrder.map((block) => ('text' in block ? block.text : '')).join('');
  const calls: ModelToolCall[] = [];
  for (const block of inOrder) {
    if (!('json' in block)) continue;
    const { id, name, json } = block;
    try {
      calls.push({ id, name, input: json === '' ? {} : JSON.parse(json) });
    } catch (error) {
      // An answer that was cut off at its length ends inside a call's input: the call never was one.
      if (ending.stopReason === 'max_tokens') continue;
      return unreadable(`the input of ${name}: ${describeError(error).message}`, ending.usage);
    }
  }
  return outcomeOf({ text, calls, ...ending });
}

function outcomeOf(
  of: Ending & { readonly text: string; readonly calls: readonly ModelToolCall[] },
): ModelOutcome<ModelAnswer> {
  const { text, calls, stopReason, usage, byTool } = of;
  if (malformed.has(stopReason)) return unreadable(`the model stopped: ${stopReason}`, usage);
  const finish = finishes[stopReason] ?? 'other';
  const answer = byTool ? calls.find(({ name }) => name === answerTool) : undefined;
  const others = calls.filter((call) => call !== answer);
  const said = answer === undefined ? text : JSON.stringify(answer.input);
  return {
    kind: 'answered',
    answer: {
      text: said,
      finish: answer !== undefined && others.length === 0 && finish === 'calls' ? 'stop' : finish,
      usage,
      ...(others.length === 0 ? {} : { calls: others }),
    },
    usage,
  };
}

function unreadable(message: string, usage: ModelUsage): ModelFailure {
  const facts = { disposition: 'in_doubt' as const, permanent: false, code: 'model_malformed' };
  return { kind: 'failed', message, usage, ...facts };
}
