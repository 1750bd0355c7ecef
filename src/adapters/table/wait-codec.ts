// Stored forms of waits, events and intents (layout.ts).
import type { TurnRef } from '../../ports/store.ts';
import type { EventRow, IntentOutcome, IntentRow, WaitAnswer, WaitRow } from '../../ports/waits.ts';
import { epochMs, tenantId, threadId, turnId } from '../../protocol/ids.ts';
import type { Attr, Item } from './driver.ts';
import { asCount, asList, asText, ItemReader, skew } from './item-reader.ts';
import { payloadIn, payloadOut } from './payload-codec.ts';
import { workNames } from './work-codec.ts';

export function waitOut(wait: WaitRow): Item {
  return {
    ...workNames(wait.ref),
    id: wait.id,
    k: wait.kind,
    un: wait.until,
    ca: wait.createdAt,
    by: wait.requester,
    fe: wait.fourEyes,
    sc: wait.scope,
    p: payloadOut(wait.payload),
    ...(wait.digest === null ? {} : { dg: wait.digest }),
    ...(wait.match === null ? {} : { mt: wait.match }),
    ...(wait.answer === null ? {} : { an: answerOut(wait.answer) }),
  };
}

export function waitIn(item: Item): WaitRow {
  const read = new ItemReader('WAIT', item);
  const kind = read.text('k');
  if (kind !== 'approval' && kind !== 'event') throw skew('WAIT.k', 'a known kind', kind);
  return {
    id: read.text('id'),
    kind,
    ref: refIn(read),
    until: epochMs(read.count('un')),
    createdAt: epochMs(read.count('ca')),
    digest: read.textOrNull('dg'),
    requester: read.text('by'),
    fourEyes: read.value('fe') === true,
    scope: read.text('sc'),
    payload: payloadIn('WAIT.p', read.value('p')),
    match: read.textOrNull('mt'),
    answer: read.has('an') ? answerIn(read.value('an')) : null,
  };
}

export function answerOut(answer: WaitAnswer): Attr {
  switch (answer.kind) {
    case 'approved':
    case 'denied':
      return [
        answer.kind,
        answer.at,
        answer.by,
        answer.note === null ? null : payloadOut(answer.note),
      ];
    case 'event':
      return ['event', answer.at, payloadOut(answer.payload)];
    case 'expired':
      return ['expired', answer.at];
  }
}

function answerIn(value: Attr | undefined): WaitAnswer {
  const where = 'WAIT.an';
  const [kind, at, first, second] = asList(where, value);
  const instant = epochMs(asCount(where, at));
  switch (kind) {
    case 'approved':
    case 'denied': {
      const note = second === null || second === undefined ? null : payloadIn(where, second);
      return { kind, at: instant, by: asText(where, first), note };
    }
    case 'event':
      return { kind, at: instant, payload: payloadIn(where, first) };
    case 'expired':
      return { kind, at: instant };
    default:
      throw skew(where, 'a known answer', kind);
  }
}

export function eventOut(event: Omit<EventRow, 'key'>): Item {
  return {
    m: event.match,
    at: event.at,
    sc: event.scope,
    ...(event.payload === null ? {} : { p: payloadOut(event.payload) }),
    ...(event.claimedBy === null ? {} : { cb: event.claimedBy }),
  };
}

export function eventIn(key: string, item: Item): EventRow {
  const read = new ItemReader('EVENT', item);
  return {
    key,
    match: read.text('m'),
    at: epochMs(read.count('at')),
    scope: read.text('sc'),
    payload: read.has('p') ? payloadIn('EVENT.p', read.value('p')) : null,
    claimedBy: read.textOrNull('cb'),
  };
}

const outcomes: readonly string[] = ['completed', 'refused', 'expired', 'uncertain'];

export function intentOut(intent: IntentRow): Item {
  return {
    ...workNames(intent.ref),
    id: intent.id,
    ag: intent.agent,
    ef: intent.effect,
    ad: intent.argsDigest,
    sc: intent.scope,
    p: payloadOut(intent.payload),
    ca: intent.createdAt,
    xa: intent.expiresAt,
    a: intent.attempt,
  };
}

export function intentIn(item: Item): IntentRow {
  const read = new ItemReader('INTENT', item);
  const outcome = read.textOrNull('oc');
  if (outcome !== null && !outcomes.includes(outcome)) {
    throw skew('INTENT.oc', 'a known outcome', outcome);
  }
  return {
    id: read.text('id'),
    ref: refIn(read),
    agent: read.text('ag'),
    effect: read.text('ef'),
    argsDigest: read.text('ad'),
    scope: read.text('sc'),
    payload: payloadIn('INTENT.p', read.value('p')),
    createdAt: epochMs(read.count('ca')),
    expiresAt: epochMs(read.count('xa')),
    attempt: read.count('a'),
    doubt: read.value('db') === true,
    claim: read.has('ct') ? { token: read.text('ct'), until: epochMs(read.count('cu')) } : null,
    outcome: outcome as IntentOutcome | null,
    result: read.has('r') ? payloadIn('INTENT.r', read.value('r')) : null,
  };
}

export function refIn(read: ItemReader): TurnRef {
  return {
    tenant: tenantId('tenant', read.text('tn')),
    thread: threadId('thread', read.text('th')),
    turn: turnId('turn', read.text('tu')),
  };
}
