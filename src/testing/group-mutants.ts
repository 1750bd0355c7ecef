// The rules of effect groups with one of them changed at a time. Each change must break a law of the model: a rule
// whose mutant nothing catches is a rule the model does not show.
import { decideFailure, decideOrphan, decideProbe } from '../protocol/effect-decision.ts';
import { afterFailure, nextOfAbort, nextOfCommit } from '../protocol/group.ts';
import type { RecordBody } from '../protocol/record.ts';
import { planUnwind, stepEvidence } from '../protocol/saga.ts';
import { verdictOf } from '../runtime/verdict.ts';
import type { GroupRules } from './group-rules.ts';

export interface GroupMutant {
  /** The rule it leaves out. */
  readonly rule: string;
  /** A turn that shows it, and the law that is broken there first. */
  readonly script: string;
  readonly breaks: string;
  readonly change: Partial<GroupRules>;
}

const without =
  (kind: RecordBody['kind']): GroupRules['verdictOf'] =>
  (end, bodies) =>
    verdictOf(
      end,
      [...bodies].filter((body) => body.kind !== kind),
    );

/** Evidence and doubts as they would be if settlements of groups were not read. */
const evidenceWithoutGroups: GroupRules['stepEvidence'] = (bodies) =>
  stepEvidence([...bodies].filter((body) => body.kind !== 'GroupSettled'));

export const groupMutants: readonly GroupMutant[] = [
  {
    rule: 'GR-6 a deferred member is held back until the commit',
    script: 'every class of member',
    breaks: 'a gated member acts only past the frontier',
    change: { holdsBack: false },
  },
  {
    rule: 'GR-6 a false invariant takes the group back',
    script: 'a false invariant',
    breaks: 'a gated member acts only past the frontier',
    change: { nextOfCommit: (facts) => nextOfCommit(facts, true) },
  },
  {
    rule: 'T9 a failed member keeps its group from committing',
    script: 'a later step fails, the group undeclared',
    breaks: 'a gated member acts only past the frontier',
    change: { nextOfCommit: (facts, holds) => nextOfCommit({ ...facts, failed: false }, holds) },
  },
  {
    rule: 'GR-8 a commit waits for the members on their way',
    script: 'members nobody waits for',
    breaks: 'a gated member acts only past the frontier',
    change: { nextOfCommit: (facts, holds) => nextOfCommit({ ...facts, inFlight: 0 }, holds) },
  },
  {
    rule: 'GR-6 the transaction is written before a deferred member leaves',
    script: 'every class of member',
    breaks: 'a gated member acts only past the frontier',
    change: {
      nextOfCommit: (facts, holds) => {
        const move = nextOfCommit(facts, holds);
        return move.kind === 'write' && facts.sent < facts.deferred
          ? { kind: 'send', index: facts.sent }
          : move;
      },
    },
  },
  {
    rule: 'GR-6 every deferred member leaves before the group is committed',
    script: 'answers that cannot be used',
    breaks: 'a committed group stands whole',
    change: {
      nextOfCommit: (facts, holds) => {
        const move = nextOfCommit(facts, holds);
        return move.kind === 'send' && facts.sent > 0 ? { kind: 'commit' } : move;
      },
    },
  },
  {
    rule: 'GR-8 taking back waits for the members on their way',
    script: 'members side by side',
    breaks: 'an aborted group leaves nothing',
    change: { nextOfAbort: (facts) => nextOfAbort({ ...facts, inFlight: 0 }) },
  },
  {
    rule: 'GR-5 nothing is taken back past the frontier',
    script: 'answers that cannot be used',
    breaks: 'nothing is taken back after an irreversible member left',
    change: {
      nextOfAbort: (facts) => nextOfAbort({ ...facts, written: false, sent: 0 }),
      afterFailure: (as, failure, facts) =>
        afterFailure(as, failure, { ...facts, written: false, sent: 0 }),
    },
  },
  {
    rule: 'GR-5 the rows of the transaction are past the frontier',
    script: 'a stop around rows',
    breaks: 'nothing is taken back after an irreversible member left',
    change: {
      nextOfAbort: (facts) => nextOfAbort({ ...facts, written: false }),
      afterFailure: (as, failure, facts) => afterFailure(as, failure, { ...facts, written: false }),
    },
  },
  {
    rule: 'GR-5 newest first',
    script: 'a false invariant',
    breaks: 'what landed last is taken back first',
    change: {
      nextOfAbort: (facts) => {
        const move = nextOfAbort(facts);
        return move.kind === 'reverse' ? { kind: 'reverse', index: facts.reversed } : move;
      },
    },
  },
  {
    rule: 'GR-5 everything that landed is taken back',
    script: 'a false invariant',
    breaks: 'an aborted group leaves nothing',
    change: {
      nextOfAbort: (facts) => {
        const move = nextOfAbort(facts);
        return move.kind === 'reverse' && facts.reversed > 0 ? { kind: 'abort' } : move;
      },
    },
  },
  {
    rule: 'E166 a reversal that fails stops taking back',
    script: 'every class of member',
    breaks: 'an aborted group leaves nothing',
    change: { stopsAtFailedReversal: false },
  },
  {
    rule: 'GR-8 a reversible member that may stand quarantines its group',
    script: 'answers that cannot be used',
    breaks: 'an aborted group leaves nothing',
    change: {
      afterFailure: (as, failure, facts) =>
        as === 'reversible' ? 'take_back' : afterFailure(as, failure, facts),
    },
  },
  {
    rule: 'E170 a deferred member that may be out quarantines its group',
    script: 'answers that cannot be used',
    breaks: 'nothing is taken back after an irreversible member left',
    change: {
      afterFailure: (as, failure, facts) =>
        as === 'deferred' && facts.sent === 0 ? 'take_back' : afterFailure(as, failure, facts),
    },
  },
  {
    rule: 'E168 the first deferred member that did not happen takes the group back',
    script: 'answers that cannot be used',
    breaks: 'an ending says what stands',
    change: {
      afterFailure: (as, failure, facts) =>
        as === 'deferred' ? 'quarantine' : afterFailure(as, failure, facts),
    },
  },
  {
    rule: 'E188 a read externalises nothing',
    script: 'every class of member',
    breaks: 'an ending says what stands',
    change: {
      afterFailure: (as, failure, facts) =>
        afterFailure(as === 'read' ? 'reversible' : as, failure, facts),
    },
  },
  {
    rule: 'GR-13 rows and records are one transaction',
    script: 'every class of member',
    breaks: 'a gated member acts only past the frontier',
    change: { oneTransaction: false },
  },
  {
    rule: 'GR-13 a refused transaction is final',
    script: 'a stop around rows',
    breaks: 'code and journal never part',
    change: { refusalIsFinal: false },
  },
  {
    rule: 'GR-9 what a step drops is settled at its end',
    script: 'members side by side',
    breaks: 'an aborted group leaves nothing',
    change: { settlesAtEnd: false },
  },
  {
    rule: 'GR-9 a step that returns with its group open fails',
    script: 'the step returns',
    breaks: 'an ending says what stands',
    change: { failsLoudly: false },
  },
  {
    rule: 'GR-8 a doubt leaves the group as it is',
    script: 'a stop beside a doubt of a step before',
    breaks: 'nothing is undone around a doubt',
    change: { keepsAroundDoubt: false },
  },
  {
    rule: 'GR-10 openings and endings are counted against history',
    script: 'every class of member',
    breaks: 'a group has one opening and one ending',
    change: { countsEndings: false },
  },
  {
    rule: 'decision 9: a quarantined group may be settled anew',
    script: 'every class of member',
    breaks: 'an ending says what stands',
    change: { settlesAnew: false },
  },
  {
    rule: 'the end of the forward phase is recorded before a group is taken back',
    script: 'a stop around rows',
    breaks: 'code and journal never part',
    change: { recordsForwardEnd: false },
  },
  {
    rule: 'E205 open groups are taken back before the unwind',
    script: 'a stop',
    breaks: 'an ending says what stands',
    change: { groupsFirst: false },
  },
  {
    rule: 'CA-2 a stop keeps new forward calls from starting',
    script: 'a stop',
    breaks: 'a stop keeps new calls from starting',
    change: { stopHolds: false },
  },
  {
    rule: 'past the frontier a group finishes, stop or not',
    script: 'a stop around rows',
    breaks: 'an ending says what stands',
    change: { finishes: false },
  },
  {
    rule: 'what is taken back starts, stop or not',
    script: 'a stop around rows',
    breaks: 'every state comes to rest',
    change: { takesBackAnyway: false },
  },
  {
    rule: 'page 09, rule 5: the conclusion tests the stop',
    script: 'a stop of calls that may be asked',
    breaks: 'a stop that was recorded is honoured',
    change: { concludesExactly: false },
  },
  {
    rule: 'T5 a call is announced durably before it is made',
    script: 'every class of member',
    breaks: 'nothing lands unannounced',
    change: { announcesFirst: false },
  },
  {
    rule: 'T7 what is recorded is read back',
    script: 'every class of member',
    breaks: 'nothing happens twice',
    change: { readsBack: false },
  },
  {
    rule: 'T6 an announcement without outcome is not repeated where only a person may decide',
    script: 'every class of member',
    breaks: 'nothing happens twice',
    change: {
      decideOrphan: (facts) =>
        facts.recovery === 'operator' ? { kind: 'perform_same_key' } : decideOrphan(facts),
    },
  },
  {
    rule: 'T6 a provider that can be asked is asked',
    script: 'calls that may be asked',
    breaks: 'nothing happens twice',
    change: {
      decideOrphan: (facts) =>
        facts.recovery === 'reconcile' ? { kind: 'perform_same_key' } : decideOrphan(facts),
    },
  },
  {
    rule: 'T6 a probe that cannot tell settles nothing',
    script: 'calls that may be asked',
    breaks: 'nothing happens twice',
    change: {
      decideProbe: (facts) =>
        decideProbe(
          facts.verdict === 'inconclusive' ? { ...facts, verdict: 'did_not_happen' } : facts,
        ),
    },
  },
  {
    rule: 'T6 a call in doubt is no failed call',
    script: 'calls that may be repeated',
    breaks: 'an aborted group leaves nothing',
    change: {
      decideFailure: (facts) => {
        const decision = decideFailure(facts);
        return decision.kind === 'quarantined' ? { kind: 'failed' } : decision;
      },
    },
  },
  {
    rule: 'RT-1 a call in doubt is not tried again where only a person may decide',
    script: 'every class of member',
    breaks: 'nothing happens twice',
    change: {
      decideFailure: (facts) =>
        facts.recovery === 'operator' && facts.disposition === 'in_doubt'
          ? { kind: 'retry' }
          : decideFailure(facts),
    },
  },
  {
    rule: 'ruling 1: a refusal of a resend says nothing of the send before it',
    script: 'calls that may be repeated',
    breaks: 'an aborted group leaves nothing',
    change: { resendSpeaksForItself: false },
  },
  {
    rule: 'decision 6: no conclusion over a quarantined group',
    script: 'what fails is swallowed',
    breaks: 'an ending says what stands',
    change: { stuckGroup: () => null, verdictOf: without('GroupSettled') },
  },
  {
    rule: 'SA-8 nothing is undone around a doubt',
    script: 'a stop',
    breaks: 'nothing is undone around a doubt',
    change: { doubtsOf: () => [], stuckGroup: () => null },
  },
  {
    rule: 'SA-3 an aborted group is no evidence',
    script: 'the step throws',
    breaks: 'an ending says what stands',
    change: { stepEvidence: evidenceWithoutGroups },
  },
  {
    rule: 'SA-4 the last step is undone first',
    script: 'a later step fails',
    breaks: 'what landed last is taken back first',
    change: {
      planUnwind: (evidence, declared, status) => {
        const plan = planUnwind(evidence, declared, status);
        return plan === null ? null : { ...plan, walk: plan.walk.toReversed() };
      },
    },
  },
];
