// Results that came after their turn had gone on without them, kept as evidence for whoever decides (B26, F31).
//   T4, T6  a displaced owner writes nothing into journal or state; what it heard stands beside them and revives nothing.

import type { LateRow } from '../ports/late.ts';
import type { TurnRef, TurnStore } from '../ports/store.ts';
import type { Sealer } from '../ports/vault.ts';
import { encode } from '../protocol/canonical.ts';
import { describeError } from '../protocol/errors.ts';
import type { RecordBody } from '../protocol/record.ts';
import type { AttemptOutcome } from './effect-attempt.ts';
import type { JournalWriter } from './journal-writer.ts';
import type { Pass } from './pass.ts';
import { openPayload, sealContext, sealText } from './payloads.ts';

type Heard = Pick<LateRow, 'effectKey' | 'outcome' | 'code' | 'spend'> & { readonly text: string };

/**
 * Keeps what an attempt came to after its pass had ended; a call that told nothing is left as it is, and so is the
 * refusal of a resend, which says nothing of the send before it (ruling 1).
 */
export async function keepLate(
  pass: Pass,
  key: string,
  outcome: AttemptOutcome,
  resend: boolean,
): Promise<void> {
  const { spend } = outcome;
  if (outcome.kind === 'done') {
    return keep(pass, { effectKey: key, outcome: 'landed', code: '', spend, text: outcome.text });
  }
  const { disposition, code, message } = outcome;
  if (disposition === 'in_doubt' || (resend && disposition === 'did_not_happen')) return;
  await keep(pass, {
    effectKey: key,
    outcome: disposition,
    code,
    spend,
    text: encode({ message }),
  });
}

/** Keeps the outcomes a displaced pass had recorded and could not write. */
export async function keepUnwritten(pass: Pass, writer: JournalWriter): Promise<void> {
  const heard = writer.unwritten.flatMap(({ body, payload, stored }) => {
    const late = heardIn(body, payload.kind === 'text' ? payload.text : encode(null));
    return late === null ? [] : [{ late, hash: stored.hash }];
  });
  if (heard.length === 0) return;
  const { runtime, ref } = pass.setup;
  // A write that was heard as lost may be another ending's own: what stands in the journal is not late.
  const positions = await runtime.store.journal(ref);
  const written = new Set(positions.flatMap(({ records }) => records.map(({ hash }) => hash)));
  for (const { late, hash } of heard) if (!written.has(hash)) await keep(pass, late);
}

function heardIn(body: RecordBody, text: string): Heard | null {
  if (body.kind === 'EffectDone') {
    const { key, spend } = body;
    return { effectKey: key, outcome: 'landed', code: '', spend, text };
  }
  if (body.kind !== 'EffectFailed' || body.disposition === 'in_doubt') return null;
  const { key, disposition, code, spend } = body;
  return { effectKey: key, outcome: disposition, code, spend, text };
}

async function keep(pass: Pass, heard: Heard): Promise<void> {
  const { runtime, ref, sealer, scope } = pass.setup;
  const { text, ...facts } = heard;
  const names = { threadId: ref.thread, turnId: ref.turn, effectKey: facts.effectKey };
  try {
    const { payload, parts } = sealText(sealer, contextOf(ref, facts.effectKey), text);
    if (parts !== null) await runtime.store.putParts(ref.tenant, parts);
    const at = runtime.clock.now();
    await runtime.store.putLate({ ...facts, ref, at, owner: runtime.owner, scope, payload });
    runtime.telemetry.emit('effect.late', { ...names, outcome: facts.outcome });
  } catch (error) {
    // Evidence is kept where that can be done: the turn stands without it.
    runtime.telemetry.emit('effect.late_lost', { ...names, reason: describeError(error).message });
  }
}

function contextOf(ref: TurnRef, effectKey: string) {
  return sealContext(ref, `late:${effectKey}`, 0);
}

/** A late result as a person reads it. */
export interface LateView extends Omit<LateRow, 'ref' | 'scope' | 'payload'> {
  /** Undefined when the subject was erased. */
  readonly output: unknown;
}

/** Late results of a turn, opened where their key lives. */
export async function readLate(
  store: TurnStore,
  ref: TurnRef,
  reader: (scope: string) => Promise<Sealer | null>,
): Promise<readonly LateView[]> {
  const rows = await store.lateOf(ref);
  return Promise.all(
    rows.map(async ({ ref: _ref, scope, payload, ...facts }) => {
      const sealer = await reader(scope);
      const output =
        sealer === null
          ? undefined
          : await openPayload(store, sealer, contextOf(ref, facts.effectKey), payload);
      return { ...facts, output };
    }),
  );
}
