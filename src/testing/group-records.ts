// Calls and records of the group model: a journal is a list of words, each of which is a real record.
import type { RecordBody, Site } from '../protocol/record.ts';
import type { UndoAction } from '../protocol/saga.ts';
import type { DeclaredEffect } from '../runtime/declared-effect.ts';
import { declareEffect } from '../runtime/declared-effect.ts';
import { attemptKey } from '../runtime/resume-point.ts';

/** What a call may come to: its effect on the world, and what its caller hears of it. */
export type Fate =
  /** It lands and says so. */
  | 'lands'
  /** It lands and its answer cannot be used. */
  | 'garbled'
  /** It is refused. */
  | 'refused'
  /** Nothing is heard: it landed, or it did not. */
  | 'lost'
  | 'silent';

export interface CallSpec {
  readonly name: string;
  readonly as:
    | 'read'
    | 'reversible'
    | 'deferred'
    | 'atomic'
    | 'plain'
    | 'reversal'
    | 'undo'
    | 'wait';
  readonly recovery: 'operator' | 'reconcile' | 'idempotent' | 'retry';
  readonly tries: number;
  readonly fates: readonly Fate[];
}

/** Name of the one group of the model. */
export const groupName = 'g';

const declared = new Map<CallSpec, DeclaredEffect>();

/** The declaration a pass would have of a call. */
export function declaredOf(call: CallSpec): DeclaredEffect {
  const known = declared.get(call);
  if (known !== undefined) return known;
  const made = declareEffect({
    kind: call.name,
    args: call.name,
    mutates: call.as !== 'read' && call.as !== 'wait',
    recovery: call.recovery,
    retry: { maxAttempts: call.tries, initialMs: 0 },
    perform: () => Promise.reject(new Error('the model calls nobody')),
  });
  declared.set(call, made);
  return made;
}

/** Words of records: a kind, then what it is about. A site is `step.phase.ordinal`. */
export const words = {
  started: (call: CallSpec, site: Site, attempt: number, grouped: boolean): string =>
    `ES ${call.name} ${placeOf(site)} ${attempt} ${grouped ? groupName : '-'}`,
  done: (call: CallSpec, site: Site, attempt: number): string =>
    `ED ${call.name} ${placeOf(site)} ${attempt}`,
  failed: (call: CallSpec, site: Site, attempt: number, disposition: string, permanent: boolean) =>
    `EF ${call.name} ${placeOf(site)} ${attempt} ${disposition} ${permanent ? 'answered' : 'fault'}`,
  reconciled: (call: CallSpec, site: Site, attempt: number, disposition: string, by: string) =>
    `ER ${call.name} ${placeOf(site)} ${attempt} ${disposition} ${by}`,
  refused: (call: CallSpec, site: Site): string => `AR ${call.name} ${placeOf(site)}`,
  unwind: (status: string, walk: readonly UndoAction[] | null): string =>
    `US ${status} ${walk === null ? '-' : walk.map(({ kind, step }) => `${kind}:${step}`).join(',')}`,
};

function placeOf({ step, phase, ordinal }: Site): string {
  return `${step}.${phase === 'forward' ? 'f' : 'c'}.${ordinal}`;
}

function siteOf(place: string): Site {
  const [step = '', phase, ordinal] = place.split('.');
  return { step, phase: phase === 'f' ? 'forward' : 'compensating', ordinal: Number(ordinal) };
}

/** The walk a word of the start of an unwind carries; null while only the forward phase has ended. */
export function walkIn(word: string): readonly UndoAction[] | null {
  const [, , walk = '-'] = word.split(' ');
  if (walk === '-') return null;
  return walk.split(',').map((action) => {
    const [kind, step = ''] = action.split(':');
    return { kind: kind === 'undo' ? 'undo' : 'refuse', step };
  });
}

/** Reads words as records; one reader knows the calls of one script. */
export class Records {
  readonly #calls: ReadonlyMap<string, CallSpec>;
  readonly #known = new Map<string, RecordBody>();
  readonly #keys = new Map<string, string>();

  constructor(calls: Iterable<CallSpec>) {
    this.#calls = new Map([...calls].map((call) => [call.name, call]));
  }

  call(name: string): CallSpec {
    const call = this.#calls.get(name);
    if (call === undefined) throw new Error(`the script has no call "${name}"`);
    return call;
  }

  bodies(journal: readonly string[]): readonly RecordBody[] {
    return journal.map((word, index) => this.#body(word, index + 1));
  }

  #body(word: string, seq: number): RecordBody {
    const known = this.#known.get(`${seq} ${word}`);
    if (known !== undefined) return known;
    const common = { seq, at: 0, epoch: 1, payload: { kind: 'none' } };
    const body = { ...common, ...this.#facts(word) } as RecordBody;
    this.#known.set(`${seq} ${word}`, body);
    return body;
  }

  #facts(word: string): object {
    const [kind = '', name = '', place = '', ...rest] = word.split(' ');
    const step = { step: 's' };
    switch (kind) {
      case 'GO':
        return { kind: 'GroupOpened', ...step, name: groupName };
      case 'GS':
        return { kind: 'GroupSettled', ...step, name: groupName, outcome: name };
      case 'SS':
        return { kind: 'StepStarted', step: name };
      case 'SF':
        return { kind: 'StepFinished', step: name, outcome: place };
      case 'SC':
        return { kind: 'StepCompensated', step: name, outcome: place };
      case 'US':
        return { kind: 'UnwindStarted', status: name };
      case 'RX':
        return { kind: 'RunCancelled', actor: 'olga' };
      case 'RS':
        return { kind: 'RunSuspended', until: 0 };
      case 'QD':
        return { kind: 'QuarantineDecided', decision: 'reopen', decider: 'olga' };
      case 'RC':
        return { kind: 'RunConcluded', outcome: name, code: place, chainHead: '' };
      default:
        return this.#effectFacts(kind, this.call(name), siteOf(place), rest);
    }
  }

  #effectFacts(kind: string, call: CallSpec, site: Site, rest: readonly string[]): object {
    const [attempt = '1', second = '', third = ''] = rest;
    const { mutates, recovery } = declaredOf(call);
    const common = { site, key: this.#key(call, site, Number(attempt)) };
    const spend = { tokens: 0, minorUnits: 0 };
    switch (kind) {
      case 'ES':
        return {
          kind: 'EffectStarted',
          ...common,
          effect: call.name,
          attempt: Number(attempt),
          backoffMs: 0,
          mutates,
          recovery,
          ...(second === groupName ? { group: groupName } : {}),
          ...(call.as === 'wait' ? { wait: 'approval' } : {}),
        };
      case 'ED':
        return { kind: 'EffectDone', ...common, spend };
      case 'EF': {
        const permanent = third === 'answered';
        return {
          kind: 'EffectFailed',
          ...common,
          disposition: second,
          permanent,
          code: second,
          spend,
        };
      }
      case 'ER': {
        const by = third === 'probe' ? {} : { assertedBy: third };
        return { kind: 'EffectReconciled', ...common, disposition: second, spend, ...by };
      }
      case 'AR':
        return { kind: 'AtomicRefused', ...common };
      default:
        throw new Error(`no record is written as "${kind}"`);
    }
  }

  #key(call: CallSpec, site: Site, attempt: number): string {
    const at = `${call.name} ${placeOf(site)} ${attempt}`;
    const known = this.#keys.get(at) ?? attemptKey(site, attempt, declaredOf(call));
    this.#keys.set(at, known);
    return known;
  }
}
