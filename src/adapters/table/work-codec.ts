// Stored form of a work row: separate attributes, so that one writer's field never wipes another's (B13).

import type { Acceptance, TurnRef, WorkRow } from '../../ports/store.ts';
import { base64url, hashParts } from '../../protocol/digest.ts';
import { agentName, epochMs, tenantId, threadId, turnId } from '../../protocol/ids.ts';
import type { Attr, Item } from './driver.ts';
import { asCount, asList, asText, ItemReader } from './item-reader.ts';
import { entryIn, hashIn, hashOut, payloadIn, payloadOut } from './payload-codec.ts';

/** A row with the version its next change is conditional on. */
export interface SeenWork {
  readonly row: WorkRow;
  readonly version: string;
}

/** Plain ids of the row's turn: a person or a sweep must be able to name it. */
export function workNames(ref: TurnRef): Item {
  return { tn: ref.tenant, th: ref.thread, tu: ref.turn };
}

export function acceptanceOut(acceptance: Acceptance): Attr {
  return [
    acceptance.agent,
    hashOut(acceptance.payloadDigest),
    acceptance.scope,
    acceptance.generation,
    payloadOut(acceptance.payload),
    acceptance.at,
  ];
}

function acceptanceIn(value: Attr | undefined): Acceptance {
  const where = 'WORK.ac';
  const [agent, digest, scope, generation, payload, at] = asList(where, value);
  return {
    agent: agentName(where, asText(where, agent)),
    payloadDigest: hashIn(where, digest),
    scope: asText(where, scope),
    generation: asCount(where, generation),
    payload: payloadIn(where, payload),
    at: epochMs(asCount(where, at)),
  };
}

export function workIn(item: Item): SeenWork {
  const read = new ItemReader('WORK', item);
  const runDue = read.countOrNull('rd');
  const wake = read.countOrNull('wk');
  const row: WorkRow = {
    ref: {
      tenant: tenantId('WORK.tn', read.text('tn')),
      thread: threadId('WORK.th', read.text('th')),
      turn: turnId('WORK.tu', read.text('tu')),
    },
    accepted: read.has('ac') ? acceptanceIn(read.value('ac')) : null,
    runDueAt: runDue === null ? null : epochMs(runDue),
    wakeAt: wake === null ? null : epochMs(wake),
    lookOwed: read.countOrNull('lk'),
    entries: read.list('en').map((entry) => entryIn('WORK.en', entry)),
    sequence: read.count('sq'),
    tries: read.count('tr'),
    parkedReason: read.textOrNull('pr'),
    updatedAt: epochMs(read.count('ua')),
    version: read.text('q'),
  };
  return { row, version: row.version };
}

/** True when nothing on the row needs anybody: it may be deleted. */
export function isSpent(row: WorkRow): boolean {
  return (
    row.accepted === null &&
    row.runDueAt === null &&
    row.wakeAt === null &&
    row.lookOwed === null &&
    row.entries.length === 0 &&
    row.parkedReason === null
  );
}

/**
 * The version a change leaves behind: made from what no other change shares (a pass token, or the version
 * before), so that a row deleted and made again never shows an old one.
 */
export function versionOf(base: string, at: number, change: Attr): string {
  const text = JSON.stringify(change, (_, value: unknown) =>
    value instanceof Uint8Array ? base64url(value) : value,
  );
  return base64url(hashParts('turnstone.work.1', [base, at, text])).slice(0, 16);
}
