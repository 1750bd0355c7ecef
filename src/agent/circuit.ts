// A circuit breaker in front of a model: after failures in a row nobody asks it for a while (B-24).
//
// Owns the state of one process; every process learns for itself, and nothing of it is recorded.
//   B-22  an answer that is cached is served while the circuit is open: the cache is looked into before an attempt.
import type { ModelFailure, ModelOutcome } from '../ports/model.ts';
import { limits } from '../protocol/limits.ts';

export interface CircuitOptions {
  /** Failures in a row that open it. Default 5. */
  readonly failures?: number;
  /** Milliseconds it stays open before one attempt may try. Default 30000. */
  readonly openMs?: number;
}

/** One circuit for each provider and model; share it between turns of a process. */
export class Circuit {
  readonly #monotonicMs: () => number;
  readonly #limit: number;
  readonly #openMs: number;
  #failures = 0;
  #openUntil = 0;
  #trying = false;

  /** `monotonicMs` is a clock that never goes back, as `() => performance.now()`. */
  constructor(monotonicMs: () => number, options: CircuitOptions = {}) {
    this.#monotonicMs = monotonicMs;
    this.#limit = options.failures ?? limits.circuitFailures;
    this.#openMs = options.openMs ?? limits.circuitOpenMs;
  }

  /** Asks, or fails at once with `model_circuit_open`: nothing was sent, nothing is charged. */
  async ask<Answer>(attempt: () => Promise<ModelOutcome<Answer>>): Promise<ModelOutcome<Answer>> {
    const leftMs = this.#openUntil - this.#monotonicMs();
    if (leftMs > 0 || this.#trying) return open(Math.max(leftMs, 1));
    this.#trying = this.#openUntil > 0;
    try {
      const outcome = await attempt();
      this.#heard(outcome);
      return outcome;
    } finally {
      this.#trying = false;
    }
  }

  /** A refusal that no repeat can mend says nothing of the provider's health. */
  #heard(outcome: ModelOutcome<unknown>): void {
    if (outcome.kind === 'answered' || outcome.permanent) {
      this.#failures = 0;
      this.#openUntil = 0;
      return;
    }
    this.#failures += 1;
    if (this.#failures >= this.#limit) this.#openUntil = this.#monotonicMs() + this.#openMs;
  }
}

function open(leftMs: number): ModelFailure {
  return {
    kind: 'failed',
    disposition: 'did_not_happen',
    permanent: false,
    code: 'model_circuit_open',
    message: 'the model failed several times in a row and is not asked for a while',
    adviceMs: Math.min(Math.ceil(leftMs), limits.retryAdviceMaxMs),
  };
}
