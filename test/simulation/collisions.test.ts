// Mechanisms that meet: a stop and an approval, a ceiling, a doubt and a wait, an erasure and an undo, a sweep and a
// timer (section S of collisions.md).
import { expect } from 'vitest';
import { subjectId } from '../../src/protocol/ids.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { cancelTurn } from '../../src/runtime/cancel-turn.ts';
import { drive } from '../../src/runtime/drive.ts';
import { forgetMemory } from '../../src/runtime/forget.ts';
import {
  abandonTurn,
  assertFact,
  reopenTurn,
  resumeByPerson,
} from '../../src/runtime/person-acts.ts';
import { readJournal } from '../../src/runtime/read-turn.ts';
import { eraseSubject } from '../../src/runtime/subjects.ts';
import { sweep } from '../../src/runtime/sweep.ts';
import type { TurnContext } from '../../src/runtime/turn-context.ts';
import { EffectFailure } from '../../src/runtime/turn-context.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

const keyed = { recovery: 'idempotent' as const };
const ann = subjectId('subject', 'ann-smith');

/** Says yes to the one approval that is open. */
async function approve(scene: Scene): Promise<void> {
  const { runtime } = scene.world.start();
  const { tenant } = scene.ref();
  const page = { status: 'pending', limit: 10, cursor: null } as const;
  const { items } = await listApprovals(runtime, tenant, page);
  const [open] = items;
  if (open === undefined) throw new Error('nothing waits for a person');
  const yes = { decision: 'approve' as const, digest: open.digest, note: null };
  await answerApproval(runtime, tenant, open.id, yes, 'bob');
}

const sent = (outside: Outside, kind: string) => outside.effect({ ...keyed, kind, args: { kind } });

onEachStore(
  'E333 CA-2 RD-2 an approval that comes while a stop stands continues nothing: the stop first, then the undo; the answer stays on record [T8 T10]',
  async (open) => {
    const outside = new Outside();
    const calls: string[] = [];
    const call = (kind: string) =>
      outside.effect({
        ...keyed,
        kind,
        args: { kind },
        perform: async () => {
          calls.push(kind);
          return kind;
        },
      });
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.step(
          'hold',
          { compensation: 'compensatable', undo: (undo) => undo.effect(call('release')) },
          (step) => step.effect(call('hold')),
        );
        await context.step('ask', { compensation: 'unnecessary' }, (step) =>
          step.approval({ action: 'pay' }),
        );
        return context.effect(call('mail'));
      }),
    );
    const turn = await scene.suspend();
    // The canceller dies right after its request was recorded: nobody has acted on it.
    const names: string[] = [];
    for (let at = 1; ; at += 1) {
      const dying = scene.world.start({ call: at, kind: 'doneButUnheard' });
      const asking = cancelTurn(dying.runtime, scene.ref(), 'changed our mind', 'olga', {});
      await scene.world.settle(dying, asking);
      names.push(dying.fired ?? '');
      if (dying.fired === 'store.stop') break;
      if (!dying.dead) throw new Error(`no stop among ${names.join(', ')}`);
    }
    expect(await scene.view()).toMatchObject({ status: 'suspended' });
    await approve(scene);
    await scene.inbox();
    expect(await scene.view()).toMatchObject({ status: 'cancelled' });
    expect(calls).toEqual(['hold', 'release']);
    const kinds = await scene.kinds();
    const after = kinds.slice(kinds.indexOf('RunSuspended') + 1);
    expect(after.filter((kind) => kind === 'RunCancelled')).toHaveLength(1);
    expect(after.indexOf('RunCancelled')).toBeLessThan(after.indexOf('UnwindStarted'));
    expect(after.slice(-2)).toEqual(['SC(hold,ok)', 'RC(cancelled)']);
    const page = { status: 'all', limit: 10, cursor: null } as const;
    const { items } = await listApprovals(scene.process.runtime, scene.ref().tenant, page);
    expect(items).toMatchObject([{ id: turn.waits[0]?.id, status: 'approved' }]);
    await scene.world.recover();
    scene.restart();
    expect(await scene.conclude()).toMatchObject({ status: 'cancelled', replayed: true });
    expect(await scene.kinds()).toEqual(kinds);
  },
);

onEachStore(
  'E334 CC-2 BU-8 siblings of which one is refused, one in doubt, one waiting: quarantined, then exhausted once, then onward with its wait [T6 T10 T11]',
  async (open) => {
    const outside = new Outside();
    const broken = { on: true };
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.effect(sent(outside, 'first'));
        const [charge, mail, said] = await Promise.all([
          context.step('charge', {}, (step) =>
            step.effect(
              outside.effect({
                perform: async () => {
                  outside.requests += 1;
                  if (broken.on) throw new Error('socket hang up');
                  return 'charged';
                },
              }),
            ),
          ),
          context.step('mail', {}, (step) =>
            step.effect({ ...sent(outside, 'mail'), cost: { minorUnits: 9 } }),
          ),
          context.step('ask', {}, (step) => step.approval({ action: 'pay' })),
        ]);
        return [charge, mail !== null, said.decision];
      }),
    );
    const quarantined = await scene.conclude('t1', { budget: { minorUnits: 5 } });
    expect(quarantined).toMatchObject({
      status: 'quarantined',
      undecided: [{ step: 'charge', doubt: 'inconclusive' }],
    });
    const refusals = async () => (await scene.kinds()).filter((kind) => kind.startsWith('Budget'));
    expect(await refusals()).toEqual(['BudgetRefused']);
    broken.on = false;
    const { runtime } = scene.world.start();
    const fact = { outcome: 'landed' as const, output: 'seen', note: 'in the books' };
    await assertFact(runtime, scene.ref(), quarantined.undecided[0]?.effectKey ?? '', fact, 'olga');
    const reopened = await scene.world.settle(
      scene.process,
      reopenTurn(scene.process.runtime, scene.ref(), 'answered', 'olga', {}),
    );
    expect(reopened).toMatchObject({ turn: { status: 'exhausted' } });
    expect(await refusals()).toEqual(['BudgetRefused']);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'exhausted' });
    const raised = await scene.world.settle(
      scene.process,
      resumeByPerson(
        scene.process.runtime,
        scene.ref(),
        { reason: 'more', budget: { minorUnits: 50 } },
        'olga',
        {},
      ),
    );
    expect(raised).toMatchObject({ kind: 'pending', turn: { status: 'suspended' } });
    expect(await refusals()).toEqual(['BudgetRefused', 'BudgetReadmitted']);
    await approve(scene);
    await scene.inbox();
    expect(await scene.view()).toMatchObject({
      status: 'succeeded',
      result: ['seen', true, 'approved'],
    });
    expect(outside.requests).toBe(3);
    const asked = (await scene.journal()).filter(
      (body) => body.kind === 'EffectStarted' && body.wait === 'approval',
    );
    expect(asked).toHaveLength(1);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
  },
);

onEachStore(
  'E336 ME-10 SA-14 an undo that replays a recall of a fact forgotten meanwhile has failed: its step is named, the rest stands, a person may abandon [T8 T12]',
  async (open) => {
    const outside = new Outside();
    const undone: string[] = [];
    const scene = new Scene(
      await open(),
      agentOf(async (context: TurnContext, input) => {
        if (input === 'note')
          return context.remember({ id: 'account', purpose: 'pay', content: 'NL01' });
        const undo = (name: string) => async (taking: TurnContext) => {
          undone.push(name);
          return taking.effect(sent(outside, `undo-${name}`));
        };
        await context.step('a', { compensation: 'compensatable', undo: undo('a') }, (step) =>
          step.effect(sent(outside, 'a')),
        );
        await context.step(
          'b',
          {
            compensation: 'compensatable',
            undo: async (taking) => {
              const [account] = await taking.recall({ purpose: 'pay' });
              await taking.approval({ action: ['refund', account?.content] });
              return undo('b')(taking);
            },
          },
          (step) => step.effect(sent(outside, 'b')),
        );
        throw new Error('closed');
      }),
    );
    await scene.conclude('t0', { input: 'note', subject: ann });
    await scene.suspend('t1', { subject: ann });
    const { runtime } = scene.world.start();
    await forgetMemory(runtime, { tenant: scene.ref().tenant, subject: ann }, 'account');
    await approve(scene);
    await scene.inbox();
    expect(await scene.view('t1')).toMatchObject({
      status: 'quarantined',
      error: { step: 'b' },
      undecided: [],
    });
    expect((await scene.kinds('t1')).filter((kind) => kind.startsWith('SC'))).toEqual([
      'SC(b,failed)',
    ]);
    expect(undone).toEqual([]);
    expect(outside.requests).toBe(2);
    const ended = await abandonTurn(runtime, scene.ref('t1'), 'refunded by hand', 'olga');
    expect(ended).toMatchObject({ turn: { status: 'abandoned' } });
    expect(outside.requests).toBe(2);
  },
);

onEachStore(
  'E337 ER-1 CA-5 a stop of a suspended turn whose person was erased undoes nothing on what cannot be read: quarantined, abandoned, the chain verifies [T8 T12 T13]',
  async (open) => {
    for (const mutates of [true, false]) {
      const outside = new Outside();
      const undone: unknown[] = [];
      const scene = new Scene(
        await open(),
        agentOf(async (context) => {
          await context.step(
            'pay',
            {
              compensation: 'compensatable',
              undo: async (taking, output) => {
                undone.push(output);
                return taking.effect(sent(outside, 'refund'));
              },
            },
            (step) => step.effect({ ...sent(outside, 'charge'), mutates }),
          );
          await context.sleep(3_600_000);
        }),
      );
      await scene.suspend('t1', { subject: ann });
      const { runtime } = scene.world.start();
      await eraseSubject(runtime, { tenant: scene.ref().tenant, subject: ann }, 'dora');
      const stop = cancelTurn(runtime, scene.ref(), 'stop', 'olga', {});
      expect(await scene.world.settle(scene.process, stop)).toEqual({ recorded: true });
      const status = mutates ? 'quarantined' : 'cancelled';
      expect(await scene.view()).toMatchObject({ status, erased: true });
      const kinds = await scene.kinds();
      expect(kinds.slice(-2)).toEqual(['RunCancelled', `RC(${status})`]);
      await scene.passTime(2 * 3_600_000);
      await scene.world.recover();
      expect(await scene.kinds()).toEqual(kinds);
      expect([undone, outside.requests]).toEqual([[], 1]);
      if (mutates) {
        const ended = await abandonTurn(runtime, scene.ref(), 'nothing can be read', 'olga');
        expect(ended).toMatchObject({ turn: { status: 'abandoned' } });
      }
      const page = await readJournal(runtime, scene.ref(), { after: 0, limit: 100 });
      expect(page?.verified).toBe(true);
      expect(await scene.strict()).toMatchObject({ verdict: 'cannot_replay' });
      expect([undone, outside.requests]).toEqual([[], 1]);
    }
  },
);

onEachStore(
  'E338 BU-2 a read that fails landed for ever meets its token ceiling at the seventh failure: seven billed, the eighth refused, a pause [T11]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.effect(
          outside.effect({
            mutates: false,
            retry: { maxAttempts: 100, initialMs: 10, multiplier: 1 },
            perform: async (call) => {
              outside.requests += 1;
              call.bill({ tokens: 10 });
              const facts = { code: 'garbled', disposition: 'landed' as const };
              throw new EffectFailure('garbled', facts);
            },
          }),
        ),
      ),
    );
    expect(await scene.conclude('t1', { budget: { tokens: 70 } })).toMatchObject({
      status: 'exhausted',
      spend: { attempts: 7, tokens: 70 },
      error: { message: expect.stringContaining('tokens') },
    });
    expect(outside.requests).toBe(7);
    expect((await scene.kinds()).slice(-3)).toEqual([
      'EF(landed)',
      'BudgetRefused',
      'RC(exhausted)',
    ]);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'exhausted' });
    const { runtime } = scene.process;
    const more = { reason: null, budget: { tokens: 80 } };
    const resumed = await scene.world.settle(
      scene.process,
      resumeByPerson(runtime, scene.ref(), more, 'olga', {}),
    );
    expect(resumed).toMatchObject({ turn: { status: 'exhausted', spend: { attempts: 8 } } });
  },
);

onEachStore(
  'E341 LE-10 RD-4 a sweep and a due timer that pick the same turn: one lease, one pass, the other yields without a record [T3 T4 T7]',
  async (open) => {
    const outside = new Outside();
    const gate = Promise.withResolvers<void>();
    const scene = new Scene(
      await open(),
      agentOf(async (context) => {
        await context.sleep(60_000);
        return context.effect(
          outside.effect({
            perform: async () => {
              outside.requests += 1;
              await gate.promise;
              return 'sent';
            },
          }),
        );
      }),
    );
    await scene.suspend();
    scene.world.clock.advance(60_001);
    scene.world.queues.inbox.forgetIds();
    const pickers = [scene.world.start(), scene.world.start()];
    const [first, second] = pickers.map(({ runtime }) => drive(runtime, scene.ref(), {})) as [
      Promise<unknown>,
      Promise<unknown>,
    ];
    const woken = scene.world.start();
    await sweep(woken.runtime);
    while (outside.requests === 0) await new Promise(setImmediate);
    const yielded = await Promise.race([first, second]);
    expect(yielded).toMatchObject({ kind: 'later' });
    const during = await scene.kinds();
    await scene.inbox();
    expect(await scene.kinds()).toEqual(during);
    gate.resolve();
    await Promise.all(
      pickers.map((process, at) => scene.world.settle(process, at === 0 ? first : second)),
    );
    await scene.world.recover();
    expect(await scene.view()).toMatchObject({ status: 'succeeded', result: 'sent' });
    expect(outside.requests).toBe(1);
    const kinds = await scene.kinds();
    expect(kinds.filter((kind) => /^E/.test(kind))).toEqual(['ES(a1)', 'ED', 'ES(a1)', 'ED']);
    expect(new Set((await scene.journal()).map(({ epoch }) => epoch)).size).toBe(2);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified', outcome: 'succeeded' });
  },
);
