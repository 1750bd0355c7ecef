// Loops of the AI SDK inside turns, as a user writes them: `generateText` and `streamText` unchanged, on both stores.
import { APICallError } from '@ai-sdk/provider';
import { generateText, isStepCount, streamText, tool, wrapLanguageModel } from 'ai';
import { expect, test } from 'vitest';
import { z } from 'zod';
import {
  effectCall,
  loopResult,
  modelEffects,
  type ToolTreatments,
  toolEffects,
  turnApproval,
} from '../../src/integrations/ai-sdk/index.ts';
import { tenantId, threadId, turnId } from '../../src/protocol/ids.ts';
import type { AgentDefinition } from '../../src/runtime/agent-definition.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { resumeByPerson } from '../../src/runtime/person-acts.ts';
import { readJournal } from '../../src/runtime/read-turn.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import { exploreCrashes, type Scenario } from '../../src/testing/crash-explorer.ts';
import { ScriptedProvider } from '../../src/testing/scripted-provider.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { agentOf, Scene } from './scene.ts';
import { type Line, lineUsage, Talk } from './talk.ts';

const ref = {
  tenant: tenantId('tenant', 'acme'),
  thread: threadId('thread', 'tides'),
  turn: turnId('turn', 't1'),
};

type How = 'generateText' | 'streamText';
const ways: readonly How[] = ['generateText', 'streamText'];
const perLine = lineUsage.inputTokens.total + lineUsage.outputTokens.total;

/** Two searches side by side, then a charge, then words. */
const research: readonly Line[] = [
  {
    calls: [
      ['search', { query: 'tides' }],
      ['search', { query: 'moon' }],
    ],
  },
  { calls: [['charge', { cents: 5 }]] },
  { text: 'The moon does it.' },
];

/** Tools that count what they did to the outside. */
function deskTools(outside: ScriptedProvider, through = <T>(_: string, act: () => T) => act()) {
  return {
    search: tool({
      inputSchema: z.object({ query: z.string() }),
      execute: async ({ query }, options) =>
        through('search', async () => {
          outside.call('search', effectCall(options).idempotencyKey, { dedup: false });
          return { found: `about ${query}` };
        }),
    }),
    charge: tool({
      inputSchema: z.object({ cents: z.number() }),
      execute: async (_, options) =>
        through('charge', async () =>
          outside.call('charge', effectCall(options).idempotencyKey, { dedup: true }),
        ),
    }),
  };
}

type DeskTools = ReturnType<typeof deskTools>;
const treatments: ToolTreatments<DeskTools> = {
  search: { mutates: false },
  charge: { recovery: 'idempotent' },
};

async function loop(
  how: How,
  context: TurnContext,
  talk: Talk,
  tools: DeskTools,
  options: Parameters<typeof modelEffects>[1] = {},
): Promise<string> {
  const model = wrapLanguageModel({
    model: talk.model,
    middleware: modelEffects(context, options),
  });
  const asked = { model, tools, prompt: 'Why are there tides?', stopWhen: isStepCount(9) };
  if (how === 'generateText') return (await generateText(asked)).text;
  return loopResult(context, streamText({ ...asked, onError: () => undefined }).text);
}

function desk(how: How, lines: readonly Line[], given: ToolTreatments<DeskTools> = treatments) {
  const outside = new ScriptedProvider();
  const talk = new Talk(lines);
  const tools = deskTools(outside);
  const agent = agentOf((context) =>
    loop(how, context, talk, toolEffects(context, tools, given), { price: () => 2 }),
  );
  return { outside, talk, agent };
}

const ids = (outside: ScriptedProvider) => outside.requests.map(({ kind }) => kind);

for (const how of ways) {
  test(`${how}: what a failed turn did is taken back by the tools that say how, and no other turn reads its answers [T8]`, async () => {
    const { outside, talk } = desk(how, research);
    const taken: unknown[] = [];
    const tools = deskTools(outside);
    const treated: ToolTreatments<DeskTools> = {
      ...treatments,
      charge: {
        recovery: 'idempotent',
        undo: async (undo, { input, output }) => {
          taken.push(input, output);
          const kind = 'refund';
          const perform = async () => outside.call(kind, '', { dedup: false });
          return undo.effect({ kind, args: input, recovery: 'idempotent', perform });
        },
      },
    };
    const agent = agentOf(async (context) => {
      const text = await loop(how, context, talk, toolEffects(context, tools, treated));
      throw new Error(`no use for ${text}`);
    });
    const scene = new Scene(memoryStore(), agent);
    expect(await scene.conclude()).toMatchObject({ status: 'failed' });
    expect(ids(outside)).toEqual(['search', 'search', 'charge', 'refund']);
    expect(taken).toEqual([{ cents: 5 }, { id: 'charge-1' }]);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
    expect(talk.seen).toHaveLength(3);
    await scene.conclude('t2');
    expect(talk.seen).toHaveLength(6);
  });

  test(`${how}: another prompt on the way is a divergence, found before anything acts [T7]`, async () => {
    const lines: readonly Line[] = [{ calls: [['charge', { cents: 5 }]] }, { text: 'Paid.' }];
    const { outside, talk, agent } = desk(how, lines, { charge: { approval: true } });
    const scene = new Scene(memoryStore(), agent);
    await scene.suspend();
    scene.deploy(reworded(talk, outside, {}));
    await answer(scene, 'approve');
    expect(await scene.view()).toMatchObject({
      status: 'quarantined',
      error: { code: 'divergence' },
    });
    expect([talk.seen.length, outside.requests.length]).toEqual([1, 0]);
  });

  onEachStore(
    `${how}: every completion and every tool call of a loop is an effect, and none is repeated [T2 T5 T7]`,
    async (open) => {
      const { outside, talk, agent } = desk(how, research);
      const scene = new Scene(await open(), agent);
      const turn = await scene.conclude();
      expect(turn).toMatchObject({
        status: 'succeeded',
        result: 'The moon does it.',
        spend: { effects: 6, attempts: 6, tokens: 3 * perLine, minorUnits: 6 },
      });
      const kinds = (await scene.journal()).flatMap((body) =>
        body.kind === 'EffectStarted' ? [body.effect] : [],
      );
      expect(kinds).toEqual([
        'model.complete',
        'tool.search',
        'tool.search',
        'model.complete',
        'tool.charge',
        'model.complete',
      ]);
      expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
      expect(await scene.conclude()).toMatchObject({ replayed: true });
      expect(talk.seen).toHaveLength(3);
      expect(ids(outside)).toEqual(['search', 'search', 'charge']);
      expect(new Set(outside.requests.map(({ key }) => key)).size).toBe(3);
    },
  );

  onEachStore(
    `${how}: dying at any port call pays no recorded completion twice and charges once [T1 T2 T5 T6 T7]`,
    async (open) => {
      const scenario: Scenario<{ outside: ScriptedProvider; talk: Talk }> = {
        name: `a loop of ${how}`,
        provider: () => ({ outside: new ScriptedProvider(), talk: new Talk([]) }),
        agents: (provider, current) => {
          provider.talk = new Talk(research, (answer) => current().provider('model', answer));
          const tools = deskTools(
            provider.outside,
            (name, act) => current().provider(name, async () => act()) as ReturnType<typeof act>,
          );
          return [
            agentOf((context) =>
              loop(how, context, provider.talk, toolEffects(context, tools, treatments)),
            ),
          ];
        },
        request: ([agent]) => {
          if (agent === undefined) throw new Error('a scenario has an agent');
          return { ref, agent, input: null, subject: null, budget: null, actor: 'ann' };
        },
        check: ({ turn, provider, fault }) => {
          expect(turn).toMatchObject({ status: 'succeeded', result: 'The moon does it.' });
          expect(provider.outside.landed('charge')).toBe(1);
          expect(provider.talk.seen.length).toBeLessThanOrEqual(3 + paidAgain(fault));
        },
      };
      const explored = await exploreCrashes(scenario, () => open());
      expect(explored.statuses).toEqual({ succeeded: explored.runs });
      expect(explored.runs).toBeGreaterThan(60);
    },
  );

  onEachStore(
    `${how}: a tool that needs a person suspends the turn; its sibling is done, and the loop goes on [T10]`,
    async (open) => {
      const lines: readonly Line[] = [
        {
          calls: [
            ['charge', { cents: 5 }],
            ['search', { query: 'tides' }],
          ],
        },
        { text: 'Paid.' },
      ];
      const { outside, talk, agent } = desk(how, lines, {
        search: { mutates: false },
        charge: { recovery: 'idempotent', approval: ({ cents }) => cents > 1 },
      });
      const scene = new Scene(await open(), agent);
      const rest = await scene.suspend();
      expect(rest.waits).toMatchObject([{ kind: 'approval', summary: 'call charge' }]);
      expect(ids(outside)).toEqual(['search']);
      await answer(scene, 'approve');
      expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'Paid.' });
      expect(ids(outside)).toEqual(['search', 'charge']);
      expect(talk.seen).toHaveLength(2);
      expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
    },
  );

  test(`${how}: a call that was denied never ran, and the model hears so [T10]`, async () => {
    const lines: readonly Line[] = [{ calls: [['charge', { cents: 5 }]] }, { text: 'A pity.' }];
    const { outside, talk, agent } = desk(how, lines, { charge: { approval: true } });
    const scene = new Scene(memoryStore(), agent);
    await scene.suspend();
    await answer(scene, 'deny');
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'A pity.' });
    expect(outside.requests).toEqual([]);
    expect(JSON.stringify(talk.seen[1]?.prompt.at(-1))).toContain(
      'the call of \\"charge\\" did not run; it was denied',
    );
  });

  test(`${how}: a doubt stops the loop: no model hears of it, nothing is asked again [T6]`, async () => {
    const lines: readonly Line[] = [
      { calls: [['charge', { cents: 5 }]] },
      { calls: [['charge', { cents: 5 }]] },
    ];
    const { talk } = desk(how, lines);
    let charged = 0;
    const tools = {
      ...deskTools(new ScriptedProvider()),
      charge: tool({
        inputSchema: z.object({ cents: z.number() }),
        execute: async (): Promise<{ id: string }> => {
          charged += 1;
          throw new Error('socket hang up');
        },
      }),
    };
    const agent = agentOf((context) => loop(how, context, talk, toolEffects(context, tools)));
    const scene = new Scene(memoryStore(), agent);
    expect(await scene.conclude()).toMatchObject({
      status: 'quarantined',
      undecided: [{ kind: 'tool.charge', doubt: 'inconclusive' }],
    });
    expect([charged, talk.seen.length]).toEqual([1, 1]);
  });

  test(`${how}: a ceiling stops the loop, and a raised one goes on with the refused completion [T11]`, async () => {
    const { outside, talk, agent } = desk(how, research);
    const scene = new Scene(memoryStore(), agent);
    const budget = { tokens: 2 * perLine };
    expect(await scene.conclude('t1', { budget })).toMatchObject({
      status: 'exhausted',
      spend: { tokens: 2 * perLine },
    });
    const { runtime } = scene.process;
    const more = { reason: 'more', budget: { tokens: 1_000 } };
    await scene.world.settle(scene.process, resumeByPerson(runtime, scene.ref(), more, 'olga', {}));
    expect(await scene.view()).toMatchObject({
      status: 'succeeded',
      spend: { tokens: 3 * perLine },
    });
    expect([talk.seen.length, outside.landed('charge')]).toEqual([3, 1]);
  });

  test(`${how}: a provider that is busy is asked again after its wait, a refusal is final, and both are billed as they are [T11]`, async () => {
    const { talk, agent } = desk(how, [{ text: 'At last.' }]);
    talk.faults.push(refusal(429, { 'retry-after': '3' }), refusal(500));
    const scene = new Scene(memoryStore(), agent);
    const from = scene.world.clock.now();
    expect(await scene.conclude()).toMatchObject({
      status: 'succeeded',
      result: 'At last.',
      spend: { effects: 1, attempts: 3, tokens: perLine },
    });
    expect(scene.world.clock.now() - from).toBeGreaterThanOrEqual(3_000);
    talk.faults.push(refusal(401));
    expect(await scene.conclude('t2')).toMatchObject({
      status: 'failed',
      error: { code: 'model_401' },
      spend: { attempts: 1, tokens: 0 },
    });
  });
}

for (const how of ways) {
  test(`${how}: toolApproval of the SDK is answered through the turn, a denial with its reason [T10]`, async () => {
    const lines: readonly Line[] = [
      { calls: [['charge', { cents: 5 }]] },
      { calls: [['charge', { cents: 5 }]] },
      { text: 'Paid once.' },
    ];
    const talk = new Talk(lines);
    const outside = new ScriptedProvider();
    const agent = agentOf(async (context) => {
      const asked = {
        model: wrapLanguageModel({ model: talk.model, middleware: modelEffects(context) }),
        tools: toolEffects(context, deskTools(outside), treatments),
        toolApproval: turnApproval(context, { charge: () => 'user-approval' }),
        prompt: 'Pay.',
        stopWhen: isStepCount(9),
      };
      if (how === 'generateText') return (await generateText(asked)).text;
      return loopResult(context, streamText(asked).text);
    });
    const scene = new Scene(memoryStore(), agent);
    await scene.suspend();
    await answer(scene, 'approve');
    expect(await scene.view()).toMatchObject({ status: 'suspended' });
    await answer(scene, 'deny');
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'Paid once.' });
    expect(ids(outside)).toEqual(['charge']);
    expect(talk.seen).toHaveLength(3);
    expect(JSON.stringify(talk.seen[2]?.prompt.at(-1))).toContain('denied');
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  });
}

test('a loop that waits goes no further, whatever its code would make of a missing answer [T10]', async () => {
  const talk = new Talk([{ calls: [['charge', { cents: 5 }]] }]);
  const outside = new ScriptedProvider();
  const agent = agentOf(async (context) => {
    const model = wrapLanguageModel({ model: talk.model, middleware: modelEffects(context) });
    const tools = toolEffects(context, deskTools(outside), { charge: { approval: true } });
    const { toolResults } = await generateText({ model, tools, prompt: 'Pay.' });
    if (toolResults.length === 0) throw new Error('expected a result');
    return toolResults.map(({ output }) => output);
  });
  const scene = new Scene(memoryStore(), agent);
  await scene.suspend();
  await answer(scene, 'approve');
  expect(await scene.view()).toMatchObject({ status: 'succeeded', result: [{ id: 'charge-1' }] });
});

test('streamText: live parts come with each attempt; the loop sees only what was recorded, and a broken stream is charged its reserve [T11]', async () => {
  const talk = new Talk([{ text: 'The moon does it.' }]);
  const shown: string[] = [];
  const agent = agentOf(async (context) => {
    const middleware = modelEffects(context, {
      reserveTokens: 40,
      live: (part, attempt) =>
        part.type === 'text-delta' ? shown.push(`${attempt} ${part.delta}`) : undefined,
    });
    const model = wrapLanguageModel({ model: talk.cutting(new Error('reset')), middleware });
    const result = streamText({ model, prompt: 'Why?' });
    const chunks: string[] = [];
    for await (const chunk of result.textStream) chunks.push(chunk);
    return chunks;
  });
  const scene = new Scene(memoryStore(), agent);
  expect(await scene.conclude()).toMatchObject({
    status: 'succeeded',
    result: ['The moon does it.'],
    spend: { attempts: 2, tokens: 40 + perLine },
  });
  expect(shown).toEqual(['1 The moon ', '2 The moon ', '2 does it.']);
});

test('a treatment of a tool that is not there is refused before anything is asked [T11]', async () => {
  const agent = agentOf(async (context) => {
    const tools: Record<string, DeskTools['search']> = {
      search: deskTools(new ScriptedProvider()).search,
    };
    return Object.keys(toolEffects(context, tools, { serach: { mutates: false } }));
  });
  expect(await new Scene(memoryStore(), agent).conclude()).toMatchObject({
    status: 'failed',
    error: { message: 'toolEffects: treatment of "serach": expected the name of a tool' },
  });
});

test('the journal keeps no header and no body of a provider [T13]', async () => {
  const { talk, agent } = desk('generateText', [{ text: 'Hello.' }]);
  const scene = new Scene(memoryStore(), agent);
  await scene.conclude();
  const page = await readJournal(scene.process.runtime, scene.ref(), { after: 0, limit: 100 });
  const text = JSON.stringify(page);
  expect(text).toContain('Hello.');
  expect(text).not.toContain('secret');
  expect(talk.seen).toHaveLength(1);
});

test('a turn that waited goes on from its recorded answers under new wording, where completions are known by their place [T7]', async () => {
  const lines: readonly Line[] = [{ calls: [['charge', { cents: 5 }]] }, { text: 'Paid.' }];
  const talk = new Talk(lines);
  const outside = new ScriptedProvider();
  const tools = deskTools(outside);
  const treated: ToolTreatments<DeskTools> = { ...treatments, charge: { approval: true } };
  const place = { identity: 'place' } as const;
  const scene = new Scene(
    memoryStore(),
    agentOf((context) =>
      loop('generateText', context, talk, toolEffects(context, tools, treated), place),
    ),
  );
  await scene.suspend();
  scene.deploy(reworded(talk, outside, place, treated));
  await answer(scene, 'approve');
  expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'Paid.' });
  expect(talk.seen.map(({ prompt }) => JSON.stringify(prompt).includes('Something else'))).toEqual([
    false,
    true,
  ]);
});

function reworded(
  talk: Talk,
  outside: ScriptedProvider,
  options: Parameters<typeof modelEffects>[1],
  treated: ToolTreatments<DeskTools> = treatments,
): AgentDefinition {
  return agentOf(async (context) => {
    const model = wrapLanguageModel({
      model: talk.model,
      middleware: modelEffects(context, options),
    });
    const tools = toolEffects(context, deskTools(outside), treated);
    return (
      await generateText({ model, tools, prompt: 'Something else.', stopWhen: isStepCount(9) })
    ).text;
  });
}

/** Requests beyond three: the one whose answer the death kept from its record, and the one a fault doubled. */
function paidAgain(fault: { readonly name: string; readonly kind: string } | null): number {
  if (fault === null) return 0;
  const doubled = fault.name === 'provider.model' && fault.kind === 'deliveredTwice' ? 1 : 0;
  return doubled + (['provider.model', 'store.append'].includes(fault.name) ? 1 : 0);
}

function refusal(statusCode: number, responseHeaders: Record<string, string> = {}): APICallError {
  const url = 'https://model.example';
  return new APICallError({
    message: `status ${statusCode}`,
    url,
    requestBodyValues: {},
    statusCode,
    responseHeaders,
  });
}

async function answer(scene: Scene, decision: 'approve' | 'deny'): Promise<void> {
  const { runtime } = scene.process;
  const { tenant } = scene.ref();
  const asked = { status: 'pending', limit: 10, cursor: null } as const;
  const { items } = await listApprovals(runtime, tenant, asked);
  const [only] = items;
  if (items.length !== 1 || only === undefined) throw new Error(`${items.length} approvals wait`);
  expect(only.action).toEqual({ tool: 'charge', input: { cents: 5 } });
  const given = { decision, digest: only.digest, note: null };
  await answerApproval(runtime, tenant, only.id, given, 'bob');
  await scene.inbox();
}
