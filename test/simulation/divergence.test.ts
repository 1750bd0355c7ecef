// What kind of edit a divergence is (issue 3, item 10): inserted, removed, swapped, renamed, arguments only.
import { expect } from 'vitest';
import { painter, verdictLines } from '../../src/operator/render.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, type Run, Scene } from './scene.ts';

interface Call {
  readonly step?: string;
  readonly kind: string;
  readonly args: unknown;
}

let performed = 0;

/** Calls in order; consecutive ones of one step share it. */
const calling =
  (calls: readonly Call[]): Run =>
  async (context) => {
    const make = (on: Pick<TurnContext, 'effect'>, { kind, args }: Call): Promise<unknown> =>
      on.effect({
        kind,
        args,
        recovery: 'idempotent',
        perform: async () => {
          performed += 1;
          return { of: kind };
        },
      });
    for (let at = 0; at < calls.length; ) {
      const { step } = calls[at] as Call;
      const same = calls.slice(at).findIndex((call) => call.step !== step);
      const some = calls.slice(at, same < 0 ? undefined : at + same);
      if (step === undefined) for (const call of some) await make(context, call);
      else {
        await context.step(step, {}, async (inner) => {
          for (const call of some) await make(inner, call);
        });
      }
      at += some.length;
    }
  };

const a = { kind: 'a', args: 1 };
const b = { kind: 'b', args: 2 };
const c = { kind: 'c', args: 3 };
const pay = (call: Call): Call => ({ ...call, step: 'pay' });
const ship = (call: Call): Call => ({ ...call, step: 'ship' });

interface Edit {
  readonly name: string;
  readonly before: readonly Call[];
  readonly after: readonly Call[];
  readonly at: { readonly step: string; readonly ordinal: number };
  readonly change: Readonly<Record<string, unknown>>;
}

const outside = (ordinal: number) => ({ step: '', ordinal });
const all = { explains: 'all' };
const edits: readonly Edit[] = [
  {
    name: 'one argument',
    before: [a, b, c],
    after: [a, { ...b, args: 9 }, c],
    at: outside(1),
    change: { class: 'arguments', ...all },
  },
  {
    name: 'a call before others',
    before: [a, b, c],
    after: [a, { kind: 'x', args: 0 }, b, c],
    at: outside(1),
    change: { class: 'inserted', ...all },
  },
  {
    name: 'a call of a kind that follows, with other arguments',
    before: [a, b, c],
    after: [a, { ...b, args: 0 }, b, c],
    at: outside(1),
    change: { class: 'inserted', ...all },
  },
  {
    name: 'a repetition of the call that follows',
    before: [a, b],
    after: [b, a, b],
    at: outside(0),
    change: { class: 'inserted', ...all },
  },
  {
    name: 'a call at the end',
    before: [a, b],
    after: [a, b, c],
    at: outside(2),
    change: { class: 'inserted', ...all },
  },
  {
    name: 'a call at the end of a step that another follows',
    before: [pay(a), ship(b)],
    after: [pay(a), pay(c), ship(b)],
    at: { step: 'ship', ordinal: 0 },
    change: { class: 'inserted', ...all },
  },
  {
    name: 'a call dropped before others',
    before: [a, b, c],
    after: [a, c],
    at: outside(1),
    change: { class: 'removed', ...all },
  },
  {
    name: 'the last call of a step dropped',
    before: [pay(a), pay(b), ship(c)],
    after: [pay(a), ship(c)],
    at: { step: 'pay', ordinal: 1 },
    change: { class: 'removed', ...all },
  },
  {
    name: 'the end of a turn dropped',
    before: [a, b, c],
    after: [a],
    at: outside(1),
    change: { class: 'removed', ...all },
  },
  {
    name: 'two calls exchanged',
    before: [a, b],
    after: [b, a],
    at: outside(0),
    change: { class: 'swapped', ordinal: 1, ...all },
  },
  {
    name: 'two calls exchanged over a third',
    before: [pay(a), pay(b), pay(c)],
    after: [pay(c), pay(b), pay(a)],
    at: { step: 'pay', ordinal: 0 },
    change: { class: 'swapped', ordinal: 2, ...all },
  },
  {
    name: 'a kind under another name',
    before: [a, b, c],
    after: [a, { ...b, kind: 'bee' }, c],
    at: outside(1),
    change: { class: 'renamed', ...all },
  },
  {
    name: 'a step under another name',
    before: [pay(a), pay(b), ship(c)],
    after: [{ ...a, step: 'charge' }, { ...b, step: 'charge' }, ship(c)],
    at: { step: 'pay', ordinal: 0 },
    change: { class: 'renamed', step: 'charge', ...all },
  },
  {
    name: 'another call in the place of one',
    before: [a, b, c],
    after: [a, { kind: 'x', args: 0 }, c],
    at: outside(1),
    change: { class: 'replaced', ...all },
  },
  {
    name: 'two edits: the first is named, and that it is not all',
    before: [a, b, c],
    after: [a, { ...b, args: 9 }, { ...c, args: 9 }],
    at: outside(1),
    change: { class: 'arguments', explains: 'part' },
  },
];

for (const { name, before, after, at, change } of edits) {
  onEachStore(
    `ST-2 ST-4 a strict pass says what kind of edit it met, performing nothing: ${name} [T7 T13]`,
    async (open) => {
      const scene = new Scene(await open(), agentOf(calling(before)));
      expect(await scene.conclude()).toMatchObject({ status: 'succeeded' });
      const journal = await scene.journal();
      scene.deploy({ ...agentOf(calling(after)), authority: scene.agent.authority });
      performed = 0;
      const verdict = await scene.strict();
      expect(verdict).toMatchObject({ verdict: 'diverged', ...at });
      expect((verdict as { change: unknown }).change).toEqual(change);
      expect(performed).toBe(0);
      expect(await scene.journal()).toEqual(journal);
      const [first, second] = verdictLines(
        verdict as Readonly<Record<string, unknown>>,
        painter(false),
      );
      const where = at.step === '' ? 'outside a step' : `step ${at.step}`;
      expect(first).toBe(`diverged at ${where}, effect ${at.ordinal}`);
      expect(second).toContain(String(change.class));
    },
  );
}

onEachStore(
  'E297 every call agrees and the ending does not: no edit of a call is claimed [T13]',
  async (open) => {
    const scene = new Scene(await open(), agentOf(calling([a, b])));
    await scene.conclude();
    const failing: Run = async (context, input) => {
      await calling([a, b])(context, input);
      throw new Error('now it fails');
    };
    scene.deploy({ ...agentOf(failing), authority: scene.agent.authority });
    const verdict = (await scene.strict()) as Readonly<Record<string, unknown>>;
    expect(verdict).toMatchObject({ verdict: 'diverged', moved: 'outcome', outcome: 'failed' });
    expect(verdict.change).toBeUndefined();
    expect(verdictLines(verdict, painter(false))).toEqual([
      'diverged: every call agrees, the ending does not: recorded succeeded, now failed',
    ]);
    scene.deploy({ ...agentOf(calling([a, b])), authority: scene.agent.authority });
    const fine = (await scene.strict()) as Readonly<Record<string, unknown>>;
    expect(verdictLines(fine, painter(false))).toEqual(['verified: succeeded']);
  },
);
