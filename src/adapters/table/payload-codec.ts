// Stored forms of what the verbs pass through sealed: payloads, records, segments, queue entries.
// Lists without names, because the names of members would be paid for in every item.

import type { CheckpointSegment, OutboxEntry, SealedPayload } from '../../ports/store.ts';
import { base64url } from '../../protocol/digest.ts';
import type { StoredRecord } from '../../protocol/record.ts';
import type { Attr } from './driver.ts';
import { asBytes, asCount, asList, asText, skew } from './item-reader.ts';

export function payloadOut(payload: SealedPayload): Attr {
  if (payload.kind === 'inline') return payload.bytes;
  return [payload.digest, payload.count, payload.bytes];
}

export function payloadIn(where: string, value: Attr | undefined): SealedPayload {
  if (value instanceof Uint8Array) return { kind: 'inline', bytes: value };
  const [digest, count, bytes] = asList(where, value);
  return {
    kind: 'parts',
    digest: asText(where, digest),
    count: asCount(where, count),
    bytes: asCount(where, bytes),
  };
}

export function recordOut(record: StoredRecord): Attr {
  const hash = hashOut(record.hash);
  return record.sealed === undefined ? [record.body, hash] : [record.body, hash, record.sealed];
}

export function recordIn(where: string, value: Attr): StoredRecord {
  const [body, hash, sealed] = asList(where, value);
  const common = { body: asText(where, body), hash: hashIn(where, hash) };
  return sealed === undefined ? common : { ...common, sealed: asBytes(where, sealed) };
}

export function segmentOut(segment: CheckpointSegment): Attr {
  return [segment.revision, segment.scope, payloadOut(segment.payload)];
}

export function segmentIn(where: string, value: Attr | undefined): CheckpointSegment {
  const [revision, scope, payload] = asList(where, value);
  return {
    revision: asCount(where, revision),
    scope: asText(where, scope),
    payload: payloadIn(where, payload),
  };
}

export function entryOut(entry: OutboxEntry): Attr {
  const { id, queue, body, order } = entry;
  return order === undefined ? [id, queue, body] : [id, queue, body, order];
}

/** Entries of a pass, in the order of its epoch among those of its thread [T3]. */
export function entriesOut(write: {
  readonly entries: readonly OutboxEntry[];
  readonly writer: { readonly epoch: number };
}): Attr[] {
  return write.entries.map((entry) => entryOut({ ...entry, order: write.writer.epoch }));
}

export function entryIn(where: string, value: Attr): OutboxEntry {
  const [id, queue, body, order] = asList(where, value);
  const name = asText(where, queue);
  if (name !== 'inbox' && name !== 'events' && name !== 'intents' && name !== 'errors') {
    throw skew(where, 'a known queue', queue);
  }
  const entry = { id: asText(where, id), queue: name, body: asText(where, body) } as const;
  return order === undefined ? entry : { ...entry, order: asCount(where, order) };
}

/** A digest in canonical base64url is kept as its bytes (a quarter less); any other text as it is. */
export function hashOut(hash: string): Attr {
  const bytes = Buffer.from(hash, 'base64url');
  return bytes.byteLength > 0 && base64url(bytes) === hash ? new Uint8Array(bytes) : hash;
}

export function hashIn(where: string, value: Attr | undefined): string {
  return value instanceof Uint8Array ? base64url(value) : asText(where, value);
}
