// The code of a turn with one group, as the model runs it: generators that ask for calls and hear what they came
// to. What is decided is decided by the rules; this file only carries it out, as runtime/groups.ts does.
import type { GroupFacts } from '../protocol/group.ts';
import type { GroupOutcome, Site } from '../protocol/record.ts';
import type { Compensation, UndoAction } from '../protocol/saga.ts';
import type { History } from '../runtime/history.ts';
import { EffectError, GroupAbortedError, TurnSuspendedError } from '../runtime/turn-context.ts';
import type { CallSpec } from './group-records.ts';
import { groupName } from './group-records.ts';
import type { GroupRules } from './group-rules.ts';

/** A turn: a step before, a step with a group, perhaps a step that fails after it. */
export interface Script {
  readonly name: string;
  /** Members of the group, in order of registration; eager ones run before the others. */
  readonly members: readonly CallSpec[];
  /** Everything else the turn may call: undos, reversals, the step before, the wait. */
  readonly others: readonly CallSpec[];
  /** Eager members run one after another, side by side, or are not waited for. */
  readonly eager: 'in turn' | 'together' | 'unawaited';
  /** The code catches what fails and goes on. */
  readonly swallows: boolean;
  /** The step asks somebody while its group is open. */
  readonly waits: boolean;
  /** A sibling fails while the step waits; a later pass may find it healed. */
  readonly sibling: boolean;
  readonly ends: 'commit' | 'abort' | 'throw' | 'return';
  readonly invariantHolds: boolean;
  /** A step before the group, taken back by its undo. */
  readonly before: boolean;
  /** The code goes on whatever the step before it came to. */
  readonly shrugs: boolean;
  readonly declared: Compensation;
  /** A step after the group fails. */
  readonly failsAfter: boolean;
  /** A person reopens it at most so often. */
  readonly reopenings: number;
  /** Somebody may ask for a stop, once. */
  readonly stops: boolean;
}

export interface Heard {
  readonly handle: number;
  readonly error: unknown;
}

export type Op =
  | {
      readonly kind: 'start';
      readonly call: CallSpec;
      readonly site: Site;
      readonly grouped: boolean;
      /** A stop does not keep it from starting. */
      readonly anyway: boolean;
    }
  | { readonly kind: 'hear'; readonly of: readonly number[] }
  | { readonly kind: 'ride'; readonly word: string };

export type Code<T> = Generator<Op, T, number | Heard | undefined>;

/** Ordinals of one step and phase. */
export class Sites {
  readonly #step: string;
  readonly #phase: Site['phase'];
  #next = 0;

  constructor(step: string, phase: Site['phase']) {
    this.#step = step;
    this.#phase = phase;
  }

  next(): Site {
    this.#next += 1;
    return { step: this.#step, phase: this.#phase, ordinal: this.#next - 1 };
  }
}

export interface ProgramOf {
  readonly script: Script;
  readonly rules: GroupRules;
  readonly history: History;
  /** True when this pass has written the word already. */
  readonly rode: (word: string) => boolean;
  readonly call: (name: string) => CallSpec;
}

function* start(op: Omit<Extract<Op, { kind: 'start' }>, 'kind'>): Code<number> {
  const handle = yield { kind: 'start', ...op };
  if (typeof handle !== 'number') throw new Error('a start answers a handle');
  return handle;
}

function* hear(of: readonly number[]): Code<Heard> {
  const heard = yield { kind: 'hear', of };
  if (typeof heard !== 'object') throw new Error('a hearing answers what was heard');
  return heard;
}

/** Starts a call that stands alone and waits for it. */
function* alone(call: CallSpec, site: Site): Code<void> {
  const { error } = yield* hear([yield* start({ call, site, grouped: false, anyway: false })]);
  if (error !== null) throw error;
}

/** The group as its step has it in memory. */
export class ModelGroup {
  readonly #of: ProgramOf;
  readonly #sites: Sites;
  readonly #deferred: readonly CallSpec[];
  readonly #atomic: CallSpec | null;
  readonly #landed: CallSpec[] = [];
  readonly #inFlight = new Map<number, CallSpec>();
  #failed: unknown = null;
  #reversed = 0;
  #sent = 0;
  #written = false;
  #stuck: EffectError | null = null;
  #outcome: GroupOutcome | null = null;

  constructor(of: ProgramOf, sites: Sites) {
    this.#of = of;
    this.#sites = sites;
    this.#deferred = of.script.members.filter(({ as }) => as === 'deferred');
    this.#atomic = of.script.members.find(({ as }) => as === 'atomic') ?? null;
  }

  get open(): boolean {
    return this.#outcome === null;
  }

  *begin(): Code<void> {
    const { history, rules, rode } = this.#of;
    const recorded = history.takeGroupOpened({ step: 's', phase: 'forward' }, groupName);
    if (rules.countsEndings ? recorded : rode('GO')) return;
    yield { kind: 'ride', word: 'GO' };
  }

  /** Runs the members that run now; throws the first failure unless the code swallows it. */
  *eager(): Code<void> {
    const { script, rules } = this.#of;
    const now = script.members.filter(
      ({ as }) => as === 'read' || as === 'reversible' || (as === 'deferred' && !rules.holdsBack),
    );
    if (script.eager !== 'in turn') for (const call of now) yield* this.#start(call);
    if (script.eager === 'unawaited') return;
    for (const call of now) {
      if (script.eager === 'in turn') yield* this.#start(call);
      const error = yield* this.#hearOne();
      if (error !== null && !script.swallows) throw error;
    }
  }

  *#start(call: CallSpec): Code<void> {
    this.#demandOpen();
    const anyway = this.#of.rules.finishes && (this.#written || this.#sent > 0);
    const site = this.#sites.next();
    this.#inFlight.set(yield* start({ call, site, grouped: true, anyway }), call);
  }

  /** Hears of one member on its way, and judges it. */
  *#hearOne(): Code<unknown> {
    const { handle, error } = yield* hear([...this.#inFlight.keys()]);
    const call = this.#inFlight.get(handle);
    if (call === undefined) throw new Error('the model heard of no member');
    this.#inFlight.delete(handle);
    if (error === null) {
      if (call.as === 'reversible') this.#landed.push(call);
      if (call.as === 'deferred') this.#sent += 1;
      return null;
    }
    if (this.#judge(call, error) === 'quarantine') return yield* this.#stick(error);
    this.#failed ??= error;
    return error;
  }

  *commit(): Code<void> {
    this.#demandOpen();
    for (;;) {
      const move = this.#of.rules.nextOfCommit(this.#facts(), this.#of.script.invariantHolds);
      switch (move.kind) {
        case 'await':
          yield* this.#quiet();
          break;
        case 'abort':
          yield* this.takeBack();
          throw new GroupAbortedError(groupName, move.because, 's');
        case 'write':
          if (this.#atomic === null) throw new Error('the script has no atomic member');
          yield* this.#ends(this.#atomic);
          this.#written = true;
          break;
        case 'send':
          yield* this.#ends(this.#deferred[move.index] as CallSpec);
          this.#sent += 1;
          break;
        case 'commit':
          return yield* this.#settle('committed');
      }
    }
  }

  /** A call of the commit; one that fails ends the group. */
  *#ends(call: CallSpec): Code<void> {
    const anyway = this.#of.rules.finishes && (this.#written || this.#sent > 0);
    const site = this.#sites.next();
    const { error } = yield* hear([yield* start({ call, site, grouped: true, anyway })]);
    if (error === null) return;
    if (this.#judge(call, error) === 'quarantine') throw yield* this.#stick(error);
    yield* this.takeBack();
    throw error;
  }

  /** The code itself takes its group back. */
  *abort(): Code<void> {
    this.#demandOpen();
    yield* this.takeBack();
  }

  *takeBack(of: { readonly idle: boolean } = { idle: false }): Code<void> {
    const { rules, call } = this.#of;
    if (of.idle) this.#inFlight.clear();
    for (;;) {
      const move = rules.nextOfAbort(this.#facts());
      switch (move.kind) {
        case 'await':
          yield* this.#quiet();
          break;
        case 'quarantine':
          throw yield* this.#stick(new Error('it was past its frontier'));
        case 'reverse': {
          const undo = call(`undo-${(this.#landed[move.index] as CallSpec).name}`);
          const site = this.#sites.next();
          const anyway = rules.takesBackAnyway;
          const { error } = yield* hear([
            yield* start({ call: undo, site, grouped: true, anyway }),
          ]);
          if (error !== null && rules.stopsAtFailedReversal) throw yield* this.#stick(error);
          this.#reversed += 1;
          break;
        }
        case 'abort':
          return yield* this.#settle('aborted');
      }
    }
  }

  #demandOpen(): void {
    if (!this.open) throw new Error('the group has ended');
  }

  #judge({ as }: CallSpec, error: unknown): 'take_back' | 'quarantine' {
    if (as !== 'read' && as !== 'reversible' && as !== 'deferred' && as !== 'atomic')
      throw new Error(`a call that is ${as} is no member`);
    const known = error instanceof EffectError;
    const failure = known
      ? { undecided: error.undecided, disposition: error.disposition }
      : { undecided: false, disposition: null };
    return this.#of.rules.afterFailure(as, failure, this.#facts());
  }

  #facts(): GroupFacts {
    return {
      inFlight: this.#inFlight.size,
      failed: this.#failed !== null,
      landed: this.#landed.length,
      reversed: this.#reversed,
      atomic: this.#atomic === null ? 0 : 1,
      written: this.#written,
      deferred: this.#deferred.length,
      sent: this.#sent,
    };
  }

  *#quiet(): Code<void> {
    while (this.#inFlight.size > 0) yield* this.#hearOne();
    if (this.#stuck !== null) throw this.#stuck;
  }

  *#stick(error: unknown): Code<EffectError> {
    if (this.#stuck !== null) return this.#stuck;
    yield* this.#settle('quarantined');
    this.#stuck = new EffectError(String(error), {
      code: 'group_quarantined',
      disposition: 'in_doubt',
      effectKey: '',
      step: 's',
      undecided: true,
    });
    return this.#stuck;
  }

  *#settle(outcome: GroupOutcome): Code<void> {
    this.#outcome = outcome;
    const { history, rules, rode } = this.#of;
    const place = { step: 's', phase: 'forward' as const };
    const recorded = rules.settlesAnew
      ? history.takeGroupSettled(place, groupName, outcome)
      : history.records.some(({ body }) => body.kind === 'GroupSettled');
    const word = `GS ${outcome}`;
    if (rules.countsEndings ? recorded : rode(word)) return;
    yield { kind: 'ride', word };
  }
}

/** The forward phase of the turn; its group is `program.group` once it was opened. */
export class Program {
  readonly #of: ProgramOf;
  group: ModelGroup | null = null;

  constructor(of: ProgramOf) {
    this.#of = of;
  }

  *forward(): Code<string> {
    const { script, call } = this.#of;
    try {
      if (script.before) yield* this.#step('a', (sites) => alone(call('a'), sites.next()));
    } catch (error) {
      if (!script.shrugs) throw error;
    }
    yield* this.#step('s', (sites) => this.#settling(sites));
    if (script.failsAfter)
      // biome-ignore lint/correctness/useYield: a step that fails at once calls nobody.
      yield* this.#step('c', function* (): Code<void> {
        throw new Error('c broke');
      });
    return 'done';
  }

  *#step(name: string, body: (sites: Sites) => Code<void>): Code<void> {
    const { history } = this.#of;
    const { started, outcome } = history.step(name);
    if (!started) yield { kind: 'ride', word: `SS ${name}` };
    try {
      yield* body(new Sites(name, 'forward'));
    } catch (error) {
      const stopped =
        error instanceof TurnSuspendedError || (error instanceof EffectError && error.undecided);
      if (!stopped && outcome === null) yield { kind: 'ride', word: `SF ${name} failed` };
      throw error;
    }
    if (outcome !== 'ok') yield { kind: 'ride', word: `SF ${name} ok` };
  }

  /** As `settling` of runtime/groups.ts. */
  *#settling(sites: Sites): Code<void> {
    const { rules } = this.#of;
    const group = new ModelGroup(this.#of, sites);
    this.group = group;
    try {
      yield* this.#body(group, sites);
    } catch (error) {
      const doubt = rules.keepsAroundDoubt && error instanceof EffectError && error.undecided;
      if (group.open && !doubt && rules.settlesAtEnd) yield* group.takeBack();
      throw error;
    }
    if (!group.open) return;
    if (rules.settlesAtEnd) yield* group.takeBack();
    if (rules.failsLoudly) throw new Error('the step returned with its group open');
  }

  *#body(group: ModelGroup, sites: Sites): Code<void> {
    const { script } = this.#of;
    try {
      yield* group.begin();
      yield* group.eager();
      if (script.waits) yield* alone(this.#of.call('w'), sites.next());
      if (script.ends === 'commit') yield* group.commit();
      if (script.ends === 'abort') yield* group.abort();
      if (script.ends === 'throw') throw new Error('its own reason');
    } catch (error) {
      if (!script.swallows) throw error;
    }
  }

  /** Walks an unwind: null when everything is taken back, else the step it stopped at. */
  *unwind(walk: readonly UndoAction[]): Code<string | null> {
    const { history, call } = this.#of;
    for (const { kind, step } of walk) {
      if (kind === 'refuse') return step;
      const recorded = history.compensated(step);
      try {
        yield* alone(call(`undo-${step}`), new Sites(step, 'compensating').next());
      } catch (error) {
        if (error instanceof EffectError && error.undecided) return step;
        if (recorded !== 'failed') yield { kind: 'ride', word: `SC ${step} failed` };
        return step;
      }
      if (recorded !== 'ok') yield { kind: 'ride', word: `SC ${step} ok` };
    }
    return null;
  }
}
