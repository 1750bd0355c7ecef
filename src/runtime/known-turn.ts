// What is already known of a turnId: answered from the store before anything runs [T2].
//   A journal that ends in a conclusion is concluded, whatever the projection says (page 09, rule 1a).

import type { Begun, Position, TurnEnd, TurnRef } from '../ports/store.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { AgentName, EpochMs } from '../protocol/ids.ts';
import { decodeBody } from '../protocol/record-codec.ts';
import { isConclusion } from '../protocol/turn-status.ts';
import type { Keyring } from './keyring.ts';
import { openPayload, sealContext } from './payloads.ts';
import type { Runtime } from './runtime.ts';
import type { TurnRequest } from './turn-request.ts';
import { payloadChanged, payloadDigest } from './turn-request.ts';
import type { TurnAnswer, TurnSpend, TurnView } from './turn-view.ts';

export type Known =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'answer'; readonly answer: TurnAnswer }
  /** It has a journal, nobody drives it, and its lease has lapsed. */
  | { readonly kind: 'lapsed' };

/** Decides a delivery from the begin read; throws `turn_payload_changed` for another payload. */
export async function knownTurn(
  runtime: Runtime,
  request: TurnRequest,
  begun: Begun,
  keyring: Keyring,
): Promise<Known> {
  const stored = storedPayload(begun);
  if (stored === null) return { kind: 'unknown' };
  const sealer = await keyring.reader(stored.scope);
  const { head, end } = begun;
  // Ruling 20: after an erasure payloads are not compared; the answer says so and carries none.
  if (sealer !== null) {
    if (stored.scope !== begun.scope || payloadDigest(sealer, request) !== stored.digest) {
      throw payloadChanged(request.ref);
    }
  }
  const open = head?.open?.turn === request.ref.turn ? head.open : null;
  if (open === null && end?.status === 'suspended') {
    const turn = await endView(runtime, request.ref, keyring, end);
    return { kind: 'answer', answer: { kind: 'pending', turn } };
  }
  if (open === null && end !== null && isConclusion(end.status)) {
    const turn = await endView(runtime, request.ref, keyring, end);
    const currentRevision = head?.revision ?? end.revision;
    return { kind: 'answer', answer: { kind: 'concluded', turn, replayed: true, currentRevision } };
  }
  if (open !== null && open.leaseUntil > runtime.clock.now()) {
    return { kind: 'answer', answer: { kind: 'pending', turn: runningView(request.ref, begun) } };
  }
  if (open !== null) return { kind: 'lapsed' };
  return { kind: 'unknown' };
}

function storedPayload(begun: Begun): { scope: string; digest: string } | null {
  if (begun.end !== null) return { scope: begun.end.scope, digest: begun.end.payloadDigest };
  const admission = begun.first === null ? null : admissionOf(begun.first);
  return admission === null ? null : { scope: admission.scope, digest: admission.payloadDigest };
}

/** The admission record at the head of position 0. */
export function admissionOf(position: Position) {
  const [first] = position.records;
  const body = first === undefined ? null : decodeBody(first.body);
  if (body?.kind !== 'RunAdmitted') {
    throw new TurnstoneError('journal_corrupt', 'journal record 1 is not an admission', {
      retry: 'never',
      details: { firstBad: 1 },
    });
  }
  return body;
}

/** The view of a concluded turn from its projection; a value that is not one fails closed (K-15). */
export async function endView(
  runtime: Runtime,
  ref: TurnRef,
  keyring: Keyring,
  end: TurnEnd,
): Promise<TurnView> {
  const sealer = await keyring.reader(end.scope);
  if (sealer === null) return erasedView(ref, end);
  const context = sealContext(ref, 'view', end.revision);
  const stored = await openPayload(runtime.store, sealer, context, end.view).catch(
    (error: unknown) => {
      if (error instanceof TurnstoneError && error.code === 'store_unavailable') throw error;
      throw new TurnstoneError(
        'invalid_durable_turn_result',
        'the stored result of this turn cannot be read',
        {
          retry: 'never',
          details: { turnId: ref.turn },
          cause: error,
        },
      );
    },
  );
  return {
    thread: ref.thread,
    turn: ref.turn,
    agent: end.agent,
    status: end.status,
    revision: end.revision,
    ...viewMembers(ref, stored),
    createdAt: end.createdAt,
    updatedAt: end.updatedAt,
  };
}

type ViewMembers = Pick<TurnView, 'result' | 'error' | 'waits' | 'undecided' | 'spend'>;

function viewMembers(ref: TurnRef, stored: unknown): ViewMembers {
  if (
    typeof stored !== 'object' ||
    stored === null ||
    !('spend' in stored) ||
    !('waits' in stored)
  ) {
    throw new TurnstoneError(
      'invalid_durable_turn_result',
      'the stored result of this turn is not one',
      {
        retry: 'never',
        details: { turnId: ref.turn },
      },
    );
  }
  return stored as unknown as ViewMembers;
}

const noSpend: TurnSpend = { steps: 0, effects: 0, attempts: 0, tokens: 0, minorUnits: 0 };

/** A turn somebody is driving, or that waits to be driven. */
export function runningView(ref: TurnRef, begun: Begun): TurnView {
  const admission = begun.first === null ? null : admissionOf(begun.first);
  const accepted = begun.work?.accepted ?? null;
  const at = (admission?.at ?? accepted?.at ?? begun.work?.updatedAt ?? 0) as EpochMs;
  return {
    thread: ref.thread,
    turn: ref.turn,
    agent: (admission?.agent ?? accepted?.agent ?? '') as AgentName,
    status: 'running',
    revision: begun.head?.revision ?? 0,
    waits: [],
    undecided: [],
    spend: noSpend,
    createdAt: at,
    updatedAt: at,
  };
}

/** A turn whose subject was erased: its status stays, everything it carried is gone (ruling 20) [T12]. */
function erasedView(ref: TurnRef, end: TurnEnd): TurnView {
  return {
    thread: ref.thread,
    turn: ref.turn,
    agent: end.agent,
    status: end.status,
    revision: end.revision,
    erased: true,
    waits: [],
    undecided: [],
    spend: noSpend,
    createdAt: end.createdAt,
    updatedAt: end.updatedAt,
  };
}
