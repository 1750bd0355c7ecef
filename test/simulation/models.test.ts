// The model port: a completion is an effect that is journaled, billed and asked for once.
import { APICallError } from '@ai-sdk/provider';
import { expect, test } from 'vitest';
import { completion } from '../../src/agent/model-effect.ts';
import { aiSdkModel } from '../../src/integrations/ai-sdk/ai-sdk-model.ts';
import type { ModelFailure, ModelRequest } from '../../src/ports/model.ts';
import { ScriptedModel } from '../../src/testing/scripted-model.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';
import { Talk } from './talk.ts';

const ask = (text: string, more: Partial<ModelRequest> = {}): ModelRequest => ({
  messages: [{ role: 'user', text }],
  ...more,
});

const busy: ModelFailure = {
  kind: 'failed',
  disposition: 'did_not_happen',
  permanent: false,
  code: 'model_429',
  message: 'too many requests',
};
const cut: ModelFailure = { ...busy, disposition: 'in_doubt', code: 'model_cut' };

onEachStore(
  'a completion is recorded at once and before it is used; a retried turn pays no provider twice [T5 T7]',
  async (open) => {
    const model = new ScriptedModel(({ messages }) => `heard ${messages[0]?.text}`);
    let dies = true;
    const agent = agentOf(async (context) => {
      const { text } = await context.effect(completion(model, ask('hello')));
      await context.effect({
        kind: 'look',
        args: null,
        mutates: false,
        perform: async () => {
          if (dies) scene.process.kill();
          return null;
        },
      });
      return text;
    });
    const scene = new Scene(await open(), agent);
    expect(await scene.deliver()).toBe('died');
    dies = false;
    await scene.world.recover();
    scene.restart();
    expect(await scene.conclude()).toMatchObject({ result: 'heard hello', replayed: true });
    expect(model.requests).toHaveLength(1);
  },
);

onEachStore(
  'T81 a failed turn journaled an answer; the next turn with the same prompt in the same place does not read it [T7]',
  async (open) => {
    const model = new ScriptedModel((_, asked) => `answer ${asked + 1}`);
    const agent = agentOf(async (context, input) => {
      const { text } = await context.effect(completion(model, ask('same')));
      if (input === 'fail') throw new Error('no use');
      return text;
    });
    const scene = new Scene(await open(), agent);
    expect(await scene.conclude('t1', { input: 'fail' })).toMatchObject({
      status: 'failed',
      revision: 0,
    });
    expect(await scene.conclude('t2', { input: 'go' })).toMatchObject({ result: 'answer 2' });
    expect(model.requests).toHaveLength(2);
  },
);

test('every attempt is billed: nothing where nothing was generated, the reserve where nobody knows [T11]', async () => {
  const script = [busy, cut, 'fine'];
  const model = new ScriptedModel((_, asked) => script[asked] ?? 'more');
  const agent = agentOf((context) => {
    const treatment = { reserveMinorUnits: 7, price: () => 2 };
    return context.effect(completion(model, ask('x', { maxOutputTokens: 100 }), treatment));
  });
  expect(await new Scene(memoryStore(), agent).conclude()).toMatchObject({
    status: 'succeeded',
    spend: { effects: 1, attempts: 3, tokens: 100 + 15, minorUnits: 7 + 2 },
  });
});

test('a completion that could pass the ceiling is refused before it is asked for [T11]', async () => {
  const model = new ScriptedModel(() => 'fine');
  const agent = agentOf((context) =>
    context.effect(completion(model, ask('x', { maxOutputTokens: 101 }))),
  );
  const scene = new Scene(memoryStore(), agent);
  expect(await scene.conclude('t1', { budget: { tokens: 100 } })).toMatchObject({
    status: 'exhausted',
  });
  expect(model.requests).toEqual([]);
});

test('any model of the AI SDK answers through the port, its failures classed [T6]', async () => {
  const talk = new Talk([{ text: 'Hello.' }]);
  const port = aiSdkModel(talk.model, () => 0);
  const call = { signal: new AbortController().signal, idempotencyKey: 'k' };
  expect(await port.ask(ask('Hi', { instructions: 'Be kind.', temperature: 0 }), call)).toEqual({
    kind: 'answered',
    answer: { text: 'Hello.', finish: 'stop', usage: { inputTokens: 10, outputTokens: 5 } },
    usage: { inputTokens: 10, outputTokens: 5 },
  });
  expect(talk.seen[0]?.prompt).toEqual([
    { role: 'system', content: 'Be kind.' },
    { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
  ]);
  const url = 'https://model.example';
  talk.faults.push(
    new APICallError({ message: 'no', url, requestBodyValues: {}, statusCode: 429 }),
  );
  expect(await port.ask(ask('Hi'), call)).toMatchObject({ code: 'model_429', permanent: false });
});
