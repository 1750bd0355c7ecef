// What telemetry hears of an outcome that was read from the journal: a span of its own kind, over at once.
import type { TurnRef } from '../ports/store.ts';
import type { SpanEnd, TelemetryFields } from '../ports/telemetry.ts';
import type { RecordBody, Site } from '../protocol/record.ts';
import type { Dispatch } from './dispatch.ts';
import { openSpan } from './tell.ts';

/** Where an effect stands, in the words telemetry uses. */
export function placeOf({ thread, turn }: TurnRef, site: Site): TelemetryFields {
  const { step, phase, ordinal } = site;
  return { threadId: thread, turnId: turn, step, phase, ordinal };
}

/** Says that an outcome was read back, and nothing was called [T7]. */
export function tellReplay({ pass, site, declared }: Dispatch, body: RecordBody): void {
  const { runtime, ref } = pass.setup;
  const { kind: name, asks } = declared;
  const effectKey = 'key' in body && typeof body.key === 'string' ? body.key : null;
  const fields = { effectKey, seq: body.seq, ...placeOf(ref, site) };
  const of = asks === null ? {} : { asks };
  openSpan(runtime.telemetry, { kind: 'replay', name, fields, ...of }).end(endOf(body));
}

function endOf(body: RecordBody): SpanEnd {
  switch (body.kind) {
    case 'EffectDone':
      return { outcome: 'done' };
    case 'EffectFailed':
      return { outcome: 'failed', error: body.code, fields: { disposition: body.disposition } };
    case 'EffectReconciled':
      return { outcome: body.disposition };
    case 'AnswerCached':
      return { outcome: 'cached' };
    case 'ReceiptRead':
      return { outcome: body.outcome };
    case 'PolicyDenied':
      return { outcome: 'denied', error: 'policy_denied' };
    default:
      return { outcome: 'refused', error: 'refused' };
  }
}
