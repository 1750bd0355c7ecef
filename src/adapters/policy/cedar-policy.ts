// Cedar as the policy engine: principal is the actor, resource the effect kind, the rest is context.
//   Deny by default: what no policy permits is refused (GA-1). The engine's wasm loads with the first question.
import type { Policy, PolicyAnswer, PolicyQuestion } from '../../ports/policy.ts';
import { base64url, sha256 } from '../../protocol/digest.ts';
import { TurnstoneError } from '../../protocol/errors.ts';

type Engine = typeof import('@cedar-policy/cedar-wasm/nodejs');

export class CedarPolicy implements Policy {
  readonly digest: string;
  readonly #text: string;
  #engine: Promise<Engine> | null = null;

  /** `text` is a Cedar policy set; it is parsed with the first question. */
  constructor(text: string) {
    this.#text = text;
    this.digest = base64url(sha256(text)).slice(0, 22);
  }

  /** Throws `invalid_request` naming where the policy set does not parse. */
  async check(): Promise<void> {
    const { checkParsePolicySet } = await this.#load();
    const answer = checkParsePolicySet({ staticPolicies: this.#text });
    if (answer.type === 'failure') throw unusable(answer.errors);
  }

  async decide(question: PolicyQuestion): Promise<PolicyAnswer> {
    const { isAuthorized } = await this.#load();
    const { tenant, actor, agent, kind, mutates, recovery, step, phase, attempt, facts } = question;
    const subject = question.subject === null ? {} : { subject: question.subject };
    const answer = isAuthorized({
      principal: { type: 'Actor', id: actor },
      action: { type: 'Action', id: 'effect' },
      resource: { type: 'Effect', id: kind },
      context: { tenant, agent, mutates, recovery, step, phase, attempt, facts, ...subject },
      policies: { staticPolicies: this.#text },
      entities: [],
    });
    if (answer.type === 'failure') throw unusable(answer.errors);
    const { decision, diagnostics } = answer.response;
    if (decision === 'allow') return { allow: true };
    const by =
      diagnostics.reason.length === 0 ? 'no policy permits it' : diagnostics.reason.join(', ');
    return { allow: false, reason: by };
  }

  #load(): Promise<Engine> {
    this.#engine ??= import('@cedar-policy/cedar-wasm/nodejs');
    return this.#engine;
  }
}

function unusable(errors: readonly { readonly message: string }[]): TurnstoneError {
  const why = errors.map(({ message }) => message).join('; ');
  return new TurnstoneError('invalid_request', `policy: expected a Cedar policy set: ${why}`, {
    retry: 'never',
    details: { field: 'policy' },
  });
}
