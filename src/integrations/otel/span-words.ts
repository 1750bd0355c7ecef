// How a span of a turn is named and described, in OpenTelemetry's conventions for GenAI agents, tools and models.
//
//   a turn    | invoke_agent <agent>    internal  gen_ai.agent.name, gen_ai.conversation.id: its thread
//   a pass    | turnstone.pass <agent>  internal  turnstone.pass.began
//   a model   | chat <model>            client    gen_ai.provider.name, gen_ai.request.model, gen_ai.usage.*
//   a tool    | execute_tool <tool>     internal  gen_ai.tool.name, gen_ai.tool.call.id
//   an effect | <kind>                  client    turnstone.effect.kind
//   a probe   | probe <kind>            client    turnstone.effect.kind
//
// `turnstone.replay` tells live from replayed on every one of them. A replay calls nobody: its kind is internal.
import { type Attributes, SpanKind } from '@opentelemetry/api';
import type { SpanEnd, SpanStart, TelemetryFields } from '../../ports/telemetry.ts';

/** Providers by the first word of their name in the AI SDK, as the conventions spell them; others stay as they are. */
const providers: Readonly<Record<string, string>> = {
  'amazon-bedrock': 'aws.bedrock',
  bedrock: 'aws.bedrock',
  azure: 'azure.ai.openai',
  google: 'gcp.gemini',
  mistral: 'mistral_ai',
  vertex: 'gcp.vertex_ai',
  xai: 'x_ai',
};

/** Fields that have a name of their own in the conventions, or in ours. */
const names: Readonly<Record<string, string>> = {
  threadId: 'gen_ai.conversation.id',
  tenantId: 'turnstone.tenant.id',
  turnId: 'turnstone.turn.id',
  began: 'turnstone.pass.began',
  effectKey: 'turnstone.effect.key',
  attempt: 'turnstone.effect.attempt',
  step: 'turnstone.step',
  phase: 'turnstone.phase',
  ordinal: 'turnstone.ordinal',
  seq: 'turnstone.record.seq',
  intent: 'turnstone.intent.id',
  disposition: 'turnstone.effect.disposition',
  tokens: 'turnstone.spend.tokens',
  minorUnits: 'turnstone.spend.minor_units',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  replayed: 'turnstone.replay',
};

export interface SpanWords {
  readonly name: string;
  readonly kind: SpanKind;
  readonly attributes: Attributes;
}

/** Name, kind and first attributes of a span. */
export function spanWords(start: SpanStart): SpanWords {
  const { kind, name, fields } = start;
  const replay = kind === 'replay' || fields['began'] === 'strict';
  const common = { ...attributesOf(fields), 'turnstone.replay': replay };
  if (kind === 'turn' || kind === 'pass') {
    const agent = { ...common, 'gen_ai.agent.name': name };
    if (kind === 'pass')
      return { name: `turnstone.pass ${name}`, kind: SpanKind.INTERNAL, attributes: agent };
    const attributes = { ...agent, 'gen_ai.operation.name': 'invoke_agent' };
    return { name: `invoke_agent ${name}`, kind: SpanKind.INTERNAL, attributes };
  }
  const effect = { ...common, 'turnstone.effect.kind': name };
  const outward = replay ? SpanKind.INTERNAL : SpanKind.CLIENT;
  if (kind === 'probe') return { name: `probe ${name}`, kind: outward, attributes: effect };
  return effectWords(start, effect, outward);
}

function effectWords({ name, asks }: SpanStart, effect: Attributes, outward: SpanKind): SpanWords {
  if (asks?.kind === 'model') {
    const attributes = {
      ...effect,
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': providerName(asks.provider),
      'gen_ai.request.model': asks.model,
    };
    return { name: `chat ${asks.model}`, kind: outward, attributes };
  }
  if (asks?.kind === 'tool') {
    const attributes = {
      ...effect,
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': asks.tool,
      ...(asks.call === undefined ? {} : { 'gen_ai.tool.call.id': asks.call }),
    };
    return { name: `execute_tool ${asks.tool}`, kind: SpanKind.INTERNAL, attributes };
  }
  return { name, kind: outward, attributes: effect };
}

/** What the end of a span adds. */
export function endAttributes({ outcome, error, fields = {} }: SpanEnd): Attributes {
  return {
    ...attributesOf(fields),
    'turnstone.outcome': outcome,
    ...(error === undefined ? {} : { 'error.type': error }),
  };
}

function attributesOf(fields: TelemetryFields): Attributes {
  return Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) =>
      value === null ? [] : [[names[name] ?? `turnstone.${name}`, value]],
    ),
  );
}

function providerName(provider: string): string {
  const [first = provider, second = ''] = provider.split('.');
  return (second === 'vertex' ? providers[second] : providers[first]) ?? first;
}
