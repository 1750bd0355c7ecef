// Effect groups: members that take together or not at all (page 01, section 7).
//
// Owns: footprint, member classes, the three endings, reversals newest first. A member and a reversal are
// ordinary effects: announced, recorded, retried, reconciled and replayed like any other (GR-5).
//   T9   committed: everything stands; aborted: nothing stands; quarantined: nobody knows, nothing is reversed.
//   GR-9 the group lives on its step's context; whatever the code drops is settled at the step's end.
//   GR-10 openings and settlements are deduplicated by count; a quarantined one may be settled anew (E189).

import { AgentError, describeError, TurnstoneError } from '../protocol/errors.ts';
import type { Phase } from '../protocol/keys.ts';
import { limits } from '../protocol/limits.ts';
import type { GroupOutcome } from '../protocol/record.ts';
import { noPayload, payloadOf } from './journal-writer.ts';
import type { Pass } from './pass.ts';
import type { AtomicEffect, Effect, EffectGroup } from './turn-context.ts';
import { BudgetExhaustedError, EffectError, GroupAbortedError } from './turn-context.ts';

/** How a group dispatches: under its name, exempt from the budget's verdict when it takes back. */
export interface GroupDispatch {
  member(
    effect: Effect<unknown>,
    as: { readonly group: string; readonly reversal: boolean; readonly finishes: boolean },
  ): Promise<unknown>;
  /** All atomic members, in one transaction of the store. */
  atomic(group: string, effects: readonly AtomicEffect[]): Promise<unknown>;
}

export class GroupScope implements EffectGroup {
  readonly name: string;
  readonly #pass: Pass;
  readonly #place: { readonly step: string; readonly phase: Phase };
  readonly #resources: ReadonlySet<string>;
  readonly #dispatch: GroupDispatch;
  /** Undoes of members that landed, oldest first. */
  readonly #landed: Effect<unknown>[] = [];
  readonly #deferred: Effect<unknown>[] = [];
  readonly #atomic: AtomicEffect[] = [];
  #lent = 0;
  /** Something is out that nothing takes back: rows of the transaction, or a deferred member. */
  #frontierPassed = false;
  #failed: unknown = null;
  #outcome: GroupOutcome | null = null;

  constructor(
    pass: Pass,
    place: { readonly step: string; readonly phase: Phase },
    name: string,
    resources: readonly string[],
    dispatch: GroupDispatch,
  ) {
    if (typeof name !== 'string' || name === '') throw bad('name', 'text', typeof name);
    if (resources.length === 0) throw bad('resources', 'at least one resource', 'none');
    this.name = name;
    this.#pass = pass;
    this.#place = place;
    this.#resources = new Set(resources);
    this.#dispatch = dispatch;
    const { history, writer } = pass.setup;
    if (history.takeGroupOpened(place, name)) return;
    writer?.ride({ kind: 'GroupOpened', ...recorded(place), name }, payloadOf({ resources }));
  }

  /** True until an ending was recorded. */
  get open(): boolean {
    return this.#outcome === null;
  }

  async read<T>(effect: Effect<T>, resource: string): Promise<T> {
    this.#admit(resource);
    if (effect.mutates !== false) throw bad('read', 'an effect that does not mutate', effect.kind);
    try {
      return (await this.#member(effect)) as T;
    } catch (error) {
      this.#failed ??= error;
      throw error;
    }
  }

  async reversible<T>(
    effect: Effect<T>,
    resource: string,
    undo: (output: T) => Effect<unknown>,
  ): Promise<T> {
    this.#admit(resource);
    let output: T;
    try {
      output = (await this.#member(effect)) as T;
    } catch (error) {
      if (externalised(error)) throw this.#stick(error, `member ${effect.kind}`);
      this.#failed ??= error;
      throw error;
    }
    this.#landed.push(undo(output));
    return output;
  }

  deferred(effect: Effect<unknown>, resource: string): void {
    this.#admit(resource);
    if (this.#deferred.length >= limits.groupMembersMax) {
      throw bad('deferred', `at most ${limits.groupMembersMax} members`, 'one more');
    }
    this.#deferred.push(effect);
  }

  /** Refused here, before anything needs taking back, when the store could not carry it out (E172). */
  atomic(effect: AtomicEffect, resource: string): void {
    this.#admit(resource);
    const { lender } = this.#pass.setup.runtime.store;
    if (lender === null)
      throw bad('atomic', 'a store that lends its transaction', 'one that cannot');
    const entries = effect.entries[lender];
    if (entries === undefined || entries.length === 0) {
      throw bad(`atomic.entries.${lender}`, 'at least one entry', 'none');
    }
    if (this.#lent + entries.length > limits.atomicEntriesMax) {
      const got = `${this.#lent + entries.length}`;
      throw bad(`atomic.entries.${lender}`, `at most ${limits.atomicEntriesMax} in a group`, got);
    }
    this.#lent += entries.length;
    this.#atomic.push(effect);
  }

  async commit(
    invariants: readonly { readonly name: string; readonly holds: boolean }[] = [],
  ): Promise<readonly unknown[]> {
    this.#demandOpen();
    if (this.#failed !== null) {
      const why = `a member failed: ${describeError(this.#failed).message}`;
      await this.abort(why);
      throw new GroupAbortedError(this.name, why, this.#place.step);
    }
    const broken = invariants.find(({ holds }) => !holds);
    if (broken !== undefined) {
      const why = `invariant "${broken.name}" does not hold`;
      await this.abort(why);
      throw new GroupAbortedError(this.name, why, this.#place.step);
    }
    await this.#writeAtomic();
    const outputs: unknown[] = [];
    for (const effect of this.#deferred) {
      try {
        outputs.push(await this.#member(effect));
        this.#frontierPassed = true;
      } catch (error) {
        if (this.#frontierPassed || externalised(error)) {
          throw this.#stick(error, `deferred member ${effect.kind}`);
        }
        await this.abort(`deferred member ${effect.kind} did not happen`);
        throw error;
      }
    }
    this.#settle('committed', null);
    return outputs;
  }

  async #writeAtomic(): Promise<void> {
    if (this.#atomic.length === 0) return;
    try {
      await this.#dispatch.atomic(this.name, this.#atomic);
    } catch (error) {
      const { message } = describeError(error);
      await this.abort(message);
      throw error;
    }
    this.#frontierPassed = true;
  }

  /** Reverses what landed, newest first; a reversal that fails stops there and quarantines (GR-5, E166). */
  async abort(reason = 'aborted'): Promise<void> {
    this.#demandOpen();
    if (this.#frontierPassed) {
      throw this.#stick(
        new AgentError('it was past its frontier', { code: 'group_committing' }),
        'abort',
      );
    }
    for (const undo of this.#landed.toReversed()) {
      try {
        await this.#dispatch.member(undo, {
          group: this.name,
          reversal: true,
          finishes: false,
        });
      } catch (error) {
        throw this.#stick(error, `reversal ${undo.kind}`);
      }
    }
    this.#settle('aborted', reason);
  }

  #member(effect: Effect<unknown>): Promise<unknown> {
    return this.#dispatch.member(effect, {
      group: this.name,
      reversal: false,
      finishes: this.#frontierPassed,
    });
  }

  #admit(resource: string): void {
    this.#demandOpen();
    if (!this.#resources.has(resource)) {
      throw bad('resource', [...this.#resources].join(', '), resource);
    }
  }

  #demandOpen(): void {
    if (this.#outcome === null) return;
    throw bad('name', 'an open group', `one that is ${this.#outcome}`);
  }

  /** Nobody knows what stands: recorded, and the turn quarantines whatever the code does with the error. */
  #stick(error: unknown, what: string): EffectError {
    const { message } = describeError(error);
    this.#settle('quarantined', `${what}: ${message}`);
    const effectKey = error instanceof EffectError ? error.effectKey : '';
    return new EffectError(`group "${this.name}": ${what}: ${message}`, {
      code: 'group_quarantined',
      disposition: 'in_doubt',
      effectKey,
      step: this.#place.step,
      undecided: true,
    });
  }

  #settle(outcome: GroupOutcome, detail: string | null): void {
    this.#outcome = outcome;
    const { history, writer } = this.#pass.setup;
    if (history.takeGroupSettled(this.#place, this.name, outcome)) return;
    const payload = detail === null ? noPayload : payloadOf({ detail });
    const { name } = this;
    writer?.ride({ kind: 'GroupSettled', ...recorded(this.#place), name, outcome }, payload);
  }
}

/** True when a failed member may stand in the world: in doubt, or landed with an unusable answer. */
function externalised(error: unknown): boolean {
  if (error instanceof BudgetExhaustedError || !(error instanceof EffectError)) return false;
  return error.undecided || error.disposition !== 'did_not_happen';
}

function recorded(place: { readonly step: string; readonly phase: Phase }): {
  readonly step: string;
  readonly phase?: 'compensating';
} {
  return place.phase === 'forward'
    ? { step: place.step }
    : { step: place.step, phase: 'compensating' };
}

function bad(field: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError('invalid_effect', `group.${field}: expected ${expected}, got ${got}`, {
    retry: 'never',
    details: { field: `group.${field}`, expected, got },
  });
}

/** What a step that ended with an open group comes to (page 01, section 7, the table of situations). */
export async function settleAtEnd(group: GroupScope | null): Promise<void> {
  if (group === null || !group.open) return;
  await group.abort('the step ended with the group open');
}

/** The error of a step that returned and left its group open. */
export function leftOpen(group: GroupScope): AgentError {
  return new AgentError(`the step returned with group "${group.name}" open`, {
    code: 'group_left_open',
  });
}

/** Takes groups back one after another; one that cannot be is recorded as quarantined and stops the rest. */
export async function abortGroups(groups: readonly GroupScope[]): Promise<void> {
  for (const group of groups) {
    try {
      await group.abort('the turn ended with the group open');
    } catch (error) {
      if (error instanceof EffectError && error.undecided) return;
      throw error;
    }
  }
}
