// Completions of Bedrock inside a turn: billed, retried, streamed and read back like any effect.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bedrockModel } from '../../src/adapters/bedrock/index.ts';
import { completion, type ModelTreatment } from '../../src/agent/model-effect.ts';
import type { ModelRequest } from '../../src/ports/model.ts';
import type { ConverseServer } from '../converse-server.ts';
import { converseBody, converseServer, ending, textEvents } from '../converse-server.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';

let server: ConverseServer;
beforeAll(async () => {
  server = await converseServer();
});
afterAll(() => server.close());

const hi: ModelRequest = { messages: [{ role: 'user', text: 'Hi' }], maxOutputTokens: 50 };

function agent(treatment: ModelTreatment = {}, request = hi) {
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const client = { endpoint: server.url, region: 'us-east-1', credentials };
  const model = bedrockModel({ modelId: 'acme.large-v1:0', client });
  return agentOf(
    async (context) => (await context.effect(completion(model, request, treatment))).text,
  );
}

onEachStore(
  'a throttled attempt is not billed, one in doubt at its reserve, the answer by its tokens; nobody pays twice [T7 T11]',
  async (open) => {
    const before = server.seen.length;
    server.next(
      { error: 'ThrottlingException', status: 429 },
      { error: 'ModelTimeoutException', status: 408 },
      converseBody([{ text: 'Hello.' }]),
    );
    const scene = new Scene(await open(), agent({ price: ({ outputTokens }) => outputTokens }));
    expect(await scene.conclude()).toMatchObject({
      result: 'Hello.',
      spend: { attempts: 3, tokens: 50 + 19, minorUnits: 7 },
    });
    expect(await scene.conclude()).toMatchObject({ result: 'Hello.', replayed: true });
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
    expect(server.seen.length - before).toBe(3);
    expect(await scene.kinds()).toEqual([
      'RunAdmitted',
      'ES(a1)',
      'EF(did_not_happen)',
      'ES(a2)',
      'EF(in_doubt)',
      'ES(a3)',
      'ED',
      'RC(succeeded)',
    ]);
  },
);

test('B-24 a wait of three seconds that the service names is waited', async () => {
  server.next(
    { error: 'ThrottlingException', status: 429, headers: { 'retry-after': '3' } },
    converseBody([{ text: 'Hello.' }]),
  );
  const scene = new Scene(memoryStore(), agent());
  const start = scene.world.clock.now();
  expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
  expect(scene.world.clock.now() - start).toBeGreaterThanOrEqual(3_000);
});

test('a model without access fails its turn at once, and nothing is charged [T6]', async () => {
  server.next({ error: 'AccessDeniedException', status: 403 });
  expect(await new Scene(memoryStore(), agent()).conclude()).toMatchObject({
    status: 'failed',
    error: { code: 'model_access_denied' },
    spend: { attempts: 1, tokens: 0 },
  });
});

test('a stream is shown while it comes, of every attempt; one that broke off is paid at its reserve and begun anew', async () => {
  server.next(
    { events: textEvents('Hel'), cut: true },
    { events: [...textEvents('Hel', 'lo.'), ...ending()] },
  );
  const shown: string[] = [];
  const live = (text: string, attempt: number): void => void shown.push(`${attempt}:${text}`);
  const scene = new Scene(memoryStore(), agent({ live }));
  expect(await scene.conclude()).toMatchObject({ result: 'Hello.', spend: { tokens: 50 + 19 } });
  expect(shown).toEqual(['1:Hel', '2:Hel', '2:lo.']);
  // Nothing is shown again of what is read back.
  await scene.strict();
  expect(shown).toHaveLength(3);
});
