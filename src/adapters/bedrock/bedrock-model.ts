// A model of Amazon Bedrock behind the model port, by the Converse API.
//
// Owns: one attempt, whole or streamed. Does not own: attempts, backoff and billing, which are the effect's (B-24):
// the client's own retries are off.
//   The SDK is loaded with the first request, so that a bundle without Bedrock never evaluates it.
//   A model's reasoning is neither asked for nor kept; an agent that needs it takes the AI SDK's provider.
import type {
  BedrockRuntimeClient,
  BedrockRuntimeClientConfig,
} from '@aws-sdk/client-bedrock-runtime';
import type {
  Model,
  ModelAnswer,
  ModelCall,
  ModelOutcome,
  ModelRequest,
} from '../../ports/model.ts';
import { bedrockFailure } from './bedrock-failure.ts';
import { streamedAnswer, wholeAnswer } from './converse-answer.ts';
import type { ConverseExtras, ConverseSettings, Structured } from './converse-request.ts';
import { answersByTool, converseRequest } from './converse-request.ts';

export interface BedrockOptions {
  /** Id or ARN of a model or an inference profile. */
  readonly modelId: string;
  /** How an answer with a schema is asked for. Default `tool`: a tool the model must call; `format` where it has that. */
  readonly structured?: Structured;
  /** Members added to every request, as `guardrailConfig`. */
  readonly extras?: ConverseExtras;
  /** Configuration of the client; region and credentials come from the environment by default. `maxAttempts` is 1. */
  readonly client?: BedrockRuntimeClientConfig;
}

type Sdk = typeof import('@aws-sdk/client-bedrock-runtime');
interface Opened {
  readonly sdk: Sdk;
  readonly client: BedrockRuntimeClient;
}

/** A port over one model. It streams when somebody looks on (`live`), and asks for the whole answer otherwise. */
export function bedrockModel(options: BedrockOptions): Model {
  const { modelId, structured = 'tool', extras = {} } = options;
  let opened: Promise<Opened> | null = null;
  const open = async (): Promise<Opened> => {
    const sdk = await import('@aws-sdk/client-bedrock-runtime');
    return { sdk, client: new sdk.BedrockRuntimeClient({ ...options.client, maxAttempts: 1 }) };
  };
  return {
    id: `bedrock/${modelId}`,
    settings: { structured, extras },
    ask: async (request, call) => {
      opened ??= open();
      return ask(await opened, request, call, { modelId, structured, extras });
    },
  };
}

async function ask(
  { sdk, client }: Opened,
  request: ModelRequest,
  { signal, live }: ModelCall,
  settings: ConverseSettings,
): Promise<ModelOutcome<ModelAnswer>> {
  try {
    const input = converseRequest(request, settings);
    const options = { abortSignal: signal };
    const byTool = answersByTool(request, settings.structured);
    if (live === undefined) {
      return wholeAnswer(await client.send(new sdk.ConverseCommand(input), options), byTool);
    }
    const { stream } = await client.send(new sdk.ConverseStreamCommand(input), options);
    return await streamedAnswer(stream ?? empty(), byTool, live, signal);
  } catch (error) {
    return bedrockFailure(error);
  }
}

async function* empty(): AsyncGenerator<never> {
  // A response without a stream is one that ends before it begins.
}
