// Evaluation suites of the test kit over a real agent: what may write, what goes on, what counts as a pass.
import { expect, test } from 'vitest';
import type { KernelResult } from '../../src/agent/kernel/run-kernel-turn.ts';
import { threadId, turnId } from '../../src/protocol/ids.ts';
import type {
  Assertion,
  EvaluationOptions,
  EvaluationScenario,
  EvaluationTarget,
  RunState,
} from '../../src/testing/evaluation.ts';
import { evaluate } from '../../src/testing/evaluation.ts';
import { memoryStore, type OpenStore, onEachStore } from '../stores.ts';
import { DeskWorld, desk, hours, noInput, reader, Talking, wants } from './desk.ts';

const says = (text: string): Assertion => ({ path: ['reply'], equals: text });

const pays: EvaluationScenario = {
  id: 'pays',
  writes: 'external',
  steps: [
    {
      input: { message: 'pay' },
      assertions: [{ path: ['interaction', 'kind'], equals: 'confirmation' }],
    },
    { input: 'yes', assertions: [says('pay is done')] },
  ],
};
const asks: EvaluationScenario = {
  id: 'asks',
  writes: 'read_only',
  steps: [{ input: { message: 'when' }, assertions: [says('We are open nine to five.')] }],
};

/** A desk as a target: the word "yes" confirms what was asked last. */
async function targetOf(open: OpenStore) {
  const world = new DeskWorld();
  const model = reader({
    pay: { intentions: [wants('pay', {}, 'pay')] },
    when: { intentions: [wants('hours', {}, 'when')] },
  });
  const agent = desk(model, [world.write('pay', noInput), hours]);
  const talk = await Talking.open(open, agent);
  const pending = new Map<string, string>();
  const target: EvaluationTarget = {
    fingerprint: agent.authority,
    send: async (thread, turn, input) => {
      const confirm = { interactionId: pending.get(thread) ?? '', value: true };
      const ref = { ...talk.ref(), thread: threadId('thread', thread), turn: turnId('turn', turn) };
      const view = await talk.conclude('x', { ref, input: input === 'yes' ? { confirm } : input });
      if (view.status !== 'succeeded') throw new Error(view.error?.code ?? view.status);
      const result = view.result as KernelResult;
      if (result.interaction !== null) pending.set(thread, result.interaction.id);
      return result;
    },
  };
  return { world, model, target };
}

function keeping(options: Partial<EvaluationOptions> = {}) {
  const kept: RunState[] = [];
  return { kept, options: { ...options, save: async (state: RunState) => void kept.push(state) } };
}

onEachStore(
  'T69 a scenario that writes outside is blocked by default, and after a crash in it until somebody has looked [T6]',
  async (open) => {
    const { world, target } = await targetOf(open);
    const suite = { scenarios: [pays, asks] };
    const first = await evaluate(suite, target, keeping().options);
    expect(first.state.cases.map(({ status, code }) => [status, code])).toEqual([
      ['blocked', 'external_writes_not_authorized'],
      ['passed', null],
    ]);
    expect([first.accepted, world.calls]).toEqual([false, []]);
    const { kept, options } = keeping({ externalWrites: true });
    const { promise: died, resolve: dies } = Promise.withResolvers<void>();
    const dying: EvaluationTarget = {
      ...target,
      // The process of the run is gone after its first turn: nothing of it is heard any more.
      send: async (thread, turn, input) => {
        await target.send(thread, turn, input);
        dies();
        return new Promise(() => undefined);
      },
    };
    await Promise.race([died, evaluate(suite, dying, options)]);
    expect(kept.at(-1)?.cases[0]?.status).toBe('running');
    const resumed = await evaluate(suite, target, {
      ...keeping({ externalWrites: true }).options,
      resume: kept.at(-1) ?? null,
    });
    expect(resumed.state.cases.map(({ status, code }) => [status, code])).toEqual([
      ['blocked', 'external_writes_unreconciled'],
      ['passed', null],
    ]);
    expect(world.calls).toEqual([]);
    const allowed = await evaluate(suite, target, keeping({ externalWrites: true }).options);
    expect(allowed.state.cases).toMatchObject([{ status: 'passed' }, { status: 'passed' }]);
    expect([allowed.accepted, world.count('pay')]).toEqual([true, 1]);
  },
);

test('K-98 a case that goes on replays its committed turns: no model is asked twice [T2]', async () => {
  const { model, target } = await targetOf(async () => memoryStore());
  const suite = { scenarios: [asks] };
  const { kept, options } = keeping();
  await evaluate(suite, target, options);
  const before = model.requests.length;
  const running = kept[0];
  expect(running?.cases[0]?.status).toBe('running');
  const again = await evaluate(suite, target, { ...keeping().options, resume: running ?? null });
  expect([again.accepted, model.requests.length]).toEqual([true, before]);
  const other = { ...target, fingerprint: 'another' };
  await expect(evaluate(suite, other, { ...options, resume: running ?? null })).rejects.toThrow(
    /^resume\.fingerprint/,
  );
});

const throws: Assertion = {
  evaluate: () => {
    throw new Error('no judge');
  },
};
const yes: Assertion = { evaluate: () => true };

const verdicts: readonly (readonly [string, string, Assertion])[] = [
  ['T70 not(an evaluator that throws)', 'error', { not: throws }],
  ['T70 any(true, one that throws)', 'error', { any: [yes, throws] }],
  ['K-99 all(false, one that throws)', 'error', { all: [{ not: yes }, throws] }],
  ['K-99 any of nothing', 'failed', { any: [] }],
  ['K-99 a truthy answer that is not true', 'failed', { evaluate: () => 1 as unknown as boolean }],
  ['K-99 any(false, true)', 'passed', { any: [{ not: yes }, yes] }],
];

const echo: EvaluationTarget = { fingerprint: 'echo', send: async (_, __, input) => input };
const scenario = (assertions: readonly Assertion[], more = {}): EvaluationScenario => ({
  id: 's',
  writes: 'read_only',
  steps: [{ input: { a: [1] }, assertions, ...more }],
});

test.each(verdicts)('%s is %s', async (_, status, assertion) => {
  const suite = { scenarios: [scenario([assertion])] };
  const { state } = await evaluate(suite, echo, keeping().options);
  expect(state.cases.map((one) => one.status)).toEqual([status]);
});

const tooMuch: readonly (readonly [
  string,
  RegExp,
  EvaluationScenario[],
  Partial<EvaluationOptions>,
])[] = [
  ['T70 an empty selection', /^select: /, [scenario([])], { select: [] }],
  ['T70 a selection nobody knows', /^select: /, [scenario([])], { select: ['x'] }],
  ['K-95 no scenario', /^scenarios: /, [], {}],
  ['K-95 101 variants', /^s\.variants: /, [scenario([], { variants: Array(101).fill(1) })], {}],
  ['K-95 201 assertions', /^s\.assertions: /, [scenario(Array(201).fill(yes))], {}],
  ['K-95 no step', /^s\.steps: /, [{ ...scenario([]), steps: [] }], {}],
  [
    'K-95 more cases than allowed',
    /^cases: /,
    [scenario([], { variants: [1, 2, 3] })],
    { maxCases: 2 },
  ],
  [
    'K-100 a path through a prototype',
    /^s\.path: /,
    [scenario([{ not: { path: ['__proto__'], equals: 1 } }])],
    {},
  ],
  [
    'K-100 a path of 41 segments',
    /^s\.path: /,
    [scenario([{ path: Array(41).fill(0), equals: 1 }])],
    {},
  ],
];

test.each(tooMuch)(
  '%s is refused when the suite is read',
  async (_, message, scenarios, options) => {
    await expect(evaluate({ scenarios }, echo, keeping(options).options)).rejects.toThrow(message);
  },
);

test('K-95 variants of steps multiply, and repetitions with them', async () => {
  const two = { input: 0, variants: [1, 2], assertions: [] };
  const suite = { scenarios: [{ ...scenario([]), steps: [two, two] }], repetitions: 3 };
  const { state } = await evaluate(suite, echo, keeping().options);
  expect(new Set(state.cases.map(({ id }) => id)).size).toBe(12);
});
