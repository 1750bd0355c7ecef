// A wait of a turn: announced like an effect, settled by a person, an event or an instant.
//
// Owns: what a recorded or open wait means for the code that asked. Does not own: registering it with the
// suspension (suspend-turn.ts) or admitting answers (answer-approval.ts, events.ts).
//   T7   an answer is recorded once under the wait's key and read back on every later pass.
//   T10  the deadline is evaluated here, under the store's condition; a timer only wakes the turn (RD-4).
//   E92  a wait takes a slot, though no ceiling refuses it.

import type { TurnRef } from '../ports/store.ts';
import type { WaitAnswer, WaitRow } from '../ports/waits.ts';
import { encode } from '../protocol/canonical.ts';
import { base64url, hashParts } from '../protocol/digest.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { toIso } from '../protocol/ids.ts';
import type { RecordBody, RecordOf, Site, WaitKind } from '../protocol/record.ts';
import { declareEffect } from './declared-effect.ts';
import { openRecord } from './history.ts';
import { payloadOf } from './journal-writer.ts';
import { Keyring } from './keyring.ts';
import { never } from './never.ts';
import type { Pass } from './pass.ts';
import { openPayload, sealContext } from './payloads.ts';
import { attemptKey, resumePoint } from './resume-point.ts';

/** What a wait asks for; `args` is its identity. */
export interface WaitSpec {
  readonly kind: WaitKind;
  readonly args: unknown;
  readonly forMs: number;
  readonly summary: string;
  /** What a person is shown and bound to. */
  readonly approval?: { readonly action: unknown; readonly fourEyes: boolean };
  /** What an event must carry; `correlation` is canonical text. */
  readonly event?: { readonly type: string; readonly correlation: string };
}

/** A wait nobody has settled yet. */
export interface OpenWait {
  readonly id: string;
  readonly site: Site;
  readonly spec: WaitSpec;
  readonly askedAt: EpochMs;
  readonly until: EpochMs;
  /** False while only the journal knows of it. */
  readonly registered: boolean;
  /** Tells the code that its turn is about to rest. */
  readonly interrupt: (error: Error) => void;
}

/** Id of a wait: a function of its place, so that a resumed pass finds the same one. */
export function waitId(ref: TurnRef, site: Site): string {
  const parts = [ref.tenant, ref.thread, ref.turn, site.step, site.phase, site.ordinal];
  return base64url(hashParts('turnstone.wait.1', parts));
}

/** Approvals of a journal that nobody settled. */
export function openApprovals(
  ref: TurnRef,
  bodies: Iterable<RecordBody>,
): readonly { readonly id: string; readonly createdAt: EpochMs }[] {
  const open = new Map<string, { id: string; createdAt: EpochMs }>();
  for (const body of bodies) {
    if (body.kind === 'EffectStarted' && body.wait === 'approval') {
      open.set(body.key, { id: waitId(ref, body.site), createdAt: body.at as EpochMs });
    }
    if (body.kind === 'EffectDone') open.delete(body.key);
  }
  return [...open.values()];
}

/** Settles with what was answered; never settles while nobody has. */
export function runWait(pass: Pass, site: Site, spec: WaitSpec): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const declared = declareEffect({
      kind: `wait.${spec.kind}`,
      args: spec.args,
      mutates: false,
      perform: () => never(),
    });
    const key = attemptKey(site, 1, declared);
    const wait = { pass, site, spec, key, resolve, reject };
    const slice = pass.setup.history.take(site);
    if (slice === undefined) {
      return pass.whenLive(site, declared, () => open(wait, declared.argsText), { fresh: true });
    }
    const point = resumePoint(slice, declared);
    if (point.kind === 'diverged') return pass.diverged(point.divergence);
    if (point.kind === 'orphan') {
      const stopped = pass.historyOnly && site.phase === 'forward';
      if (pass.strict || stopped) return rest(wait, point.started, true);
      const { started } = point;
      return pass.whenLive(site, declared, () => look(wait, started), { fresh: false });
    }
    if (point.kind !== 'done') throw new Error(`a wait cannot be ${point.kind}`);
    const { record } = point;
    const { runtime, sealer, ref } = pass.setup;
    pass.scheduler.replay(record.body.seq, async () => {
      const value = await openRecord(runtime.store, sealer, ref, record);
      return () => {
        pass.heard(record.body);
        resolve(value);
      };
    });
  });
}

interface Asked {
  readonly pass: Pass;
  readonly site: Site;
  readonly spec: WaitSpec;
  readonly key: string;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

function open(wait: Asked, argsText: string): void {
  const { pass, site, spec, key } = wait;
  const { writer } = pass.setup;
  if (writer === null) {
    return pass.diverged({
      site,
      recorded: null,
      asked: { kind: `wait.${spec.kind}`, key },
      moved: 'extra',
      seq: 0,
    });
  }
  const body = writer.ride(
    {
      kind: 'EffectStarted',
      site,
      key,
      effect: `wait.${spec.kind}`,
      attempt: 1,
      backoffMs: 0,
      mutates: false,
      recovery: 'retry',
      wait: spec.kind,
    },
    { kind: 'text', text: argsText },
  );
  pass.meter.add(body);
  if (body.kind === 'EffectStarted') rest(wait, body, false);
}

/** Looks whether a recorded wait was answered meanwhile. */
function look(wait: Asked, started: RecordOf<'EffectStarted'>): void {
  const { pass } = wait;
  const settle = pass.scheduler.begin();
  answerOf(wait, started).then(
    (found) => {
      if (found.kind === 'open') {
        pass.scheduler.abandon();
        return rest(wait, started, found.registered);
      }
      settle(() => done(wait, found.value));
    },
    (error: unknown) => pass.stop({ kind: 'broken', error }),
  );
}

function done(wait: Asked, value: unknown): void {
  const { pass, site, key } = wait;
  const spend = { tokens: 0, minorUnits: 0 };
  const body = pass.setup.writer?.ride({ kind: 'EffectDone', site, key, spend }, payloadOf(value));
  if (body !== undefined) {
    pass.meter.add(body);
    pass.heard(body);
  }
  wait.resolve(value);
}

function rest(wait: Asked, started: RecordOf<'EffectStarted'>, registered: boolean): void {
  const { pass, site, spec } = wait;
  pass.rests({
    id: waitId(pass.setup.ref, site),
    site,
    spec,
    askedAt: started.at as EpochMs,
    until: (started.at + spec.forMs) as EpochMs,
    registered,
    interrupt: wait.reject,
  });
}

type Found =
  | { readonly kind: 'open'; readonly registered: boolean }
  | { readonly kind: 'answered'; readonly value: unknown };

async function answerOf(wait: Asked, started: RecordOf<'EffectStarted'>): Promise<Found> {
  const { pass, site, spec } = wait;
  const { runtime, ref } = pass.setup;
  const now = runtime.clock.now();
  const until = (started.at + spec.forMs) as EpochMs;
  if (spec.kind === 'timer') {
    if (now < until) return { kind: 'open', registered: true };
    return { kind: 'answered', value: { at: toIso(until) } };
  }
  const [row] = await runtime.store.waits(ref.tenant, [waitId(ref, site)]);
  const standing = row ?? null;
  const answer = await settledAnswer(pass, standing, until, now);
  if (answer === null) return { kind: 'open', registered: standing !== null };
  return { kind: 'answered', value: await valueFrom(pass, standing, answer) };
}

/** The answer that stands; a deadline that has come is settled here, once. */
async function settledAnswer(
  pass: Pass,
  row: WaitRow | null,
  until: EpochMs,
  now: EpochMs,
): Promise<WaitAnswer | null> {
  if (row?.answer != null) return row.answer;
  if (now < until) return null;
  if (row === null) return { kind: 'expired', at: until };
  const expired = await pass.setup.runtime.store.expire(row, now);
  if (expired.kind === 'unknown') {
    throw new TurnstoneError('store_unavailable', 'whether a wait expired is not known', {
      retry: 'now',
      cause: expired.cause,
    });
  }
  if (expired.kind === 'lost') return expired.wait?.answer ?? null;
  return { kind: 'expired', at: until };
}

async function valueFrom(pass: Pass, row: WaitRow | null, answer: WaitAnswer): Promise<unknown> {
  const { runtime, ref } = pass.setup;
  if (answer.kind === 'expired') {
    const approval = row?.kind === 'approval' || row === null;
    const at = toIso(answer.at);
    return approval ? { decision: 'expired', by: null, at, note: null } : { kind: 'expired', at };
  }
  if (row === null) throw new Error('an answer without its wait');
  const keyring = new Keyring(runtime.store, runtime.vault, ref);
  const sealer = await keyring.reader(row.scope);
  if (sealer === null) {
    throw new TurnstoneError('subject_erased', 'the subject of this wait was erased', {
      retry: 'never',
    });
  }
  const context = sealContext(ref, `answer:${row.id}`, 0);
  if (answer.kind === 'event') {
    return {
      kind: 'event',
      data: await openPayload(runtime.store, sealer, context, answer.payload),
    };
  }
  const { by, note } = answer;
  const opened = note === null ? null : await openPayload(runtime.store, sealer, context, note);
  return { decision: answer.kind, by, at: toIso(answer.at), note: opened };
}

/** The canonical text an event and a wait are matched by. */
export function correlationText(correlation: unknown): string {
  return encode(correlation);
}
