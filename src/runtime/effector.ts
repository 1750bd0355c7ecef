// The effector: performs one deferred act once, and tells its thread what came of it (page 03, section 6).
//
// Order: verify, refuse expired, ask the policy, claim (expiry again inside the claim), perform under the effect protocol,
// settle, publish. A crash at each arrow is answered by the next delivery from what was stored.
//   T6   a crash inside the call follows the declared recovery; ruling 1 keeps an unsettled send in doubt.
//   T10  expiry is refused before the claim and again by it; what expired is settled as expired for ever.

import type { Handled } from '../ports/queue.ts';
import type { Sealer } from '../ports/vault.ts';
import type { IntentOutcome, IntentRow } from '../ports/waits.ts';
import { backoffMs } from '../protocol/backoff.ts';
import { decode, encode } from '../protocol/canonical.ts';
import { base64url } from '../protocol/digest.ts';
import { decideFailure, decideProbe } from '../protocol/effect-decision.ts';
import { describeError, TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { actDenied } from './act-gate.ts';
import { parseIntentBody } from './acts.ts';
import type { DeclaredEffect } from './declared-effect.ts';
import { declareEffect } from './declared-effect.ts';
import type { InboxMessage } from './drive.ts';
import { callOnce, probeCall } from './effect-attempt.ts';
import { publishEvent } from './events.ts';
import { groupOf } from './inbox-message.ts';
import { Keyring } from './keyring.ts';
import { openPayload, sealContext, sealText } from './payloads.ts';
import type { Runtime } from './runtime.ts';
import { tellError } from './tell.ts';
import type { HostBounds } from './turn-request.ts';

/** Least time a call is started with, milliseconds. */
const leastMs = 500;

/** What an act's result event carries. */
interface ActResult {
  readonly status: IntentOutcome;
  readonly output?: unknown;
  readonly error?: { readonly code: string; readonly message: string };
}

/** Performs a batch: acts of one thread in order, threads side by side; one that must come later holds its thread (F25). */
export async function handleIntentBatch(
  runtime: Runtime,
  messages: readonly InboxMessage[],
  host: HostBounds,
): Promise<ReadonlyMap<string, Handled>> {
  const outcomes = new Map<string, Handled>();
  const groups = new Map<string, Named[]>();
  for (const message of messages) {
    try {
      const named = { message, ...parseIntentBody(message.body) };
      const group = groupOf(named);
      groups.set(group, [...(groups.get(group) ?? []), named]);
    } catch (error) {
      outcomes.set(message.id, deadLetter(runtime, message.id, describeError(error).message));
    }
  }
  await Promise.all(
    [...groups.values()].map(async (group) => {
      let stopped: Handled | null = null;
      for (const named of group) {
        const outcome: Handled = stopped ?? (await handleOne(runtime, named, host));
        outcomes.set(named.message.id, outcome);
        if (outcome.kind !== 'done') stopped = outcome;
      }
    }),
  );
  return outcomes;
}

type Named = { readonly message: InboxMessage } & ReturnType<typeof parseIntentBody>;

async function handleOne(
  runtime: Runtime,
  { message, tenant, intent }: Named,
  host: HostBounds,
): Promise<Handled> {
  try {
    const row = await runtime.store.intent(tenant, intent);
    if (row === null) return deadLetter(runtime, intent, 'no such intent');
    return await performIntent(runtime, row, host);
  } catch (error) {
    const { message: reason } = describeError(error);
    const final = error instanceof TurnstoneError && error.retry === 'never';
    if (final) return deadLetter(runtime, message.id, reason);
    return { kind: 'failed', reason };
  }
}

/** T100: nothing is claimed, performed or answered for an intent that does not verify. */
function deadLetter(runtime: Runtime, id: string, reason: string): Handled {
  tellError(runtime.telemetry, 'intent_dead_letter', { id, detail: reason });
  return { kind: 'done' };
}

/** Takes one intent as far as it goes now. */
export async function performIntent(
  runtime: Runtime,
  row: IntentRow,
  host: HostBounds,
): Promise<Handled> {
  if (row.outcome !== null) return tell(runtime, row);
  const keyring = new Keyring(runtime.store, runtime.vault, row.ref);
  const sealer = await keyring.reader(row.scope);
  if (sealer === null) {
    await runtime.store.dropOwed(row.id);
    return deadLetter(runtime, row.id, 'its subject was erased');
  }
  const agent = runtime.agents.get(row.agent);
  if (agent === undefined) {
    const reason = `no agent "${row.agent}" here`;
    return { kind: 'later', afterMs: runtime.settings.leaseMs, reason };
  }
  const context = sealContext(row.ref, `intent:${row.id}`, 0);
  const args = await openPayload(runtime.store, sealer, context, row.payload);
  const digest = sealer.mac('turnstone.intent-args.1', new TextEncoder().encode(encode(args)));
  if (digest !== row.argsDigest) return deadLetter(runtime, row.id, 'its arguments do not verify');
  const effect = agent.act(row.effect, args);
  const now = runtime.clock.now();
  if (row.claim !== null && row.claim.until > now) {
    const afterMs = row.claim.until - now;
    return { kind: 'later', afterMs, reason: 'another worker performs it' };
  }
  if (effect === null) {
    const error = { code: 'unknown_act', message: `agent "${row.agent}" declares no such act` };
    return settle(runtime, row, null, { status: 'refused', error }, 'claim');
  }
  const declared = declareEffect({ ...effect, kind: row.effect, args });
  return claimAndPerform(runtime, row, declared, host, sealer);
}

async function claimAndPerform(
  runtime: Runtime,
  row: IntentRow,
  declared: DeclaredEffect,
  host: HostBounds,
  sealer: Sealer,
): Promise<Handled> {
  const now = runtime.clock.now();
  const unsettled = row.claim !== null || row.doubt;
  if (row.expiresAt <= now) {
    const message = 'it was not performed before its time ran out';
    if (!unsettled) {
      return settle(runtime, row, null, { status: 'expired', error: { code: 'expired', message } });
    }
    const error = { code: 'effect_undecided', message: 'its outcome is unknown after a crash' };
    return settle(runtime, row, row.claim?.token ?? null, { status: 'uncertain', error }, 'lapsed');
  }
  const { reserveMs } = runtime.settings;
  const left = (host.deadlineAt ?? Number.POSITIVE_INFINITY) - now - reserveMs;
  if (host.drain?.aborted === true || left < leastMs) {
    return { kind: 'later', afterMs: 1_000, reason: 'this host has no time left for it' };
  }
  const denied = await actDenied(runtime, row, declared, sealer);
  if (denied !== null) {
    // What an earlier attempt left open stays open: a refusal speaks for its own send only (ruling 1).
    const status = row.doubt ? 'uncertain' : 'refused';
    const message = `${row.effect} was refused by the policy: ${denied}`;
    return settle(
      runtime,
      row,
      null,
      { status, error: { code: 'policy_denied', message } },
      'claim',
    );
  }
  const bounded = { ...declared, timeoutMs: Math.min(declared.timeoutMs, left) };
  const reserve = bounded.timeoutMs + reserveMs;
  const token = base64url(runtime.entropy.bytes(16));
  // Where the host bounds this work the claim outlives that bound; elsewhere it is renewed while the call lasts.
  const { leaseMs, renew } = runtime.settings;
  const until = (now + (renew ? leaseMs : Math.max(leaseMs, reserve))) as EpochMs;
  const claimed = await runtime.store.claimIntent(row, { token, until }, now);
  if (claimed.kind === 'unknown') throw unavailable(claimed.cause);
  if (claimed.kind === 'lost') {
    return { kind: 'later', afterMs: 250, reason: 'another worker was first' };
  }
  const held: IntentRow = { ...row, attempt: row.attempt + 1, claim: { token, until } };
  const stop = renew ? renewing(runtime, held, token) : () => undefined;
  try {
    if (!unsettled) return await attempt(runtime, held, bounded, false);
    return await recover(runtime, held, bounded);
  } finally {
    stop();
  }
}

/** Extends a claim at a third of its lease until stopped; a renewal that fails leaves it to lapse (LE-3). */
function renewing(runtime: Runtime, row: IntentRow, token: string): () => void {
  const { clock, settings, store, telemetry } = runtime;
  let cancel = (): void => undefined;
  let stopped = false;
  const arm = (): void => {
    if (stopped) return;
    cancel = clock.timer(Math.floor(settings.leaseMs / 3), () => {
      const until = (clock.now() + settings.leaseMs) as EpochMs;
      store.renewIntent(row, token, until).then(
        (renewed) => {
          if (renewed.kind === 'done') arm();
        },
        (error: unknown) => {
          telemetry.emit('act.renewal_failed', {
            intent: row.id,
            reason: describeError(error).message,
          });
        },
      );
    });
  };
  arm();
  return () => {
    stopped = true;
    cancel();
  };
}

/** A send nobody settled: only its declared recovery decides (OR-1). */
async function recover(
  runtime: Runtime,
  row: IntentRow,
  declared: DeclaredEffect,
): Promise<Handled> {
  const token = row.claim?.token ?? null;
  const why = 'its outcome is unknown after a crash';
  switch (declared.recovery) {
    case 'retry':
    case 'idempotent':
      return attempt(runtime, row, declared, true);
    case 'operator': {
      const error = { code: 'effect_undecided', message: why };
      return settle(runtime, row, token, { status: 'uncertain', error });
    }
    case 'reconcile':
      return ask(runtime, row, declared, false);
  }
}

async function ask(
  runtime: Runtime,
  row: IntentRow,
  declared: DeclaredEffect,
  live: boolean,
): Promise<Handled> {
  const token = row.claim?.token ?? null;
  const probed = await probeCall(runtime, declared, callFacts(row));
  const decision = decideProbe({
    verdict: probed.verdict,
    mutates: declared.mutates,
    attempt: row.attempt,
    maxAttempts: declared.retry.maxAttempts,
    live,
  });
  switch (decision.kind) {
    case 'done':
      return settle(runtime, row, token, { status: 'completed', output: probed.output });
    case 'perform_same_key':
      return attempt(runtime, row, declared, false);
    case 'retry':
      return again(runtime, row, declared, false);
    case 'failed': {
      const error = { code: 'effect_did_not_happen', message: probed.message };
      return settle(runtime, row, token, { status: 'refused', error });
    }
    case 'quarantined': {
      const error = { code: 'effect_undecided', message: probed.message };
      return settle(runtime, row, token, { status: 'uncertain', error });
    }
  }
}

function callFacts(row: IntentRow) {
  const { id, attempt } = row;
  return { idempotencyKey: id, effectKey: id, attempt, where: { intent: id } };
}

async function attempt(
  runtime: Runtime,
  row: IntentRow,
  declared: DeclaredEffect,
  earlierDoubt: boolean,
): Promise<Handled> {
  const token = row.claim?.token ?? null;
  const outcome = await callOnce(runtime, declared, callFacts(row));
  if (outcome.kind === 'done') {
    return settle(runtime, row, token, { status: 'completed', output: decode(outcome.text) });
  }
  const error = { code: outcome.code, message: outcome.message };
  const decision = decideFailure({
    disposition: outcome.disposition,
    permanent: outcome.permanent,
    mutates: declared.mutates,
    recovery: declared.recovery,
    attempt: row.attempt,
    maxAttempts: declared.retry.maxAttempts,
    earlierDoubt,
  });
  switch (decision.kind) {
    case 'retry':
      return again(runtime, row, declared, earlierDoubt || outcome.disposition === 'in_doubt');
    case 'probe':
      return ask(runtime, row, declared, true);
    case 'failed':
      // A landed answer that cannot be used is still done (B-31).
      return settle(runtime, row, token, {
        status: outcome.disposition === 'landed' ? 'completed' : 'refused',
        error,
      });
    case 'quarantined':
      return settle(runtime, row, token, { status: 'uncertain', error });
  }
}

/** Gives the claim back and asks to come again after the backoff. */
async function again(
  runtime: Runtime,
  row: IntentRow,
  declared: DeclaredEffect,
  doubt: boolean,
): Promise<Handled> {
  const released = await runtime.store.releaseIntent(row, row.claim?.token ?? '', doubt);
  if (released.kind === 'unknown') throw unavailable(released.cause);
  const afterMs = backoffMs({
    policy: declared.retry,
    turn: row.id,
    key: row.id,
    attempt: row.attempt + 1,
  });
  return { kind: 'later', afterMs: Math.max(1, afterMs), reason: 'another attempt is due' };
}

/** Settles durably, then publishes (B-37). Whoever lost the claim does neither (B-36). */
async function settle(
  runtime: Runtime,
  row: IntentRow,
  token: string | null,
  result: ActResult,
  how: 'held' | 'lapsed' | 'claim' = 'held',
): Promise<Handled> {
  const { store } = runtime;
  if (how === 'claim') {
    const now = runtime.clock.now();
    const fresh = base64url(runtime.entropy.bytes(16));
    const until = (now + runtime.settings.leaseMs) as EpochMs;
    const claimed = await store.claimIntent(row, { token: fresh, until }, now);
    if (claimed.kind === 'unknown') throw unavailable(claimed.cause);
    if (claimed.kind === 'lost') {
      return { kind: 'later', afterMs: 250, reason: 'another worker was first' };
    }
    return settle(runtime, { ...row, claim: { token: fresh, until } }, fresh, result);
  }
  const keyring = new Keyring(store, runtime.vault, row.ref);
  const sealer = await keyring.writer(row.scope);
  const context = sealContext(row.ref, `result:${row.id}`, 0);
  const sealed = sealText(sealer, context, encode(result));
  if (sealed.parts !== null) await store.putParts(row.ref.tenant, sealed.parts);
  const outcome = { outcome: result.status, result: sealed.payload };
  const settled = await store.settleIntent(row, token, outcome, runtime.clock.now());
  if (settled.kind === 'unknown') throw unavailable(settled.cause);
  if (settled.kind === 'lost') {
    return { kind: 'later', afterMs: 250, reason: 'the claim was lost to another worker' };
  }
  return tell(runtime, { ...row, ...outcome });
}

/** The stored result goes back to its thread; a repeat publishes the same event. */
async function tell(runtime: Runtime, row: IntentRow): Promise<Handled> {
  if (row.result === null) throw new Error('a settled intent has its result');
  const keyring = new Keyring(runtime.store, runtime.vault, row.ref);
  const sealer = await keyring.reader(row.scope);
  if (sealer !== null) {
    const context = sealContext(row.ref, `result:${row.id}`, 0);
    const data = await openPayload(runtime.store, sealer, context, row.result);
    await publishEvent(runtime, {
      tenant: row.ref.tenant,
      source: 'turnstone',
      id: `act:${row.id}`,
      type: 'act.result',
      correlation: row.id,
      data,
      scope: row.scope,
    });
  }
  await runtime.store.dropOwed(row.id);
  runtime.telemetry.emit('act.settled', { intent: row.id, outcome: row.outcome });
  return { kind: 'done' };
}

function unavailable(cause: unknown): TurnstoneError {
  return new TurnstoneError('store_unavailable', 'a write of this intent has no known outcome', {
    retry: 'now',
    cause,
  });
}
