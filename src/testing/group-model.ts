// A model of effect groups, checked whole: a turn with one group, a world that may answer anything, a process that
// may die at every point, a person who answers doubts and may ask for a stop.
//
// Owns: the states and the moves between them. A call's effect on the world and the record of it are two moves, and
// so are a record and its being durable, because the states between them are what the protocol is for (page 01, 21).

import { lawsOf } from './group-laws.ts';
import type { Open, View } from './group-pass.ts';
import { lookAt } from './group-pass.ts';
import type { Script } from './group-program.ts';
import type { CallSpec, Fate } from './group-records.ts';
import { declaredOf, groupName, Records, words } from './group-records.ts';
import type { GroupRules } from './group-rules.ts';
import { groupRules } from './group-rules.ts';
import type { Model, Move } from './model-checker.ts';

export interface GroupState {
  /** Words that are durable. */
  readonly journal: readonly string[];
  /** Words of the living process that no write has carried yet. */
  readonly buffer: readonly string[];
  /** Durable words when its pass began; null while nobody drives the turn. */
  readonly from: number | null;
  /** Calls the process made and has not heard of: what they came to, or that a probe cleared them. */
  readonly made: Readonly<Record<string, Fate | 'cleared' | 'again'>>;
  /** What landed in the world, in order. */
  readonly world: readonly string[];
  /** A number once a pass has seen it: how much was durable then. */
  readonly stop: 'none' | 'asked' | number;
  /** The sibling is still ill. */
  readonly ill: boolean;
}

export function groupModel(script: Script, changed: Partial<GroupRules> = {}): Model<GroupState> {
  return new GroupModel(script, { ...groupRules, ...changed });
}

class GroupModel implements Model<GroupState> {
  readonly start: GroupState;
  readonly laws: Model<GroupState>['laws'];
  readonly #script: Script;
  readonly #rules: GroupRules;
  readonly #records: Records;

  constructor(script: Script, rules: GroupRules) {
    this.#script = script;
    this.#rules = rules;
    this.#records = new Records([...script.members, ...script.others]);
    this.laws = lawsOf(script);
    this.start = {
      journal: [],
      buffer: [],
      from: null,
      made: {},
      world: [],
      stop: 'none',
      ill: script.sibling,
    };
  }

  key(state: GroupState): string {
    const { journal, buffer, from, made, world, stop, ill } = state;
    return JSON.stringify([journal, buffer, from, Object.entries(made).sort(), world, stop, ill]);
  }

  atRest({ journal, from }: GroupState): boolean {
    return from === null && journal.at(-1)?.startsWith('RC') === true;
  }

  moves(state: GroupState): readonly Move<GroupState>[] {
    const own = state.from === null ? this.#resting(state) : this.#running(state);
    return [...own, ...this.#outside(state)];
  }

  /** Nobody drives the turn: it is new, crashed, suspended, concluded or decided on. */
  #resting(state: GroupState): readonly Move<GroupState>[] {
    const { journal, world } = state;
    const last = journal.at(-1) ?? '';
    const begin = { name: 'a pass begins', state: this.#begun(state) };
    if (last.startsWith('RS')) {
      const wait = this.#records
        .bodies(journal)
        .find((body) => body.kind === 'EffectStarted' && body.wait !== undefined);
      if (wait?.kind !== 'EffectStarted') throw new Error('suspended without a wait');
      const word = words.done(this.#records.call('w'), wait.site, 1);
      const answered = {
        name: 'the wait is answered',
        state: { ...state, journal: [...journal, word] },
      };
      return state.stop === 'none' ? [answered] : [begin, answered];
    }
    if (!last.startsWith('RC')) return [begin];
    if (!last.startsWith('RC quarantined')) return [];
    const decided = journal.filter((word) => word === 'QD').length;
    if (decided >= this.#script.reopenings) return [];
    const doubts = this.#rules.doubtsOf(this.#records.bodies(journal));
    if (doubts.length === 0 && last.endsWith('divergence')) return [];
    const answers = doubts.map(({ site, effect }) => {
      const call = this.#records.call(effect);
      const fact = world.includes(effect) ? 'landed' : 'did_not_happen';
      const attempt = this.#lastAttempt(journal, effect);
      return words.reconciled(call, site, attempt, fact, 'olga');
    });
    const next = { ...state, journal: [...journal, ...answers, 'QD'] };
    return [{ name: 'a person answers and reopens', state: next, outside: true }];
  }

  #lastAttempt(journal: readonly string[], effect: string): number {
    const started = journal.findLast((word) => word.startsWith(`ES ${effect} `));
    return Number(started?.split(' ')[3] ?? 1);
  }

  #begun(state: GroupState): GroupState {
    const { journal, stop } = state;
    const seen = stop === 'asked' ? journal.length : stop;
    return this.#written({ ...state, from: journal.length, stop: seen });
  }

  /** Adds what the code writes by itself. */
  #written(state: GroupState): GroupState {
    let next = state;
    for (let round = 0; round < 40; round += 1) {
      const view = this.#look(next);
      if (view.kind !== 'rides') return next;
      next = { ...next, buffer: [...next.buffer, ...view.words] };
    }
    throw new Error(`the code writes for ever: ${next.buffer.join(', ')}`);
  }

  #look(state: GroupState): View {
    return lookAt({
      script: this.#script,
      rules: this.#rules,
      records: this.#records,
      journal: [...state.journal, ...state.buffer],
      from: state.from ?? 0,
      made: new Set(Object.keys(state.made)),
      stopped: typeof state.stop === 'number',
      ill: state.ill,
    });
  }

  #running(state: GroupState): readonly Move<GroupState>[] {
    const view = this.#look(state);
    const moves: Move<GroupState>[] = [];
    if (state.buffer.length > 0)
      moves.push({ name: 'what is known is written', state: durable(state) });
    if (view.kind === 'runs')
      for (const open of view.open) moves.push(...this.#ofCall(state, open));
    if (view.kind === 'suspends') moves.push(...this.#suspends(state, view.open));
    if (view.kind === 'ends') moves.push(this.#concludes(state, view));
    return moves;
  }

  #suspends(state: GroupState, { call, site }: Open): readonly Move<GroupState>[] {
    if (state.stop === 'asked')
      return [{ name: 'it parks for the stop', state: this.#parked(state) }];
    const known = state.journal.some((word) => word.startsWith(`ES ${call.name} `));
    const wait = known ? [] : [words.started(call, site, 1, false)];
    const next = durable(state, [...wait, 'RS']);
    return [{ name: 'it suspends', state: gone(next) }];
  }

  #concludes(
    state: GroupState,
    { status, code }: Extract<View, { kind: 'ends' }>,
  ): Move<GroupState> {
    const exact = this.#rules.concludesExactly;
    if (state.stop === 'asked' && status !== 'quarantined' && exact)
      return { name: 'it parks for the stop', state: this.#parked(state) };
    const word = `RC ${status} ${code}`;
    return { name: `it concludes ${status}`, state: gone(durable(state, [word])) };
  }

  #parked(state: GroupState): GroupState {
    return this.#begun(gone(durable(state)));
  }

  /** The moves of one call that is open. */
  #ofCall(state: GroupState, open: Open): readonly Move<GroupState>[] {
    const { call, site, want } = open;
    const { name } = call;
    switch (want.kind) {
      case 'announce': {
        const word = words.started(call, site, want.attempt, open.grouped);
        const next = this.#rules.announcesFirst
          ? durable(state, [word])
          : { ...state, buffer: [...state.buffer, word] };
        return [{ name: `${name} is announced`, state: this.#written(next) }];
      }
      case 'answer': {
        const made = state.made[name];
        if (made === undefined || made === 'cleared') return this.#acts(state, open);
        return [{ name: `${name} is heard of`, state: this.#heard(state, open, made as Fate) }];
      }
      case 'probe':
        return this.#probes(state, open, want);
      case 'transact':
        return this.#transacts(state, open);
      case 'rest':
        return [];
    }
  }

  #acts(state: GroupState, { call }: Open): readonly Move<GroupState>[] {
    const { name } = call;
    const cleared = state.made[name] === 'cleared' ? '!' : '';
    return call.fates.map((fate) => {
      const lands = fate !== 'refused' && fate !== 'silent' && call.as !== 'read';
      const again = call.recovery === 'idempotent' && state.world.includes(name);
      const world = lands && !again ? [...state.world, name] : state.world;
      const made = {
        ...without(state.made, name),
        [name]: fate,
        ...(cleared === '' ? {} : { [`${name}!`]: fate }),
      };
      return { name: `${name} ${said[fate]}`, state: { ...state, world, made } };
    });
  }

  /** An outcome reaches the process: its record is known, and not yet durable. */
  #heard(state: GroupState, { call, site, want }: Open, fate: Fate): GroupState {
    if (want.kind !== 'answer') throw new Error('only an answer is heard of');
    const { attempt, resend } = want;
    const { mutates } = declaredOf(call);
    const cleared = state.made[`${call.name}!`] !== undefined;
    const verdict = cleared
      ? [words.reconciled(call, site, attempt, 'did_not_happen', 'probe')]
      : [];
    const speaks = this.#rules.resendSpeaksForItself && resend && !cleared && mutates;
    const word = ((): string => {
      switch (fate) {
        case 'lands':
          return words.done(call, site, attempt);
        case 'garbled':
          return words.failed(call, site, attempt, 'landed', true);
        case 'refused':
          return words.failed(call, site, attempt, speaks ? 'in_doubt' : 'did_not_happen', false);
        case 'lost':
        case 'silent':
          return words.failed(call, site, attempt, 'in_doubt', false);
      }
    })();
    const rest = without(without(state.made, call.name), `${call.name}!`);
    const made = this.#rules.readsBack ? rest : { ...rest, [`${call.name}+`]: 'again' as const };
    return this.#written({ ...state, made, buffer: [...state.buffer, ...verdict, word] });
  }

  #probes(
    state: GroupState,
    { call, site }: Open,
    want: Extract<Open['want'], { kind: 'probe' }>,
  ): readonly Move<GroupState>[] {
    const { attempt, live } = want;
    const { mutates, retry } = declaredOf(call);
    const truth = state.world.includes(call.name)
      ? ('landed' as const)
      : ('did_not_happen' as const);
    return [truth, 'inconclusive' as const].map((verdict) => {
      const facts = { verdict, mutates, attempt, maxAttempts: retry.maxAttempts, live };
      const decision = this.#rules.decideProbe(facts);
      const disposition = verdict === 'inconclusive' ? 'in_doubt' : verdict;
      const word = words.reconciled(call, site, attempt, disposition, 'probe');
      const name = `the probe of ${call.name} says ${verdict}`;
      if (decision.kind !== 'perform_same_key') {
        const buffer = [...state.buffer, word];
        return { name, state: this.#written({ ...state, buffer }) };
      }
      if (typeof state.stop === 'number' && site.phase === 'forward') {
        const undone = words.failed(call, site, attempt, 'did_not_happen', true);
        return {
          name,
          state: this.#written({ ...state, buffer: [...state.buffer, word, undone] }),
        };
      }
      return {
        name,
        state: { ...state, made: { ...state.made, [call.name]: 'cleared' as const } },
      };
    });
  }

  /** The rows of a group and their records, in one transaction or not at all. */
  #transacts(state: GroupState, { call, site }: Open): readonly Move<GroupState>[] {
    const records = [words.started(call, site, 1, true), words.done(call, site, 1)];
    const world = [...state.world, call.name];
    const refused = { ...state, buffer: [...state.buffer, words.refused(call, site)] };
    const moves: Move<GroupState>[] = [];
    if (this.#rules.oneTransaction) {
      const next = this.#written({ ...durable(state, records), world });
      moves.push({ name: `${call.name} is written with its records`, state: next });
    } else if (state.made[call.name] === undefined) {
      const made = { ...state.made, [call.name]: 'lands' as const };
      moves.push({ name: `${call.name} is written alone`, state: { ...state, made, world } });
    } else {
      const next = { ...durable(state, records), made: without(state.made, call.name) };
      return [{ name: `the records of ${call.name} are written`, state: this.#written(next) }];
    }
    if (call.fates.includes('refused'))
      moves.push({ name: `${call.name} is refused`, state: this.#written(refused) });
    return moves;
  }

  /** What others do: a death, a stop that is asked for or seen. */
  #outside(state: GroupState): readonly Move<GroupState>[] {
    const moves: Move<GroupState>[] = [];
    const { from, stop } = state;
    if (from !== null) {
      const dead = gone({ ...state, buffer: [] });
      moves.push({ name: 'the process dies', state: dead, outside: true });
      if (state.ill)
        moves.push({
          name: 'the process dies, its sibling heals',
          state: { ...dead, ill: false },
          outside: true,
        });
    }
    const concluded = from === null && state.journal.at(-1)?.startsWith('RC') === true;
    if (this.#script.stops && stop === 'none' && !concluded && state.journal.length > 0)
      moves.push({
        name: 'a stop is asked for',
        state: { ...state, stop: 'asked' },
        outside: true,
      });
    if (stop === 'asked' && from !== null)
      moves.push({
        name: 'the stop is seen',
        state: this.#written({ ...state, stop: state.journal.length }),
      });
    return moves;
  }
}

const said: Readonly<Record<Fate, string>> = {
  lands: 'lands',
  garbled: 'lands, its answer is garbled',
  refused: 'is refused',
  lost: 'lands, nothing is heard',
  silent: 'does not land, nothing is heard',
};

/** Everything known is written, with these words after it, in one position. */
function durable(state: GroupState, more: readonly string[] = []): GroupState {
  return { ...state, journal: [...state.journal, ...state.buffer, ...more], buffer: [] };
}

/** Nobody drives the turn any more. */
function gone(state: GroupState): GroupState {
  return { ...state, from: null, made: {} };
}

function without<T>(of: Readonly<Record<string, T>>, name: string): Readonly<Record<string, T>> {
  const { [name]: _, ...rest } = of;
  return rest;
}

/** A call of a script. */
export function callOf(
  name: string,
  as: CallSpec['as'],
  options: Partial<Omit<CallSpec, 'name' | 'as'>> = {},
): CallSpec {
  const recovery = as === 'read' ? ('retry' as const) : ('operator' as const);
  return {
    name,
    as,
    recovery,
    tries: 1,
    fates: ['lands', 'refused', 'lost', 'silent'],
    ...options,
  };
}

export { groupName };
