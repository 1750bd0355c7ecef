// Cases: long-lived matters that several threads and turns touch (page 01, section 12).
//   CS-1 every read and change is an effect; CS-2 a change is conditional on the version it saw.
//   E234 a repeat finds its own write by its key and answers what it answered.

import type { CaseRow } from '../ports/subjects.ts';
import { encode } from '../protocol/canonical.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs, TenantId, ThreadId } from '../protocol/ids.ts';
import { epochMs } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import { Keyring } from './keyring.ts';
import type { Pass } from './pass.ts';
import { openPayload, sealText } from './payloads.ts';
import type { Runtime } from './runtime.ts';
import type { CaseChange, Effect } from './turn-context.ts';
import { EffectFailure } from './turn-context.ts';

/** The words that close a case; refused while a deadline is open (CS-4). */
const closing: ReadonlySet<string> = new Set(['closed', 'done', 'resolved']);

/** A read or a change of a case, as an effect of the turn. */
export function caseEffect(pass: Pass, change: CaseChange): Effect<unknown> {
  const { runtime, ref } = pass.setup;
  const { id, status, state, deadline, met, expectedVersion } = change;
  const writes = [status, state, deadline, met].some((member) => member !== undefined);
  return {
    kind: writes ? 'case.change' : 'case.read',
    args: Object.fromEntries(Object.entries(change).filter(([, member]) => member !== undefined)),
    mutates: writes,
    recovery: writes ? 'idempotent' : 'retry',
    perform: async ({ idempotencyKey }) => {
      const { tenant } = ref;
      for (let round = 0; round < limits.beginRoundsMax; round += 1) {
        const seen = await runtime.store.caseRow(tenant, id);
        if (!writes) return { version: seen?.version ?? 0, status: seen?.status ?? '' };
        const mine = seen?.writers.find(({ key }) => key === idempotencyKey);
        if (seen !== null && mine !== undefined) {
          const { version, from = '' } = mine;
          return { version, status: status ?? seen.status, from };
        }
        if (expectedVersion !== undefined && expectedVersion !== (seen?.version ?? 0)) {
          throw conflict(expectedVersion, seen?.version ?? 0);
        }
        const next = await nextRow(runtime, pass, seen, change, idempotencyKey);
        const put = await runtime.store.putCase(tenant, next, seen?.version ?? 0);
        if (put.kind === 'unknown') throw put.cause;
        if (put.kind === 'done') {
          const from = stoodBefore(seen, met);
          return { version: next.version, status: next.status, from };
        }
      }
      throw new Error('the case changed under every attempt');
    },
  };
}

/** What a change found: the state of the deadline it meets, else the status; empty for a new case. */
function stoodBefore(seen: CaseRow | null, met: string | undefined): string {
  if (met === undefined) return seen?.status ?? '';
  return seen?.deadlines.find(({ name }) => name === met)?.state ?? '';
}

function conflict(expected: number, got: number): EffectFailure {
  return new EffectFailure(`the case is at version ${got}, not ${expected}`, {
    code: 'case_conflict',
    disposition: 'did_not_happen',
    permanent: true,
  });
}

async function nextRow(
  runtime: Runtime,
  pass: Pass,
  seen: CaseRow | null,
  change: CaseChange,
  writer: string,
): Promise<CaseRow> {
  const { ref } = pass.setup;
  const { id } = change;
  const deadlines = deadlinesOf(seen, change, pass.instant);
  const status = change.status ?? seen?.status ?? 'open';
  if (closing.has(status) && deadlines.some((deadline) => deadline.state === 'open')) {
    throw new EffectFailure('a case with an open deadline cannot be closed', {
      code: 'case_open_obligation',
      disposition: 'did_not_happen',
      permanent: true,
    });
  }
  const version = (seen?.version ?? 0) + 1;
  const place = { tenant: ref.tenant, thread: 'case' as ThreadId };
  const scope = seen?.scope ?? (await runtime.store.scopeOf(place, null));
  const sealer = await new Keyring(runtime.store, runtime.vault, place).writer(scope);
  const context = caseContext(ref.tenant, id);
  const sealed =
    change.state === undefined && seen !== null
      ? { payload: seen.payload, parts: null }
      : sealText(sealer, context, encode(change.state ?? null));
  if (sealed.parts !== null) await runtime.store.putParts(ref.tenant, sealed.parts);
  const turn = { thread: ref.thread, turn: ref.turn };
  const others = (seen?.turns ?? []).filter(
    (other) => other.thread !== turn.thread || other.turn !== turn.turn,
  );
  return {
    id,
    version,
    status,
    scope,
    payload: sealed.payload,
    deadlines,
    turns: [...others, turn].slice(-limits.caseTurnsMax),
    writers: [
      ...(seen?.writers ?? []),
      { key: writer, version, from: stoodBefore(seen, change.met) },
    ].slice(-limits.caseWritersMax),
  };
}

function deadlinesOf(
  seen: CaseRow | null,
  { deadline, met }: CaseChange,
  now: EpochMs,
): CaseRow['deadlines'] {
  let deadlines = seen?.deadlines ?? [];
  if (met !== undefined) {
    deadlines = deadlines.map((one) => (one.name === met ? { ...one, state: 'met' } : one));
  }
  if (deadline === undefined) return deadlines;
  const at = deadline.at === undefined ? now + (deadline.inMs ?? 0) : Date.parse(deadline.at);
  if (!Number.isSafeInteger(at)) {
    throw new TurnstoneError('invalid_request', 'case.deadline: expected "at" or "inMs"', {
      retry: 'never',
      details: { field: 'case.deadline' },
    });
  }
  // Registering one that stands is idempotent: its instant never moves (E240).
  if (deadlines.some(({ name }) => name === deadline.name)) return deadlines;
  if (deadlines.length >= limits.caseDeadlinesMax) {
    throw new TurnstoneError(
      'invalid_request',
      `case.deadline: expected at most ${limits.caseDeadlinesMax} deadlines`,
      { retry: 'never', details: { limit: limits.caseDeadlinesMax } },
    );
  }
  return [...deadlines, { name: deadline.name, at: epochMs(at), state: 'open' }];
}

function caseContext(tenant: TenantId, id: string) {
  return { tenant, thread: 'case' as ThreadId, turn: '' as const, use: `case:${id}`, at: 0 };
}

export interface CaseView {
  readonly id: string;
  readonly status: string;
  readonly version: number;
  readonly state: unknown;
  readonly deadlines: readonly {
    readonly name: string;
    readonly at: EpochMs;
    readonly state: 'open' | 'met' | 'breached';
  }[];
  readonly turns: readonly { readonly threadId: string; readonly turnId: string }[];
}

/** A case for people; throws `not_found`. */
export async function readCase(runtime: Runtime, tenant: TenantId, id: string): Promise<CaseView> {
  const row = await runtime.store.caseRow(tenant, id);
  if (row === null) {
    throw new TurnstoneError('not_found', `case "${id}" is not known`, { retry: 'never' });
  }
  const place = { tenant, thread: 'case' as ThreadId };
  const sealer = await new Keyring(runtime.store, runtime.vault, place).reader(row.scope);
  const state =
    sealer === null
      ? null
      : await openPayload(runtime.store, sealer, caseContext(tenant, id), row.payload);
  const now = runtime.clock.now();
  return {
    id: row.id,
    status: row.status,
    version: row.version,
    state,
    deadlines: row.deadlines.map(({ name, at, state: standing }) => ({
      name,
      at,
      state: standing === 'open' && at <= now ? 'breached' : standing,
    })),
    turns: row.turns.map(({ thread, turn }) => ({ threadId: thread, turnId: turn })),
  };
}
