// Business keys: within a thread one kind and key runs once, whichever turn asks (page 02, section 4).
//
// Owns: taking a key before its dispatch is announced, and what a key that was used before answers.
//   T2   a completed key answers its stored output; nothing is called (K-24).
//   T6   a key in doubt is never called again until a person or a probe has said (K-33, ruling 2).
//   T7   what a receipt came to is recorded for the dispatch that read it, and read back on every later pass.

import type { ReceiptRow } from '../ports/receipts.ts';
import type { TurnRef } from '../ports/store.ts';
import { encode } from '../protocol/canonical.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';
import type { ReceiptState } from '../protocol/receipts.ts';
import { receiptState } from '../protocol/receipts.ts';
import type { ReceiptOutcome, RecordBody } from '../protocol/record.ts';
import type { Dispatch } from './dispatch.ts';
import type { History } from './history.ts';
import { historyOf, openRecord } from './history.ts';
import type { JournalWriter } from './journal-writer.ts';
import { noPayload, payloadOf } from './journal-writer.ts';
import { Keyring } from './keyring.ts';
import { openPayload, sealContext, sealText } from './payloads.ts';
import { attemptKey } from './resume-point.ts';
import type { Runtime } from './runtime.ts';
import { EffectError } from './turn-context.ts';

/** The first use of a key in this turn; later ones join it (K-35). */
export interface KeyUse {
  readonly argsText: string;
  readonly outcome: Promise<unknown>;
}

/** The first use of this dispatch's key in its turn, or null when it has none or is the first. */
export function useKey(dispatch: Dispatch): KeyUse | null {
  const { kind, key, argsText } = dispatch.declared;
  if (key === null) return null;
  const { keys } = dispatch.pass;
  const name = `${kind}\n${key}`;
  const first = keys.get(name);
  if (first !== undefined) return first;
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  promise.catch(() => undefined);
  keys.set(name, { argsText, outcome: promise });
  const { settle } = dispatch;
  dispatch.settle = {
    resolve: (value) => {
      resolve(value);
      settle.resolve(value);
    },
    reject: (error) => {
      reject(error);
      settle.reject(error);
    },
  };
  return null;
}

/** Takes the key of a dispatch; false when what stands there has settled it. */
export async function takeKey(
  dispatch: Dispatch,
  writer: JournalWriter,
  settle: (deliver: () => void) => void,
): Promise<boolean> {
  const { pass, declared, site } = dispatch;
  const { runtime, ref, sealer, scope } = pass.setup;
  const { key } = declared;
  if (key === null || dispatch.receipt !== null) return true;
  const id = await runtime.store.receiptId(ref, declared.kind, key);
  const now = runtime.clock.now();
  const context = sealContext({ ...ref, turn: ref.turn }, `receipt:${id}`, 0);
  let row: ReceiptRow = {
    id,
    thread: { tenant: ref.tenant, thread: ref.thread },
    effect: declared.kind,
    argsDigest: sealer.mac('turnstone.receipt.1', bytesOf(declared.argsText)),
    scope,
    payload: sealText(sealer, context, encode({ key })).payload,
    turn: ref.turn,
    site,
    createdAt: now,
    updatedAt: now,
  };
  let seen: ReceiptRow | null = null;
  for (let round = 0; round < limits.beginRoundsMax; round += 1) {
    const reserved = await runtime.store.reserve(row, seen);
    if (reserved.kind === 'unknown') throw unavailable(reserved.cause);
    if (reserved.kind === 'done') {
      dispatch.receipt = id;
      return true;
    }
    const standing = reserved.receipt;
    if (standing === null) {
      seen = null;
      continue;
    }
    const found = await judge(dispatch, standing);
    if (found === 'free') {
      seen = standing;
      row = { ...row, createdAt: standing.createdAt };
      continue;
    }
    settle(() => answer(dispatch, writer, id, found));
    return false;
  }
  throw unavailable(new Error('the receipt changed under every attempt'));
}

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

interface Found {
  readonly outcome: ReceiptOutcome;
  readonly effectKey: string;
  readonly output?: unknown;
}

/** What a receipt that stands means for another dispatch of its key; 'free' when it may be taken over. */
async function judge(dispatch: Dispatch, standing: ReceiptRow): Promise<Found | 'free'> {
  const { pass, declared } = dispatch;
  const { runtime, ref } = pass.setup;
  const sealer = await new Keyring(runtime.store, runtime.vault, ref).reader(standing.scope);
  if (sealer === null) return { outcome: 'landed', effectKey: '' };
  if (sealer.mac('turnstone.receipt.1', bytesOf(declared.argsText)) !== standing.argsDigest) {
    return { outcome: 'changed', effectKey: '' };
  }
  const holder = { ...ref, turn: standing.turn };
  const state = await stateOf(dispatch, standing, holder);
  switch (state.kind) {
    case 'free':
    case 'failed':
      return 'free';
    case 'reserved':
    case 'prepared':
      return { outcome: 'in_flight', effectKey: '' };
    case 'landed':
      return { outcome: 'landed', effectKey: state.effectKey };
    case 'uncertain': {
      const { asserted } = standing;
      if (asserted?.outcome === 'did_not_happen') return 'free';
      if (asserted === undefined) return { outcome: 'uncertain', effectKey: state.effectKey };
      const context = assertedContext(holder, standing.id);
      const told = await openPayload(runtime.store, sealer, context, asserted.payload);
      const output =
        typeof told === 'object' && told !== null && 'output' in told ? told.output : null;
      return { outcome: 'completed', effectKey: state.effectKey, output };
    }
    case 'completed': {
      const stored = state.history.records[state.record.seq - 1];
      if (stored === undefined) throw new Error('a record of the journal is missing');
      const payload = await openRecord(runtime.store, sealer, holder, stored);
      return {
        outcome: 'completed',
        effectKey: state.effectKey,
        output: outputOf(state.record, payload),
      };
    }
  }
}

/** Where a person's word on a receipt is sealed. */
export function assertedContext(holder: TurnRef, id: string) {
  return sealContext(holder, `receipt:${id}:asserted`, 0);
}

/** The output a record carries: a verdict wraps it. */
export function outputOf(body: RecordBody, payload: unknown): unknown {
  if (body.kind !== 'EffectReconciled') return payload;
  if (typeof payload !== 'object' || payload === null) return undefined;
  return 'output' in payload ? payload.output : payload;
}

type Judged =
  | Exclude<ReceiptState, { kind: 'completed' }>
  | { readonly kind: 'free' }
  | (Extract<ReceiptState, { kind: 'completed' }> & { readonly history: History });

async function stateOf(dispatch: Dispatch, standing: ReceiptRow, holder: TurnRef): Promise<Judged> {
  const { runtime } = dispatch.pass.setup;
  const history = historyOf(await runtime.store.journal(holder));
  const rests = history.records.at(-1)?.body.kind === 'RunSuspended';
  const state = receiptState([...history.bodies()], standing.site, rests);
  if (state.kind === 'completed') return { ...state, history };
  // Its turn ended without announcing anything: nobody uses the key.
  if (state.kind === 'reserved' && !rests) return { kind: 'free' };
  return state;
}

function answer(dispatch: Dispatch, writer: JournalWriter, id: string, found: Found): void {
  const { pass, site, declared } = dispatch;
  const key = attemptKey(site, 1, declared);
  const { outcome } = found;
  const payload =
    outcome === 'completed'
      ? payloadOf({ output: found.output })
      : outcome === 'changed' || outcome === 'in_flight'
        ? noPayload
        : payloadOf({ effectKey: found.effectKey });
  const body = writer.ride({ kind: 'ReceiptRead', site, key, receipt: id, outcome }, payload);
  pass.heard(body);
  hear(dispatch, id, found);
}

/** Tells the code what its key came to. */
export function hear(dispatch: Dispatch, id: string, found: Found): void {
  if (found.outcome === 'completed') return dispatch.settle.resolve(found.output);
  const { code, message, disposition } = failures[found.outcome];
  dispatch.settle.reject(
    new EffectError(`${dispatch.declared.kind}: ${message} (receipt ${id})`, {
      code,
      disposition,
      effectKey: found.effectKey,
      step: dispatch.site.step,
      undecided: found.outcome === 'uncertain',
    }),
  );
}

const failures = {
  changed: {
    code: 'effect_arguments_changed',
    message: 'its business key was used with other arguments',
    disposition: 'did_not_happen',
  },
  in_flight: {
    code: 'effect_in_flight',
    message: 'another turn holds its business key',
    disposition: 'did_not_happen',
  },
  landed: {
    code: 'effect_landed_before',
    message: 'its business key landed before, and its answer cannot be had',
    disposition: 'landed',
  },
  uncertain: {
    code: 'effect_undecided',
    message: 'the outcome of its business key is unknown',
    disposition: 'in_doubt',
  },
} as const;

/** A second use of a key in one turn: it gets what the first one gets (K-35). */
export function joinKey(dispatch: Dispatch, first: KeyUse): void {
  const { pass, site, declared } = dispatch;
  const { writer, runtime, ref } = pass.setup;
  const key = attemptKey(site, 1, declared);
  const settle = pass.scheduler.begin();
  const id = runtime.store.receiptId(ref, declared.kind, declared.key ?? '');
  const read = async (outcome: ReceiptOutcome, output?: unknown): Promise<void> => {
    const receipt = await id;
    settle(() => {
      const payload = outcome === 'completed' ? payloadOf({ output }) : noPayload;
      const body = writer?.ride({ kind: 'ReceiptRead', site, key, receipt, outcome }, payload);
      if (body !== undefined) pass.heard(body);
      hear(dispatch, receipt, { outcome, effectKey: '', output });
    });
  };
  const broken = (error: unknown): void => pass.stop({ kind: 'broken', error });
  if (first.argsText !== declared.argsText) return void read('changed').catch(broken);
  first.outcome.then(
    (output) => read('completed', output).catch(broken),
    (error: unknown) => settle(() => dispatch.settle.reject(error as EffectError)),
  );
}

/** What a receipt of the ledger stands for, for people (K-37). */
export interface ReceiptView {
  readonly receiptId: string;
  readonly threadId: string;
  readonly turnId: string;
  readonly kind: string;
  readonly key: unknown;
  readonly step: string;
  readonly status: 'prepared' | 'completed' | 'failed' | 'uncertain';
  readonly effectKey: string | null;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** Receipts of a thread, or of every turn of the tenant that is in doubt. */
export async function listReceipts(
  runtime: Runtime,
  tenant: TurnRef['tenant'],
  of: { readonly thread: TurnRef['thread'] | null; readonly status: string | null },
): Promise<readonly ReceiptView[]> {
  const threads =
    of.thread !== null
      ? [of.thread]
      : [...new Set((await runtime.store.attention(tenant)).map((row) => row.ref.thread))];
  const views: ReceiptView[] = [];
  for (const thread of threads) {
    for (const row of await runtime.store.receipts({ tenant, thread })) {
      const view = await viewOf(runtime, row);
      if (of.status === null || view.status === of.status) views.push(view);
    }
  }
  return views.sort((left, right) => left.createdAt - right.createdAt);
}

/** One receipt; throws `not_found`. */
export async function readReceipt(
  runtime: Runtime,
  tenant: TurnRef['tenant'],
  id: string,
): Promise<{ readonly view: ReceiptView; readonly ref: TurnRef }> {
  const row = await runtime.store.receipt(tenant, id);
  if (row === null) {
    throw new TurnstoneError('not_found', `receipt "${id}" is not known`, { retry: 'never' });
  }
  return { view: await viewOf(runtime, row), ref: { ...row.thread, turn: row.turn } };
}

const settled = {
  landed: 'completed',
  did_not_happen: 'failed',
  nobody: 'uncertain',
} as const;

async function viewOf(runtime: Runtime, row: ReceiptRow): Promise<ReceiptView> {
  const ref = { ...row.thread, turn: row.turn };
  const [positions, head] = await Promise.all([
    runtime.store.journal(ref),
    runtime.store.head(row.thread),
  ]);
  const history = historyOf(positions);
  const rests = history.records.at(-1)?.body.kind === 'RunSuspended';
  const open = rests || head?.open?.turn === row.turn;
  const state = receiptState([...history.bodies()], row.site, open);
  const sealer = await new Keyring(runtime.store, runtime.vault, ref).reader(row.scope);
  const context = sealContext(ref, `receipt:${row.id}`, 0);
  const opened =
    sealer === null || row.payload.kind !== 'inline'
      ? null
      : (JSON.parse(new TextDecoder().decode(sealer.open(row.payload.bytes, context))) as {
          key: unknown;
        });
  const status = {
    reserved: open ? ('prepared' as const) : ('failed' as const),
    prepared: 'prepared' as const,
    completed: 'completed' as const,
    landed: 'completed' as const,
    failed: 'failed' as const,
    uncertain: settled[row.asserted?.outcome ?? 'nobody'],
  }[state.kind];
  return {
    receiptId: row.id,
    threadId: row.thread.thread,
    turnId: row.turn,
    kind: row.effect,
    key: opened?.key ?? null,
    step: row.site.step,
    status,
    effectKey: 'effectKey' in state ? state.effectKey : null,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  };
}

function unavailable(cause: unknown): TurnstoneError {
  return new TurnstoneError('store_unavailable', 'a receipt could not be taken', {
    retry: 'now',
    cause,
  });
}
