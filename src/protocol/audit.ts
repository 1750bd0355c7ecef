// What an auditor finds in a journal: pure, over records and the verdict of their chain (page 01, 17).
//   T13  a sealed turn with an open doubt or an unsettled group says so for ever; an open one is an ordinary crash.
//   DO-1  doubt is computed by the one function that the unwind and the operator use.
import { doubtsOf } from './doubt.ts';
import type { Phase } from './keys.ts';
import type { RecordBody } from './record.ts';
import { parseStatus, seals } from './turn-status.ts';

export type Finding =
  | { readonly finding: 'chain'; readonly firstBad: number; readonly reason: string }
  | {
      readonly finding: 'effect_undecided';
      readonly effectKey: string;
      readonly step: string;
      readonly phase: Phase;
      readonly kind: string;
      readonly doubt: 'announced' | 'inconclusive';
    }
  | {
      readonly finding: 'group_unsettled';
      readonly step: string;
      readonly phase: Phase;
      readonly name: string;
    }
  /** A conclusion that names another chain head than the record before it. */
  | { readonly finding: 'seal_claim'; readonly seq: number; readonly claimed: string }
  /** Something was written after a conclusion that nothing may follow (CH-5). */
  | { readonly finding: 'after_seal'; readonly seq: number };

export interface AuditedRecord {
  readonly body: RecordBody;
  readonly prevHash: string;
}

/** What this build has nothing to check with: said as loudly as a finding. */
export const notAudited: readonly string[] = [
  'signatures',
  'transparency log',
  'an earlier checkpoint of the auditor',
];

/** Findings over records whose chain verified. */
export function findingsOf(records: readonly AuditedRecord[]): readonly Finding[] {
  const bodies = records.map(({ body }) => body);
  const sealedAt = bodies.findIndex(
    (body) => body.kind === 'RunConcluded' && seals(parseStatus(body.outcome)),
  );
  const sealing = sealedAt < 0 ? [] : [...undecided(bodies), ...unsettled(bodies)];
  const after = sealedAt < 0 ? undefined : bodies[sealedAt + 1];
  return [
    ...sealing,
    ...claims(records),
    ...(after === undefined ? [] : [{ finding: 'after_seal' as const, seq: after.seq }]),
  ];
}

function undecided(bodies: readonly RecordBody[]): readonly Finding[] {
  return doubtsOf(bodies).map(({ key, site, effect, doubt }) => ({
    finding: 'effect_undecided',
    effectKey: key,
    step: site.step,
    phase: site.phase,
    kind: effect,
    doubt,
  }));
}

/** More openings than settlements; a group that a person let settle anew has one settlement more than it needs. */
function unsettled(bodies: readonly RecordBody[]): readonly Finding[] {
  const groups = new Map<string, { step: string; phase: Phase; name: string; open: number }>();
  for (const body of bodies) {
    if (body.kind !== 'GroupOpened' && body.kind !== 'GroupSettled') continue;
    const { step, name, phase = 'forward' } = body;
    const key = JSON.stringify([step, phase, name]);
    const group = groups.get(key) ?? { step, phase, name, open: 0 };
    groups.set(key, group);
    if (body.kind === 'GroupOpened') group.open += 1;
    else group.open = Math.max(0, group.open - 1);
  }
  return [...groups.values()]
    .filter(({ open }) => open > 0)
    .map(({ step, phase, name }) => ({ finding: 'group_unsettled', step, phase, name }));
}

function claims(records: readonly AuditedRecord[]): readonly Finding[] {
  return records.flatMap(({ body, prevHash }) =>
    body.kind === 'RunConcluded' && body.chainHead !== prevHash
      ? [{ finding: 'seal_claim' as const, seq: body.seq, claimed: body.chainHead }]
      : [],
  );
}
