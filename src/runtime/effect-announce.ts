// What stands between a decision to try and the call: backoff, budget, the durable announcement, the lease.
//   T4   nothing acts past the lease's end on a monotonic clock (page 09, B9).
//   T5   the announcement is durable before the call.
//   T11  the budget is asked per attempt, right before it; a refusal is recorded once.
import { backoffMs } from '../protocol/backoff.ts';
import { decode } from '../protocol/canonical.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { exhausted } from './budget-pause.ts';
import type { Dispatch, Entry } from './dispatch.ts';
import { passesGates } from './gates.ts';
import type { JournalWriter } from './journal-writer.ts';
import { noPayload, payloadOf } from './journal-writer.ts';
import { never } from './never.ts';
import type { Pass } from './pass.ts';
import type { CacheHit } from './replay-book.ts';
import { tellReplay } from './replay-span.ts';

/** Waits out the backoff, asks the budget, announces and waits until that is durable [T5]. */
export async function announce(
  dispatch: Dispatch,
  writer: JournalWriter,
  key: string,
  entry: Extract<Entry, { kind: 'announce' }>,
  settle: (deliver: () => void) => void,
  earlierDoubt: boolean,
): Promise<'announced' | 'settled'> {
  const { pass, site, declared } = dispatch;
  const { clock } = pass.setup.runtime;
  const hit = entry.attempt === 1 ? await pass.replay.find(dispatch) : null;
  if (!declared.reversal && !declared.finishes && pass.stops(site, earlierDoubt)) {
    pass.scheduler.abandon();
    pass.replay.letGo();
    return never();
  }
  const waitMs =
    entry.attempt === 1
      ? 0
      : backoffMs({
          policy: declared.retry,
          turn: turnName(pass),
          key,
          attempt: entry.attempt,
          ...(entry.adviceMs === undefined ? {} : { adviceMs: entry.adviceMs }),
        });
  // BO-5: a wait that outlasted its host counts from the failure, or a bounded host would wait for ever.
  const now = clock.now();
  const leftMs = Math.min(waitMs, Math.max(0, (entry.since ?? now) + waitMs - now));
  const until = (now + leftMs) as EpochMs;
  if (leftMs > 0) await sleepOrPark(pass, leftMs, until);
  if (pass.draining) return parked(pass, leftMs > 0 ? until : null);
  if (!(await passesGates(dispatch, writer, key, entry.attempt, settle))) return 'settled';
  if (pass.draining) return parked(pass, null);
  await pass.tenant.look();
  if (pass.draining) return parked(pass, null);
  const bytes = Buffer.byteLength(declared.argsText);
  if (!admitted(dispatch, writer, key, entry.readmit === true, bytes, settle)) return 'settled';
  if (hit !== null) return served(dispatch, writer, key, hit, settle);
  const { body, durable } = writer.announce(
    {
      kind: 'EffectStarted',
      site,
      key,
      effect: declared.kind,
      attempt: entry.attempt,
      backoffMs: waitMs,
      mutates: declared.mutates,
      recovery: declared.recovery,
      ...(declared.declaredCost ? { cost: declared.cost } : {}),
      ...(declared.group === null ? {} : { group: declared.group }),
      ...(dispatch.receipt === null ? {} : { receipt: dispatch.receipt }),
    },
    { kind: 'text', text: declared.argsText },
  );
  pass.meter.add(body, bytes);
  await durable;
  return 'announced';
}

/** B-22: an answer that was bought before is recorded as such, unbilled; its tokens count for the ceiling at once. */
function served(
  dispatch: Dispatch,
  writer: JournalWriter,
  key: string,
  { record, turn, text }: CacheHit,
  settle: (deliver: () => void) => void,
): 'settled' {
  const { pass, site, declared } = dispatch;
  const { tokens } = record.spend;
  pass.meter.reserve(key, { tokens, minorUnits: 0 });
  const of = { tokens, turn, from: record.seq };
  const label = record.label === undefined ? {} : { label: record.label };
  settle(() => {
    const body = writer.ride(
      { kind: 'AnswerCached', site, key, effect: declared.kind, ...of, ...label },
      { kind: 'text', text },
    );
    pass.meter.add(body);
    pass.heard(body);
    tellReplay(dispatch, body);
    pass.replay.keep(dispatch, body, () => text);
    dispatch.settle.resolve(decode(text));
  });
  return 'settled';
}

/** The budget's verdict right before an announcement; a refusal is recorded once and takes its place (GA-2). */
export function admitted(
  dispatch: Dispatch,
  writer: JournalWriter,
  key: string,
  readmit: boolean,
  bytes: number,
  settle: (deliver: () => void) => void,
  together = 0,
): boolean {
  const { pass, declared, site } = dispatch;
  // GA-3: an undo is exempt from the verdict; it still takes its slot.
  const exempt = site.phase === 'compensating' || declared.reversal;
  const refusal = exempt
    ? null
    : (pass.meter.attempt(pass.setup.budget, declared.cost, bytes, together) ??
      pass.tenant.attempt(pass.meter, declared.cost));
  if (refusal === null) {
    if (readmit) writer.ride({ kind: 'BudgetReadmitted', site, key, limit: 'raised' }, noPayload);
    return true;
  }
  settle(() => {
    if (!readmit) {
      const { limit, ceiling, consumed } = refusal;
      const facts = { kind: 'BudgetRefused' as const, site, key, limit };
      pass.heard(writer.ride(facts, payloadOf({ ceiling, consumed })));
    }
    dispatch.settle.reject(exhausted(refusal.limit, site.step));
  });
  return false;
}

async function sleepOrPark(pass: Pass, waitMs: number, until: EpochMs): Promise<void> {
  const { clock, settings } = pass.setup.runtime;
  const { deadlineAt, drain } = pass.setup;
  if (deadlineAt !== null && until > deadlineAt - settings.reserveMs) return parked(pass, until);
  const signals = drain === null ? [pass.abort.signal] : [pass.abort.signal, drain];
  const slept = await clock.sleep(waitMs, AbortSignal.any(signals)).then(
    () => true,
    () => false,
  );
  if (!slept) return parked(pass, until);
}

/** Gives the call up for this pass: the next one goes on from the journal. */
function parked(pass: Pass, wakeAt: EpochMs | null): Promise<never> {
  pass.scheduler.abandon();
  pass.park(wakeAt);
  return never();
}

/**
 * T4: an owner frozen past its lease does not act. It says so of what this pass announced; over an orphan it says
 * nothing, because the send before it is not its to speak of (ruling 1), and of an atomic member there is nothing yet.
 */
export async function mayAct(
  dispatch: Dispatch,
  writer: JournalWriter,
  key: string,
  own: 'announced' | 'nothing',
): Promise<void> {
  const { pass, declared, site } = dispatch;
  if (pass.setup.runtime.clock.monotonicMs() < pass.leaseUntilMonotonicMs) return;
  if (own === 'nothing') {
    pass.stop({ kind: 'ended', end: { kind: 'displaced' } });
    return never();
  }
  const facts = { disposition: 'did_not_happen' as const, permanent: false, code: 'lease_lapsed' };
  const message = `${declared.kind} was announced, but the lease had lapsed before it was sent`;
  writer.urgent(
    { kind: 'EffectFailed', site, key, ...facts, spend: { tokens: 0, minorUnits: 0 } },
    payloadOf({ message }),
  );
  await writer.settled();
  pass.stop({ kind: 'ended', end: { kind: 'displaced' } });
  return never();
}

function turnName(pass: Pass): string {
  const { tenant, thread, turn } = pass.setup.ref;
  return `${tenant}\n${thread}\n${turn}`;
}
