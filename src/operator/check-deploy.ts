// Before a deployment: what the build in hand would do with the threads, turns and acts that are there.
//
// Owns: reading the store and judging. Does not own: opening it, or deploying. It writes nothing.
//   Decision 15  another authority is refused; other wording is only noted.   Decision 19  newer state is held.
//   T7   the code is replayed over every open journal, so that a divergence is found before it meets one.
import type { Head, ThreadRef, TurnRef, TurnStore } from '../ports/store.ts';
import { describeError, isForAnotherBuild, TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs, TenantId } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import type { AgentDefinition } from '../runtime/agent-definition.ts';
import { historyOf } from '../runtime/history.ts';
import { Keyring, keyringOf } from '../runtime/keyring.ts';
import type { PassEnd } from '../runtime/pass-setup.ts';
import { openPayload, sealContext } from '../runtime/payloads.ts';
import { standingStatus } from '../runtime/resume-turn.ts';
import { refusal } from '../runtime/run-turn.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { checkState, checkThread } from '../runtime/thread-gates.ts';
import { loadState } from '../runtime/thread-state.ts';
import { describeSite } from '../runtime/turn-errors.ts';
import { strictPass } from '../runtime/verify-turn.ts';

export type DeployOutcome =
  /** Nothing stands in its way. */
  | 'goes_on'
  /** The same, with its state raised to a later revision by the next commit. */
  | 'migrates'
  /** Waits, untouched, for a build that knows it. */
  | 'held'
  /** An open turn is quarantined; a new turn of the thread is refused. */
  | 'refused'
  /** The code asks for other calls than the journal holds: the turn is quarantined. */
  | 'diverges'
  /** The code throws on what is recorded: the turn fails. */
  | 'fails'
  /** What it holds was erased, damaged, or did not replay in time. */
  | 'unreadable';

export interface DeployFinding {
  readonly what: 'thread' | 'turn' | 'act';
  readonly tenant: string;
  readonly thread: string;
  /** Null for a thread. */
  readonly turn: string | null;
  /** Status of a turn, kind of an act, agent of a thread. */
  readonly status: string;
  readonly outcome: DeployOutcome;
  readonly code: string;
  readonly detail: string;
}

export interface DeployReport {
  readonly checked: { readonly threads: number; readonly turns: number; readonly acts: number };
  readonly counts: Readonly<Record<DeployOutcome, number>>;
  /** Everything that does not simply go on, and wording that changed under a turn. */
  readonly findings: readonly DeployFinding[];
}

type Judgement = Pick<DeployFinding, 'outcome' | 'code' | 'detail'> & { readonly status?: string };

const end = 9_999_999_999_999 as EpochMs;
const fine: Judgement = { outcome: 'goes_on', code: '', detail: '' };

/** Reads everything that is open and every thread's head; the runtime's agents are the build in question. */
export async function checkDeploy(runtime: Runtime): Promise<DeployReport> {
  const findings: DeployFinding[] = [];
  const counts = {
    goes_on: 0,
    migrates: 0,
    held: 0,
    refused: 0,
    diverges: 0,
    fails: 0,
    unreadable: 0,
  };
  const checked = { threads: 0, turns: 0, acts: 0 };
  const add = (
    what: DeployFinding['what'],
    ref: ThreadRef & { readonly turn?: string },
    status: string,
    judged: Judgement,
  ): void => {
    counts[judged.outcome] += 1;
    checked[`${what}s`] += 1;
    if (judged.outcome === 'goes_on' && judged.code === '') return;
    const { tenant, thread, turn = null } = ref;
    findings.push({ what, tenant, thread, turn, ...judged, status: judged.status ?? status });
  };
  const open = new Map<string, TurnRef>();
  const note = (ref: TurnRef): void => void open.set(nameOf(ref), ref);
  const tenants = new Set<TenantId>();
  for await (const { ref, head } of threadsOf(runtime.store)) {
    tenants.add(ref.tenant);
    add('thread', ref, head.agent ?? '', await judgeThread(runtime, ref, head));
    if (head.open !== null) note({ ...ref, turn: head.open.turn });
  }
  await openTurns(runtime.store, [...tenants], note);
  for (const ref of open.values()) {
    const { status = '', ...judged } = await judgeTurn(runtime, ref);
    add('turn', ref, status, judged);
  }
  for (const owed of await runtime.store.owedIntents(end, limits.sweepPageRows * 1_000)) {
    const { status = '', ...judged } = await judgeAct(runtime, owed.ref, owed.id);
    add('act', owed.ref, status, judged);
  }
  return { checked, counts, findings };
}

function nameOf(ref: TurnRef): string {
  return JSON.stringify([ref.tenant, ref.thread, ref.turn]);
}

async function* threadsOf(
  store: TurnStore,
): AsyncGenerator<{ readonly ref: ThreadRef; readonly head: Head }> {
  let after: string | null = null;
  do {
    const page: Awaited<ReturnType<TurnStore['threads']>> = await store.threads(after);
    yield* page.threads;
    after = page.after;
  } while (after !== null);
}

/** Turns that rest, wait to be driven, or were stopped where a person may go on with them. */
async function openTurns(
  store: TurnStore,
  tenants: readonly TenantId[],
  note: (ref: TurnRef) => void,
): Promise<void> {
  const limit = limits.sweepPageRows * 1_000;
  for (const { ref } of await store.due(end, limit)) note(ref);
  for (const row of await store.dueWork(end, { unsentMs: 0, limit })) {
    if (row.accepted !== null || row.runDueAt !== null || row.wakeAt !== null) note(row.ref);
  }
  for (const tenant of tenants) {
    for (const { ref } of await store.attention(tenant)) note(ref);
  }
}

/** What a new turn of this thread would meet. */
async function judgeThread(runtime: Runtime, ref: ThreadRef, head: Head): Promise<Judgement> {
  if (head.agent === null) return fine;
  const agent = runtime.agents.get(head.agent);
  if (agent === undefined) return missing(head.agent, 'refused');
  return guarded(async () => {
    checkThread(head, null, agent);
    return raised(runtime, ref, head, agent);
  });
}

/** Tries the migration a commit would make, in memory. */
async function raised(
  runtime: Runtime,
  ref: ThreadRef,
  head: Head,
  agent: AgentDefinition,
): Promise<Judgement> {
  const { checkpoint } = await runtime.store.thread(ref);
  if (checkpoint === null || checkpoint.schema === agent.schema) return fine;
  checkState(head, checkpoint, agent);
  const keyring = new Keyring(runtime.store, runtime.vault, ref);
  try {
    await loadState(runtime, keyring, { ...ref, turn: '' as TurnRef['turn'] }, checkpoint, agent);
  } catch (error) {
    if (error instanceof TurnstoneError && error.retry !== 'never') throw error;
    const { message } = describeError(error);
    return { outcome: 'refused', code: 'migration_failed', detail: message };
  }
  const detail = `state of revision ${checkpoint.schema} becomes revision ${agent.schema}`;
  return { outcome: 'migrates', code: 'schema_older', detail };
}

/** What the next pass of an open turn would meet. */
async function judgeTurn(runtime: Runtime, ref: TurnRef): Promise<Judgement> {
  let status = 'accepted';
  const judged = await guarded(async () => {
    const [begun, positions] = await Promise.all([
      runtime.store.begin(ref, null),
      runtime.store.journal(ref),
    ]);
    if (positions.length === 0) {
      const accepted = begun.work?.accepted?.agent ?? '';
      const agent = runtime.agents.get(accepted);
      if (agent === undefined) return missing(accepted, 'held');
      checkThread(begun.head, begun.checkpoint, agent);
      return fine;
    }
    const history = historyOf(positions);
    status = begun.head?.open?.turn === ref.turn ? 'running' : standingStatus(history);
    const admitted = history.admission?.body;
    if (admitted === undefined) throw new Error('a journal without its admission');
    const agent = runtime.agents.get(admitted.agent);
    if (agent === undefined) return missing(admitted.agent, 'held');
    checkState(begun.head, begun.checkpoint, agent);
    const refused = refusal(admitted, agent, runtime);
    if (refused !== null) {
      const { code = '', message = '' } = refused.error ?? {};
      return { outcome: 'refused', code, detail: message };
    }
    const pass = await strictPass(runtime, ref, begun, history, agent);
    if (pass === null) {
      return { outcome: 'unreadable', code: 'subject_erased', detail: 'its subject was erased' };
    }
    const cancel = runtime.clock.timer(limits.checkReplayMs, () => pass.stop({ kind: 'timeout' }));
    const ended = await pass.run();
    cancel();
    const judged = replayed(ended, admitted.presentation === agent.presentation);
    // What has failed or is in doubt throws on every replay.
    const goesOn = status === 'running' || status === 'suspended';
    return judged.outcome === 'fails' && !goesOn ? fine : judged;
  });
  return { ...judged, status };
}

function replayed(ended: PassEnd, sameWords: boolean): Judgement {
  const worded: Judgement = sameWords
    ? fine
    : { outcome: 'goes_on', code: 'presentation_changed', detail: 'wording or models differ' };
  switch (ended.kind) {
    case 'diverged': {
      const { recorded, asked, site, seq, moved } = ended.divergence;
      if (recorded === null) return worded;
      const now = asked === null ? 'nothing' : `"${asked.kind}"`;
      const detail = `record ${seq}, ${describeSite(site)}: recorded "${recorded.kind}", this build asks for ${now} (${moved})`;
      return { outcome: 'diverges', code: 'divergence', detail };
    }
    case 'threw': {
      const { name, message } = describeError(ended.error);
      return { outcome: 'fails', code: 'agent_failed', detail: `${name}: ${message}` };
    }
    case 'timeout':
      return {
        outcome: 'unreadable',
        code: 'replay_timeout',
        detail: `the code did not come to its frontier within ${limits.checkReplayMs} ms`,
      };
    case 'broken':
      throw ended.error;
    default:
      return worded;
  }
}

/** What the effector would do with an act that is not settled. */
async function judgeAct(runtime: Runtime, ref: TurnRef, id: string): Promise<Judgement> {
  const row = await runtime.store.intent(ref.tenant, id);
  if (row === null || row.outcome !== null) return fine;
  const judged = await guarded(async () => {
    const agent = runtime.agents.get(row.agent);
    if (agent === undefined) return missing(row.agent, 'held');
    const begun = await runtime.store.begin(row.ref, null);
    const sealer = await keyringOf(runtime, row.ref, begun).reader(row.scope);
    if (sealer === null) {
      return { outcome: 'unreadable', code: 'subject_erased', detail: 'its subject was erased' };
    }
    const context = sealContext(row.ref, `intent:${row.id}`, 0);
    const args = await openPayload(runtime.store, sealer, context, row.payload);
    if (agent.act(row.effect, args) !== null) return fine;
    const detail = `agent "${row.agent}" no longer declares act "${row.effect}"`;
    return { outcome: 'refused', code: 'unknown_act', detail };
  });
  return { ...judged, status: row.effect };
}

function missing(agent: string, outcome: 'held' | 'refused'): Judgement {
  return { outcome, code: 'agent_unknown', detail: `this build has no agent "${agent}"` };
}

/** A refusal of the runtime, as this report names it; what may succeed later is thrown. */
async function guarded(judge: () => Promise<Judgement>): Promise<Judgement> {
  try {
    return await judge();
  } catch (error) {
    if (error instanceof TurnstoneError && error.retry !== 'never') throw error;
    const { message } = describeError(error);
    const code = error instanceof TurnstoneError ? error.code : 'internal_error';
    if (isForAnotherBuild(error)) return { outcome: 'held', code, detail: message };
    const damaged =
      code === 'journal_corrupt' || code === 'internal_error' || code.startsWith('payload_');
    return { outcome: damaged ? 'unreadable' : 'refused', code, detail: message };
  }
}
