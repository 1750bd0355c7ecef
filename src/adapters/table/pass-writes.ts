// The writes of a pass (page 09, section 3): claim, append, takeover, renew, conclude, park.
//
// Owns: which items each transaction touches and under which conditions. Does not own: the conditions'
// engine, resending, or what to do after a loss.
//   T1  conclude is one transaction: head, position, projection, checkpoint, outbox row, key checks.
//   T3  claim needs a head without an open turn; the epoch alone is the thread's version (rule 2).
//   T4  every transaction wins a position (rule 3); a takeover wins the next one of the turn the head
//       names (rule 4); the lease end decides only who may take over, never who may write (LE-1).
//   T8  conclude requires the cancel counter as seen (rule 5).

import type { LentEntry } from '../../ports/lent.ts';
import type {
  AnnotateWrite,
  Appended,
  AppendWrite,
  Claimed,
  ClaimWrite,
  Concluded,
  ConcludeWrite,
  Head,
  ParkWrite,
  Renewed,
  TakeoverWrite,
  TurnRef,
  Writer,
} from '../../ports/store.ts';
import { assertInvariant, TurnstoneError } from '../../protocol/errors.ts';
import type { EpochMs } from '../../protocol/ids.ts';
import type { Clause, Item, ItemKey, WriteOp, WriteOutcome } from './driver.ts';
import { checkpointKey, endKey, headKey, keyRowKey, type TurnPlace, workKey } from './layout.ts';
import { isMemoryOp, memoryOps } from './memory-rows.ts';
import { appended, claimed, positionOp, refusedHead, unexplained } from './pass-outcomes.ts';
import { entriesOut, hashOut } from './payload-codec.ts';
import { listOps } from './person-lists.ts';
import { announcedBefore, announcedTwice, positionPut, witness } from './position-witness.ts';
import { spendOps } from './spend-rows.ts';
import type { TableContext } from './table-context.ts';
import { checkpointOut, endOut, keyRowIn } from './turn-codec.ts';
import { closingOps, intentOps } from './wait-rows.ts';
import { versionOf, workNames } from './work-codec.ts';

/** First write of a pass on a thread nobody holds [T3, T4]. */
export async function claim(table: TableContext, write: ClaimWrite): Promise<Claimed> {
  assertLease(write.leaseUntil, write.now);
  assertNextEpoch(write.writer, write.seen);
  const place = await table.names.turn(write.ref);
  const { seen, writer } = write;
  return claimed(table, write, write.seen, [
    {
      kind: 'update',
      key: headKey(place.thread),
      change: {
        set: {
          ...(seen === null ? newHead(write.ref) : {}),
          e: writer.epoch,
          lt: write.ref.turn,
          lo: writer.owner,
          lx: write.leaseUntil,
          la: write.agent,
        },
      },
      when: freeHead(seen),
    },
    positionPut(place, writer, write.batch, write.ref.turn),
    runningRow(table, place, write),
  ]);
}

/** Takes the lapsed turn the head names, occupying its next position (ruling 4) [T4]. */
export async function takeover(table: TableContext, write: TakeoverWrite): Promise<Claimed> {
  assertLease(write.leaseUntil, write.now);
  assertNextEpoch(write.writer, write.seen);
  assertInvariant(
    write.seen.open?.turn === write.ref.turn,
    'T4',
    'a takeover is of the turn that the head names',
  );
  const place = await table.names.turn(write.ref);
  return claimed(table, write, write.seen, [
    {
      kind: 'update',
      key: headKey(place.thread),
      change: { set: { e: write.writer.epoch, lo: write.writer.owner, lx: write.leaseUntil } },
      when: [
        { attr: 'e', is: 'eq', value: write.seen.epoch },
        { attr: 'lt', is: 'eq', value: write.ref.turn },
        { attr: 'lx', is: 'le', value: write.now },
      ],
    },
    positionPut(place, write.writer, write.batch, write.ref.turn),
    runningRow(table, place, write),
  ]);
}

/** One position in one plain put [T4, T5]. */
export async function append(table: TableContext, write: AppendWrite): Promise<Appended> {
  const twice = announcedBefore(write.batch, write.announced);
  if (twice !== undefined) return { kind: 'lost', reason: 'already_announced', effectKey: twice };
  const place = await table.names.turn(write.ref);
  const put = positionPut(place, write.writer, write.batch, write.ref.turn);
  const outcome = await sent(table, put, write.lent ?? []);
  if (outcome.kind !== 'lost') return outcome;
  const lent = outcome.refused.find(({ op }) => op > 0);
  if (lent !== undefined && outcome.refused.every(({ op }) => op > 0)) {
    return { kind: 'lost', reason: 'refused', detail: lent.detail ?? 'its condition failed' };
  }
  return appended(outcome.refused, 0, write);
}

/** A request the engine finds wrong because of what was lent is a refusal of that, not of the store. */
async function sent(
  table: TableContext,
  put: WriteOp,
  lent: readonly LentEntry[],
): Promise<WriteOutcome> {
  if (lent.length === 0) return table.driver.write([put]);
  try {
    return await table.driver.write([put], lent);
  } catch (error) {
    if (!(error instanceof TurnstoneError) || error.code !== 'store_rejected') throw error;
    return { kind: 'lost', refused: [{ op: 1, item: null, detail: error.message }] };
  }
}

/** Extends the lease of the epoch that holds it; a lapsed one is not revived (LE-2). */
export async function renew(
  table: TableContext,
  ref: TurnRef,
  writer: Writer,
  leaseUntil: EpochMs,
  now: EpochMs,
): Promise<Renewed> {
  assertLease(leaseUntil, now);
  const outcome = await table.driver.write([
    {
      kind: 'update',
      key: headKey(await table.names.thread(ref)),
      change: { set: { lx: leaseUntil } },
      when: [...heldHead(ref, writer), { attr: 'lx', is: 'gt', value: now }],
    },
  ]);
  if (outcome.kind !== 'lost') return outcome;
  return { kind: 'lost', head: refusedHead(outcome.refused) ?? null };
}

/** The commit, or the conclusion of a turn that changes nothing [T1]. */
export async function conclude(table: TableContext, write: ConcludeWrite): Promise<Concluded> {
  const twice = announcedBefore(write.batch, write.announced);
  if (twice !== undefined) throw announcedTwice(twice);
  const place = await table.names.turn(write.ref);
  // A turn that leaves nothing to send takes its row along, unless earlier entries still wait on it.
  const whole = write.entries.length === 0;
  const lists = [
    ...(await listOps(table, place, write)),
    ...(await closingOps(table, write.ref, write.closes)),
    ...(await intentOps(table, write.intents)),
    ...memoryOps(write.memories),
    ...(await spendOps(table, place, write)),
  ];
  const outcome = await concludeOnce(table, write, [
    ...concludeOps(table, place, write, whole),
    ...lists,
  ]);
  if (outcome !== 'unsent entries') return outcome;
  const kept = await concludeOnce(table, write, [
    ...concludeOps(table, place, write, false),
    ...lists,
  ]);
  if (kept === 'unsent entries') throw unexplained('conclude');
  return kept;
}

async function concludeOnce(
  table: TableContext,
  write: ConcludeWrite,
  ops: readonly WriteOp[],
): Promise<Concluded | 'unsent entries'> {
  const outcome = await table.driver.write(ops);
  if (outcome.kind !== 'lost') return outcome;
  const seen = witness(outcome.refused, positionOp, write.writer, write.batch);
  if (seen.kind === 'mine') return { kind: 'done' };
  if (seen.kind === 'announced') throw announcedTwice(seen.effectKey);
  if (seen.kind === 'taken') return { kind: 'lost', reason: 'fenced', position: seen.position };
  const head = refusedHead(outcome.refused);
  if (head !== undefined) return { kind: 'lost', reason: 'moved', head };
  const key = outcome.refused.find((one) => ops[one.op]?.kind === 'check');
  if (key === undefined && outcome.refused.some(({ op }) => remembers(ops[op]))) {
    return { kind: 'lost', reason: 'memory' };
  }
  if (key === undefined) return 'unsent entries';
  return { kind: 'lost', reason: 'key', key: key.item === null ? null : keyRowIn(key.item) };
}

/** The operation is of a fact to remember. */
function remembers(op: WriteOp | undefined): boolean {
  return op !== undefined && isMemoryOp(op);
}

/** Hands the lease back; the turn stays the open one and is free to be taken at once. */
export async function park(table: TableContext, write: ParkWrite): Promise<Appended> {
  const twice = announcedBefore(write.batch, write.announced);
  if (twice !== undefined) return { kind: 'lost', reason: 'already_announced', effectKey: twice };
  const place = await table.names.turn(write.ref);
  const outcome = await table.driver.write([
    {
      kind: 'update',
      key: headKey(place.thread),
      change: { set: { lx: 0 } },
      when: heldHead(write.ref, write.writer),
    },
    positionPut(place, write.writer, write.batch, write.ref.turn),
    {
      kind: 'update',
      key: workKey(place, table.shards),
      change: {
        set: { ...rowStamp(write), wk: write.wakeAt },
        remove: ['rd'],
        ...appendEntries(write),
      },
      when: [],
    },
  ]);
  if (outcome.kind !== 'lost') return outcome;
  return appended(outcome.refused, positionOp, write);
}

/** Adds records to a turn nobody drives; the head must stand as seen and name another turn or none. */
export async function annotate(table: TableContext, write: AnnotateWrite): Promise<Appended> {
  assertAside(write.ref, write.seen);
  const place = await table.names.turn(write.ref);
  const ops: WriteOp[] = [
    { kind: 'check', key: headKey(place.thread), when: standing(write.seen) },
    positionPut(place, write.writer, write.batch, write.ref.turn),
  ];
  if (write.wakeAt !== null) {
    const set = { ...rowStamp(write), wk: write.wakeAt };
    ops.push({ kind: 'update', key: workKey(place, table.shards), change: { set }, when: [] });
  }
  const outcome = await table.driver.write(ops);
  if (outcome.kind !== 'lost') return outcome;
  return appended(outcome.refused, positionOp, write);
}

function assertAside(ref: TurnRef, seen: Head): void {
  assertInvariant(
    seen.open?.turn !== ref.turn,
    'T4',
    'a person writes beside a pass, never into it',
  );
}

/** The head exactly as it was seen: whoever claims bumps the epoch, whoever leaves clears the turn. */
function standing(seen: Head): Clause[] {
  const open: Clause =
    seen.open === null
      ? { attr: 'lt', is: 'absent' }
      : { attr: 'lt', is: 'eq', value: seen.open.turn };
  return [{ attr: 'e', is: 'eq', value: seen.epoch }, open];
}

function concludeOps(
  table: TableContext,
  place: TurnPlace,
  write: ConcludeWrite,
  dropRow: boolean,
): WriteOp[] {
  const row = workKey(place, table.shards);
  const ops: WriteOp[] = [
    concludedHead(place, write),
    positionPut(place, write.writer, write.batch, write.ref.turn),
    { kind: 'put', key: endKey(place), item: endOut(write.end), when: [] },
    dropRow
      ? { kind: 'delete', key: row, when: [{ attr: 'en', is: 'absent' }] }
      : {
          kind: 'update',
          key: row,
          change: {
            set: { ...rowStamp(write), sq: write.sequence },
            remove: ['rd', 'wk', 'ac', 'tr', 'pr', 'lk'],
            ...appendEntries(write),
          },
          when: [],
        },
  ];
  if (write.checkpoint !== null) {
    ops.push({
      kind: 'put',
      key: checkpointKey(place.thread),
      item: checkpointOut(write.checkpoint.next),
      when: [],
    });
  }
  for (const row of write.keys) {
    ops.push({
      kind: 'check',
      key: keyRowKey(table.names.keyRow(write.ref.tenant, row.scope)),
      when: [
        { attr: 'st', is: 'eq', value: 'live' },
        { attr: 'g', is: 'eq', value: row.generation },
        { attr: 'le', is: 'eq', value: row.lifecycle },
        // A removal on its way ends before anything more is remembered.
        ...(write.memories.length === 0 ? [] : [{ attr: 'op', is: 'absent' as const }]),
      ],
    });
  }
  return ops;
}

function concludedHead(place: TurnPlace, write: ConcludeWrite): WriteOp {
  const { checkpoint, hold, ref, writer } = write;
  if (hold.kind === 'aside') {
    assertAside(ref, hold.seen);
    const when = standing(hold.seen);
    const key = headKey(place.thread);
    if (hold.seen.blockedBy !== ref.turn) return { kind: 'check', key, when };
    return { kind: 'update', key, change: { remove: ['bk'] }, when };
  }
  const set: Record<string, string | number | Uint8Array> = {};
  const when: Clause[] = [];
  if (hold.kind === 'held') {
    when.push(...heldHead(ref, writer), { attr: 'cn', is: 'eq', value: writer.cancelsSeen });
  } else {
    assertNextEpoch(writer, hold.seen);
    when.push(...freeHead(hold.seen));
    if (hold.seen === null) Object.assign(set, newHead(ref));
    else when.push({ attr: 'cn', is: 'eq', value: writer.cancelsSeen });
    set.e = writer.epoch;
  }
  if (checkpoint !== null) {
    const before = checkpoint.next.revision - 1;
    if (hold.kind === 'held' || hold.seen !== null) {
      when.push({ attr: 'rev', is: 'eq', value: before });
    }
    Object.assign(set, {
      rev: checkpoint.next.revision,
      ag: write.agent,
      au: hashOut(checkpoint.authority),
      sv: checkpoint.schema,
    });
  }
  if (write.blocks) set.bk = ref.turn;
  return {
    kind: 'update',
    key: headKey(place.thread),
    change: { set, remove: ['lt', 'lo', 'lx', 'la', ...(write.blocks ? [] : ['bk'])] },
    when,
  };
}

function freeHead(seen: Head | null): Clause[] {
  if (seen === null) return [{ is: 'no item' }];
  return [
    { attr: 'e', is: 'eq', value: seen.epoch },
    { attr: 'lt', is: 'absent' },
  ];
}

function heldHead(ref: TurnRef, writer: Writer): Clause[] {
  return [
    { attr: 'e', is: 'eq', value: writer.epoch },
    { attr: 'lt', is: 'eq', value: ref.turn },
  ];
}

function newHead(ref: TurnRef): Item {
  return { tn: ref.tenant, th: ref.thread, rev: 0, cn: 0, sv: 0 };
}

/** The work row of a running pass: due when its lease ends. The journal now holds the admission. */
function runningRow(
  table: TableContext,
  place: TurnPlace,
  write: ClaimWrite | TakeoverWrite,
): WriteOp {
  const key: ItemKey = workKey(place, table.shards);
  return {
    kind: 'update',
    key,
    change: {
      set: { ...rowStamp(write), rd: write.leaseUntil },
      remove: ['wk', 'ac'],
    },
    when: [],
  };
}

/** What every write of a pass leaves on its work row: names, instant, version. */
function rowStamp(
  write: ClaimWrite | TakeoverWrite | AnnotateWrite | ConcludeWrite | ParkWrite,
): Item {
  const version = versionOf(write.writer.token, write.batch.index, null);
  return { ...workNames(write.ref), ua: write.now, q: version };
}

function appendEntries(write: ConcludeWrite | ParkWrite): {
  append?: { en: Item[string][] };
} {
  return write.entries.length === 0 ? {} : { append: { en: entriesOut(write) } };
}

/** A lease has a finite end in the future, or nothing is written (F3) [T11]. */
function assertLease(until: EpochMs, now: EpochMs): void {
  if (Number.isSafeInteger(until) && until > now) return;
  throw new TurnstoneError(
    'invalid_request',
    `leaseUntil: expected an instant after ${now}, got ${until}`,
    { retry: 'never', details: { field: 'leaseUntil', expected: now, got: String(until) } },
  );
}

function assertNextEpoch(writer: Writer, seen: Head | null): void {
  const expected = (seen?.epoch ?? 0) + 1;
  assertInvariant(
    writer.epoch === expected,
    'T4',
    `the writer's epoch follows the head: expected ${expected}, got ${writer.epoch}`,
  );
}
