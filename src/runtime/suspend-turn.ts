// A pass that rests: everything it asked for is registered, its lease is given up, its staged acts leave.
//   T1   one transaction; T3 other turns of the thread go on meanwhile.
//   T8   a stop recorded since the last look is honoured first (page 09, rule 5).
//   Page 09, rule 7  waits are registered before anybody looks for an event that came early; a look that died with
//        its pass is owed by the work row and made by the next one.

import type { TurnEnd } from '../ports/store.ts';
import type { WaitRow } from '../ports/waits.ts';
import { tallyOf } from '../protocol/budget.ts';
import { encode } from '../protocol/canonical.ts';
import { base64url, hashParts } from '../protocol/digest.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs, TenantId } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import { stagedIntents } from './acts.ts';
import { cancelMoved, storedView, undecidedOf } from './conclude.ts';
import { lookFor } from './events.ts';
import { payloadOf } from './journal-writer.ts';
import { endView } from './known-turn.ts';
import type { Opened, PassOutcome } from './pass-ending.ts';
import { park } from './pass-ending.ts';
import { sealContext, sealText } from './payloads.ts';
import { relayThread } from './relay.ts';
import { ledgerSpend } from './tenant-meter.ts';
import type { TurnView, WaitView } from './turn-view.ts';
import type { OpenWait } from './wait-runner.ts';

/** Rests a turn on its open waits. */
export async function suspendTurn(
  opened: Opened,
  waiting: readonly OpenWait[],
): Promise<PassOutcome> {
  const { runtime, ref, writer, begun, keyring, pass } = opened;
  const nothingNew = !writer.held && writer.added.length === 0 && begun.end !== null;
  if (nothingNew && begun.end !== null && waiting.every((wait) => wait.registered)) {
    const owed = begun.work?.lookOwed ?? null;
    if (owed !== null) {
      await look(runtime, ref.tenant, waiting);
      await runtime.store.markSent(ref, [], runtime.clock.now(), owed);
    }
    const turn = await endView(runtime, ref, keyring, begun.end);
    return { kind: 'answer', answer: { kind: 'pending', turn } };
  }
  await writer.force();
  if (writer.end !== null) return ended(opened);
  const dueAt = Math.min(...waiting.map((wait) => wait.until)) as EpochMs;
  const rows = await registered(opened, waiting);
  let cancelsSeen = writer.writer.cancelsSeen;
  for (;;) {
    const mark = writer.mark();
    writer.ride({ kind: 'RunSuspended', until: dueAt }, payloadOf({ waits: waiting.length }));
    const batch = await writer.lastBatch();
    if (writer.end !== null) return ended(opened);
    const now = runtime.clock.now();
    const turn = viewOf(opened, waiting, rows, now);
    const end = await projection(opened, turn, { cancelsSeen, dueAt, positions: batch.index + 1 });
    const outcome = await runtime.store.suspend({
      ref,
      writer: { ...writer.writer, cancelsSeen },
      batch,
      announced: writer.announced,
      end,
      waits: rows.fresh,
      looks: waiting.some((wait) => wait.spec.event !== undefined),
      dueAt,
      entries: [
        suspendedEntry(opened, turn, batch.index),
        ...stagedIntents(pass).map((staged) => staged.entry),
      ],
      intents: stagedIntents(pass).map((staged) => staged.row),
      ...ledgerSpend(runtime, pass.setup.history, writer.added, now),
      now,
    });
    if (outcome.kind === 'unknown') {
      throw new TurnstoneError('store_unavailable', 'the suspension has no known outcome', {
        retry: 'now',
        cause: outcome.cause,
      });
    }
    if (outcome.kind === 'done')
      return resting(opened, turn, waiting, { dueAt, position: batch.index });
    const moved = cancelMoved(outcome, writer, cancelsSeen);
    if (moved === null) return { kind: 'again' };
    cancelsSeen = moved;
    writer.rewind(mark);
    if ((await runtime.store.stopOf(ref)) === null) continue;
    await park(opened, null);
    return { kind: 'again' };
  }
}

async function resting(
  opened: Opened,
  turn: TurnView,
  waiting: readonly OpenWait[],
  at: { readonly dueAt: EpochMs; readonly position: number },
): Promise<PassOutcome> {
  const { runtime, ref } = opened;
  const { dueAt, position } = at;
  runtime.telemetry.emit('turn.suspended', { threadId: ref.thread, turnId: ref.turn, dueAt });
  await runtime.later(() => opened.pass.replay.commit());
  // Looked for before the relay, whose last write then takes the owed look off: it costs no write of its own.
  await look(runtime, ref.tenant, waiting);
  await runtime.later(() => relayThread(runtime, ref, { ref, position }));
  await runtime.later(async () => runtime.alarm?.(ref, dueAt));
  return { kind: 'answer', answer: { kind: 'pending', turn } };
}

async function look(
  runtime: Opened['runtime'],
  tenant: TenantId,
  waiting: readonly OpenWait[],
): Promise<void> {
  for (const { spec } of waiting) {
    if (spec.event !== undefined) await lookFor(runtime, tenant, spec.event);
  }
}

function ended(opened: Opened): PassOutcome {
  const { end } = opened.writer;
  if (end?.kind === 'unavailable') throw end.error;
  return { kind: 'again' };
}

interface Rows {
  readonly fresh: readonly WaitRow[];
  readonly digests: ReadonlyMap<string, string>;
}

/** Rows of the waits nobody has registered; all but one transaction's worth are put ahead. */
async function registered(opened: Opened, waiting: readonly OpenWait[]): Promise<Rows> {
  const { runtime, ref } = opened;
  const rows: WaitRow[] = [];
  const digests = new Map<string, string>();
  for (const wait of waiting) {
    const row = await rowOf(opened, wait);
    if (row === null) continue;
    if (row.digest !== null) digests.set(wait.id, row.digest);
    if (!wait.registered) rows.push(row);
  }
  if (rows.length <= limits.waitsPerTransaction / 2) return { fresh: rows, digests };
  const known = await runtime.store.waits(
    ref.tenant,
    rows.map((row) => row.id),
  );
  await runtime.store.putWaits(rows.filter((_, index) => known[index] === null));
  return { fresh: [], digests };
}

async function rowOf(opened: Opened, wait: OpenWait): Promise<WaitRow | null> {
  const { runtime, ref, pass } = opened;
  const { sealer, scope, actor } = pass.setup;
  const { approval, event } = wait.spec;
  if (approval === undefined && event === undefined) return null;
  const shown = { summary: wait.spec.summary, action: approval?.action ?? null };
  const sealed = sealText(sealer, sealContext(ref, `wait:${wait.id}`, 0), encode(shown));
  if (sealed.parts !== null && !wait.registered) {
    await runtime.store.putParts(ref.tenant, sealed.parts);
  }
  return {
    id: wait.id,
    kind: approval === undefined ? 'event' : 'approval',
    ref,
    until: wait.until,
    createdAt: wait.askedAt,
    digest: approval === undefined ? null : digestOf(opened, wait),
    requester: actor,
    fourEyes: approval?.fourEyes ?? false,
    scope,
    payload: sealed.payload,
    match: event === undefined ? null : await runtime.store.matchKey(ref.tenant, event),
    answer: null,
  };
}

/** T10: the digest stands for this call of this turn and no other; keyed, so it tells nothing (decision 23). */
function digestOf(opened: Opened, wait: OpenWait): string {
  const bound = { wait: wait.id, action: wait.spec.approval?.action ?? null };
  const bytes = new TextEncoder().encode(encode(bound));
  return opened.pass.setup.sealer.mac('turnstone.approval.1', bytes);
}

function viewOf(opened: Opened, waiting: readonly OpenWait[], rows: Rows, now: EpochMs): TurnView {
  const { ref, pass, writer, begun } = opened;
  const bodies = [...pass.setup.history.bodies(), ...writer.added];
  const { steps, effects, attempts, tokens, minorUnits } = tallyOf(bodies);
  return {
    thread: ref.thread,
    turn: ref.turn,
    agent: pass.setup.agent.name,
    status: 'suspended',
    revision: begun.head?.revision ?? 0,
    waits: waiting.map((wait): WaitView => {
      const digest = rows.digests.get(wait.id);
      const { kind, summary } = wait.spec;
      const { id, until } = wait;
      return { id, kind, until, summary, ...(digest === undefined ? {} : { digest }) };
    }),
    undecided: undecidedOf(bodies),
    spend: { steps, effects, attempts, tokens, minorUnits },
    createdAt: opened.createdAt,
    updatedAt: now,
  };
}

async function projection(
  opened: Opened,
  turn: TurnView,
  of: { cancelsSeen: number; dueAt: EpochMs; positions: number },
): Promise<TurnEnd> {
  const { runtime, ref, pass, writer } = opened;
  const { sealer, scope } = pass.setup;
  const context = sealContext(ref, 'view', turn.revision);
  const view = sealText(sealer, context, encode(storedView(turn)));
  if (view.parts !== null) await runtime.store.putParts(ref.tenant, view.parts);
  return {
    status: 'suspended',
    agent: turn.agent,
    head: writer.head,
    payloadDigest: opened.digest,
    revision: turn.revision,
    scope,
    view: view.payload,
    createdAt: opened.createdAt,
    updatedAt: turn.updatedAt,
    ...of,
  };
}

/** Tells whoever listens that the turn waits, by reference; what it asks is read under the reader's own rights. */
function suspendedEntry(opened: Opened, turn: TurnView, index: number) {
  const { ref } = opened;
  const name = `turn.suspended:${index}`;
  const id = base64url(hashParts('turnstone.event.1', [ref.tenant, ref.thread, ref.turn, name]));
  const body = {
    v: 1,
    id,
    type: 'turn.suspended',
    at: turn.updatedAt,
    tenant: ref.tenant,
    threadId: ref.thread,
    turnId: ref.turn,
    agent: turn.agent,
    waits: turn.waits.map(({ id: wait, kind, until }) => ({ id: wait, kind, until })),
    category: 'integration',
  };
  return { id, queue: 'events' as const, body: JSON.stringify(body) };
}
