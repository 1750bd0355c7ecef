// Events from outside and results of acts: stored once, then handed to the oldest turn that waits for them.
//   T10  one event wakes one wait; T1 the hand-over and the wake are one transaction.
//   RD-2 stored before it is matched, deduplicated on (source, id); one that comes early is kept.
//   T12  the data is sealed again under the scope of the turn that takes it, and leaves the event's own row.

import type { ThreadRef } from '../ports/store.ts';
import type { EventRow, LookRow, WaitRow } from '../ports/waits.ts';
import { encode } from '../protocol/canonical.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { TenantId, ThreadId } from '../protocol/ids.ts';
import { inboxEntry } from './inbox-message.ts';
import { Keyring } from './keyring.ts';
import { openPayload, sealContext, sealText } from './payloads.ts';
import { relayThread } from './relay.ts';
import type { Runtime } from './runtime.ts';
import { correlationText } from './wait-runner.ts';

export interface InboundEvent {
  readonly tenant: TenantId;
  readonly source: string;
  readonly id: string;
  readonly type: string;
  readonly correlation: unknown;
  readonly data: unknown;
  /** Scope the data is sealed under until a turn takes it; default the tenant's. */
  readonly scope?: string;
}

/** Stores an event and wakes who waits for it; `stored` is false for one that was known. */
export async function publishEvent(
  runtime: Runtime,
  event: InboundEvent,
): Promise<{ readonly stored: boolean }> {
  const { tenant, source, id, type } = event;
  const { store, clock } = runtime;
  const match = { type, correlation: correlationText(event.correlation) };
  const name = { tenant, source, id };
  const keys = await store.eventKeys(name, match);
  const place = eventPlace(tenant, keys.event);
  const scope = event.scope ?? (await store.scopeOf(place, null));
  const keyring = new Keyring(store, runtime.vault, place);
  const sealer = await keyring.writer(scope);
  const sealed = sealText(sealer, eventContext(place), encode(event.data));
  if (sealed.parts !== null) await store.putParts(tenant, sealed.parts);
  const row = { at: clock.now(), scope, payload: sealed.payload };
  const stored = await store.putEvent(name, match, row);
  if (stored.kind === 'unknown') {
    throw new TurnstoneError('store_unavailable', 'whether the event was stored is not known', {
      retry: 'now',
      cause: stored.cause,
    });
  }
  await lookFor(runtime, tenant, match);
  await store.dropLook({ event: keys.event });
  return { stored: stored.kind === 'done' };
}

/** Finishes the look of an event whose publisher died between storing and matching (rule 7). */
export async function finishLook(runtime: Runtime, look: LookRow): Promise<void> {
  await matchAll(runtime, look.tenant, look.match);
  await runtime.store.dropLook(look);
}

/** Hands unclaimed events of one match to open waits, oldest to oldest. */
export async function lookFor(
  runtime: Runtime,
  tenant: TenantId,
  match: { readonly type: string; readonly correlation: string },
): Promise<void> {
  await matchAll(runtime, tenant, await runtime.store.matchKey(tenant, match));
}

const roundsMax = 100;

async function matchAll(runtime: Runtime, tenant: TenantId, match: string): Promise<void> {
  for (let round = 0; round < roundsMax; round += 1) {
    const { waits, events } = await runtime.store.matching(match);
    const [waitId] = waits;
    const [eventKey] = events;
    if (waitId === undefined || eventKey === undefined) return;
    const [[wait], event] = await Promise.all([
      runtime.store.waits(tenant, [waitId]),
      runtime.store.event(eventKey),
    ]);
    if (wait == null || event === null) return;
    await hand(runtime, tenant, wait, event);
  }
}

async function hand(
  runtime: Runtime,
  tenant: TenantId,
  wait: WaitRow,
  event: EventRow,
): Promise<void> {
  const { store } = runtime;
  const now = runtime.clock.now();
  const spent = wait.answer !== null || wait.until <= now;
  if (spent || event.payload === null) return store.closeWait(wait);
  const place = eventPlace(tenant, event.key);
  const from = await new Keyring(store, runtime.vault, place).reader(event.scope);
  const keyring = new Keyring(store, runtime.vault, wait.ref);
  const to = await keyring.reader(wait.scope);
  if (from === null || to === null) return store.closeWait(wait);
  const data = await openPayload(store, from, eventContext(place), event.payload);
  const sealed = sealText(to, sealContext(wait.ref, `answer:${wait.id}`, 0), encode(data));
  if (sealed.parts !== null) await store.putParts(tenant, sealed.parts);
  const claimed = await store.claimEvent({
    wait,
    event,
    answer: { kind: 'event', at: now, payload: sealed.payload },
    entry: inboxEntry(wait.ref, `event:${event.key}`),
    now,
  });
  if (claimed.kind === 'unknown') {
    throw new TurnstoneError('store_unavailable', 'whether a turn was woken is not known', {
      retry: 'now',
      cause: claimed.cause,
    });
  }
  if (claimed.kind === 'ended') return store.closeWait(wait);
  if (claimed.kind === 'done') await runtime.later(() => relayThread(runtime, wait.ref));
}

/** An event belongs to no thread; its own name stands in the place of one. */
function eventPlace(tenant: TenantId, key: string): ThreadRef {
  return { tenant, thread: key as ThreadId };
}

function eventContext(place: ThreadRef) {
  return { tenant: place.tenant, thread: place.thread, turn: '' as const, use: 'event', at: 0 };
}
