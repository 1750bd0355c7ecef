// Identities derived from position (ruling 9). Domains, namespace and encoding are frozen by vectors.
//   T5  one key per attempt; T7 the same position and arguments give the same key on every pass.
import { createHash } from 'node:crypto';
import { base64url, framed, hashParts } from './digest.ts';

export type Phase = 'forward' | 'compensating';

/** Key of one attempt of one dispatch: 43 URL-safe characters (EK-1 to EK-4). `args` is canonical text. */
export function effectKey(of: {
  step: string;
  phase: Phase;
  ordinal: number;
  attempt: number;
  kind: string;
  args: string;
}): string {
  const parts = [of.step, of.phase, of.ordinal, of.attempt, of.kind, of.args];
  return base64url(hashParts('turnstone.effect.1', parts));
}

/** Key sent to a provider: the same for every attempt, different per effect, thread and tenant (K-28). */
export function idempotencyKey(of: {
  tenant: string;
  thread: string;
  turnId: string;
  step: string;
  phase: Phase;
  ordinal: number;
}): string {
  const parts = [of.tenant, of.thread, of.turnId, of.step, of.phase, of.ordinal];
  return base64url(hashParts('turnstone.idem.1', parts));
}

/** Provider key of a business key: the same across turns of the thread (K-23). */
export function businessIdempotencyKey(of: {
  tenant: string;
  thread: string;
  kind: string;
  key: string;
}): string {
  return base64url(hashParts('turnstone.key.1', [of.tenant, of.thread, of.kind, of.key]));
}

/** Namespace of intent ids, frozen for ever. */
const intentNamespace = Buffer.from('6f3c1b0e5d0a4c0e9a5b7e2d41c8f7a1', 'hex');

/** UUIDv5 of an intent, computable ahead; carries tenant and agent so that scopes never collide (B-12). */
export function intentId(of: {
  tenant: string;
  agent: string;
  thread: string;
  turnId: string;
  step: string;
  phase: Phase;
  ordinal: number;
}): string {
  const parts = [of.tenant, of.agent, of.thread, of.turnId, of.step, of.phase, of.ordinal];
  const hash = createHash('sha1')
    .update(intentNamespace)
    .update(framed('turnstone.intent.1', parts))
    .digest();
  hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x50;
  hash[8] = ((hash[8] ?? 0) & 0x3f) | 0x80;
  const hex = hash.subarray(0, 16).toString('hex');
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20),
  ].join('-');
}
