// An audit of one turn: its chain against the head kept apart, and what its records leave open (page 01, 17).
//   T13  a journal whose chain fails shows nothing else; what could not be checked is said as loudly.

import type { TurnRef } from '../ports/store.ts';
import type { Finding } from '../protocol/audit.ts';
import { findingsOf, notAudited } from '../protocol/audit.ts';
import { verifyChain } from '../protocol/chain.ts';
import { decodeBody } from '../protocol/record-codec.ts';
import { linksOf } from '../runtime/read-turn.ts';
import type { Runtime } from '../runtime/runtime.ts';

export interface Audit {
  readonly findings: readonly Finding[];
  readonly notChecked: readonly string[];
}

/** Audits a turn; null when it has no journal. Reads only, runs no code and opens no payload. */
export async function auditTurn(runtime: Runtime, ref: TurnRef): Promise<Audit | null> {
  const [begun, positions] = await Promise.all([
    runtime.store.begin(ref, null),
    runtime.store.journal(ref),
  ]);
  if (positions.length === 0) return null;
  const links = linksOf(positions);
  // A projection exists once the turn rested; a person may have written after it, so it may lag behind.
  const verdict = verifyChain(links, begun.end?.head);
  if (!verdict.ok) {
    const { firstBad, reason } = verdict;
    return { findings: [{ finding: 'chain', firstBad, reason }], notChecked: notAudited };
  }
  const records = links.map(({ body, prevHash }) => ({ body: decodeBody(body), prevHash }));
  return { findings: findingsOf(records), notChecked: notAudited };
}
