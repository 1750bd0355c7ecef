// What a turn has made of its thread so far: the only place where facts, agenda and interaction change.
//
//   K-80  of all that wants to be asked, the most important is; the rest waits on the agenda.
//   K-85  a fact goes with everything that was derived from it, and only when its provider succeeded.
import type { FactKey } from './capability.ts';
import type { CompiledCapability } from './compile.ts';
import type { AgendaItem, FactRecord, Interaction, KernelState } from './kernel-state.ts';

/** What came of one piece of work, as the caller reads it. */
export interface StepView {
  readonly capability: string;
  readonly status: 'completed' | 'rejected' | 'asked' | 'waiting' | 'failed' | 'cancelled';
  readonly code: string | null;
  readonly message: string;
  readonly output?: unknown;
  /** Told verbatim (K-92). */
  readonly protected?: boolean;
}

interface Candidate {
  readonly priority: number;
  readonly interaction: Interaction;
}

export class TurnBook {
  readonly state: KernelState;
  readonly steps: StepView[] = [];
  readonly #arrivedAt: number;
  readonly #candidates: Candidate[] = [];

  constructor(loaded: KernelState, arrivedAt: number) {
    this.state = {
      ...loaded,
      messages: [...loaded.messages],
      facts: new Map(loaded.facts),
      agenda: [...loaded.agenda],
    };
    this.#arrivedAt = arrivedAt;
  }

  /** True when a deadline has come; the instant itself is too late (K-52). */
  lapsed(expiresAt: number): boolean {
    return this.#arrivedAt >= expiresAt;
  }

  /** A question that has to be answered before another one may be asked. */
  get pending(): Interaction | null {
    const { interaction } = this.state;
    if (interaction === null || interaction.kind === 'input') return null;
    if (interaction.kind === 'confirmation' && this.lapsed(interaction.expiresAt)) return null;
    return interaction;
  }

  /** True when nothing waits to be asked. */
  get slotFree(): boolean {
    return this.pending === null && this.#candidates.length === 0;
  }

  item(id: string): AgendaItem | null {
    return this.state.agenda.find((item) => item.id === id) ?? null;
  }

  /** Puts an item on the agenda, in the place it had. */
  put(item: AgendaItem): void {
    const { agenda } = this.state;
    const at = agenda.findIndex(({ id }) => id === item.id);
    this.state.agenda = at < 0 ? [...agenda, item] : agenda.with(at, item);
  }

  /** Takes an item off, and the question about it. */
  remove(id: string): void {
    this.state.agenda = this.state.agenda.filter((item) => item.id !== id);
    const { interaction } = this.state;
    if (interaction === null) return;
    if (interaction.kind !== 'choice') {
      if (interaction.item === id) this.state.interaction = null;
      return;
    }
    if (interaction.options.some(([option]) => option === id)) this.dissolve(interaction, null);
  }

  /** Ends a choice: whatever was not picked waits for its own turn, and a kept consent is gone (K-50). */
  dissolve(choice: Extract<Interaction, { kind: 'choice' }>, picked: string | null): void {
    this.state.interaction = null;
    for (const [id] of choice.options) {
      const item = this.item(id);
      if (item === null || id === picked) continue;
      this.put({ ...item, status: 'waiting_confirmation', code: 'queued', consent: null });
    }
  }

  /** Offers a question; which one is asked is decided at the end of the turn. */
  ask(priority: number, interaction: Interaction): void {
    this.#candidates.push({ priority, interaction });
  }

  /** The one question of this turn (K-80): a pending confirmation or choice stays before any new one. */
  settleInteraction(): void {
    if (this.pending !== null) return;
    const [first, ...others] = this.#candidates.toSorted(
      (left, right) => right.priority - left.priority,
    );
    if (first === undefined) return;
    const replaced = this.state.interaction;
    if (replaced?.kind === 'confirmation') this.remove(replaced.item);
    this.state.interaction = first.interaction;
    for (const { interaction } of others) {
      if (interaction.kind === 'choice') this.dissolveUnasked(interaction);
    }
  }

  /** A choice that gave way: its items wait like any other. */
  dissolveUnasked(choice: Extract<Interaction, { kind: 'choice' }>): void {
    const { interaction } = this.state;
    this.dissolve(choice, null);
    this.state.interaction = interaction;
  }

  /** Publishes what a run came to. */
  publish(capability: CompiledCapability, facts: ReadonlyMap<FactKey, FactRecord>): void {
    if (facts.size === 0) return;
    this.invalidate([...facts.keys(), ...capability.invalidates]);
    for (const [key, record] of facts) this.state.facts.set(key, record);
  }

  /** Removes facts and all that depends on them, however far. */
  invalidate(keys: readonly FactKey[]): void {
    const gone = new Set(keys);
    for (let grew = true; grew; ) {
      grew = false;
      for (const [key, { dependsOn }] of this.state.facts) {
        if (gone.has(key) || !dependsOn.some((other) => gone.has(other))) continue;
        gone.add(key);
        grew = true;
      }
    }
    for (const key of gone) this.state.facts.delete(key);
  }

  say(role: 'user' | 'assistant', turn: string, text: string, sealed = false): void {
    const index = (this.state.messages.at(-1)?.index ?? -1) + 1;
    const message = { index, turn, role, text };
    this.state.messages.push(sealed ? { ...message, protected: true } : message);
  }
}
