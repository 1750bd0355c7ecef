// The stored form of record bodies: canonical JSON with short member names, because a journal
// position aims at one kilobyte. Driven by one table, so that writing and reading cannot disagree.
//   T13  an unknown member, kind or version is named skew, never reinterpreted (CH-3, E304).
//   CH-6 `phase` is left out when forward, so records hash the same with or without compensation.
import { encode } from './canonical.ts';
import { TurnstoneError } from './errors.ts';
import type { PayloadPlace, RecordBody, RecordFacts, RecordKind, Site, Spend } from './record.ts';

/** Version of the record body; bumped together with an upcast, never edited. */
export const recordVersion = 1;

type Kind = 'text' | 'count' | 'flag' | 'site' | 'spend' | 'optionalText' | 'optionalSpend';
type Member = readonly [name: string, short: string, kind: Kind];

/** Members by kind: name, stored name, type. Only ever added to: `test/replay/codec` keeps each release's. */
export const recordMembers: Readonly<Record<RecordKind, readonly Member[]>> = {
  RunAdmitted: [
    ['turn', 'tn', 'text'],
    ['agent', 'ag', 'text'],
    ['payloadDigest', 'pd', 'text'],
    ['authority', 'au', 'text'],
    ['presentation', 'pr', 'text'],
    ['schema', 'sv', 'count'],
    ['canonical', 'cv', 'count'],
    ['revision', 'rv', 'count'],
    ['scope', 'sc', 'text'],
    ['generation', 'gn', 'count'],
    ['policy', 'pl', 'optionalText'],
  ],
  PlanFrozen: [['digest', 'dg', 'text']],
  StepStarted: [['step', 's', 'text']],
  StepFinished: [
    ['step', 's', 'text'],
    ['outcome', 'oc', 'text'],
  ],
  EffectStarted: [
    ['site', '', 'site'],
    ['key', 'ek', 'text'],
    ['effect', 'ef', 'text'],
    ['attempt', 'a', 'count'],
    ['backoffMs', 'b', 'count'],
    ['mutates', 'm', 'flag'],
    ['recovery', 'r', 'text'],
    ['cost', 'cs', 'optionalSpend'],
    ['wait', 'w', 'optionalText'],
    ['group', 'g', 'optionalText'],
    ['receipt', 'rc', 'optionalText'],
  ],
  EffectDone: [
    ['site', '', 'site'],
    ['key', 'ek', 'text'],
    ['spend', 'sp', 'spend'],
    ['label', 'lb', 'optionalText'],
  ],
  EffectFailed: [
    ['site', '', 'site'],
    ['key', 'ek', 'text'],
    ['disposition', 'd', 'text'],
    ['permanent', 'pm', 'flag'],
    ['code', 'c', 'text'],
    ['spend', 'sp', 'spend'],
  ],
  EffectReconciled: [
    ['site', '', 'site'],
    ['key', 'ek', 'text'],
    ['disposition', 'd', 'text'],
    ['spend', 'sp', 'spend'],
    ['assertedBy', 'by', 'optionalText'],
  ],
  BudgetRefused: [
    ['site', '', 'site'],
    ['key', 'ek', 'text'],
    ['limit', 'l', 'text'],
  ],
  BudgetReadmitted: [
    ['site', '', 'site'],
    ['key', 'ek', 'text'],
    ['limit', 'l', 'text'],
  ],
  PolicyDenied: [
    ['site', '', 'site'],
    ['key', 'ek', 'text'],
    ['by', 'by', 'text'],
    ['exhausts', 'xh', 'flag'],
  ],
  AtomicRefused: [
    ['site', '', 'site'],
    ['key', 'ek', 'text'],
  ],
  QuarantineDecided: [
    ['decision', 'dc', 'text'],
    ['decider', 'by', 'text'],
  ],
  RunCancelled: [['actor', 'by', 'text']],
  RunResumed: [['actor', 'by', 'text']],
  RunSuspended: [['until', 'u', 'count']],
  ReceiptRead: [
    ['site', '', 'site'],
    ['key', 'ek', 'text'],
    ['receipt', 'rc', 'text'],
    ['outcome', 'oc', 'text'],
  ],
  AnswerCached: [
    ['site', '', 'site'],
    ['key', 'ek', 'text'],
    ['effect', 'ef', 'text'],
    ['tokens', 'to', 'count'],
    ['turn', 'tn', 'text'],
    ['from', 'fr', 'count'],
    ['label', 'lb', 'optionalText'],
  ],
  MemoryStaged: [
    ['site', '', 'site'],
    ['key', 'ek', 'text'],
    ['purpose', 'pu', 'text'],
    ['label', 'lb', 'optionalText'],
  ],
  ActStaged: [
    ['site', '', 'site'],
    ['key', 'ek', 'text'],
    ['effect', 'ef', 'text'],
    ['intent', 'in', 'text'],
    ['expiresInMs', 'x', 'count'],
  ],
  UnwindStarted: [
    ['status', 'st', 'text'],
    ['code', 'c', 'optionalText'],
  ],
  StepCompensated: [
    ['step', 's', 'text'],
    ['outcome', 'oc', 'text'],
  ],
  GroupOpened: [
    ['step', 's', 'text'],
    ['phase', 'ph', 'optionalText'],
    ['name', 'n', 'text'],
  ],
  GroupSettled: [
    ['step', 's', 'text'],
    ['phase', 'ph', 'optionalText'],
    ['name', 'n', 'text'],
    ['outcome', 'oc', 'text'],
  ],
  Note: [
    ['step', 's', 'text'],
    ['author', 'wr', 'text'],
  ],
  RunConcluded: [
    ['outcome', 'oc', 'text'],
    ['code', 'c', 'optionalText'],
    ['chainHead', 'ch', 'text'],
  ],
};

/** Canonical bytes of a body; they are what the chain hashes. */
export function encodeBody(body: RecordBody): string {
  const facts: Readonly<Record<string, unknown>> = { ...body };
  const out: Record<string, unknown> = {
    k: body.kind,
    q: body.seq,
    t: body.at,
    e: body.epoch,
    v: recordVersion,
  };
  const place = placeOut(body.payload);
  if (place !== undefined) out.p = place;
  for (const [name, short, kind] of recordMembers[body.kind]) {
    const value = facts[name];
    if (kind === 'site') writeSite(out, value);
    else if (kind === 'spend') writeSpend(out, short, value);
    else if (kind === 'optionalSpend') {
      if (value !== undefined) writeSpend(out, short, value);
    } else if (kind === 'flag') {
      if (value === true) out[short] = 1;
    } else if (kind === 'count' && value === 0) continue;
    else if (value !== undefined) out[short] = value;
  }
  return encode(out);
}

/** Reads a stored body; throws `record_skew` naming the member for anything this version does not know. */
export function decodeBody(text: string): RecordBody {
  const raw: unknown = JSON.parse(text);
  if (typeof raw !== 'object' || raw === null) {
    throw skew('body', 'an object', raw === null ? 'null' : typeof raw);
  }
  const source = new Map(Object.entries(raw));
  const version = take(source, 'v');
  if (version !== recordVersion) throw newer('v', String(recordVersion), String(version));
  const kind = take(source, 'k');
  if (typeof kind !== 'string' || !Object.hasOwn(recordMembers, kind)) {
    throw newer('k', 'a known record kind', String(kind));
  }
  const facts: Record<string, unknown> = { kind };
  for (const [name, short, type] of recordMembers[kind as RecordKind]) {
    const value = readMember(source, short, type);
    if (value !== undefined) facts[name] = value;
  }
  const seq = readMember(source, 'q', 'count');
  const at = readMember(source, 't', 'count');
  const epoch = readMember(source, 'e', 'count');
  const payload = placeIn(take(source, 'p'));
  const unknown = [...source.keys()][0];
  if (unknown !== undefined) throw newer(unknown, `a member of ${kind}`, 'an unknown member');
  return { ...(facts as unknown as RecordFacts), seq, at, epoch, payload } as RecordBody;
}

function take(source: Map<string, unknown>, name: string): unknown {
  const value = source.get(name);
  source.delete(name);
  return value;
}

function readMember(source: Map<string, unknown>, short: string, kind: Kind): unknown {
  if (kind === 'site') return readSite(source);
  const value = take(source, short);
  switch (kind) {
    case 'text':
      if (typeof value !== 'string') throw skew(short, 'text', typeof value);
      return value;
    case 'optionalText':
      if (value !== undefined && typeof value !== 'string') throw skew(short, 'text', typeof value);
      return value;
    case 'count':
      if (value === undefined) return 0;
      if (!Number.isSafeInteger(value)) throw skew(short, 'an integer', typeof value);
      return value;
    case 'flag':
      if (value !== undefined && value !== 1) throw skew(short, '1 or nothing', String(value));
      return value === 1;
    case 'spend':
      return readSpend(short, value);
    case 'optionalSpend':
      return value === undefined ? undefined : readSpend(short, value);
  }
}

function writeSite(out: Record<string, unknown>, value: unknown): void {
  const site = value as Site;
  if (site.step !== '') out.s = site.step;
  if (site.phase !== 'forward') out.ph = site.phase;
  if (site.ordinal !== 0) out.o = site.ordinal;
}

function readSite(source: Map<string, unknown>): Site {
  const step = take(source, 's') ?? '';
  const phase = take(source, 'ph') ?? 'forward';
  const ordinal = take(source, 'o') ?? 0;
  if (typeof step !== 'string') throw skew('s', 'text', typeof step);
  if (phase !== 'forward' && phase !== 'compensating') throw skew('ph', 'a phase', String(phase));
  if (typeof ordinal !== 'number' || !Number.isSafeInteger(ordinal)) {
    throw skew('o', 'an integer', typeof ordinal);
  }
  return { step, phase, ordinal };
}

function writeSpend(out: Record<string, unknown>, short: string, value: unknown): void {
  const spend = value as Spend;
  if (spend.tokens !== 0 || spend.minorUnits !== 0) out[short] = [spend.tokens, spend.minorUnits];
}

function readSpend(short: string, value: unknown): Spend {
  if (value === undefined) return { tokens: 0, minorUnits: 0 };
  if (!Array.isArray(value) || value.length !== 2) throw skew(short, 'two integers', typeof value);
  const [tokens, minorUnits] = value;
  if (!Number.isSafeInteger(tokens) || !Number.isSafeInteger(minorUnits)) {
    throw skew(short, 'two integers', 'something else');
  }
  return { tokens, minorUnits };
}

function placeOut(place: PayloadPlace): unknown {
  switch (place.kind) {
    case 'none':
      return undefined;
    case 'beside':
      return 1;
    case 'parts':
      return ['p', place.digest, place.count, place.bytes];
    case 'lost':
      return ['l', place.digest, place.bytes];
  }
}

function placeIn(value: unknown): PayloadPlace {
  if (value === undefined) return { kind: 'none' };
  if (value === 1) return { kind: 'beside' };
  if (Array.isArray(value)) {
    const [tag, digest, first, second] = value;
    if (tag === 'p') return { kind: 'parts', digest, count: first, bytes: second };
    if (tag === 'l') return { kind: 'lost', digest, bytes: first };
  }
  throw skew('p', 'a payload place', JSON.stringify(value));
}

/** What only a newer build writes: whoever meets it keeps its hands off (decision 19). */
function newer(member: string, expected: string, got: string): TurnstoneError {
  return skew(member, expected, got, true);
}

function skew(member: string, expected: string, got: string, newer = false): TurnstoneError {
  return new TurnstoneError(
    'record_skew',
    `journal record member "${member}": expected ${expected}, got ${got}`,
    {
      retry: 'never',
      details: { member, expected, got, newer },
    },
  );
}
