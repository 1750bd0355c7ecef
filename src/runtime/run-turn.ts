// A pass with its lease: opened fresh or by takeover, driven, and ended by one transaction.
//   T4  the first write claims; a takeover occupies the next position; the lease is renewed at a third.
//   Ruling 8  a host's timeout parks the turn: it stays the open one and goes on by an inbox message.

import type { Batch, Begun, Claimed, Head, Hold, TurnRef } from '../ports/store.ts';
import type { Sealer } from '../ports/vault.ts';
import { canonicalVersion, encode } from '../protocol/canonical.ts';
import { genesisHash } from '../protocol/chain.ts';
import { base64url, fromBase64url } from '../protocol/digest.ts';
import { reasonOf } from '../protocol/error-stream.ts';
import type { EpochMs } from '../protocol/ids.ts';
import type { AgentDefinition } from './agent-definition.ts';
import { conclude } from './conclude.ts';
import { concludeErased } from './conclude-erased.ts';
import { emptyHistory, historyOf, openRecord } from './history.ts';
import { JournalWriter, noPayload, payloadOf } from './journal-writer.ts';
import type { Keyring } from './keyring.ts';
import { keepUnwritten } from './late-results.ts';
import { Lease } from './lease.ts';
import { Pass } from './pass.ts';
import type { Opened, PassOutcome } from './pass-ending.ts';
import { brokenOff, park, unavailable } from './pass-ending.ts';
import { relayThread } from './relay.ts';
import type { Runtime } from './runtime.ts';
import { suspendTurn } from './suspend-turn.ts';
import { tellError } from './tell.ts';
import { tenantVerdict } from './tenant-meter.ts';
import { checkState, mayContinue } from './thread-gates.ts';
import { checkpointAt, loadState } from './thread-state.ts';
import { budgetOf } from './turn-budget.ts';
import type { Admission, HostBounds, TurnRequest } from './turn-request.ts';
import { admissionFrom } from './turn-request.ts';
import { inPass } from './turn-spans.ts';
import type { Verdict } from './verdict.ts';
import { verdictOf } from './verdict.ts';
import { newWriter } from './writer-identity.ts';

interface Fresh {
  readonly runtime: Runtime;
  readonly request: TurnRequest;
  readonly begun: Begun;
  readonly keyring: Keyring;
  readonly sealer: Sealer;
  readonly digest: string;
}

/** Runs a turn that has no journal yet. */
export function runFresh(of: Fresh): Promise<PassOutcome> {
  const { ref, agent } = of.request;
  return inPass(of.runtime, ref, agent.name, 'fresh', (runtime) => fresh({ ...of, runtime }));
}

async function fresh(of: Fresh): Promise<PassOutcome> {
  const { runtime, request, begun, keyring, sealer } = of;
  const { ref, agent } = request;
  const createdAt = begun.work?.accepted?.at ?? runtime.clock.now();
  const admission: Admission = {
    input: request.input,
    subject: request.subject,
    budget: request.budget,
    actor: request.actor,
    seed: base64url(runtime.entropy.bytes(16)),
  };
  const state = await loadState(runtime, keyring, ref, begun.checkpoint, agent);
  const lease = new Lease(runtime, ref, newWriter(runtime, begun.head));
  const writer: JournalWriter = new JournalWriter({
    store: runtime.store,
    ref,
    sealer,
    writer: lease.writer,
    index: 0,
    seq: 0,
    hash: genesisHash,
    announced: [],
    now: () => runtime.clock.now(),
    claim: (batch) => claim(runtime, request, begun, lease, batch),
    progressed: () => pass.progressed(),
  });
  admit(writer, {
    request,
    begun,
    sealer,
    digest: of.digest,
    admission,
    agent,
    policy: runtime.policy?.digest,
  });
  const pass: Pass = new Pass({
    ...passFacts(of, admission, createdAt),
    state,
    history: emptyHistory(),
    writer,
    deadlineAt: request.deadlineAt ?? null,
    drain: request.drain ?? null,
  });
  lease.watch(pass);
  const hold = (): Hold =>
    writer.held ? { kind: 'held' } : { kind: 'optimistic', seen: begun.head };
  return drive({
    runtime,
    ref,
    begun,
    keyring,
    pass,
    writer,
    lease,
    hold,
    digest: of.digest,
    createdAt,
    refused: await tenantVerdict(runtime, ref, pass.setup.history),
  });
}

function passFacts(
  of: { runtime: Runtime; request: TurnRequest; begun: Begun; sealer: Sealer },
  admission: Admission,
  admittedAt: EpochMs,
) {
  return {
    runtime: of.runtime,
    ref: of.request.ref,
    agent: of.request.agent,
    input: of.request.input,
    subject: of.request.subject,
    actor: of.request.actor,
    budget: of.request.budget,
    seed: fromBase64url(admission.seed),
    admittedAt,
    revision: of.begun.head?.revision ?? 0,
    scope: of.begun.scope,
    sealer: of.sealer,
  };
}

function admit(
  writer: JournalWriter,
  of: {
    request: TurnRequest;
    begun: Begun;
    sealer: Sealer;
    digest: string;
    admission: Admission;
    agent: AgentDefinition;
    policy: string | undefined;
  },
): void {
  const { request, begun, sealer, agent } = of;
  writer.ride(
    {
      kind: 'RunAdmitted',
      turn: request.ref.turn,
      agent: agent.name,
      payloadDigest: of.digest,
      authority: agent.authority,
      presentation: agent.presentation,
      schema: agent.schema,
      canonical: canonicalVersion,
      revision: begun.head?.revision ?? 0,
      scope: begun.scope,
      generation: sealer.generation,
      ...(of.policy === undefined ? {} : { policy: of.policy }),
    },
    payloadOf(of.admission),
  );
  if (!agent.frozenPlan) return;
  const bytes = new TextEncoder().encode(encode(request.input));
  writer.ride({ kind: 'PlanFrozen', digest: sealer.mac('turnstone.plan.1', bytes) }, noPayload);
}

async function claim(
  runtime: Runtime,
  request: TurnRequest,
  begun: Begun,
  lease: Lease,
  batch: Batch,
): Promise<Claimed> {
  const taking = lease.taking();
  const claimed = await runtime.store.claim({
    ref: request.ref,
    agent: request.agent.name,
    seen: begun.head,
    writer: lease.writer,
    batch,
    leaseUntil: taking.until,
    now: runtime.clock.now(),
  });
  if (claimed.kind === 'done') taking.taken();
  return claimed;
}

interface Takeover {
  readonly runtime: Runtime;
  readonly ref: TurnRef;
  readonly agent: AgentDefinition;
  readonly host: HostBounds;
  readonly begun: Begun;
  readonly head: Head;
  readonly keyring: Keyring;
}

/** Takes over the lapsed turn the head names and drives it on (ruling 4). */
export function runTakeover(of: Takeover): Promise<PassOutcome> {
  const { ref, agent } = of;
  return inPass(of.runtime, ref, agent.name, 'takeover', (runtime) => takeover({ ...of, runtime }));
}

async function takeover(of: Takeover): Promise<PassOutcome> {
  const { runtime, ref, agent, begun, head, keyring } = of;
  const history = historyOf(await runtime.store.journal(ref));
  const admitted = history.admission;
  if (admitted === null || history.conclusion !== null) return { kind: 'again' };
  checkState(head, begun.checkpoint, agent);
  const sealer = await keyring.reader(admitted.body.scope);
  if (sealer === null) return concludeErased({ runtime, ref, agent, begun, head, history });
  const admission = admissionFrom(await openRecord(runtime.store, sealer, ref, admitted.record));
  // Asked before the lease is taken: what fails here leaves no renewal behind.
  const refused =
    refusal(admitted.body, agent, runtime) ?? (await tenantVerdict(runtime, ref, history));
  const lease = new Lease(runtime, ref, newWriter(runtime, head));
  const taking = lease.taking();
  const taken = await runtime.store.takeover({
    ref,
    seen: head,
    writer: lease.writer,
    batch: { index: history.positions, records: [], announces: [] },
    leaseUntil: taking.until,
    now: runtime.clock.now(),
  });
  if (taken.kind === 'unknown') throw unavailable(taken.cause);
  if (taken.kind === 'lost') return { kind: 'again' };
  const writer: JournalWriter = new JournalWriter({
    store: runtime.store,
    ref,
    sealer,
    writer: lease.writer,
    index: history.positions + 1,
    seq: history.head.seq,
    hash: history.head.hash,
    announced: history.announced(),
    now: () => runtime.clock.now(),
    claim: null,
    progressed: () => pass.progressed(),
  });
  const seen = await checkpointAt(runtime, ref, begun.checkpoint, admitted.body.revision);
  const state = await loadState(runtime, keyring, ref, seen, agent);
  const createdAt = admitted.body.at as EpochMs;
  const pass: Pass = new Pass({
    runtime,
    ref,
    agent,
    sealer,
    state,
    history,
    writer,
    input: agent.parseInput(admission.input),
    subject: admission.subject,
    actor: admission.actor,
    budget: await budgetOf(runtime, ref, { history, sealer }, admission.budget),
    seed: fromBase64url(admission.seed),
    admittedAt: createdAt,
    revision: admitted.body.revision,
    scope: admitted.body.scope,
    deadlineAt: of.host.deadlineAt ?? null,
    drain: of.host.drain ?? null,
  });
  lease.watch(pass);
  taking.taken();
  if (agent.frozenPlan && history.plan === null) {
    const bytes = new TextEncoder().encode(encode(admission.input));
    writer.ride({ kind: 'PlanFrozen', digest: sealer.mac('turnstone.plan.1', bytes) }, noPayload);
  }
  return drive({
    runtime,
    ref,
    begun,
    keyring,
    pass,
    writer,
    lease,
    createdAt,
    hold: () => ({ kind: 'held' }),
    digest: admitted.body.payloadDigest,
    refused,
  });
}

/** RG-2: an open turn whose authority moved is quarantined; its caller cannot see an error. */
export function refusal(
  admitted: { authority: string; canonical: number; policy?: string },
  agent: AgentDefinition,
  runtime: Runtime,
): Verdict | null {
  if (!mayContinue(admitted.authority, agent)) {
    const message = `the turn was admitted under authority ${admitted.authority}, this build has ${agent.authority}`;
    return { status: 'quarantined', error: { code: 'fingerprint_mismatch', message } };
  }
  if (admitted.policy !== runtime.policy?.digest) {
    const message = `the turn was admitted under policies ${admitted.policy ?? 'none'}, here they are ${runtime.policy?.digest ?? 'none'}`;
    return { status: 'quarantined', error: { code: 'policy_changed', message } };
  }
  if (admitted.canonical !== canonicalVersion) {
    const message = `the journal uses canonical form ${admitted.canonical}, this build writes ${canonicalVersion}`;
    return { status: 'quarantined', error: { code: 'canonical_changed', message } };
  }
  return null;
}

/** Runs an opened pass to its conclusion, its parking, or another beginning. */
export async function drive(opened: Opened): Promise<PassOutcome> {
  const { pass, lease, writer, runtime } = opened;
  try {
    const outcome = await driven(opened);
    if (outcome.kind === 'again') await keepUnwritten(pass, writer);
    return outcome;
  } finally {
    lease.stop();
    runtime.telemetry.emit('pass.ended', { turnId: opened.ref.turn, records: writer.head.seq });
  }
}

async function driven(opened: Opened): Promise<PassOutcome> {
  const { pass, writer } = opened;
  await lookForStop(opened);
  // A stop that stands is honoured, whatever the tenant has left.
  const spared = pass.stopRequest !== null && opened.refused?.status === 'exhausted';
  const refused = spared ? null : opened.refused;
  const end = refused === null ? await pass.run() : null;
  if (end !== null && (end.kind === 'ended' || end.kind === 'broken')) return brokenOff(end);
  if (end?.kind === 'parked') return await park(opened, end.wakeAt);
  if (end?.kind === 'suspended') return await suspendTurn(opened, end.waits);
  if (end?.kind === 'undecidable') return { kind: 'again' };
  const bodies = [...pass.setup.history.bodies(), ...writer.added];
  const verdict = refused ?? verdictOf(end ?? { kind: 'timeout' }, bodies);
  return await finish(opened, verdict);
}

/** A pass over a thread that ever saw a stop looks for its own before it runs (rule 5). */
async function lookForStop({ runtime, ref, begun, pass }: Opened): Promise<void> {
  if ((begun.head?.cancels ?? 0) === 0) return;
  const request = await runtime.store.stopOf(ref);
  if (request !== null) pass.cancel(request);
}

async function finish(opened: Opened, verdict: Verdict): Promise<PassOutcome> {
  const { runtime, ref, begun, keyring, pass, writer, digest, createdAt } = opened;
  if (repeatsItself(opened, verdict)) return { kind: 'unchanged' };
  const concluded = await conclude({
    pass,
    writer,
    keyring,
    verdict,
    hold: opened.hold,
    seen: begun.head,
    checkpoint: begun.checkpoint,
    payloadDigest: digest,
    createdAt,
  });
  if (concluded.kind === 'displaced') return { kind: 'again' };
  if (concluded.kind === 'stopped' || concluded.kind === 'erased') {
    await park(opened, null);
    return { kind: 'again' };
  }
  const { turn } = concluded;
  const name = turn.status === 'succeeded' ? 'turn.committed' : `turn.${turn.status}`;
  runtime.telemetry.emit(name, { threadId: ref.thread, turnId: ref.turn, revision: turn.revision });
  const reason = reasonOf(turn.status, turn.error?.code);
  if (reason !== null) {
    const detail = turn.error?.code ?? '';
    const where = { threadId: ref.thread, turnId: ref.turn, at: turn.updatedAt };
    tellError(runtime.telemetry, reason, { ...where, detail });
  }
  await runtime.later(() => relayThread(runtime, ref));
  if (turn.status === 'succeeded') await runtime.later(() => pass.replay.commit());
  const answer = {
    kind: 'concluded' as const,
    turn,
    replayed: false,
    currentRevision: turn.revision,
  };
  return { kind: 'answer', answer };
}

/** CH-7: the same open conclusion over a pass that added nothing is not written again. */
function repeatsItself(opened: Opened, verdict: Verdict): boolean {
  const last = opened.pass.setup.history.lastConclusion;
  if (last === null || opened.writer.held || opened.writer.added.length > 0) return false;
  return last.outcome === verdict.status && last.code === verdict.error?.code;
}
