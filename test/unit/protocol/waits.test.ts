// Goal: the order of refusals of an answer. Method: the rules once more, as sentences over every combination.
import { expect, test } from 'vitest';
import type { Offered, Standing } from '../../../src/protocol/waits.ts';
import { admitAnswer } from '../../../src/protocol/waits.ts';

const until = 1_000;
const answers = [null, 'approved', 'denied', 'expired', 'event'] as const;
const digests = ['d1', null] as const;

/** The first reason wins: somebody decided, the deadline passed, an own approval, another call. */
function expected(standing: Standing, offered: Offered): string {
  const sameCall = standing.digest === offered.digest;
  const decided = standing.answer?.decision;
  if (decided === 'expired') return 'expired';
  if (decided === offered.decision) return sameCall ? 'repeated' : 'already_decided';
  if (decided !== undefined) return 'already_decided';
  if (offered.now > until - 1) return 'expired';
  const oneself = standing.requester === offered.actor && offered.decision === 'approved';
  if (standing.fourEyes && oneself) return 'four_eyes';
  return sameCall ? 'admitted' : 'digest_mismatch';
}

test('T10 an answer is bound to the call, given once, in time, and never by the asker alone [T10]', () => {
  const seen = new Map<string, number>();
  for (const answered of answers)
    for (const digest of digests)
      for (const fourEyes of [true, false])
        for (const actor of ['ann', 'bob'])
          for (const decision of ['approved', 'denied'] as const)
            for (const now of [until - 1, until, until + 1])
              for (const offeredDigest of ['d1', 'd2']) {
                const answer = answered === null ? null : { decision: answered };
                const standing = { answer, until, digest, requester: 'ann', fourEyes };
                const offered = { decision, digest: offeredDigest, actor, now };
                const admission = admitAnswer(standing, offered);
                const came = admission.kind === 'refused' ? admission.code : admission.kind;
                expect(came, JSON.stringify({ standing, offered })).toBe(
                  expected(standing, offered),
                );
                seen.set(came, (seen.get(came) ?? 0) + 1);
              }
  expect([...seen.keys()].sort()).toEqual([
    'admitted',
    'already_decided',
    'digest_mismatch',
    'expired',
    'four_eyes',
    'repeated',
  ]);
});

test('an event that came closes a wait for people [T10]', () => {
  const standing = { until, digest: 'd', requester: 'ann', fourEyes: false } as const;
  const offered = { decision: 'approved', digest: 'd', actor: 'bob', now: 1 } as const;
  expect(admitAnswer({ ...standing, answer: { decision: 'event' } }, offered)).toEqual({
    kind: 'refused',
    code: 'already_decided',
  });
});
