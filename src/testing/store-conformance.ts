// The promises of the store port as a suite: a list of cases over a factory, for every adapter and for users
// who write their own. Needs no test framework: a case throws when a promise is broken.
//   T1 T2 T3 T4 T5; each case opens a store of its own. Long because it is a list of cases, one after another.
import { deepEqual, equal, ok, rejects } from 'node:assert/strict';
import type {
  Acceptance,
  Batch,
  ConcludeWrite,
  Head,
  TurnRef,
  TurnStore,
  Writer,
} from '../ports/store.ts';
import type { KeyRow } from '../ports/subjects.ts';
import { genesisHash, recordHash } from '../protocol/chain.ts';
import { base64url, sha256 } from '../protocol/digest.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { agentName, tenantId, threadId, turnId } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import type { StoredRecord } from '../protocol/record.ts';

export interface StoreCase {
  readonly title: string;
  run(open: () => Promise<TurnStore>): Promise<void>;
}

const agent = agentName('agent', 'shop');
const start = 1_800_000_000_000;
const at = (ms: number): EpochMs => (start + ms) as EpochMs;
const none: ReadonlySet<string> = new Set();

function ref(turn = 't1', thread = 'th'): TurnRef {
  return {
    tenant: tenantId('tenant', 'acme'),
    thread: threadId('thread', thread),
    turn: turnId('turn', turn),
  };
}

function writer(token: string, epoch: number, cancelsSeen = 0): Writer {
  return { token: token.padEnd(22, '_'), owner: `owner-${token}`, epoch, cancelsSeen };
}

function batch(index: number, announces: readonly string[] = [], text = `${index}`): Batch {
  const records: StoredRecord[] = [{ body: text, hash: recordHash(genesisHash, text) }];
  return { index, records, announces };
}

async function claimed(
  store: TurnStore,
  who: Writer,
  seen: Head | null,
  turn = ref(),
): Promise<void> {
  const outcome = await store.claim({
    ref: turn,
    agent,
    seen,
    writer: who,
    batch: batch(0, ['k0']),
    leaseUntil: at(10_000),
    now: at(0),
  });
  deepEqual(outcome, { kind: 'done' });
}

function conclusion(
  who: Writer,
  index: number,
  changes: Partial<ConcludeWrite> = {},
): ConcludeWrite {
  const payload = { kind: 'inline' as const, bytes: Uint8Array.of(1, 2, 3) };
  return {
    ref: ref(),
    agent,
    hold: { kind: 'held' },
    writer: who,
    batch: batch(index),
    announced: none,
    end: {
      status: 'succeeded',
      agent,
      positions: index + 1,
      head: { seq: index + 1, hash: genesisHash },
      payloadDigest: 'digest',
      revision: 1,
      scope: 't0',
      view: payload,
      cancelsSeen: who.cancelsSeen,
      dueAt: null,
      createdAt: at(0),
      updatedAt: at(1),
    },
    checkpoint: {
      next: { revision: 1, schema: 1, base: null, tail: [{ revision: 1, scope: 't0', payload }] },
      authority: 'authority',
      schema: 1,
    },
    blocks: false,
    attention: null,
    listed: false,
    closes: [],
    intents: [],
    memories: [],
    entries: [{ id: 'entry-1', queue: 'events', body: '{}' }],
    sequence: 1,
    keys: [],
    now: at(1),
    ...changes,
  };
}

function append(
  store: TurnStore,
  who: Writer,
  index: number,
  announces: readonly string[],
  announced = none,
) {
  return store.append({
    ref: ref(),
    writer: who,
    batch: batch(index, announces),
    announced,
    now: at(1),
  });
}

/** The suite. Titles carry the case numbers of the specification. */
export const storeCases: readonly StoreCase[] = [
  {
    title: 'a thread never written has no head, no journal and no work',
    run: async (open) => {
      const store = await open();
      const begun = await store.begin(ref(), null);
      deepEqual(
        [begun.head, begun.first, begun.end, begun.checkpoint, begun.work, begun.key],
        [null, null, null, null, null, null],
      );
      deepEqual(await store.journal(ref()), []);
      await store.close();
    },
  },
  {
    title: 'T4 T6 of two first writes one wins; the other is told what stands there [T3]',
    run: async (open) => {
      const store = await open();
      const ask = (who: Writer) =>
        store.claim({
          ref: ref(),
          agent,
          seen: null,
          writer: who,
          batch: batch(0, ['k0']),
          leaseUntil: at(10_000),
          now: at(0),
        });
      const outcomes = await Promise.all([ask(writer('a', 1)), ask(writer('b', 1))]);
      deepEqual(outcomes.map((outcome) => outcome.kind).sort(), ['done', 'lost']);
      equal((await store.journal(ref())).length, 1);
      const head = await store.head(ref());
      equal(head?.open?.turn, 't1');
      equal(head?.epoch, 1);
      await store.close();
    },
  },
  {
    title: 'T1 a commit shows head, projection, checkpoint and outbox together [T1]',
    run: async (open) => {
      const store = await open();
      const who = writer('a', 1);
      await claimed(store, who, null);
      deepEqual(await store.conclude(conclusion(who, 1)), { kind: 'done' });
      const begun = await store.begin(ref(), null);
      equal(begun.head?.revision, 1);
      equal(begun.head?.open, null);
      equal(begun.end?.status, 'succeeded');
      equal(begun.checkpoint?.revision, 1);
      deepEqual(
        begun.work?.entries.map((entry) => entry.id),
        ['entry-1'],
      );
      await store.close();
    },
  },
  {
    title: 'T8 T10 a commit of a displaced owner changes nothing at all [T1 T4]',
    run: async (open) => {
      const store = await open();
      const old = writer('a', 1);
      await claimed(store, old, null);
      const head = await store.head(ref());
      ok(head);
      const taker = writer('b', 2);
      const taken = await store.takeover({
        ref: ref(),
        seen: head,
        writer: taker,
        batch: batch(1),
        leaseUntil: at(60_000),
        now: at(20_000),
      });
      deepEqual(taken, { kind: 'done' });
      const late = await store.conclude(conclusion(old, 1));
      equal(late.kind, 'lost');
      const begun = await store.begin(ref(), null);
      deepEqual([begun.head?.revision, begun.end, begun.checkpoint], [0, null, null]);
      deepEqual(begun.work?.entries, []);
      deepEqual(await store.conclude(conclusion(taker, 2)), { kind: 'done' });
      await store.close();
    },
  },
  {
    title: 'E17 the store refuses a second announcement of one effect key, and says so [T5]',
    run: async (open) => {
      const store = await open();
      const who = writer('a', 1);
      await claimed(store, who, null);
      deepEqual(await append(store, who, 1, ['k1'], new Set(['k0'])), { kind: 'done' });
      const again = await append(store, who, 2, ['k1'], new Set(['k0', 'k1']));
      deepEqual(again, { kind: 'lost', reason: 'already_announced', effectKey: 'k1' });
      equal((await store.journal(ref())).length, 2);
      await store.close();
    },
  },
  {
    title:
      'E321 a taken position is fenced and shows what stands there; it is no other refusal [T4]',
    run: async (open) => {
      const store = await open();
      await claimed(store, writer('a', 1), null);
      deepEqual(await append(store, writer('a', 1), 1, ['k1']), { kind: 'done' });
      const fenced = await append(store, writer('z', 1), 1, ['k2']);
      ok(fenced.kind === 'lost' && fenced.reason === 'fenced');
      equal(fenced.position?.token, writer('a', 1).token);
      await store.close();
    },
  },
  {
    title: 'E2 E12 the same bytes sent again are recognised as ours, not as a lost race [T4]',
    run: async (open) => {
      const store = await open();
      const who = writer('a', 1);
      await claimed(store, who, null);
      for (let times = 0; times < 3; times += 1) {
        deepEqual(await append(store, who, 1, ['k1'], new Set(['k0'])), { kind: 'done' });
      }
      equal((await store.journal(ref())).length, 2);
      await store.close();
    },
  },
  {
    title:
      'E217 F5 an append under a displaced epoch is fenced; one past its lease, not displaced, is accepted [T4]',
    run: async (open) => {
      const store = await open();
      const old = writer('a', 1);
      await claimed(store, old, null);
      deepEqual(await append(store, old, 1, []), { kind: 'done' });
      const head = await store.head(ref());
      ok(head);
      const early = await store.takeover({
        ref: ref(),
        seen: head,
        writer: writer('b', 2),
        batch: batch(2),
        leaseUntil: at(60_000),
        now: at(5_000),
      });
      equal(early.kind, 'lost');
      const taken = await store.takeover({
        ref: ref(),
        seen: head,
        writer: writer('b', 2),
        batch: batch(2),
        leaseUntil: at(60_000),
        now: at(10_001),
      });
      deepEqual(taken, { kind: 'done' });
      const fenced = await append(store, old, 2, ['k9']);
      ok(fenced.kind === 'lost' && fenced.reason === 'fenced');
      await store.close();
    },
  },
  {
    title: 'a takeover into a position the old owner squeezed in first is refused whole [T4]',
    run: async (open) => {
      const store = await open();
      const old = writer('a', 1);
      await claimed(store, old, null);
      const head = await store.head(ref());
      ok(head);
      deepEqual(await append(store, old, 1, ['k1']), { kind: 'done' });
      const taken = await store.takeover({
        ref: ref(),
        seen: head,
        writer: writer('b', 2),
        batch: batch(1),
        leaseUntil: at(60_000),
        now: at(20_000),
      });
      equal(taken.kind, 'lost');
      equal((await store.head(ref()))?.epoch, 1);
      await store.close();
    },
  },
  {
    title: 'E213 a renewal extends only the live lease of its epoch and never claims [T4]',
    run: async (open) => {
      const store = await open();
      const who = writer('a', 1);
      await claimed(store, who, null);
      deepEqual(await store.renew(ref(), who, at(20_000), at(5_000)), { kind: 'done' });
      equal((await store.head(ref()))?.open?.leaseUntil, at(20_000));
      equal((await store.renew(ref(), writer('a', 0), at(30_000), at(6_000))).kind, 'lost');
      equal((await store.renew(ref(), who, at(40_000), at(20_001))).kind, 'lost');
      equal((await store.head(ref()))?.open?.leaseUntil, at(20_000));
      await store.close();
    },
  },
  {
    title: 'E214 after a conclusion the next claim needs the next epoch [T4]',
    run: async (open) => {
      const store = await open();
      const who = writer('a', 1);
      await claimed(store, who, null);
      await store.conclude(conclusion(who, 1));
      const head = await store.head(ref());
      equal(head?.epoch, 1);
      await claimed(store, writer('b', 2), head, ref('t2'));
      equal((await store.head(ref()))?.epoch, 2);
      await store.close();
    },
  },
  {
    title:
      'a turn without effects commits on the head it saw; a moved head refuses it whole [T1 T3]',
    run: async (open) => {
      const store = await open();
      const write = (token: string, turn: string, seen: Head | null): ConcludeWrite => ({
        ...conclusion(writer(token, (seen?.epoch ?? 0) + 1), 0),
        ref: ref(turn),
        hold: { kind: 'optimistic', seen },
      });
      const outcomes = await Promise.all([
        store.conclude(write('a', 't1', null)),
        store.conclude(write('b', 't2', null)),
      ]);
      deepEqual(outcomes.map((outcome) => outcome.kind).sort(), ['done', 'lost']);
      equal((await store.head(ref()))?.revision, 1);
      await store.close();
    },
  },
  {
    title: 'a lost acknowledgement of a conclusion is decided by its own token [T1 T2]',
    run: async (open) => {
      const store = await open();
      const who = writer('a', 1);
      await claimed(store, who, null);
      const write = conclusion(who, 1);
      deepEqual(await store.conclude(write), { kind: 'done' });
      deepEqual(await store.conclude(write), { kind: 'done' });
      equal((await store.head(ref()))?.revision, 1);
      await store.close();
    },
  },
  {
    title: 'F11 fifty writers that race for positions never fork or gap the journal [T4]',
    run: async (open) => {
      const store = await open();
      await claimed(store, writer('a', 1), null);
      const race = async (token: string): Promise<void> => {
        for (let index = 1; ; index += 1) {
          const outcome = await append(store, writer(token, 1), index, []);
          if (outcome.kind === 'done') return;
          ok(outcome.kind === 'lost' && outcome.reason === 'fenced');
        }
      };
      await Promise.all(Array.from({ length: 50 }, (_, n) => race(`w${n}`)));
      const positions = await store.journal(ref());
      deepEqual(
        positions.map((position) => position.index),
        Array.from({ length: 51 }, (_, n) => n),
      );
      equal(new Set(positions.map((position) => position.token)).size, 51);
      await store.close();
    },
  },
  {
    title:
      'E220 F1 due work: a lapsed run, a due wake and an unsent entry are found, a live run is not',
    run: async (open) => {
      const store = await open();
      const who = writer('a', 1);
      await claimed(store, who, null);
      const options = { unsentMs: 1_000, limit: 10 };
      deepEqual(await store.dueWork(at(5_000), options), []);
      equal((await store.dueWork(at(10_001), options))[0]?.ref.turn, 't1');
      await store.park({
        ref: ref(),
        writer: who,
        batch: batch(1),
        announced: none,
        wakeAt: at(6_000),
        entries: [],
        now: at(5_500),
      });
      deepEqual(
        (await store.dueWork(at(5_999), options)).map((row) => row.ref.turn),
        [],
      );
      equal((await store.dueWork(at(6_000), options))[0]?.ref.turn, 't1');
      const head = await store.head(ref());
      ok(head);
      const next = writer('b', 2);
      await store.takeover({
        ref: ref(),
        seen: head,
        writer: next,
        batch: batch(2),
        leaseUntil: at(60_000),
        now: at(7_000),
      });
      await store.conclude({ ...conclusion(next, 3), now: at(8_000) });
      equal((await store.dueWork(at(9_500), options))[0]?.entries.length, 1);
      equal((await store.markSent(ref(), ['entry-1'], at(9_600))).kind, 'done');
      deepEqual(await store.workOf(ref()), []);
      await store.close();
    },
  },
  {
    title: 'ruling 12 an accepted delivery is stored once; a second one is shown the first [T2]',
    run: async (open) => {
      const store = await open();
      const acceptance = (payloadDigest: string): Acceptance => ({
        agent,
        payloadDigest,
        scope: 't0',
        generation: 1,
        payload: { kind: 'inline', bytes: Uint8Array.of(7) },
        at: at(0),
      });
      const entry = { id: 'accept-1', queue: 'inbox' as const, body: '{}' };
      deepEqual(await store.accept(ref(), acceptance('one'), entry, at(0)), { kind: 'done' });
      const second = await store.accept(
        ref(),
        acceptance('two'),
        { ...entry, id: 'accept-2' },
        at(1),
      );
      ok(second.kind === 'lost');
      equal(second.work?.accepted?.payloadDigest, 'one');
      const [row] = await store.workOf(ref());
      deepEqual(
        row?.entries.map((one) => one.id),
        ['accept-1'],
      );
      await store.close();
    },
  },
  {
    title: 'F33 payloads of 100 KB to 5 MB round-trip through parts; a missing part is loud',
    run: async (open) => {
      const store = await open();
      for (const size of [100_000, 256_000, 399_000, 401_000, 5_000_000]) {
        const bytes = Buffer.alloc(size, size % 251);
        const parts: Uint8Array[] = [];
        for (let from = 0; from < size; from += limits.partBytes)
          parts.push(bytes.subarray(from, from + limits.partBytes));
        const digest = base64url(sha256(bytes));
        const tenant = ref().tenant;
        await store.putParts(tenant, { digest, parts });
        await store.putParts(tenant, { digest, parts });
        const back = await store.getParts(tenant, { digest, count: parts.length });
        ok(bytes.equals(back));
        await rejects(store.getParts(tenant, { digest: 'missing'.padEnd(43, 'x'), count: 1 }));
      }
      await store.close();
    },
  },
  {
    title: 'F33 a batch over the item limit is refused by name before it is written',
    run: async (open) => {
      const store = await open();
      const who = writer('a', 1);
      await claimed(store, who, null);
      const huge = batch(1, [], 'x'.repeat(limits.itemBytes + 1));
      await rejects(
        Promise.resolve().then(() =>
          store.append({ ref: ref(), writer: who, batch: huge, announced: none, now: at(1) }),
        ),
        /record_too_large|expected at most/,
      );
      equal((await store.journal(ref())).length, 1);
      await store.close();
    },
  },
  {
    title: 'a key row is made once; whoever comes second is given the one that stands [T12]',
    run: async (open) => {
      const store = await open();
      const tenant = ref().tenant;
      const row = (id: string): KeyRow => ({
        scope: 't3',
        id,
        generation: 1,
        state: 'live',
        lifecycle: 0,
        wrapped: Uint8Array.of(1),
      });
      const outcomes = await Promise.all([
        store.createKey(tenant, row('a')),
        store.createKey(tenant, row('b')),
      ]);
      deepEqual(outcomes.map((outcome) => outcome.kind).sort(), ['done', 'lost']);
      const standing = await store.key(tenant, 't3');
      for (const outcome of outcomes) if (outcome.kind === 'lost') deepEqual(outcome.key, standing);
      await store.close();
    },
  },
  {
    title:
      'F3 a lease without a finite end in the future is refused before anything is written [T4]',
    run: async (open) => {
      const store = await open();
      for (const leaseUntil of [Number.NaN, Number.POSITIVE_INFINITY, start - 1]) {
        await rejects(
          Promise.resolve().then(() =>
            store.claim({
              ref: ref(),
              agent,
              seen: null,
              writer: writer('a', 1),
              batch: batch(0),
              leaseUntil: leaseUntil as EpochMs,
              now: at(0),
            }),
          ),
        );
      }
      equal(await store.head(ref()), null);
      await store.close();
    },
  },
  {
    title: 'snapshots keep their segments and are read back in order',
    run: async (open) => {
      const store = await open();
      const segments = ['s1', 't0'].map((scope) => ({
        revision: 4,
        scope,
        payload: { kind: 'inline' as const, bytes: Uint8Array.of(scope.length) },
      }));
      const before = {
        revision: 4,
        schema: 1,
        base: null,
        tail: segments,
      };
      await store.putSnapshot(ref(), 4, segments, before);
      deepEqual(await store.archived(ref(), 4), before);
      deepEqual(await store.snapshot(ref(), { revision: 4, count: 2 }), segments);
      await store.close();
    },
  },
  {
    title: 'ids of 256 characters and other tenants share nothing',
    run: async (open) => {
      const store = await open();
      const long = 'x'.repeat(256);
      const far = { ...ref(long, long), tenant: tenantId('tenant', long) };
      await claimed(store, writer('a', 1), null, far);
      equal((await store.head(far))?.open?.turn, long);
      equal(await store.head({ ...far, tenant: tenantId('tenant', 'other') }), null);
      await store.close();
    },
  },
];
