// Stored forms of the items a begin reads: HEAD, CKPT, END, positions and key rows (layout.ts).

import type {
  Batch,
  Checkpoint,
  Head,
  OpenTurn,
  Position,
  TurnEnd,
  Writer,
} from '../../ports/store.ts';
import type { KeyRow, MemoryRemoval } from '../../ports/subjects.ts';
import { agentName, epochMs, turnId } from '../../protocol/ids.ts';
import { parseStatus } from '../../protocol/turn-status.ts';
import type { Attr, Item } from './driver.ts';
import { asBytes, asCount, asList, asText, ItemReader, skew } from './item-reader.ts';
import {
  hashIn,
  hashOut,
  payloadIn,
  payloadOut,
  recordIn,
  recordOut,
  segmentIn,
  segmentOut,
} from './payload-codec.ts';

export function headIn(item: Item): Head {
  const read = new ItemReader('HEAD', item);
  const agent = read.textOrNull('ag');
  const blockedBy = read.textOrNull('bk');
  return {
    epoch: read.count('e'),
    open: openTurnIn(read),
    revision: read.count('rev'),
    cancels: read.count('cn'),
    agent: agent === null ? null : agentName('HEAD.ag', agent),
    authority: read.has('au') ? hashIn('HEAD.au', read.value('au')) : null,
    schema: read.count('sv'),
    blockedBy: blockedBy === null ? null : turnId('HEAD.bk', blockedBy),
  };
}

function openTurnIn(read: ItemReader): OpenTurn | null {
  if (!read.has('lt')) return null;
  return {
    turn: turnId('HEAD.lt', read.text('lt')),
    owner: read.text('lo'),
    leaseUntil: epochMs(read.count('lx')),
    agent: agentName('HEAD.la', read.text('la')),
  };
}

export function checkpointOut(checkpoint: Checkpoint): Item {
  const item: Item = {
    rev: checkpoint.revision,
    sv: checkpoint.schema,
    t: checkpoint.tail.map(segmentOut),
  };
  return checkpoint.base === null
    ? item
    : { ...item, b: [checkpoint.base.revision, checkpoint.base.count] };
}

export function checkpointIn(item: Item): Checkpoint {
  const read = new ItemReader('CKPT', item);
  return {
    revision: read.count('rev'),
    schema: read.count('sv'),
    base: baseIn(read),
    tail: read.list('t').map((segment) => segmentIn('CKPT.t', segment)),
  };
}

function baseIn(read: ItemReader): Checkpoint['base'] {
  if (!read.has('b')) return null;
  const [revision, count] = asList('CKPT.b', read.value('b'));
  return { revision: asCount('CKPT.b', revision), count: asCount('CKPT.b', count) };
}

/** The item of a position: once written, never changed. */
export function positionOut(writer: Writer, batch: Batch): Item {
  return {
    tk: writer.token,
    e: writer.epoch,
    cn: writer.cancelsSeen,
    r: batch.records.map(recordOut),
  };
}

export function positionIn(index: number, item: Item): Position {
  const read = new ItemReader('POS', item);
  return {
    index,
    token: read.text('tk'),
    epoch: read.count('e'),
    cancelsSeen: read.count('cn'),
    records: read.list('r').map((record) => recordIn('POS.r', record)),
  };
}

export function endOut(end: TurnEnd): Item {
  return {
    s: end.status,
    ag: end.agent,
    n: end.positions,
    q: end.head.seq,
    h: hashOut(end.head.hash),
    pd: hashOut(end.payloadDigest),
    rev: end.revision,
    sc: end.scope,
    v: payloadOut(end.view),
    cn: end.cancelsSeen,
    ca: end.createdAt,
    ua: end.updatedAt,
    ...(end.dueAt === null ? {} : { du: end.dueAt }),
  };
}

export function endIn(item: Item): TurnEnd {
  const read = new ItemReader('END', item);
  return {
    status: parseStatus(read.text('s')),
    agent: agentName('END.ag', read.text('ag')),
    positions: read.count('n'),
    head: { seq: read.count('q'), hash: hashIn('END.h', read.value('h')) },
    payloadDigest: hashIn('END.pd', read.value('pd')),
    revision: read.count('rev'),
    scope: read.text('sc'),
    view: payloadIn('END.v', read.value('v')),
    cancelsSeen: read.count('cn'),
    dueAt: read.has('du') ? epochMs(read.count('du')) : null,
    createdAt: epochMs(read.count('ca')),
    updatedAt: epochMs(read.count('ua')),
  };
}

export function keyRowOut(row: KeyRow): Item {
  const item: Item = {
    sc: row.scope,
    id: row.id,
    g: row.generation,
    st: row.state,
    le: row.lifecycle,
  };
  return {
    ...item,
    ...(row.wrapped === null ? {} : { w: row.wrapped }),
    ...(row.hold === undefined ? {} : { hd: [row.hold.by, row.hold.at, row.hold.reason] }),
    ...(row.removal === undefined ? {} : { op: removalOut(row.removal) }),
  };
}

export function keyRowIn(item: Item): KeyRow {
  const read = new ItemReader('KEY', item);
  const state = read.text('st');
  if (state !== 'live' && state !== 'restricted' && state !== 'erased') {
    throw skew('KEY.st', 'a known state', state);
  }
  return {
    scope: read.text('sc'),
    id: read.text('id'),
    generation: read.count('g'),
    state,
    lifecycle: read.count('le'),
    wrapped: read.bytesOrNull('w'),
    ...(read.has('hd') ? { hold: holdIn(read) } : {}),
    ...(read.has('op') ? { removal: removalIn(read) } : {}),
  };
}

function removalOut({ id, kind, key, cutoff }: MemoryRemoval): Attr {
  return [id, kind, key ?? '', cutoff ?? 0];
}

function removalIn(read: ItemReader): MemoryRemoval {
  const [id, kind, key, cutoff] = asList('KEY.op', read.value('op'));
  if (kind !== 'forget' && kind !== 'cascade' && kind !== 'sweep')
    throw skew('KEY.op', 'a known removal', kind);
  return {
    id: asText('KEY.op', id),
    kind,
    key: kind === 'sweep' ? null : asText('KEY.op', key),
    cutoff: kind === 'sweep' ? epochMs(asCount('KEY.op', cutoff)) : null,
  };
}

function holdIn(read: ItemReader): NonNullable<KeyRow['hold']> {
  const [by, at, reason] = asList('KEY.hd', read.value('hd'));
  return {
    by: asText('KEY.hd', by),
    at: epochMs(asCount('KEY.hd', at)),
    reason: asBytes('KEY.hd', reason),
  };
}
