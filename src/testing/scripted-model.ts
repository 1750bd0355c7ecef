// A model that answers by script: the same request, the same answer, and a ledger of what was asked and charged.
import type {
  Model,
  ModelAnswer,
  ModelFailure,
  ModelOutcome,
  ModelRequest,
  ModelUsage,
} from '../ports/model.ts';

/** Answers a request; `asked` counts the requests before it. */
export type ModelScript = (request: ModelRequest, asked: number) => string | ModelFailure;

export class ScriptedModel implements Model {
  readonly id: string;
  /** Every request in order, failed ones included. */
  readonly requests: ModelRequest[] = [];
  readonly #script: ModelScript;
  readonly #usage: ModelUsage;
  readonly #through: <T>(name: string, answer: () => Promise<T>) => Promise<T>;

  /** `through` runs each request; a crash explorer gives its process's `provider`. Default usage: 10 in, 5 out. */
  constructor(
    script: ModelScript,
    options: {
      readonly id?: string;
      readonly usage?: ModelUsage;
      readonly through?: <T>(name: string, answer: () => Promise<T>) => Promise<T>;
    } = {},
  ) {
    this.id = options.id ?? 'scripted';
    this.#script = script;
    this.#usage = options.usage ?? { inputTokens: 10, outputTokens: 5 };
    this.#through = options.through ?? ((_, answer) => answer());
  }

  ask(request: ModelRequest): Promise<ModelOutcome<ModelAnswer>> {
    return this.#through('model', async () => {
      const asked = this.requests.length;
      this.requests.push(request);
      const said = this.#script(request, asked);
      if (typeof said !== 'string') return said;
      const answer = { text: said, finish: 'stop' as const, usage: this.#usage };
      return { kind: 'answered', answer, usage: this.#usage };
    });
  }
}
