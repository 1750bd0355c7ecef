// An outside world in memory: what landed, how often it was asked, and by which key.
export interface ProviderRequest {
  readonly kind: string;
  readonly key: string;
  /** False when the provider recognised the key and repeated its first answer. */
  readonly landed: boolean;
}

export class ScriptedProvider {
  readonly requests: ProviderRequest[] = [];
  readonly probes: string[] = [];
  readonly #answers = new Map<string, unknown>();

  /** One call; with `dedup` a known key is answered again and lands nothing. */
  call(kind: string, key: string, options: { dedup: boolean }): { id: string } {
    const known = this.#answers.get(key);
    const landed = !(options.dedup && known !== undefined);
    this.requests.push({ kind, key, landed });
    const answer = { id: `${kind}-${landed ? this.landed(kind) : 1}` };
    if (landed) this.#answers.set(key, answer);
    return landed ? answer : (known as { id: string });
  }

  /** What a probe learns of a key. */
  probe(
    kind: string,
    key: string,
  ): { outcome: 'landed'; output: unknown } | { outcome: 'did_not_happen' } {
    this.probes.push(kind);
    const answer = this.#answers.get(key);
    return answer === undefined
      ? { outcome: 'did_not_happen' }
      : { outcome: 'landed', output: answer };
  }

  /** Requests of a kind that took effect. */
  landed(kind: string): number {
    return this.requests.filter((request) => request.kind === kind && request.landed).length;
  }
}
