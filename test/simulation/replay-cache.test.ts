// The replay cache of a thread around whole turns: what it serves, to whom, and what it costs (cases F of intents.md).
import { generateText, streamText, wrapLanguageModel } from 'ai';
import { expect, test } from 'vitest';
import { Circuit } from '../../src/agent/circuit.ts';
import { completion, type ModelTreatment } from '../../src/agent/model-effect.ts';
import { loopResult } from '../../src/integrations/ai-sdk/loop.ts';
import { modelEffects } from '../../src/integrations/ai-sdk/model-effects.ts';
import type { ModelFailure, ModelRequest, ModelUsage } from '../../src/ports/model.ts';
import type { TelemetryFields } from '../../src/ports/telemetry.ts';
import { subjectId } from '../../src/protocol/ids.ts';
import type { RecordOf } from '../../src/protocol/record.ts';
import { resumeByPerson } from '../../src/runtime/person-acts.ts';
import { eraseSubject, readmitSubject } from '../../src/runtime/subjects.ts';
import type { Effect, TurnContext } from '../../src/runtime/turn-context.ts';
import { ScriptedModel } from '../../src/testing/scripted-model.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { agentOf, type Run, Scene } from './scene.ts';
import { Talk } from './talk.ts';

const minute = 60_000;
const hour = 60 * minute;

const asking = (text: string, more: Partial<ModelRequest> = {}): ModelRequest => ({
  messages: [{ role: 'user', text }],
  ...more,
});

/** Numbers its answers, so that one that was served again can be told. */
function numbered(options: { usage?: ModelUsage } = {}): ScriptedModel {
  return new ScriptedModel(({ messages }, asked) => `${messages[0]?.text} ${asked + 1}`, {
    id: 'fake/one',
    ...options,
  });
}

async function ask(
  context: TurnContext,
  model: ScriptedModel,
  text: string,
  treatment: ModelTreatment = { cache: true },
): Promise<string> {
  return (await context.effect(completion(model, asking(text), treatment))).text;
}

async function hits(scene: Scene, turn = 't1'): Promise<readonly RecordOf<'AnswerCached'>[]> {
  return (await scene.journal(turn)).filter((body) => body.kind === 'AnswerCached');
}

onEachStore(
  'T82 a resume repeats the prompt: nobody is asked, and the hit is a record of its own that bills nothing [T7 T11]',
  async (open) => {
    const model = numbered();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        const before = await ask(context, model, 'hi');
        await context.sleep(minute);
        return [before, await ask(context, model, 'hi')];
      }),
    );
    await scene.suspend();
    scene.restart();
    await scene.passTime(2 * minute);
    expect(await scene.view()).toMatchObject({
      status: 'succeeded',
      result: ['hi 1', 'hi 1'],
      // The sleep is the other one.
      spend: { effects: 2, attempts: 2, tokens: 15 },
    });
    expect(model.requests).toHaveLength(1);
    const [hit, ...more] = await hits(scene);
    const bought = (await scene.journal()).find((body) => body.kind === 'EffectDone');
    expect(hit).toMatchObject({
      effect: 'model.complete',
      tokens: 15,
      turn: 't1',
      from: bought?.seq,
    });
    expect(more).toEqual([]);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'ruling 16 a rerun at the same revision is served what a diverged turn had bought before it rested [T7]',
  async (open) => {
    const model = numbered();
    const build =
      (first: string): Run =>
      async (context) => {
        await context.effect({
          kind: first,
          args: null,
          mutates: false,
          perform: async () => null,
        });
        const text = await ask(context, model, 'hi');
        if (context.turn === 't1') await context.sleep(minute);
        return text;
      };
    const scene = new Scene(await open(), agentOf(build('look')));
    await scene.suspend('t1');
    scene.deploy(agentOf(build('stare')));
    await scene.passTime(2 * minute);
    expect(await scene.view('t1')).toMatchObject({ status: 'quarantined' });
    expect(await scene.conclude('t2')).toMatchObject({ result: 'hi 1', revision: 1 });
    expect(await hits(scene, 't2')).toMatchObject([{ turn: 't1' }]);
    // The next revision is another position.
    expect(await scene.conclude('t3')).toMatchObject({ result: 'hi 2', revision: 2 });
    expect(model.requests).toHaveLength(2);
  },
);

onEachStore(
  'T84 two equal calls of a turn are one; with sample ordinals 0 and 1 they are two; without a cache each is made',
  async (open) => {
    const model = numbered();
    const treatments: Readonly<Record<string, readonly ModelTreatment[]>> = {
      equal: [{ cache: true }, { cache: true }],
      sampled: [{ cache: { sample: 0 } }, { cache: { sample: 1 } }],
      plain: [{}, {}],
    };
    const scene = new Scene(
      await open(),
      agentOf(async (context, input) => {
        const { how, together } = input as { how: string; together: boolean };
        const [first = {}, second = {}] = treatments[how] ?? [];
        if (together) {
          return Promise.all([ask(context, model, how, first), ask(context, model, how, second)]);
        }
        return [await ask(context, model, how, first), await ask(context, model, how, second)];
      }),
    );
    const asked = async (turn: string, how: string, together: boolean) => {
      const before = model.requests.length;
      const { status, result } = await scene.conclude(turn, { input: { how, together } });
      expect(status).toBe('succeeded');
      expect(await scene.strict(turn)).toMatchObject({ verdict: 'verified' });
      return { asked: model.requests.length - before, differ: new Set(result as string[]).size };
    };
    expect(await asked('t1', 'equal', false)).toEqual({ asked: 1, differ: 1 });
    expect(await asked('t2', 'equal', true)).toEqual({ asked: 1, differ: 1 });
    expect(await asked('t3', 'sampled', false)).toEqual({ asked: 2, differ: 2 });
    expect(await asked('t4', 'sampled', true)).toEqual({ asked: 2, differ: 2 });
    expect(await asked('t5', 'plain', true)).toEqual({ asked: 2, differ: 2 });
  },
);

test('T84 an equal call beside one that failed is made for itself', async () => {
  const refused: ModelFailure = {
    kind: 'failed',
    disposition: 'did_not_happen',
    permanent: true,
    code: 'model_400',
    message: 'no',
  };
  const model = new ScriptedModel((_, asked) => (asked === 0 ? refused : 'fine'), {
    id: 'fake/one',
  });
  const scene = new Scene(
    memoryStore(),
    agentOf(async (context) => {
      const both = await Promise.allSettled([ask(context, model, 'x'), ask(context, model, 'x')]);
      return both.map(({ status }) => status);
    }),
  );
  expect(await scene.conclude()).toMatchObject({ result: ['rejected', 'fulfilled'] });
});

test('T84 an equal call does not wait for one that the host makes park [T11]', async () => {
  const busy: ModelFailure = {
    kind: 'failed',
    disposition: 'did_not_happen',
    permanent: false,
    code: 'model_429',
    message: 'later',
    adviceMs: 50_000,
  };
  const model = new ScriptedModel((_, asked) => (asked === 0 ? busy : 'fine'), { id: 'fake/one' });
  const scene = new Scene(
    memoryStore(),
    agentOf((context) => Promise.all([ask(context, model, 'x'), ask(context, model, 'x')])),
  );
  const deadlineAt = scene.world.clock.now() + 20_000;
  const answer = await scene.deliver('t1', { deadlineAt } as never);
  expect(answer).toMatchObject({ kind: 'pending' });
  // One has asked in vain and waits, the other went on by itself.
  expect(model.requests).toHaveLength(2);
  await scene.passTime(minute);
  await scene.world.recover();
  expect(await scene.view()).toMatchObject({ status: 'succeeded', result: ['fine', 'fine'] });
});

onEachStore(
  'T85 T86 what a turn leaves: 64 answers by use, six hours from when each was bought [T11]',
  async (open) => {
    const store = await open();
    const model = numbered();
    const scene = new Scene(
      store,
      agentOf(async (context) => {
        for (let n = 1; n <= 64; n += 1) await ask(context, model, `p${n}`);
        const touched = await ask(context, model, 'p1');
        await ask(context, model, 'p65');
        await context.sleep(6 * hour - 2 * minute);
        const used = await ask(context, model, 'p1');
        await context.sleep(2 * minute);
        return [touched, used, await ask(context, model, 'p1'), await ask(context, model, 'p2')];
      }),
    );
    await scene.suspend();
    const left = await store.cachedAnswers(scene.ref());
    expect(left).toHaveLength(64);
    await scene.passTime(6 * hour - minute);
    await scene.passTime(3 * minute);
    expect(await scene.view()).toMatchObject({
      status: 'succeeded',
      // p1 is too old the third time; p2 was evicted by p65.
      result: ['p1 1', 'p1 1', 'p1 66', 'p2 67'],
    });
  },
);

onEachStore(
  'B-20 of an answer over 100 KiB the digest is kept: it is bought again, and another one is told',
  async (open) => {
    const large = 'x'.repeat(101 * 1024);
    const model = new ScriptedModel((_, asked) => `${large}${asked < 2 ? 0 : asked}`, {
      id: 'fake/one',
    });
    const told: (readonly [string, TelemetryFields])[] = [];
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        for (let n = 0; n < 3; n += 1) await ask(context, model, 'long');
        return 'done';
      }),
    );
    scene.world.telemetry = { emit: (name, fields) => void told.push([name, fields]) };
    scene.restart();
    expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
    expect(model.requests).toHaveLength(3);
    expect(await hits(scene)).toEqual([]);
    expect(told.filter(([name]) => name === 'model.diverged')).toHaveLength(1);
    expect((await scene.kinds()).filter((kind) => kind === 'Note')).toHaveLength(1);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

onEachStore(
  'T88 the circuit of a provider is open and an answer is cached: it is served',
  async (open) => {
    let up = true;
    const down: ModelFailure = {
      kind: 'failed',
      disposition: 'in_doubt',
      permanent: false,
      code: 'model_503',
      message: 'down',
    };
    const model = new ScriptedModel(({ messages }) => (up ? `${messages[0]?.text}` : down), {
      id: 'fake/one',
    });
    const clock = new Scene(
      memoryStore(),
      agentOf(async () => null),
    ).world.clock;
    const circuit = new Circuit(() => clock.monotonicMs(), { failures: 3, openMs: 10 * hour });
    const treatment = { cache: true, circuit, retry: { maxAttempts: 3, initialMs: 1, maxMs: 1 } };
    const failsWith = (work: Promise<unknown>) =>
      work.then(
        () => 'nothing',
        (error: unknown) => Reflect.get(Object(error), 'code'),
      );
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await ask(context, model, 'known', treatment);
        up = false;
        const three = await failsWith(ask(context, model, 'other', treatment));
        const open = await failsWith(
          ask(context, model, 'other', { ...treatment, retry: { maxAttempts: 1 } }),
        );
        return [three, open, await ask(context, model, 'known', treatment)];
      }),
    );
    expect(await scene.conclude()).toMatchObject({
      result: ['model_503', 'model_circuit_open', 'known'],
    });
    expect(model.requests).toHaveLength(1 + 3);
  },
);

onEachStore(
  'T89 600 and 400 tokens pass a ceiling of 1000, the third call is refused before the cache; with hits it trips at the same call [T11]',
  async (open) => {
    const model = new ScriptedModel(({ messages }) => `${messages[0]?.text}`, { id: 'fake/one' });
    const priced = (text: string): Effect<unknown> => {
      const tokens = { a: 600, b: 400, c: 1 }[text] ?? 0;
      const effect = completion(model, asking(text), { cache: true });
      return {
        ...effect,
        perform: async (call) => {
          await effect.perform({ ...call, bill: () => undefined });
          call.bill({ tokens });
          return text;
        },
      };
    };
    const scene = new Scene(
      await open(),
      agentOf(async (context, input) => {
        const heard = [];
        for (const text of (input as { say: string }).say)
          heard.push(await context.effect(priced(text)));
        if (context.turn === 't1') await context.sleep(minute);
        for (const text of (input as { more: string }).more)
          heard.push(await context.effect(priced(text)));
        return heard;
      }),
    );
    const budget = { tokens: 1000 };
    await scene.suspend('t1', { input: { say: 'ab', more: 'c' }, budget });
    expect(model.requests).toHaveLength(2);
    // The third call of the rerun is refused at its own entry, although an answer of it is cached.
    const rerun = await scene.conclude('t2', { input: { say: 'ab', more: 'a' }, budget });
    expect(rerun).toMatchObject({ status: 'exhausted', spend: { tokens: 0, attempts: 0 } });
    expect(await hits(scene, 't2')).toMatchObject([{ tokens: 600 }, { tokens: 400 }]);
    expect(await scene.strict('t2')).toMatchObject({ verdict: 'verified' });
    await scene.passTime(2 * minute);
    expect(await scene.view('t1')).toMatchObject({ status: 'exhausted', spend: { tokens: 1000 } });
    expect(model.requests).toHaveLength(2);
    const { process } = scene;
    const resumed = resumeByPerson(
      process.runtime,
      scene.ref('t2'),
      { reason: 'more', budget: { tokens: 1001 } },
      'olga',
      {},
    );
    // The refused call is admitted anew and served: 1000 was reached, one more fits.
    expect(await scene.world.settle(process, resumed)).toMatchObject({
      turn: { status: 'succeeded', result: ['a', 'b', 'a'], spend: { tokens: 0 } },
    });
  },
);

test.each([
  ['temperature', { temperature: Number.NaN }],
  ['maxOutputTokens', { maxOutputTokens: Number.POSITIVE_INFINITY }],
] as const)(
  'T90 a %s that is no number is refused, cache or not; nothing is announced',
  async (name, more) => {
    for (const cache of [true, false]) {
      const model = numbered();
      const scene = new Scene(
        memoryStore(),
        agentOf((context) => context.effect(completion(model, asking('x', more), { cache }))),
      );
      expect(await scene.conclude()).toMatchObject({
        status: 'failed',
        error: { code: 'invalid_effect', message: expect.stringContaining(name) },
      });
      expect(await scene.kinds()).toEqual(['RunAdmitted', 'RC(failed)']);
      expect(model.requests).toEqual([]);
    }
  },
);

onEachStore(
  'T81 B-21 a failed turn leaves nothing in the cache for the next one at its revision [T7]',
  async (open) => {
    const store = await open();
    const model = numbered();
    const scene = new Scene(
      store,
      agentOf(async (context, input) => {
        const text = await ask(context, model, 'same');
        if (input === 'fail') throw new Error('no use');
        return text;
      }),
    );
    expect(await scene.conclude('t1', { input: 'fail' })).toMatchObject({ status: 'failed' });
    expect(await store.cachedAnswers(scene.ref())).toEqual([]);
    expect(await scene.conclude('t2', { input: 'go' })).toMatchObject({ result: 'same 2' });
    expect(await store.cachedAnswers(scene.ref())).toHaveLength(1);
  },
);

onEachStore(
  'nobody but the same person is served, and after an erasure nobody at all [T12]',
  async (open) => {
    const store = await open();
    const model = numbered();
    const ann = subjectId('subject', 'ann');
    const bob = subjectId('subject', 'bob');
    const scene = new Scene(
      store,
      agentOf(async (context, input) => {
        const text = await ask(context, model, 'my secret');
        if (input === 'rest') await context.sleep(minute);
        else throw new Error('kept at its revision');
        return text;
      }),
    );
    await scene.suspend('t1', { subject: ann, input: 'rest' });
    await scene.conclude('t2', { subject: ann, input: 'go' });
    await scene.conclude('t3', { subject: bob, input: 'go' });
    await scene.conclude('t4', { subject: null, input: 'go' });
    expect([
      await hits(scene, 't2'),
      await hits(scene, 't3'),
      await hits(scene, 't4'),
    ]).toMatchObject([[{ turn: 't1' }], [], []]);
    expect(model.requests).toHaveLength(3);
    const { runtime } = scene.world.start();
    const person = { tenant: scene.ref().tenant, subject: ann };
    await eraseSubject(runtime, person, 'dora');
    await readmitSubject(runtime, person);
    const row = JSON.stringify(await store.cachedAnswers(scene.ref()));
    expect(row).not.toContain('secret');
    await scene.conclude('t5', { subject: ann, input: 'go' });
    expect(await hits(scene, 't5')).toEqual([]);
    expect(model.requests).toHaveLength(4);
  },
);

test('a loop of the AI SDK is served in the form it asks for: whole and streamed answers never mix', async () => {
  const talk = new Talk([{ text: 'Hello.' }]);
  const scene = new Scene(
    memoryStore(),
    agentOf(async (context) => {
      const middleware = modelEffects(context, { cache: true });
      const model = wrapLanguageModel({ model: talk.model, middleware });
      const heard = [];
      for (let n = 0; n < 2; n += 1) {
        heard.push((await generateText({ model, prompt: 'Hi' })).text);
        heard.push(await loopResult(context, streamText({ model, prompt: 'Hi' }).text));
        heard.push((await generateText({ model, prompt: 'Hi', temperature: 1 })).text);
      }
      return heard;
    }),
  );
  expect(await scene.conclude()).toMatchObject({ result: Array(6).fill('Hello.') });
  expect(talk.seen).toHaveLength(3);
  expect(await hits(scene)).toHaveLength(3);
});

onEachStore(
  'cost: a cache takes one read before its first completion and one write after the commit, and only where it is asked for',
  async (open) => {
    const seen: string[] = [];
    const store = await open(({ writes }) => void seen.push(writes > 0 ? 'write' : 'read'));
    const model = numbered();
    const scene = new Scene(
      store,
      agentOf(async (context, input) => {
        const { cache } = input as { cache: boolean };
        for (const text of ['a', 'b', 'a']) await ask(context, model, text, { cache });
        return null;
      }),
    );
    await scene.conclude('warm', { input: { cache: false } });
    const cost = async (turn: string, cache: boolean) => {
      seen.length = 0;
      await scene.conclude(turn, { input: { cache } });
      const reads = seen.filter((kind) => kind === 'read').length;
      return { reads, writes: seen.length - reads };
    };
    const plain = await cost('t1', false);
    // The third call is a hit: neither its announcement nor its record is a write of its own.
    expect(await cost('t2', true)).toEqual({
      reads: plain.reads + 1,
      writes: plain.writes - 2 + 1,
    });
  },
);

test('a process that dies at any call of a turn with a cache pays at most for the call on its way [T5 T7]', async () => {
  const calls = async (fault: { call: number; kind: 'lostBefore' | 'doneButUnheard' } | null) => {
    const model: ScriptedModel = new ScriptedModel(({ messages }) => `${messages[0]?.text}`, {
      id: 'fake/one',
      through: (name, answer) => scene.process.provider(name, answer),
    });
    const scene: Scene = new Scene(
      memoryStore(),
      agentOf(async (context) => {
        const heard = [await ask(context, model, 'a'), await ask(context, model, 'a')];
        await context.sleep(minute);
        return [...heard, await ask(context, model, 'a'), await ask(context, model, 'b')];
      }),
    );
    scene.restart(fault);
    await scene.deliver();
    const first = scene.process.calls;
    const at = `${scene.process.fired} ${fault?.kind}`;
    scene.restart();
    if ((await scene.deliver()) === 'died') throw new Error('only the first process dies');
    await scene.world.recover();
    await scene.passTime(2 * minute);
    await scene.world.recover();
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: ['a', 'a', 'a', 'b'] });
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
    return { first, at, asked: model.requests.length };
  };
  const { first, asked } = await calls(null);
  expect(asked).toBe(2);
  const paid = new Map<string, number>();
  for (let call = 1; call <= first; call += 1) {
    for (const kind of ['lostBefore', 'doneButUnheard'] as const) {
      const died = await calls({ call, kind });
      if (died.asked > 2) paid.set(died.at, died.asked);
    }
  }
  expect(first).toBeGreaterThan(8);
  // On its way, not yet recorded, or rested without the plain put behind it.
  expect(Object.fromEntries(paid)).toEqual({
    'provider.model doneButUnheard': 3,
    'store.append lostBefore': 3,
    'store.suspend doneButUnheard': 3,
    'store.putCachedAnswers lostBefore': 3,
  });
});
