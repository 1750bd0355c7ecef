// The real client of Bedrock against recorded answers: what is sent, what is heard, what a failure proves.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BedrockOptions, bedrockModel } from '../../../src/adapters/bedrock/index.ts';
import type { ModelCall, ModelRequest } from '../../../src/ports/model.ts';
import type { ConverseServer, Reply } from '../../converse-server.ts';
import { converseBody, converseServer, ending, textEvents } from '../../converse-server.ts';

let server: ConverseServer;
beforeAll(async () => {
  server = await converseServer();
});
afterAll(() => server.close());

const client = (endpoint = server.url) => ({
  endpoint,
  region: 'us-east-1',
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
});

const hi: ModelRequest = { messages: [{ role: 'user', text: 'Hi' }] };
const billed = { inputTokens: 12, outputTokens: 7 };

function asking(
  request: ModelRequest = hi,
  more: Partial<ModelCall> = {},
  options: Partial<BedrockOptions> = {},
) {
  const model = bedrockModel({ modelId: 'acme.large-v1:0', client: client(), ...options });
  return model.ask(request, { signal: new AbortController().signal, idempotencyKey: 'k', ...more });
}

/** The outcome of a stream, and what was shown of it. */
async function streaming(reply: Reply, request: ModelRequest = hi) {
  server.next(reply);
  const shown: string[] = [];
  const outcome = await asking(request, { live: (text) => void shown.push(text) });
  return { outcome, shown };
}

test('a request is said in the words of Converse, and its answer heard with its bill [T11]', async () => {
  server.next(converseBody([{ text: 'Hello' }, { text: ' there.' }]));
  const request = { ...hi, instructions: 'Be kind.', maxOutputTokens: 50, temperature: 0 };
  expect(await asking(request)).toEqual({
    kind: 'answered',
    answer: { text: 'Hello there.', finish: 'stop', usage: billed },
    usage: billed,
  });
  expect(server.seen.at(-1)).toEqual({
    path: '/model/acme.large-v1%3A0/converse',
    body: {
      messages: [{ role: 'user', content: [{ text: 'Hi' }] }],
      system: [{ text: 'Be kind.' }],
      inferenceConfig: { maxTokens: 50, temperature: 0 },
    },
  });
});

test.each([
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['content_filtered', 'filtered'],
  ['guardrail_intervened', 'filtered'],
  ['a_word_of_tomorrow', 'other'],
])('the stop reason %s is %s, whole and streamed', async (reason, finish) => {
  server.next(converseBody([{ text: 'x' }], reason));
  expect(await asking()).toMatchObject({ kind: 'answered', answer: { finish } });
  const { outcome } = await streaming({ events: [...textEvents('x'), ...ending(reason)] });
  expect(outcome).toMatchObject({ kind: 'answered', answer: { text: 'x', finish } });
});

test('tokens of a prompt cache are billed as input', async () => {
  const usage = {
    inputTokens: 2,
    outputTokens: 7,
    totalTokens: 19,
    cacheReadInputTokens: 8,
    cacheWriteInputTokens: 2,
  };
  server.next(converseBody([{ text: 'x' }], 'end_turn', usage));
  expect(await asking()).toMatchObject({ usage: billed });
});

const lookup = {
  name: 'lookup',
  description: 'Looks an order up.',
  input: { type: 'object', properties: { order: { type: 'number' } } },
};

test('tools are offered, called and answered; two calls of one message keep their ids', async () => {
  const calls = [
    { id: 'c1', name: 'lookup', input: { order: 7 } },
    { id: 'c2', name: 'lookup', input: { order: 8 } },
  ];
  const blocks = calls.map(({ id, name, input }) => ({ toolUse: { toolUseId: id, name, input } }));
  server.next(converseBody([{ text: 'Let me see.' }, ...blocks], 'tool_use'));
  const asked = { ...hi, tools: [lookup] };
  expect(await asking(asked)).toMatchObject({
    answer: { text: 'Let me see.', finish: 'calls', calls },
  });
  server.next(converseBody([{ text: 'Both shipped.' }]));
  await asking({
    ...asked,
    toolChoice: 'required',
    messages: [
      ...hi.messages,
      { role: 'assistant', text: 'Let me see.', calls },
      {
        role: 'user',
        text: '',
        results: [
          { id: 'c1', output: { state: 'shipped' } },
          { id: 'c2', output: 'no such order', failed: true },
        ],
      },
    ],
  });
  expect(server.seen.at(-1)?.body).toEqual({
    messages: [
      { role: 'user', content: [{ text: 'Hi' }] },
      { role: 'assistant', content: [{ text: 'Let me see.' }, ...blocks] },
      {
        role: 'user',
        content: [
          { toolResult: { toolUseId: 'c1', content: [{ json: { state: 'shipped' } }] } },
          {
            toolResult: { toolUseId: 'c2', content: [{ text: 'no such order' }], status: 'error' },
          },
        ],
      },
    ],
    toolConfig: {
      tools: [
        {
          toolSpec: {
            name: 'lookup',
            description: lookup.description,
            inputSchema: { json: lookup.input },
          },
        },
      ],
      toolChoice: { any: {} },
    },
  });
});

test('an answer with a schema comes through a tool the model must call, or in the format of the service', async () => {
  const schema = { type: 'object', properties: { city: { type: 'string' } } };
  server.next(
    converseBody(
      [{ toolUse: { toolUseId: 'c1', name: 'answer', input: { city: 'Oslo' } } }],
      'tool_use',
    ),
  );
  expect(await asking({ ...hi, schema })).toMatchObject({
    answer: { text: '{"city":"Oslo"}', finish: 'stop' },
  });
  expect(server.seen.at(-1)?.body).toMatchObject({
    toolConfig: {
      tools: [{ toolSpec: { name: 'answer', inputSchema: { json: schema } } }],
      toolChoice: { tool: { name: 'answer' } },
    },
  });
  const { outcome } = await streaming(
    {
      events: [
        ['messageStart', { role: 'assistant' }],
        [
          'contentBlockStart',
          { start: { toolUse: { toolUseId: 'c1', name: 'answer' } }, contentBlockIndex: 0 },
        ],
        ['contentBlockDelta', { delta: { toolUse: { input: '{"city":' } }, contentBlockIndex: 0 }],
        ['contentBlockDelta', { delta: { toolUse: { input: '"Oslo"}' } }, contentBlockIndex: 0 }],
        ['contentBlockStop', { contentBlockIndex: 0 }],
        ...ending('tool_use'),
      ],
    },
    { ...hi, schema },
  );
  expect(outcome).toMatchObject({ answer: { text: '{"city":"Oslo"}', finish: 'stop' } });
  server.next(converseBody([{ text: '{"city":"Oslo"}' }]));
  const format = await asking({ ...hi, schema }, {}, { structured: 'format' });
  expect(format).toMatchObject({ answer: { text: '{"city":"Oslo"}' } });
  expect(server.seen.at(-1)?.body).toMatchObject({
    outputConfig: {
      textFormat: {
        type: 'json_schema',
        structure: { jsonSchema: { schema: JSON.stringify(schema) } },
      },
    },
  });
});

test('a tool of the caller that is called answer stays a tool where no schema is asked for', async () => {
  const use = { toolUse: { toolUseId: 'c1', name: 'answer', input: {} } };
  server.next(converseBody([use], 'tool_use'));
  expect(await asking({ ...hi, tools: [{ ...lookup, name: 'answer' }] })).toMatchObject({
    answer: { finish: 'calls', calls: [{ id: 'c1' }] },
  });
});

test('a stream is shown as it comes and answered whole; tools are put together from their pieces', async () => {
  const { outcome, shown } = await streaming({
    events: [
      ...textEvents('One', ' two'),
      [
        'contentBlockStart',
        { start: { toolUse: { toolUseId: 'c1', name: 'lookup' } }, contentBlockIndex: 1 },
      ],
      ['contentBlockDelta', { delta: { toolUse: { input: '{"order"' } }, contentBlockIndex: 1 }],
      ['contentBlockDelta', { delta: { toolUse: { input: ':7}' } }, contentBlockIndex: 1 }],
      ['contentBlockStop', { contentBlockIndex: 1 }],
      [
        'contentBlockStart',
        { start: { toolUse: { toolUseId: 'c2', name: 'ping' } }, contentBlockIndex: 2 },
      ],
      ['contentBlockStop', { contentBlockIndex: 2 }],
      ...ending('tool_use'),
    ],
  });
  expect(shown).toEqual(['One', ' two']);
  expect(outcome).toEqual({
    kind: 'answered',
    answer: {
      text: 'One two',
      finish: 'calls',
      calls: [
        { id: 'c1', name: 'lookup', input: { order: 7 } },
        { id: 'c2', name: 'ping', input: {} },
      ],
      usage: billed,
    },
    usage: billed,
  });
  expect(server.seen.at(-1)?.path).toBe('/model/acme.large-v1%3A0/converse-stream');
});

/** What a failure means, as the table of bedrock-failure.ts says. */
const none = { disposition: 'did_not_happen', permanent: false } as const;
const never = { disposition: 'did_not_happen', permanent: true } as const;
const unknown = { disposition: 'in_doubt', permanent: false } as const;

test.each([
  ['ThrottlingException', 429, { ...none, code: 'model_throttled' }],
  ['ServiceQuotaExceededException', 400, { ...none, code: 'model_quota' }],
  ['ModelNotReadyException', 429, { ...none, code: 'model_not_ready' }],
  ['ServiceUnavailableException', 503, { ...none, code: 'model_unavailable' }],
  ['ConflictException', 400, { ...none, code: 'model_conflict' }],
  ['ValidationException', 400, { ...never, code: 'model_request_invalid' }],
  ['AccessDeniedException', 403, { ...never, code: 'model_access_denied' }],
  ['ResourceNotFoundException', 404, { ...never, code: 'model_not_found' }],
  ['ModelTimeoutException', 408, { ...unknown, code: 'model_timeout' }],
  ['ModelErrorException', 424, { ...unknown, code: 'model_error' }],
  ['InternalServerException', 500, { ...unknown, code: 'model_internal' }],
  ['ExpiredTokenException', 403, { ...none, code: 'model_credentials' }],
  ['InvalidSignatureException', 403, { ...none, code: 'model_credentials' }],
  ['UnrecognizedClientException', 403, { ...never, code: 'model_credentials_refused' }],
  ['SomethingNewException', 418, { ...never, code: 'model_418' }],
  ['SomethingNewException', 429, { ...none, code: 'model_429' }],
  ['SomethingNewException', 502, { ...unknown, code: 'model_502' }],
] as const)(
  '%s (%i) means %o, whole and streamed, and is asked once [T6]',
  async (error, status, means) => {
    const before = server.seen.length;
    server.next({ error, status });
    const whole = await asking();
    expect(whole).toMatchObject({
      kind: 'failed',
      ...means,
      message: expect.stringContaining('was said'),
    });
    expect(whole).not.toHaveProperty('usage');
    const { outcome } = await streaming({ error, status });
    expect(outcome).toMatchObject({ kind: 'failed', ...means });
    expect(server.seen.length - before).toBe(2);
  },
);

test('a wait the service names is a floor for the next attempt (B-24)', async () => {
  const headers = { 'retry-after': '3' };
  server.next({ error: 'ThrottlingException', status: 429, headers });
  expect(await asking()).toMatchObject({ adviceMs: 3_000 });
  server.next({ error: 'ValidationException', status: 400, headers });
  expect(await asking()).not.toHaveProperty('adviceMs');
});

test.each([
  [
    '!throttlingException',
    { ...none, code: 'model_throttled' },
    { ...unknown, code: 'model_throttled' },
  ],
  [
    '!serviceUnavailableException',
    { ...none, code: 'model_unavailable' },
    { ...unknown, code: 'model_unavailable' },
  ],
  [
    '!modelStreamErrorException',
    { ...unknown, code: 'model_stream_error' },
    { ...unknown, code: 'model_stream_error' },
  ],
  [
    '!internalServerException',
    { ...unknown, code: 'model_internal' },
    { ...unknown, code: 'model_internal' },
  ],
] as const)(
  '%s inside a stream: before a token it proves what its class proves, after one nothing [T6]',
  async (type, before, after) => {
    const error = [type, { message: 'so it was said' }] as const;
    const first = await streaming({ events: [['messageStart', { role: 'assistant' }], error] });
    expect(first.outcome).toMatchObject({ kind: 'failed', ...before });
    const later = await streaming({ events: [...textEvents('On'), error] });
    expect(later.outcome).toMatchObject({ kind: 'failed', ...after });
    expect(later.shown).toEqual(['On']);
  },
);

test.each([
  ['cut off', { events: textEvents('On'), cut: true }, 'in_doubt', ['model_failed', 'model_cut']],
  ['ending without a stop reason', { events: textEvents('On') }, 'in_doubt', ['model_cut']],
  [
    'ending before its bill',
    { events: [...textEvents('On'), ['messageStop', { stopReason: 'end_turn' }]] },
    'in_doubt',
    ['model_cut'],
  ],
  ['reset before it began', { reset: true }, 'in_doubt', ['model_failed']],
] as const)('a stream %s proves nothing [T6]', async (_, reply, disposition, codes) => {
  const { outcome } = await streaming(reply as Reply);
  expect(outcome).toMatchObject({ kind: 'failed', disposition, permanent: false });
  expect(codes).toContain((outcome as { code: string }).code);
});

test('an answer that is none is paid for and asked for again', async () => {
  server.next(converseBody([{ text: '{' }], 'malformed_model_output'));
  const failed = { kind: 'failed', ...unknown, code: 'model_malformed', usage: billed };
  expect(await asking()).toMatchObject(failed);
  const { outcome } = await streaming({
    events: [
      ['messageStart', { role: 'assistant' }],
      [
        'contentBlockStart',
        { start: { toolUse: { toolUseId: 'c1', name: 'lookup' } }, contentBlockIndex: 0 },
      ],
      ['contentBlockDelta', { delta: { toolUse: { input: '{"ord' } }, contentBlockIndex: 0 }],
      ...ending('tool_use'),
    ],
  });
  expect(outcome).toMatchObject(failed);
});

test('a call whose input was cut off at the answer’s length is none', async () => {
  const { outcome } = await streaming({
    events: [
      ...textEvents('Let me'),
      [
        'contentBlockStart',
        { start: { toolUse: { toolUseId: 'c1', name: 'lookup' } }, contentBlockIndex: 1 },
      ],
      ['contentBlockDelta', { delta: { toolUse: { input: '{"ord' } }, contentBlockIndex: 1 }],
      ...ending('max_tokens'),
    ],
  });
  expect(outcome).toMatchObject({ kind: 'answered', answer: { text: 'Let me', finish: 'length' } });
});

test('a connection that nobody takes is nothing sent; a broken one, an unreadable answer and a stop prove nothing [T6]', async () => {
  const gone = await converseServer();
  await gone.close();
  expect(await asking(hi, {}, { client: client(gone.url) })).toMatchObject({
    ...none,
    code: 'effect_not_sent',
  });
  server.next({ reset: true });
  expect(await asking()).toMatchObject({ ...unknown, code: 'model_failed' });
  server.next({ raw: '{"output": {' });
  expect(await asking()).toMatchObject({ ...unknown, code: 'model_failed' });
  server.next({ raw: '{}' });
  expect(await asking()).toMatchObject({ ...unknown, code: 'model_malformed' });
  expect(await asking(hi, { signal: AbortSignal.abort(new Error('stop')) })).toMatchObject({
    kind: 'failed',
    ...unknown,
  });
});

test('credentials that cannot be had are nothing sent, and looked for again', async () => {
  const credentials = () =>
    Promise.reject(Object.assign(new Error('none here'), { name: 'CredentialsProviderError' }));
  const outcome = await asking(hi, {}, { client: { ...client(), credentials } });
  expect(outcome).toMatchObject({ ...none, code: 'model_credentials' });
});

test('what Converse cannot say is refused before it is sent, by name', async () => {
  const before = server.seen.length;
  expect(await asking({ messages: [{ role: 'user', text: '' }] })).toMatchObject({
    ...never,
    code: 'model_request_invalid',
    message: expect.stringContaining('messages.0'),
  });
  const both = { ...hi, schema: {}, tools: [{ ...lookup, name: 'answer' }] };
  expect(await asking(both)).toMatchObject({ ...never, message: expect.stringContaining('tools') });
  expect(server.seen.length).toBe(before);
});
