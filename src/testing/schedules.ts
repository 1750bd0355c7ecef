// The write protocol under random small schedules: actors make port calls, one at a time, in a seeded order.
//
// Owns: the actors (turns, a turn without effects, a second delivery), the interleaving, acknowledgements
// that come late and are sent again, lapsing leases. Judges from stored state and the acts alone:
//   T1 revision = successes; T2 no second conclusion, no second act; T4 no displaced announcement.
// `mutate` changes the store an actor sees: each rule of page 09 has a mutant that must be caught.

import type { Batch, ConcludeWrite, Head, TurnRef, TurnStore, Writer } from '../ports/store.ts';
import type { AgentName, EpochMs } from '../protocol/ids.ts';
import { agentName, tenantId, threadId, turnId } from '../protocol/ids.ts';

/** What a schedule came to. */
export interface ScheduleReport {
  readonly acts: ReadonlyMap<string, number>;
  readonly violations: readonly string[];
}

export interface ScheduleOptions {
  readonly seed: number;
  readonly open: () => TurnStore;
  /** The store as the actors see it; a mutant of the protocol lives here. */
  readonly mutate?: (store: TurnStore) => TurnStore;
  /** Rules the actors themselves may leave out. */
  readonly without?: 'takeover names its own turn';
}

const agent: AgentName = agentName('agent', 'shop');
const thread = { tenant: tenantId('tenant', 'acme'), thread: threadId('thread', 'th') };
const leaseMs = 100;

/** A small generator of numbers in [0, 1), the same for the same seed. */
export function numbers(seed: number): () => number {
  let state = (seed * 2654435761 + 1) >>> 0;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 3266489917) >>> 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}

interface Shared {
  readonly random: () => number;
  readonly acts: Map<string, number>;
  readonly violations: string[];
  readonly displacedAt: Map<string, number>;
  now: number;
}

/** Runs one schedule to its end. */
export async function runSchedule(options: ScheduleOptions): Promise<ScheduleReport> {
  const store = options.open();
  const seen = options.mutate?.(store) ?? store;
  const shared: Shared = {
    random: numbers(options.seed),
    acts: new Map(),
    violations: [],
    displacedAt: new Map(),
    now: 1_000_000,
  };
  const actors = [
    actor(options, seen, shared, 'a', 't1', 2),
    actor(options, seen, shared, 'b', 't1', 2),
    actor(options, seen, shared, 'c', 't2', 1),
    actor(options, seen, shared, 'd', 't2', 1),
    actor(options, seen, shared, 'e', 't3', 0),
    actor(options, seen, shared, 'f', 't3', 0),
  ];
  for (let moves = 0; actors.length > 0 && moves < 4_000; moves += 1) {
    const index = Math.floor(shared.random() * actors.length);
    const step = await actors[index]?.next();
    if (step?.done === true) actors.splice(index, 1);
    shared.now += shared.random() < 0.06 ? leaseMs + 1 : 1;
  }
  await judge(store, shared);
  await store.close();
  return { acts: shared.acts, violations: shared.violations };
}

/** Calls a port; one time in seven the answer is lost and the same bytes are sent again. */
async function heard<T>(shared: Shared, call: () => Promise<T>): Promise<T> {
  const answer = await call();
  return shared.random() < 1 / 7 ? call() : answer;
}

type Actor = AsyncGenerator<void, void, void>;

async function* actor(
  options: ScheduleOptions,
  store: TurnStore,
  shared: Shared,
  name: string,
  turn: string,
  effects: number,
): Actor {
  const ref: TurnRef = { ...thread, turn: turnId('turn', turn) };
  for (let delivery = 0; delivery < 12; delivery += 1) {
    yield;
    const begun = await store.begin(ref, null);
    yield;
    const journal = await store.journal(ref);
    const concluded = journal.some((position) =>
      position.records.some((record) => record.body === 'RC'),
    );
    if (concluded) return;
    const { head } = begun;
    const token = `${name}${delivery}`.padEnd(22, '_');
    const writer: Writer = {
      token,
      owner: name,
      epoch: (head?.epoch ?? 0) + 1,
      cancelsSeen: head?.cancels ?? 0,
    };
    const pass = { options, store, shared, ref, effects, writer, head };
    if (head?.open == null) {
      if (journal.length > 0) continue;
      const ended = yield* fresh(pass);
      if (ended) return;
      continue;
    }
    if (head.open.leaseUntil > shared.now) continue;
    const ended = yield* takeOver(pass, head);
    if (ended) return;
  }
}

interface PassOf {
  readonly options: ScheduleOptions;
  readonly store: TurnStore;
  readonly shared: Shared;
  readonly ref: TurnRef;
  readonly effects: number;
  readonly writer: Writer;
  readonly head: Head | null;
}

async function* fresh(pass: PassOf): AsyncGenerator<void, boolean, void> {
  const { store, shared, ref, writer, head, effects } = pass;
  yield;
  if (effects === 0) {
    const hold = { kind: 'optimistic' as const, seen: head };
    const outcome = await heard(shared, () => store.conclude(conclusion(pass, 0, hold)));
    return outcome.kind === 'done';
  }
  const claim = await heard(shared, () =>
    store.claim({
      ref,
      agent,
      writer,
      seen: head,
      now: shared.now as EpochMs,
      batch: batchOf(0, ['ES0'], [`${ref.turn}:0`]),
      leaseUntil: (shared.now + leaseMs) as EpochMs,
    }),
  );
  if (claim.kind !== 'done') return false;
  return yield* goOn(pass, ref, 1, 0, effects);
}

async function* takeOver(pass: PassOf, head: Head): AsyncGenerator<void, boolean, void> {
  const { store, shared, writer, options } = pass;
  if (head.open === null) return false;
  const named = { ...thread, turn: head.open.turn };
  yield;
  const journal = await store.journal(named);
  const own = options.without === 'takeover names its own turn' && journal.length > 0;
  const index = own ? journal.length + 7 : journal.length;
  yield;
  const taken = await heard(shared, () =>
    store.takeover({
      ref: named,
      seen: head,
      writer,
      now: shared.now as EpochMs,
      batch: batchOf(index, [], []),
      leaseUntil: (shared.now + leaseMs) as EpochMs,
    }),
  );
  if (taken.kind !== 'done') return false;
  shared.displacedAt.set(head.open.owner, head.epoch);
  const bodies = journal.flatMap((position) => position.records.map((record) => record.body));
  const recorded = bodies.filter((body) => body.startsWith('ED')).length;
  const announced = bodies.filter((body) => body.startsWith('ES')).length;
  const effects = named.turn === 't1' ? 2 : 1;
  const ended = yield* goOn(pass, named, index + 1, recorded, effects, announced);
  return ended && named.turn === pass.ref.turn;
}

/** Drives a held turn: acts only on its own acknowledged announcement, once an effect. */
async function* goOn(
  pass: PassOf,
  ref: TurnRef,
  from: number,
  recordedBefore: number,
  effects: number,
  announcedBefore = 1,
): AsyncGenerator<void, boolean, void> {
  const { store, shared, writer } = pass;
  let index = from;
  for (let n = recordedBefore; n < effects; n += 1) {
    const mine = n >= announcedBefore || (from === 1 && n === 0);
    if (n >= announcedBefore) {
      yield;
      const records = n === recordedBefore ? [`ES${n}`] : [`ED${n - 1}`, `ES${n}`];
      const announced = new Set(Array.from({ length: n }, (_, k) => `${ref.turn}:${k}`));
      const at = index;
      const outcome = await heard(shared, () =>
        store.append({
          ref,
          writer,
          announced,
          now: shared.now as EpochMs,
          batch: batchOf(at, records, [`${ref.turn}:${n}`]),
        }),
      );
      if (outcome.kind !== 'done') return false;
      index += 1;
    }
    yield;
    if (mine) act(shared, `${ref.turn}:${n}`);
  }
  yield;
  const outcome = await heard(shared, () =>
    store.conclude({ ...conclusion(pass, index, { kind: 'held' }), ref }),
  );
  return outcome.kind === 'done';
}

function act(shared: Shared, effect: string): void {
  const times = (shared.acts.get(effect) ?? 0) + 1;
  shared.acts.set(effect, times);
  if (times > 1) shared.violations.push(`${effect} acted twice`);
}

function batchOf(index: number, bodies: readonly string[], announces: readonly string[]): Batch {
  return { index, announces, records: bodies.map((body) => ({ body, hash: 'h'.repeat(43) })) };
}

function conclusion(pass: PassOf, index: number, hold: ConcludeWrite['hold']): ConcludeWrite {
  const { writer, head, shared, ref } = pass;
  const revision = (head?.revision ?? 0) + 1;
  const payload = { kind: 'inline' as const, bytes: Uint8Array.of(1) };
  const now = shared.now as EpochMs;
  return {
    ref,
    agent,
    hold,
    writer,
    now,
    batch: batchOf(index, ['RC'], []),
    announced: new Set(),
    end: {
      status: 'succeeded',
      agent,
      positions: index + 1,
      head: { seq: index, hash: 'h'.repeat(43) },
      payloadDigest: 'd',
      revision,
      scope: 't0',
      view: payload,
      cancelsSeen: 0,
      dueAt: null,
      createdAt: now,
      updatedAt: now,
    },
    checkpoint: { next: { revision, schema: 1, base: null, tail: [] }, authority: 'a', schema: 1 },
    blocks: false,
    attention: null,
    listed: false,
    closes: [],
    intents: [],
    memories: [],
    entries: [],
    sequence: revision,
    keys: [],
  };
}

/** Every promise, from what is stored. */
async function judge(store: TurnStore, shared: Shared): Promise<void> {
  const { violations } = shared;
  let successes = 0;
  for (const turn of ['t1', 't2', 't3']) {
    const journal = await store.journal({ ...thread, turn: turnId('turn', turn) });
    const bodies = journal.flatMap((position) => position.records.map((record) => record.body));
    const conclusions = bodies.filter((body) => body === 'RC').length;
    if (conclusions > 1) violations.push(`${turn} concluded ${conclusions} times`);
    if (conclusions > 0 && bodies.at(-1) !== 'RC')
      violations.push(`${turn} was written to after its conclusion`);
    for (const word of ['ES0', 'ES1']) {
      if (bodies.filter((body) => body === word).length > 1)
        violations.push(`${turn} announced ${word} twice`);
    }
    if (journal.some((position, index) => position.index !== index))
      violations.push(`${turn} has a gap`);
    const tokens = journal.map((position) => position.token);
    const returned = tokens.some(
      (token, index) => tokens[index - 1] !== token && tokens.slice(0, index).includes(token),
    );
    if (returned) violations.push(`${turn} was written by a displaced owner`);
    if (conclusions > 0) successes += 1;
  }
  const head = await store.head(thread);
  if ((head?.revision ?? 0) !== successes) {
    violations.push(`revision ${head?.revision ?? 0} after ${successes} successes`);
  }
}
