// Accepting a turn without running it: durable before it is acknowledged (ruling 12).
//   T2  the acceptance keeps the payload's digest, so another payload under the turnId is refused at once.
//   B5  the queue message is a reference; the payload waits sealed in the store.
import { encode } from '../protocol/canonical.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import { inboxEntry } from './inbox-message.ts';
import { keyringOf } from './keyring.ts';
import { knownTurn, runningView } from './known-turn.ts';
import { sealContext, sealText } from './payloads.ts';
import { relayThread } from './relay.ts';
import type { Runtime } from './runtime.ts';
import { checkThread } from './thread-gates.ts';
import type { Admission, TurnRequest } from './turn-request.ts';
import { payloadChanged, payloadDigest } from './turn-request.ts';
import type { TurnAnswer } from './turn-view.ts';

/** Stores the delivery and its inbox entry, then relays; a turn that is already known is answered as such. */
export async function acceptTurn(runtime: Runtime, request: TurnRequest): Promise<TurnAnswer> {
  const { ref } = request;
  const begun = await runtime.store.begin(ref, request.subject);
  const keyring = keyringOf(runtime, ref, begun);
  const known = await knownTurn(runtime, request, begun, keyring);
  if (known.kind === 'answer') return known.answer;
  if (known.kind === 'lapsed') return { kind: 'pending', turn: runningView(ref, begun) };
  checkThread(begun.head, begun.checkpoint, request.agent);
  const sealer = await keyring.writer(begun.scope);
  const digest = payloadDigest(sealer, request);
  const now = runtime.clock.now();
  const admission: Omit<Admission, 'seed'> = {
    input: request.input,
    subject: request.subject,
    budget: request.budget,
    actor: request.actor,
  };
  const sealed = sealText(sealer, sealContext(ref, 'accept', 0), encode(admission));
  if (sealed.parts !== null) await runtime.store.putParts(ref.tenant, sealed.parts);
  const acceptance = {
    agent: request.agent.name,
    payloadDigest: digest,
    scope: begun.scope,
    generation: sealer.generation,
    payload: sealed.payload,
    at: now,
  };
  const accepted = await runtime.store.accept(ref, acceptance, inboxEntry(ref, 'accept'), now);
  if (accepted.kind === 'unknown') {
    throw new TurnstoneError(
      'store_unavailable',
      'whether the turn was accepted is not known; send it again',
      {
        retry: 'now',
        cause: accepted.cause,
      },
    );
  }
  if (accepted.kind === 'lost' && accepted.work?.accepted?.payloadDigest !== digest) {
    throw payloadChanged(ref);
  }
  await runtime.later(() => relayThread(runtime, ref));
  const view = runningView(ref, begun);
  const turn = { ...view, agent: request.agent.name, createdAt: now, updatedAt: now };
  return { kind: 'pending', turn };
}
