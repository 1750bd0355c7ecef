// The store suite, second part: waits, events, acts, receipts, keys, memory and cases.
//   T10 answered once, before its deadline, while its turn rests; T12 a key changes only as it was seen.
//   Long because it is a list of cases, one after another.
import { deepEqual, equal, ok } from 'node:assert/strict';
import type { TurnEnd, TurnStore, Writer } from '../ports/store.ts';
import type { KeyRow } from '../ports/subjects.ts';
import type { IntentRow, WaitRow } from '../ports/waits.ts';
import { genesisHash, recordHash } from '../protocol/chain.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { agentName, tenantId, threadId, turnId } from '../protocol/ids.ts';
import type { StoreCase } from './store-conformance.ts';

const start = 1_800_000_000_000;
const at = (ms: number): EpochMs => (start + ms) as EpochMs;
const agent = agentName('agent', 'shop');
const tenant = tenantId('tenant', 'acme');
const other = tenantId('tenant', 'other');
const ref = { tenant, thread: threadId('thread', 'th'), turn: turnId('turn', 't1') };
const bytes = { kind: 'inline' as const, bytes: Uint8Array.of(1, 2, 3) };
const entry = (id: string) => ({ id, queue: 'inbox' as const, body: '{}' });
const who: Writer = { token: 'token-of-a-pass-000000', owner: 'o', epoch: 1, cancelsSeen: 0 };

function wait(id: string, kind: 'approval' | 'event', match: string | null = null): WaitRow {
  return {
    id,
    kind,
    ref,
    until: at(1_000),
    createdAt: at(1),
    digest: kind === 'approval' ? 'digest' : null,
    requester: 'ann',
    fourEyes: true,
    scope: 't0',
    payload: bytes,
    match,
    answer: null,
  };
}

function intent(id: string): IntentRow {
  return {
    id,
    ref,
    agent,
    effect: 'mail',
    argsDigest: 'd',
    scope: 't0',
    payload: bytes,
    createdAt: at(1),
    expiresAt: at(1_000),
    attempt: 0,
    doubt: false,
    claim: null,
    outcome: null,
    result: null,
  };
}

/** A store in which turn t1 rests on `waits` with `intents` on their way. */
async function resting(
  open: () => Promise<TurnStore>,
  waits: readonly WaitRow[],
  intents: readonly IntentRow[] = [],
): Promise<TurnStore> {
  const store = await open();
  const record = { body: '0', hash: recordHash(genesisHash, '0') };
  await store.claim({
    ref,
    agent,
    seen: null,
    writer: who,
    batch: { index: 0, records: [record], announces: [] },
    leaseUntil: at(10_000),
    now: at(0),
  });
  const end: TurnEnd = {
    status: 'suspended',
    agent,
    positions: 2,
    head: { seq: 2, hash: record.hash },
    payloadDigest: 'p',
    revision: 0,
    scope: 't0',
    view: bytes,
    cancelsSeen: 0,
    dueAt: at(1_000),
    createdAt: at(0),
    updatedAt: at(1),
  };
  const write = {
    ref,
    writer: who,
    batch: { index: 1, records: [record], announces: [] },
    announced: new Set<string>(),
    end,
    waits,
    looks: true,
    dueAt: at(1_000),
    entries: [entry('suspended')],
    intents,
    now: at(1),
  };
  deepEqual(await store.suspend(write), { kind: 'done' });
  // The same bytes again are recognised as ours (page 09, rule 3).
  deepEqual(await store.suspend(write), { kind: 'done' });
  return store;
}

const said = (kind: 'approved' | 'denied', by: string, ms: number) => ({
  kind,
  by,
  at: at(ms),
  note: null,
});

export const peopleCases: readonly StoreCase[] = [
  {
    title:
      'T1 a suspension frees the head, registers its waits and leaves its deadline and its entry',
    run: async (open) => {
      const store = await resting(open, [wait('wait-one', 'approval')]);
      const head = await store.head(ref);
      equal(head?.open, null);
      deepEqual(await store.waits(tenant, ['wait-one', 'wait-two']), [
        wait('wait-one', 'approval'),
        null,
      ]);
      deepEqual(await store.waits(other, ['wait-one']), [null]);
      deepEqual((await store.due(at(999), 10)).length, 0);
      const [due] = await store.due(at(1_000), 10);
      deepEqual(due?.ref, ref);
      deepEqual(
        (await store.approvals(tenant, 'pending')).map(({ id }) => id),
        ['wait-one'],
      );
      const [work] = await store.workOf(ref);
      deepEqual(
        work?.entries.map(({ id }) => id),
        ['suspended'],
      );
      if (due !== undefined) await store.dropDue(due);
      deepEqual(await store.due(at(1_000), 10), []);
      await store.close();
    },
  },
  {
    title: 'rule 7 an owed look stays on the row until that look is told done, and needs somebody',
    run: async (open) => {
      const store = await resting(open, []);
      equal((await store.workOf(ref))[0]?.lookOwed, 1);
      await store.markSent(ref, ['suspended'], at(2), 0);
      equal((await store.workOf(ref))[0]?.lookOwed, 1);
      const due = async (ms: number) => store.dueWork(at(ms), { unsentMs: 100, limit: 10 });
      equal((await due(50)).length, 0);
      deepEqual(
        (await due(102)).map((row) => [row.ref, row.lookOwed]),
        [[ref, 1]],
      );
      await store.markSent(ref, [], at(3), 1);
      deepEqual(await store.workOf(ref), []);
      await store.close();
    },
  },
  {
    title:
      'B13 a change of a row that another write changed since is refused when it names a version',
    run: async (open) => {
      const store = await resting(open, []);
      const [seen] = await store.workOf(ref);
      await store.noteTry(ref, { wakeAt: at(9) }, at(2));
      const stale = { wakeAt: null, ifVersion: seen?.version ?? '' };
      equal((await store.noteTry(ref, stale, at(3))).kind, 'lost');
      const [stands] = await store.workOf(ref);
      equal(stands?.wakeAt, at(9));
      const fresh = { wakeAt: null, ifVersion: stands?.version ?? '' };
      equal((await store.noteTry(ref, fresh, at(4))).kind, 'done');
      await store.close();
    },
  },
  {
    title: 'T10 of ten answers to one wait exactly one is recorded, with the wake of its turn',
    run: async (open) => {
      const row = wait('wait-one', 'approval');
      const store = await resting(open, [row]);
      const outcomes = await Promise.all(
        Array.from({ length: 10 }, (_, n) =>
          store.decide({
            wait: row,
            answer: said(n % 2 === 0 ? 'approved' : 'denied', `p${n}`, 5),
            entry: entry(`wake-${n}`),
            now: at(5),
          }),
        ),
      );
      equal(outcomes.filter(({ kind }) => kind === 'done').length, 1);
      const lost = outcomes.find((one) => one.kind === 'lost');
      ok(lost?.kind === 'lost' && lost.wait?.answer !== null);
      const [work] = await store.workOf(ref);
      equal(work?.entries.filter(({ id }) => id.startsWith('wake')).length, 1);
      equal(work?.wakeAt, at(5));
      deepEqual(await store.approvals(tenant, 'pending'), []);
      deepEqual(
        (await store.approvals(tenant, 'answered')).map(({ id }) => id),
        ['wait-one'],
      );
      await store.close();
    },
  },
  {
    title:
      'T10 at its deadline a wait takes no answer and expires once; before it, it does not expire',
    run: async (open) => {
      const row = wait('wait-one', 'approval');
      const store = await resting(open, [row]);
      equal((await store.expire(row, at(999))).kind, 'lost');
      const late = {
        wait: row,
        answer: said('approved', 'p', 1_000),
        entry: entry('w'),
        now: at(1_000),
      };
      equal((await store.decide(late)).kind, 'lost');
      deepEqual(await store.expire(row, at(1_000)), { kind: 'done' });
      deepEqual(await store.expire(row, at(2_000)), { kind: 'done' });
      const [found] = await store.waits(tenant, ['wait-one']);
      deepEqual(found?.answer, { kind: 'expired', at: at(1_000) });
      await store.close();
    },
  },
  {
    title: 'T10 an answer to a turn that has ended is refused',
    run: async (open) => {
      const row = {
        ...wait('wait-one', 'approval'),
        ref: { ...ref, turn: turnId('turn', 'nobody') },
      };
      const store = await open();
      await store.putWaits([row]);
      const write = { wait: row, answer: said('approved', 'p', 5), entry: entry('w'), now: at(5) };
      deepEqual(await store.decide(write), { kind: 'ended' });
      await store.close();
    },
  },
  {
    title: 'RD-2 an event is stored once and handed to one wait, whoever races',
    run: async (open) => {
      const probe = await open();
      const match = { type: 'paid', correlation: '"7"' };
      const hashed = await probe.matchKey(tenant, match);
      await probe.close();
      const waits = ['wait-one', 'wait-two'].map((id) => wait(id, 'event', hashed));
      const store = await resting(open, waits);
      const name = { tenant, source: 'bank', id: 'e1' };
      const event = { at: at(2), scope: 't0', payload: bytes };
      deepEqual(await store.putEvent(name, match, event), { kind: 'done' });
      deepEqual(await store.putEvent(name, match, event), { kind: 'done' });
      deepEqual(await store.putEvent(name, match, { ...event, at: at(3) }), { kind: 'lost' });
      const found = await store.matching(hashed);
      deepEqual(found.waits, ['wait-one', 'wait-two']);
      const key = found.events[0] ?? '';
      const row = await store.event(key);
      ok(row !== null && row.claimedBy === null);
      equal((await store.looks(at(10), 10)).length, 1);
      const outcomes = await Promise.all(
        waits.map((one) =>
          store.claimEvent({
            wait: one,
            event: row,
            answer: { kind: 'event', at: at(5), payload: bytes },
            entry: entry(`e-${one.id}`),
            now: at(5),
          }),
        ),
      );
      equal(outcomes.filter(({ kind }) => kind === 'done').length, 1);
      const after = await store.matching(hashed);
      equal(after.waits.length, 1);
      deepEqual(after.events, []);
      equal((await store.event(key))?.payload, null);
      await store.dropLook({ event: key });
      deepEqual(await store.looks(at(10), 10), []);
      await store.close();
    },
  },
  {
    title: 'T10 an act is claimed by one token at a time, never past its expiry, and settled once',
    run: async (open) => {
      const row = intent('00000000-0000-5000-8000-000000000001');
      const store = await resting(open, [wait('wait-one', 'approval')], [row]);
      deepEqual(await store.intent(tenant, row.id), row);
      equal(await store.intent(other, row.id), null);
      equal((await store.owedIntents(at(10), 10)).length, 1);
      const claim = (token: string, until: number, now: number, seen = row) =>
        store.claimIntent(seen, { token, until: at(until) }, at(now));
      const first = await Promise.all(['a', 'b', 'c'].map((token) => claim(token, 100, 5)));
      equal(first.filter(({ kind }) => kind === 'done').length, 1);
      const held = await store.intent(tenant, row.id);
      ok(held?.claim != null);
      const settled = { outcome: 'completed' as const, result: bytes };
      equal((await claim('d', 200, 50, held)).kind, 'lost');
      deepEqual(await claim('d', 200, 100, held), { kind: 'done' });
      equal((await store.settleIntent(held, held.claim.token, settled, at(110))).kind, 'lost');
      deepEqual(await store.settleIntent(held, 'd', settled, at(110)), { kind: 'done' });
      deepEqual(await store.settleIntent(held, 'd', settled, at(110)), { kind: 'done' });
      const again = { outcome: 'refused' as const, result: bytes };
      equal((await store.settleIntent(held, 'd', again, at(120))).kind, 'lost');
      await store.dropOwed(row.id);
      deepEqual(await store.owedIntents(at(10), 10), []);
      await store.close();
    },
  },
  {
    title: 'T10 an act past its expiry cannot be claimed, and expires once without a claim',
    run: async (open) => {
      const row = intent('00000000-0000-5000-8000-000000000002');
      const store = await resting(open, [wait('wait-one', 'approval')], [row]);
      equal(
        (await store.claimIntent(row, { token: 'a', until: at(9_000) }, at(1_000))).kind,
        'lost',
      );
      const expired = { outcome: 'expired' as const, result: bytes };
      equal((await store.settleIntent(row, null, expired, at(999))).kind, 'lost');
      deepEqual(await store.settleIntent(row, null, expired, at(1_000)), { kind: 'done' });
      await store.close();
    },
  },
  {
    title:
      'T2 K-35 a business key is taken by one dispatch; another takes it over only as it saw it',
    run: async (open) => {
      const store = await open();
      const id = await store.receiptId(ref, 'charge', '42');
      const row = (turn: string, ms: number) => ({
        id,
        thread: { tenant, thread: ref.thread },
        effect: 'charge',
        argsDigest: 'd',
        scope: 't0',
        payload: bytes,
        turn: turnId('turn', turn),
        site: { step: 's', phase: 'forward' as const, ordinal: 0 },
        createdAt: at(1),
        updatedAt: at(ms),
      });
      const races = await Promise.all(
        ['a', 'b', 'c'].map((turn) => store.reserve(row(turn, 2), null)),
      );
      equal(races.filter(({ kind }) => kind === 'done').length, 1);
      const standing = await store.receipt(tenant, id);
      ok(standing !== null);
      equal(await store.receipt(other, id), null);
      deepEqual(await store.receipts(ref), [standing]);
      deepEqual(await store.reserve(row('z', 9), standing), { kind: 'done' });
      equal((await store.reserve(row('y', 9), standing)).kind, 'lost');
      await store.close();
    },
  },
  {
    title: 'T12 a key row changes only as it was seen; a certificate and its ledger row stand',
    run: async (open) => {
      const store = await open();
      const scope = await store.subjectScope(tenant, 'ann');
      const live: KeyRow = {
        scope,
        id: 'k1',
        generation: 1,
        state: 'live',
        lifecycle: 0,
        wrapped: Uint8Array.of(9),
      };
      deepEqual(await store.createKey(tenant, live), { kind: 'done' });
      const held = {
        ...live,
        lifecycle: 1,
        hold: { by: 'd', at: at(1), reason: Uint8Array.of(4) },
      };
      const erased: KeyRow = {
        ...live,
        state: 'erased',
        generation: 2,
        lifecycle: 1,
        wrapped: null,
      };
      const races = await Promise.all([
        store.changeKey(tenant, live, held),
        store.changeKey(tenant, live, erased),
      ]);
      equal(races.filter(({ kind }) => kind === 'done').length, 1);
      const stands = await store.key(tenant, scope);
      deepEqual(stands, races[0]?.kind === 'done' ? held : erased);
      const row = {
        id: 'e1',
        state: 'complete' as const,
        generation: 2,
        by: 'd',
        at: at(1),
        items: 3,
        versions: 4,
      };
      await store.putErasure(tenant, scope, row);
      deepEqual(await store.erasure(tenant, scope), row);
      equal(await store.scrub(), true);
      await store.close();
    },
  },
  {
    title: 'E233 a case is written over the version that was seen, by one of many',
    run: async (open) => {
      const store = await open();
      const row = (version: number, key: string) => ({
        id: 'claim',
        version,
        status: 'open',
        scope: 't0',
        payload: bytes,
        deadlines: [{ name: 'reply', at: at(5), state: 'open' as const }],
        turns: [{ thread: 'th', turn: 't1' }],
        writers: [{ key, version }],
      });
      equal(await store.caseRow(tenant, 'claim'), null);
      const races = await Promise.all(
        ['a', 'b', 'c'].map((key) => store.putCase(tenant, row(1, key), 0)),
      );
      equal(races.filter(({ kind }) => kind === 'done').length, 1);
      equal((await store.putCase(tenant, row(2, 'd'), 1)).kind, 'done');
      equal((await store.putCase(tenant, row(2, 'e'), 1)).kind, 'lost');
      deepEqual(await store.caseRow(tenant, 'claim'), row(2, 'd'));
      equal(await store.caseRow(other, 'claim'), null);
      await store.close();
    },
  },
];
