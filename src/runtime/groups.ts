// Effect groups: members that take together or not at all (page 01, section 7).
//
// Owns: footprint, member classes, carrying out what protocol/group.ts decides. A member and a reversal are
// ordinary effects: announced, recorded, retried, reconciled and replayed like any other (GR-5).
//   T9   committed: everything stands; aborted: nothing stands; quarantined: nobody knows, nothing is reversed.
//   GR-9 the group lives on its step's context; whatever the code drops is settled at the step's end.
//   GR-10 openings and settlements are deduplicated by count; a quarantined one may be settled anew (E189).

import { AgentError, describeError, TurnstoneError } from '../protocol/errors.ts';
import type { GroupFacts, MemberClass, MemberFailure } from '../protocol/group.ts';
import { afterFailure, nextOfAbort, nextOfCommit } from '../protocol/group.ts';
import type { Phase } from '../protocol/keys.ts';
import { limits } from '../protocol/limits.ts';
import type { GroupOutcome } from '../protocol/record.ts';
import { AtomicLoad } from './atomic-size.ts';
import { noPayload, payloadOf } from './journal-writer.ts';
import type { Pass } from './pass.ts';
import type { AtomicEffect, Effect, EffectGroup } from './turn-context.ts';
import { EffectError, GroupAbortedError, TurnSuspendedError } from './turn-context.ts';

/** How a group dispatches: under its name, exempt from the budget's verdict when it takes back. */
export interface GroupDispatch {
  member(
    effect: Effect<unknown>,
    as: { readonly group: string; readonly reversal: boolean; readonly finishes: boolean },
  ): Promise<unknown>;
  /** All atomic members, in one transaction of the store. */
  atomic(group: string, effects: readonly AtomicEffect[]): Promise<unknown>;
}

interface Invariant {
  readonly name: string;
  readonly holds: boolean;
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
  /** Eager members that were dispatched and not heard of. */
  readonly #inFlight = new Set<Promise<unknown>>();
  readonly #load = new AtomicLoad();
  #lent = 0;
  #reversed = 0;
  #sent = 0;
  #written = false;
  #failed: unknown = null;
  /** It commits or is taken back: nothing joins it any more. */
  #ending = false;
  #stuck: EffectError | null = null;
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
    return (await this.#eager('read', effect)) as T;
  }

  async reversible<T>(
    effect: Effect<T>,
    resource: string,
    undo: (output: T) => Effect<unknown>,
  ): Promise<T> {
    this.#admit(resource);
    const take = (output: unknown): void => {
      this.#landed.push(undo(output as T));
    };
    return (await this.#eager('reversible', effect, take)) as T;
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
    const over = this.#load.add(effect, entries, { step: this.#place.step, group: this.name });
    if (over !== null) throw bad(`atomic.entries.${lender}`, over.expected, over.got);
    this.#lent += entries.length;
    this.#atomic.push(effect);
  }

  async commit(invariants: readonly Invariant[] = []): Promise<readonly unknown[]> {
    this.#end();
    const outputs: unknown[] = [];
    const broken = invariants.find(({ holds }) => !holds);
    for (;;) {
      const move = nextOfCommit(this.#facts(), broken === undefined);
      switch (move.kind) {
        case 'await':
          await this.#quiet();
          break;
        case 'abort': {
          const why =
            move.because === 'invariant'
              ? `invariant "${broken?.name}" does not hold`
              : `a member failed: ${describeError(this.#failed).message}`;
          await this.#takeBack(why);
          throw new GroupAbortedError(this.name, why, this.#place.step);
        }
        case 'write':
          await this.#ends('atomic', 'atomic members', () =>
            this.#dispatch.atomic(this.name, this.#atomic),
          );
          this.#written = true;
          break;
        case 'send': {
          const effect = this.#deferred[move.index] as Effect<unknown>;
          const what = `deferred member ${effect.kind}`;
          outputs.push(await this.#ends('deferred', what, () => this.#member(effect)));
          this.#sent += 1;
          break;
        }
        case 'commit':
          this.#settle('committed', null);
          return outputs;
      }
    }
  }

  /** Reverses what landed, newest first; a reversal that fails stops there and quarantines (GR-5, E166). */
  async abort(reason = 'aborted'): Promise<void> {
    this.#end();
    await this.#takeBack(reason);
  }

  /** The same for the runtime: whatever the code had begun, the group is taken back now (GR-9). */
  async takeBack(reason: string, of: { readonly idle: boolean }): Promise<void> {
    this.#ending = true;
    // A pass that is idle has nothing on its way: what was dispatched and not heard of never started.
    if (of.idle) this.#inFlight.clear();
    await this.#takeBack(reason);
  }

  async #takeBack(reason: string): Promise<void> {
    for (;;) {
      const move = nextOfAbort(this.#facts());
      switch (move.kind) {
        case 'await':
          await this.#quiet();
          break;
        case 'quarantine': {
          const why = new AgentError('it was past its frontier', { code: 'group_committing' });
          throw this.#stick(why, 'abort');
        }
        case 'reverse': {
          const undo = this.#landed[move.index] as Effect<unknown>;
          const as = { group: this.name, reversal: true, finishes: false };
          try {
            await this.#dispatch.member(undo, as);
          } catch (error) {
            throw this.#stick(error, `reversal ${undo.kind}`);
          }
          this.#reversed += 1;
          break;
        }
        case 'abort':
          return this.#settle('aborted', reason);
      }
    }
  }

  /** A call of the commit; one that fails ends the group. */
  async #ends<T>(as: MemberClass, what: string, call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      if (this.#judge(as, error) === 'quarantine') throw this.#stick(error, what);
      await this.#takeBack(`${what}: ${describeError(error).message}`);
      throw error;
    }
  }

  /** A member that runs now; `landed` keeps what takes it back. */
  #eager(
    as: 'read' | 'reversible',
    effect: Effect<unknown>,
    landed: (output: unknown) => void = () => undefined,
  ): Promise<unknown> {
    const heard = this.#heard(as, effect, landed);
    this.#inFlight.add(heard);
    const settled = (): void => void this.#inFlight.delete(heard);
    heard.then(settled, settled);
    return heard;
  }

  async #heard(
    as: 'read' | 'reversible',
    effect: Effect<unknown>,
    landed: (output: unknown) => void,
  ): Promise<unknown> {
    let output: unknown;
    try {
      output = await this.#member(effect);
    } catch (error) {
      if (this.#judge(as, error) === 'quarantine')
        throw this.#stick(error, `member ${effect.kind}`);
      this.#failed ??= error;
      throw error;
    }
    try {
      landed(output);
    } catch (error) {
      // It stands, and nobody can say how it is taken back.
      throw this.#stick(error, `the undo of member ${effect.kind}`);
    }
    return output;
  }

  #member(effect: Effect<unknown>): Promise<unknown> {
    return this.#dispatch.member(effect, {
      group: this.name,
      reversal: false,
      finishes: this.#written || this.#sent > 0,
    });
  }

  #judge(as: MemberClass, error: unknown): 'take_back' | 'quarantine' {
    return afterFailure(as, failureOf(error), this.#facts());
  }

  #facts(): GroupFacts {
    return {
      inFlight: this.#inFlight.size,
      failed: this.#failed !== null,
      landed: this.#landed.length,
      reversed: this.#reversed,
      atomic: this.#atomic.length,
      written: this.#written,
      deferred: this.#deferred.length,
      sent: this.#sent,
    };
  }

  /** Until every member that was dispatched is heard of; one of them may have left the group stuck. */
  async #quiet(): Promise<void> {
    await Promise.allSettled(this.#inFlight);
    if (this.#stuck !== null) throw this.#stuck;
  }

  #admit(resource: string): void {
    this.#demandOpen();
    if (!this.#resources.has(resource)) {
      throw bad('resource', [...this.#resources].join(', '), resource);
    }
  }

  #end(): void {
    this.#demandOpen();
    this.#ending = true;
  }

  #demandOpen(): void {
    if (this.#outcome === null && !this.#ending) return;
    throw bad('name', 'an open group', `one that is ${this.#outcome ?? 'ending'}`);
  }

  /** Nobody knows what stands: recorded, and the turn quarantines whatever the code does with the error. */
  #stick(error: unknown, what: string): EffectError {
    if (this.#stuck !== null) return this.#stuck;
    const { message } = describeError(error);
    this.#settle('quarantined', `${what}: ${message}`);
    const effectKey = error instanceof EffectError ? error.effectKey : '';
    this.#stuck = new EffectError(`group "${this.name}": ${what}: ${message}`, {
      code: 'group_quarantined',
      disposition: 'in_doubt',
      effectKey,
      step: this.#place.step,
      undecided: true,
    });
    return this.#stuck;
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

/** A failed member as a group judges it; anything but an effect's own error was refused before the call. */
function failureOf(error: unknown): MemberFailure {
  if (!(error instanceof EffectError)) return { undecided: false, disposition: null };
  return { undecided: error.undecided, disposition: error.disposition };
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

/**
 * Runs a body and settles the group it may have left open: a step's, an undo's or the turn's own (GR-9). A pause or
 * a doubt leaves it as it is; a body that returns with its group open fails loudly.
 */
export async function settling<T>(
  group: () => GroupScope | null,
  body: () => Promise<T>,
): Promise<T> {
  let value: T;
  try {
    value = await body();
  } catch (error) {
    const rests = error instanceof TurnSuspendedError;
    const doubt = error instanceof EffectError && error.undecided;
    if (!rests && !doubt) await settleAtEnd(group());
    throw error;
  }
  const left = group();
  if (left?.open !== true) return value;
  await settleAtEnd(left);
  throw new AgentError(`the step returned with group "${left.name}" open`, {
    code: 'group_left_open',
  });
}

async function settleAtEnd(group: GroupScope | null): Promise<void> {
  if (group?.open !== true) return;
  await group.takeBack('the step ended with the group open', { idle: false });
}

/** Takes groups back one after another; one that cannot be is recorded as quarantined and stops the rest. */
export async function abortGroups(groups: readonly GroupScope[]): Promise<void> {
  for (const group of groups) {
    try {
      await group.takeBack('the turn ended with the group open', { idle: true });
    } catch (error) {
      if (error instanceof EffectError && error.undecided) return;
      throw error;
    }
  }
}
