// Who may do what, asked before every live attempt: declaration, then policy, then budget (GA-1).
//   T11  what is refused is refused before it acts; a pass over history asks nobody.
import type { Phase } from '../protocol/keys.ts';

export interface PolicyQuestion {
  readonly tenant: string;
  readonly actor: string;
  readonly agent: string;
  /** Kind of the effect. */
  readonly kind: string;
  /** What else is known of it: the purpose of a recall, the labels of a release. */
  readonly facts: Readonly<Record<string, string>>;
  readonly mutates: boolean;
  readonly recovery: string;
  readonly step: string;
  readonly phase: Phase;
  /** 1-based. */
  readonly attempt: number;
  /** The turn's subject, or null. */
  readonly subject: string | null;
}

export type PolicyAnswer =
  | { readonly allow: true }
  | { readonly allow: false; readonly reason: string };

export interface Policy {
  /** Names the rules in force; a turn admitted under others is not gone on with (RG-2). */
  readonly digest: string;
  /** Throws when it cannot be asked: the pass stops, nothing is dispatched. */
  decide(question: PolicyQuestion): Promise<PolicyAnswer>;
}
