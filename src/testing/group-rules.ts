// The rules of effect groups as the model follows them: the real decisions, and the habits of the runtime around
// them. A mutant of the model is these rules with one of them changed.
import { doubtsOf } from '../protocol/doubt.ts';
import { decideFailure, decideOrphan, decideProbe } from '../protocol/effect-decision.ts';
import { afterFailure, nextOfAbort, nextOfCommit } from '../protocol/group.ts';
import { planUnwind, stepEvidence, stuckGroup } from '../protocol/saga.ts';
import { takesBack } from '../runtime/unwind.ts';
import { verdictOf } from '../runtime/verdict.ts';

export interface GroupRules {
  readonly afterFailure: typeof afterFailure;
  readonly nextOfCommit: typeof nextOfCommit;
  readonly nextOfAbort: typeof nextOfAbort;
  readonly decideFailure: typeof decideFailure;
  readonly decideOrphan: typeof decideOrphan;
  readonly decideProbe: typeof decideProbe;
  readonly stepEvidence: typeof stepEvidence;
  readonly planUnwind: typeof planUnwind;
  readonly stuckGroup: typeof stuckGroup;
  readonly doubtsOf: typeof doubtsOf;
  readonly takesBack: typeof takesBack;
  readonly verdictOf: typeof verdictOf;
  /** T5: a call leaves after its announcement is durable. */
  readonly announcesFirst: boolean;
  /** T7: what is recorded is read back. */
  readonly readsBack: boolean;
  /** Ruling 1: a refusal of a resend says nothing of the send before it. */
  readonly resendSpeaksForItself: boolean;
  /** GR-6: a deferred member leaves at the commit, not when it is registered. */
  readonly holdsBack: boolean;
  /** GR-13: the rows of a group and their records are one transaction. */
  readonly oneTransaction: boolean;
  /** GR-13: a refused transaction is read back and never tried again. */
  readonly refusalIsFinal: boolean;
  /** E166: a reversal that fails stops taking back. */
  readonly stopsAtFailedReversal: boolean;
  /** GR-9: what a body drops is settled at its end. */
  readonly settlesAtEnd: boolean;
  /** A body that returns with its group open fails. */
  readonly failsLoudly: boolean;
  /** GR-8: a doubt leaves a group as it is. */
  readonly keepsAroundDoubt: boolean;
  /** GR-10: openings and endings are counted against history. */
  readonly countsEndings: boolean;
  /** Decision 9: a group settled as quarantined may be settled anew. */
  readonly settlesAnew: boolean;
  /** The end of the forward phase is a record before a group is taken back. */
  readonly recordsForwardEnd: boolean;
  /** E205: open groups are taken back before the unwind is planned. */
  readonly groupsFirst: boolean;
  /** A stop keeps new forward calls from starting. */
  readonly stopHolds: boolean;
  /** Past the frontier a group finishes, stop or not. */
  readonly finishes: boolean;
  /** What is taken back starts, stop or not. */
  readonly takesBackAnyway: boolean;
  /** The conclusion tests whether a stop was recorded. */
  readonly concludesExactly: boolean;
}

export const groupRules: GroupRules = {
  afterFailure,
  nextOfCommit,
  nextOfAbort,
  decideFailure,
  decideOrphan,
  decideProbe,
  stepEvidence,
  planUnwind,
  stuckGroup,
  doubtsOf,
  takesBack,
  verdictOf,
  announcesFirst: true,
  readsBack: true,
  resendSpeaksForItself: true,
  holdsBack: true,
  oneTransaction: true,
  refusalIsFinal: true,
  stopsAtFailedReversal: true,
  settlesAtEnd: true,
  failsLoudly: true,
  keepsAroundDoubt: true,
  countsEndings: true,
  settlesAnew: true,
  recordsForwardEnd: true,
  groupsFirst: true,
  stopHolds: true,
  finishes: true,
  takesBackAnyway: true,
  concludesExactly: true,
};
