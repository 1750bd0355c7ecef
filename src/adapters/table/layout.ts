// The item layout: every item kind, its key and its attributes, in one place (page 09, section 1).
//
// Owns: key strings and attribute names. Does not own: values (codecs beside it) or conditions (the verbs).
//   Every table has a text partition key `pk` and a text sort key `sk`. Names a caller chose never stand in
//   a key: TH (thread, 27 chars) and TU (turn, 22 chars) are HMACs under a secret of the tenant (names.ts).
//   HEAD stays under one kilobyte (a commit pays for it); positions aim at one.
//
// | item | table | pk / sk                | attributes                                                        |
// |------|-------|------------------------|-------------------------------------------------------------------|
// | HEAD | DATA  | TH / #h                | e epoch, lt open turn, lo owner, lx lease end, la its agent, rev, |
// |      |       |                        | cn cancels, ag agent, au authority, sv schema, bk blocked by,     |
// |      |       |                        | tn tenant, th thread                                              |
// | CKPT | DATA  | TH / #c                | rev, sv schema, b base [revision, count], t tail segments         |
// | BASE | DATA  | TH / #b<rev>.<i>       | s one segment                                                     |
// | ARCH | DATA  | TH / #a<rev>           | a CKPT as it stood before that snapshot                           |
// | RCPT | DATA  | TH / #r<H(kind, key)>  | tn th, ef, ad args digest, sc, p key, tu si pointer, ca, ua       |
// | POS  | DATA  | TH / TU:p<k6>          | tk token, e epoch, cn cancels seen, r records, tu turn (k = 0)    |
// | END  | DATA  | TH / TU:z              | s status, ag, n positions, q h chain head, pd digest, rev, sc     |
// |      |       |                        | scope, v view, cn, ca created, ua updated                         |
// | PART | DATA  | H(digest).<i> / p      | b bytes, n count                                                  |
// | CACH | DATA  | TH / #m                | t turns, e entries [key, at, bytes, turn, seq] or [.., digest]    |
// | STOP | DATA  | TH / TU:x              | by actor, r reason, sc scope, at                                  |
// | LATE | DATA  | TH / TU:y<effect key>   | oc outcome, c code, to tokens, mu minor units, at, lo owner, sc, p |
// | LIST | WORK  | q<tenant>.<shard> /    | tn th tu names, c condition, at                                   |
// |      |       | TH:TU                  |                                                                   |
// | WORK | WORK  | w<shard> / TH:TU       | tn th tu names, ac acceptance, rd run due, wk wake, en entries,   |
// |      |       |                        | sq sequence, tr tries, pr parked, q version, ua updated           |
// | WAIT | DATA  | x<H(tenant, wait)> / w  | k kind, tn th tu, un until, ca, dg digest, by, fe four eyes, sc, p,|
// |      |       |                        | mt match, an answer                                               |
// | EVNT | DATA  | e<H(tenant, source,    | m match, at, sc, p payload, cb claimed by                         |
// |      |       | id)> / e               |                                                                   |
// | MTCH | DATA  | m<H(tenant, type,      | nothing: the key says it all                                      |
// |      |       | corr.)> / w|e<at>:<id> |                                                                   |
// | INTN | DATA  | i<H(tenant, intent)>/i | tn th tu, ag, ef, ad, sc, p, ca, xa expires, a attempt, ct claim, |
// |      |       |                        | cu claim until, oc outcome, r result                              |
// | DUE  | WORK  | t<shard> /             | tn th tu, at                                                      |
// |      |       | <due>:TH:TU            |                                                                   |
// | LOOK | WORK  | l<shard> / event       | tn, m match, at                                                   |
// | OWED | WORK  | n<shard> / intent id    | tn th tu, at                                                      |
// | SPND | WORK  | b<H(tenant, period)>.   | t tokens, m minor units, of positions not counted before          |
// |      |       | <shard> / TH:TU:<n>    |                                                                   |
// | SUM  | WORK  | b<H(tenant, period)>.   | t, m of the rows rolled up, q version                             |
// |      |       | <shard> / !sum         |                                                                   |
// | ROLL | WORK  | r<shard> / H(tenant,   | nothing: a ledger somebody found long                             |
// |      |       | period)                |                                                                   |
// | APPR | WORK  | p|a<tenant>.<shard> /  | nothing: pending and answered approvals                           |
// |      |       | <at>:<wait id>         |                                                                   |
// | GCKP | DATA  | g<TH> /                | ns namespace, pa parent, sc scope, h head, m metadata, b values   |
// |      |       | c<NS>:<checkpoint>:c   | kept in parts                                                     |
// | GWRT | DATA  | g<TH> / c<NS>:         | tk task, tp its path, i indices, sc, p payload                    |
// |      |       | <checkpoint>:w<TK>.<s> |                                                                   |
// | GSPC | DATA  | g<TH> / n<NS>          | ns namespace                                                      |
// | GTHR | DATA  | G<tenant>.<shard> / TH | th thread                                                         |
// | KEY  | KEYS  | H(tenant, scope) / k   | sc scope, id, g generation, st state, le lifecycle, w wrapped     |
//
// A segment is [revision, scope, payload]; a payload is its bytes, or [digest, count, bytes] of its parts;
// NS and TK are hashes of a graph's namespace and task; a checkpoint sorts before the writes made upon it.
// a record is [body, hash] or [body, hash, sealed]; an entry is [id, queue, body].
import { splitScope } from '../../protocol/scopes.ts';
import type { ItemKey, Range } from './driver.ts';

/** Hashed name of a thread, 27 characters. */
export type ThreadHash = string;
/** Hashed name of a turn within its thread, 22 characters. */
export type TurnHash = string;

/** A turn's place in the tables. */
export interface TurnPlace {
  readonly thread: ThreadHash;
  readonly turn: TurnHash;
}

/** Positions of one turn; six digits keep key order and number order the same. */
export const positionsMax = 1_000_000;

export function headKey(thread: ThreadHash): ItemKey {
  return { table: 'DATA', pk: thread, sk: '#h' };
}

export function checkpointKey(thread: ThreadHash): ItemKey {
  return { table: 'DATA', pk: thread, sk: '#c' };
}

export function baseKey(thread: ThreadHash, revision: number, index: number): ItemKey {
  return { table: 'DATA', pk: thread, sk: `#b${revision}.${index}` };
}

/** The checkpoint as it stood when the snapshot of a revision was taken. */
export function archiveKey(thread: ThreadHash, revision: number): ItemKey {
  return { table: 'DATA', pk: thread, sk: `#a${revision}` };
}

/** The replay cache of a thread. */
export function answersKey(thread: ThreadHash): ItemKey {
  return { table: 'DATA', pk: thread, sk: '#m' };
}

/** Key of position `index`; throws RangeError for one that six digits cannot hold. */
export function positionKey(place: TurnPlace, index: number): ItemKey {
  if (!Number.isSafeInteger(index) || index < 0 || index >= positionsMax) {
    throw new RangeError(`position: expected 0 to ${positionsMax - 1}, got ${index}`);
  }
  const digits = String(index).padStart(6, '0');
  return { table: 'DATA', pk: place.thread, sk: `${place.turn}:p${digits}` };
}

export function endKey(place: TurnPlace): ItemKey {
  return { table: 'DATA', pk: place.thread, sk: `${place.turn}:z` };
}

/** Every part has a partition of its own, so that a large payload is not one partition's load (B4). */
export function partKey(hashedDigest: string, index: number): ItemKey {
  return { table: 'DATA', pk: `${hashedDigest}.${index}`, sk: 'p' };
}

export function workPartition(thread: ThreadHash, shards: number): string {
  return `w${spread(thread, shards)}`;
}

export function workKey(place: TurnPlace, shards: number): ItemKey {
  return {
    table: 'WORK',
    pk: workPartition(place.thread, shards),
    sk: `${place.thread}:${place.turn}`,
  };
}

export function stopKey(place: TurnPlace): ItemKey {
  return { table: 'DATA', pk: place.thread, sk: `${place.turn}:x` };
}

/** A result that came too late for its journal. */
export function lateKey(place: TurnPlace, effectKey: string): ItemKey {
  return { table: 'DATA', pk: place.thread, sk: `${place.turn}:y${effectKey}` };
}

/** All late results of a turn; an effect key is of base64url. */
export function lateRange(place: TurnPlace): Range & { between: readonly [string, string] } {
  const prefix = `${place.turn}:y`;
  return { table: 'DATA', pk: place.thread, between: [prefix, `${prefix}~`] };
}

/** A tenant's attention list, spread like its work. */
export function listPartition(hashedTenant: string, shard: number): string {
  return `q${hashedTenant}.${shard}`;
}

export function listKey(hashedTenant: string, place: TurnPlace, shards: number): ItemKey {
  return {
    table: 'WORK',
    pk: listPartition(hashedTenant, spread(place.thread, shards)),
    sk: `${place.thread}:${place.turn}`,
  };
}

export function keyRowKey(hashedScope: string): ItemKey {
  return { table: 'KEYS', pk: hashedScope, sk: 'k' };
}

/** An even choice among `count` by the leading 24 bits of a hash in base64url. */
export function spread(hash: string, count: number): number {
  return Buffer.from(hash.slice(0, 4), 'base64url').readUIntBE(0, 3) % count;
}

/** Thirteen digits keep instants and key order the same until the year 2286. */
export function instantText(at: number): string {
  return String(at).padStart(13, '0');
}

/** Null for an id that is not two hashes. */
export function receiptKey(id: string): ItemKey | null {
  const match = /^([A-Za-z0-9_-]{27})\.([A-Za-z0-9_-]{27})$/.exec(id);
  const [, thread, name] = match ?? [];
  if (thread === undefined || name === undefined) return null;
  return { table: 'DATA', pk: thread, sk: `#r${name}` };
}

/** Everything of one graph thread. */
export function graphPartition(thread: ThreadHash): string {
  return `g${thread}`;
}

export function graphSpaceKey(thread: ThreadHash, space: string): ItemKey {
  return { table: 'DATA', pk: graphPartition(thread), sk: `n${space}` };
}

export function graphCheckpointKey(thread: ThreadHash, space: string, id: string): ItemKey {
  return { table: 'DATA', pk: graphPartition(thread), sk: `c${space}:${id}:c` };
}

export function graphWritesKey(
  thread: ThreadHash,
  space: string,
  id: string,
  task: string,
  slot: string,
): ItemKey {
  return { table: 'DATA', pk: graphPartition(thread), sk: `c${space}:${id}:w${task}.${slot}` };
}

/** Sort keys of one checkpoint and its writes, or of all of a namespace; both ends belong to it. */
export function graphBetween(space: string, id: string | null): readonly [string, string] {
  const prefix = id === null ? `c${space}:` : `c${space}:${id}:`;
  return [prefix, `${prefix}~`];
}

export function graphThreadsPartition(hashedTenant: string, shard: number): string {
  return `G${hashedTenant}.${shard}`;
}

export function graphThreadKey(hashedTenant: string, thread: ThreadHash, shards: number): ItemKey {
  const pk = graphThreadsPartition(hashedTenant, spread(thread, shards));
  return { table: 'DATA', pk, sk: thread };
}

export function waitKey(hashedWait: string): ItemKey {
  return { table: 'DATA', pk: `x${hashedWait}`, sk: 'w' };
}

export function eventKey(hashedEvent: string): ItemKey {
  return { table: 'DATA', pk: `e${hashedEvent}`, sk: 'e' };
}

export function matchPartition(hashedMatch: string): string {
  return `m${hashedMatch}`;
}

export function matchKey(hashedMatch: string, side: 'w' | 'e', at: number, id: string): ItemKey {
  const sk = `${side}${instantText(at)}:${id}`;
  return { table: 'DATA', pk: matchPartition(hashedMatch), sk };
}

export function intentKey(hashedIntent: string): ItemKey {
  return { table: 'DATA', pk: `i${hashedIntent}`, sk: 'i' };
}

export function dueKey(place: TurnPlace, at: number, shards: number): ItemKey {
  const sk = `${instantText(at)}:${place.thread}:${place.turn}`;
  return { table: 'WORK', pk: `t${spread(place.thread, shards)}`, sk };
}

/** Intents have ids of their own; four hex digits of one choose its shard. */
export function owedKey(intentId: string, shards: number): ItemKey {
  const pk = `n${Number.parseInt(intentId.slice(0, 4), 16) % shards}`;
  return { table: 'WORK', pk, sk: intentId };
}

/** A tenant's spend in one period, spread like its work. */
export function spendPartition(hashedLedger: string, shard: number): string {
  return `b${hashedLedger}.${shard}`;
}

export function spendKey(
  hashedLedger: string,
  place: TurnPlace,
  position: number,
  shards: number,
): ItemKey {
  return {
    table: 'WORK',
    pk: spendPartition(hashedLedger, spread(place.thread, shards)),
    sk: `${place.thread}:${place.turn}:${position}`,
  };
}

/** What was rolled up of one partition; it sorts before every row. */
export function spendSumKey(hashedLedger: string, shard: number): ItemKey {
  return { table: 'WORK', pk: spendPartition(hashedLedger, shard), sk: '!sum' };
}

export function rollKey(hashedLedger: string, shards: number): ItemKey {
  return { table: 'WORK', pk: `r${spread(hashedLedger, shards)}`, sk: hashedLedger };
}

export function lookKey(hashedEvent: string, shards: number): ItemKey {
  return { table: 'WORK', pk: `l${spread(hashedEvent, shards)}`, sk: hashedEvent };
}

export function approvalPartition(
  which: 'pending' | 'answered',
  hashedTenant: string,
  shard: number,
): string {
  return `${which === 'pending' ? 'p' : 'a'}${hashedTenant}.${shard}`;
}

export function approvalKey(
  which: 'pending' | 'answered',
  hashedTenant: string,
  wait: { readonly id: string; readonly createdAt: number },
  shards: number,
): ItemKey {
  const pk = approvalPartition(which, hashedTenant, spread(wait.id, shards));
  return { table: 'WORK', pk, sk: `${instantText(wait.createdAt)}:${wait.id}` };
}

/** Rows of one subject stand in a partition of its scope, whatever its generation. */
export function subjectPartition(scope: string): string {
  return `S${splitScope(scope).base}`;
}

/** MEMCUR: what stands of one remembered id, or its tombstone. */
export function memoryKey(scope: string, key: string): ItemKey {
  return { table: 'DATA', pk: subjectPartition(scope), sk: `m:${key}` };
}

/** MEMVER: one version. */
export function memoryVersionKey(scope: string, key: string, version: number): ItemKey {
  const sk = `v:${key}:${String(version).padStart(6, '0')}`;
  return { table: 'DATA', pk: subjectPartition(scope), sk };
}

/** MEMID: whose an id is, for ever. */
export function memoryIdKey(key: string): ItemKey {
  return { table: 'DATA', pk: `d${key}`, sk: 'd' };
}
