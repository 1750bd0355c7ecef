// One look at a pass of the group model: what its code waits for, judged from the journal alone.
//
// Owns: reading back, the end of the forward phase, the unwind, the verdict; it mirrors runtime/pass.ts with every
// decision taken by the rules. Does not own: what the world answers (group-model.ts).
import type { RecordBody, RecordOf, Site } from '../protocol/record.ts';
import type { HistoryRecord } from '../runtime/history.ts';
import { History } from '../runtime/history.ts';
import type { ResumePoint } from '../runtime/resume-point.ts';
import { resumePoint } from '../runtime/resume-point.ts';
import { EffectError } from '../runtime/turn-context.ts';
import type { Code, Heard, Op, Script } from './group-program.ts';
import { Program } from './group-program.ts';
import type { CallSpec, Records } from './group-records.ts';
import { declaredOf, walkIn, words } from './group-records.ts';
import type { GroupRules } from './group-rules.ts';

/** What a call waits for next. */
export type Want =
  | { readonly kind: 'announce'; readonly attempt: number; readonly fresh: boolean }
  | { readonly kind: 'answer'; readonly attempt: number; readonly resend: boolean }
  | { readonly kind: 'probe'; readonly attempt: number; readonly live: boolean }
  | { readonly kind: 'transact' }
  | { readonly kind: 'rest' };

export interface Open {
  readonly call: CallSpec;
  readonly site: Site;
  readonly grouped: boolean;
  readonly want: Want;
}

export type View =
  /** The code wrote these words, to be recorded with the next write. */
  | { readonly kind: 'rides'; readonly words: readonly string[] }
  | { readonly kind: 'runs'; readonly open: readonly Open[] }
  | { readonly kind: 'suspends'; readonly open: Open }
  | { readonly kind: 'ends'; readonly status: string; readonly code: string };

/** What a pass is looked at with. */
export interface PassOf {
  readonly script: Script;
  readonly rules: GroupRules;
  readonly records: Records;
  /** Everything written so far, by this pass and before it. */
  readonly journal: readonly string[];
  /** Number of words that stood when the pass began. */
  readonly from: number;
  /** Names of calls this pass has made or makes, and has not heard of. */
  readonly made: ReadonlySet<string>;
  /** The pass has seen a stop. */
  readonly stopped: boolean;
  readonly ill: boolean;
}

interface Handle extends Omit<Extract<Op, { kind: 'start' }>, 'kind'> {
  readonly slice: readonly HistoryRecord[] | null;
}

type Reached = { readonly seq: number; readonly error: unknown } | { readonly want: Want };

type Ran<T> =
  | { readonly kind: 'returned'; readonly value: T }
  | { readonly kind: 'threw'; readonly error: unknown }
  | { readonly kind: 'blocked' }
  | { readonly kind: 'rides'; readonly word: string };

export function lookAt(of: PassOf): View {
  return new Look(of).view();
}

class Look {
  readonly #of: PassOf;
  readonly #bodies: readonly RecordBody[];
  readonly #history: History;
  readonly #program: Program;
  readonly #handles: Handle[] = [];
  #unwinding = false;

  constructor(of: PassOf) {
    this.#of = of;
    this.#bodies = of.records.bodies(of.journal);
    const stored = { body: '', hash: '' };
    const records = this.#bodies.map((body) => ({ body, stored }));
    this.#history = new History(records, { seq: records.length, hash: '' }, 0);
    const written = of.journal.slice(of.from);
    this.#program = new Program({
      script: of.script,
      rules: of.rules,
      history: this.#history,
      rode: (word) => written.includes(word),
      call: (name) => of.records.call(name),
    });
  }

  view(): View {
    const { stopped, script, ill } = this.#of;
    const main = this.#drive(this.#program.forward());
    if (main.kind === 'rides') return { kind: 'rides', words: [main.word] };
    const open = this.#opens();
    const running = open.filter((call) => this.#moves(call));
    if (running.length > 0) {
      return this.#history.unread('forward') === undefined
        ? { kind: 'runs', open: running }
        : diverged;
    }
    const rest = open.find(({ want }) => want.kind === 'rest');
    if (stopped) return this.#endForward({ kind: 'cancelled', request: request() });
    if (main.kind !== 'blocked') return this.#endForward(main);
    const recorded = this.#history.unwind !== null;
    if (script.sibling && ill && rest !== undefined && !recorded)
      return this.#endForward({ kind: 'threw', error: new Error('a sibling broke') });
    if (recorded) return this.#endForward(null);
    if (rest === undefined) throw new Error('the model is stuck in its forward phase');
    return { kind: 'suspends', open: rest };
  }

  /** Calls that were asked for and have not settled. */
  #opens(): readonly Open[] {
    return this.#handles.flatMap((handle) => {
      const reached = this.#reached(handle);
      if (!('want' in reached)) return [];
      const { call, site, grouped } = handle;
      return [{ call, site, grouped, want: reached.want }];
    });
  }

  get #historyOnly(): boolean {
    if (!this.#of.rules.stopHolds) return false;
    return this.#of.stopped || this.#unwinding || this.#history.unwind !== null;
  }

  #moves({ call, site, want }: Open): boolean {
    if (want.kind === 'rest') return false;
    const fresh = want.kind === 'transact' || (want.kind === 'announce' && want.fresh);
    const handle = this.#handles.find((one) => one.call === call && one.site === site);
    if (!fresh || site.phase !== 'forward' || handle?.anyway === true) return true;
    return !this.#historyOnly;
  }

  /** As `#endForward` of the pass. */
  #endForward(end: Parameters<GroupRules['takesBack']>[0]): View {
    const { rules } = this.#of;
    const { group } = this.#program;
    const open = group?.open === true && rules.takesBack(end) && rules.groupsFirst;
    const recorded = this.#history.unwind;
    const doubtful =
      rules.keepsAroundDoubt && recorded === null && rules.doubtsOf(this.#bodies).length > 0;
    if (open && !doubtful) {
      const ended = rules.recordsForwardEnd ? this.#recordEnd(end) : null;
      if (ended !== null) return { kind: 'rides', words: ended };
      this.#unwinding = true;
      const back = this.#drive(group.takeBack({ idle: true }));
      if (back.kind === 'rides') return { kind: 'rides', words: [back.word] };
      if (back.kind === 'blocked') return this.#blocked();
    }
    return this.#decide(end);
  }

  #blocked(): View {
    const running = this.#opens().filter((call) => this.#moves(call));
    return { kind: 'runs', open: running };
  }

  #recordEnd(end: Parameters<GroupRules['takesBack']>[0]): readonly string[] | null {
    const status = statusOf(end);
    if (end === null || status === null || this.#history.unwind !== null) return null;
    return [...this.#stopWord(), words.unwind(status, null)];
  }

  #stopWord(): readonly string[] {
    const { stopped, journal } = this.#of;
    return stopped && !journal.includes('RX') ? ['RX'] : [];
  }

  /** As `decideUnwind`. */
  #decide(end: Parameters<GroupRules['takesBack']>[0]): View {
    const { rules, script, stopped, journal } = this.#of;
    if (this.#history.unread('forward') !== undefined) return diverged;
    const recorded = journal.findLast((word) => word.startsWith('US '));
    let status = statusOf(end);
    if (recorded !== undefined) {
      const walk = walkIn(recorded);
      status = recorded.startsWith('US cancelled') ? 'cancelled' : 'failed';
      if (walk !== null) return this.#walk(walk, status);
    }
    const doubtful =
      rules.doubtsOf(this.#bodies).length > 0 || rules.stuckGroup(this.#bodies) !== null;
    if (status !== null && !doubtful) {
      const declared = (step: string) =>
        step === 'a' ? ('compensatable' as const) : step === 's' ? script.declared : 'undeclared';
      const plan = rules.planUnwind(rules.stepEvidence(this.#bodies), declared, status);
      if (plan !== null)
        return { kind: 'rides', words: [...this.#stopWord(), words.unwind(status, plan.walk)] };
    }
    if (recorded !== undefined) return this.#unwound(stopped ? 'cancelled' : (status ?? ''), null);
    if (end === null) throw new Error('the forward phase has no end');
    return this.#verdict(end);
  }

  #walk(walk: Parameters<Program['unwind']>[0], status: 'failed' | 'cancelled'): View {
    this.#unwinding = true;
    const ran = this.#drive(this.#program.unwind(walk));
    if (ran.kind === 'rides') return { kind: 'rides', words: [ran.word] };
    if (ran.kind === 'blocked') return this.#blocked();
    if (ran.kind === 'threw') throw ran.error;
    if (this.#history.unread('any') !== undefined) return diverged;
    return this.#unwound(this.#of.stopped ? 'cancelled' : status, ran.value);
  }

  #unwound(status: string, stuck: string | null): View {
    const error = { code: 'undo_failed', message: `stopped at ${stuck}` };
    return this.#verdict({
      kind: 'unwound',
      status: status === 'cancelled' ? 'cancelled' : 'failed',
      error: null,
      stuck: stuck === null ? null : error,
      request: this.#of.stopped ? request() : null,
    });
  }

  #verdict(end: Parameters<GroupRules['verdictOf']>[0]): View {
    const { status, error, stop } = this.#of.rules.verdictOf(end, this.#bodies);
    if (stop !== undefined && !this.#of.journal.includes('RX'))
      return { kind: 'rides', words: ['RX'] };
    return { kind: 'ends', status, code: error?.code ?? '-' };
  }

  /** Runs code as far as what is recorded carries it. */
  #drive<T>(code: Code<T>): Ran<T> {
    let answer: number | Heard | undefined;
    for (;;) {
      let step: IteratorResult<Op, T>;
      try {
        step = code.next(answer);
      } catch (error) {
        return { kind: 'threw', error };
      }
      if (step.done === true) return { kind: 'returned', value: step.value };
      const op = step.value;
      switch (op.kind) {
        case 'ride':
          return { kind: 'rides', word: op.word };
        case 'start':
          answer = this.#start(op);
          break;
        case 'hear': {
          const heard = this.#firstHeard(op.of);
          if (heard === null) return { kind: 'blocked' };
          answer = heard;
        }
      }
    }
  }

  #start({ call, site, grouped, anyway }: Extract<Op, { kind: 'start' }>): number {
    const slice = this.#history.take(site);
    const records = slice?.records ?? null;
    return this.#handles.push({ call, site, grouped, anyway, slice: records }) - 1;
  }

  /** Ruling 6: outcomes are heard in journal order. */
  #firstHeard(of: readonly number[]): Heard | null {
    let first: (Heard & { readonly seq: number }) | null = null;
    for (const handle of of) {
      const reached = this.#reached(this.#handles[handle] as Handle);
      if ('want' in reached) continue;
      if (first === null || reached.seq < first.seq) first = { handle, ...reached };
    }
    return first;
  }

  /** Where a call stands, as effect-runner.ts reads it back. */
  #reached({ call, site, slice }: Handle): Reached {
    if (slice === null) {
      if (call.as === 'wait') return { want: { kind: 'rest' } };
      if (call.as === 'atomic') return { want: { kind: 'transact' } };
      return { want: { kind: 'announce', attempt: 1, fresh: true } };
    }
    const point = resumePoint({ site, records: slice }, declaredOf(call));
    if (call.as === 'wait') {
      return point.kind === 'done'
        ? { seq: point.record.body.seq, error: null }
        : { want: { kind: 'rest' } };
    }
    return this.#read(call, point);
  }

  #read(call: CallSpec, point: ResumePoint): Reached {
    const { rules, from, made } = this.#of;
    switch (point.kind) {
      case 'done': {
        const { seq } = point.record.body;
        if (rules.readsBack || seq > from || call.as === 'atomic') return { seq, error: null };
        return made.has(`${call.name}+`)
          ? { seq, error: null }
          : { want: { kind: 'answer', attempt: 1, resend: false } };
      }
      case 'denied': {
        const { seq } = point.record.body;
        if (!rules.refusalIsFinal && seq <= from) return { want: { kind: 'transact' } };
        return { seq, error: errorOf('transaction_refused', 'did_not_happen', false) };
      }
      case 'failed':
        return this.#readFailure(call, point);
      case 'orphan':
      case 'cleared':
        return this.#meetOrphan(call, point.started);
      default:
        throw new Error(`the model does not know a slice that is ${point.kind}`);
    }
  }

  #meetOrphan(call: CallSpec, started: RecordOf<'EffectStarted'>): Reached {
    const { rules, from, made } = this.#of;
    const { attempt, recovery, mutates } = started;
    const resend = started.seq <= from;
    if (!resend || made.has(call.name)) return { want: { kind: 'answer', attempt, resend } };
    const decision = rules.decideOrphan({ recovery, mutates, pass: 'resume' });
    switch (decision.kind) {
      case 'perform_same_key':
        return { want: { kind: 'answer', attempt, resend } };
      case 'probe':
        return { want: { kind: 'probe', attempt, live: false } };
      default:
        // Told after everything that is recorded.
        return { seq: Number.MAX_SAFE_INTEGER, error: errorOf('orphan', 'in_doubt', true) };
    }
  }

  #readFailure(call: CallSpec, point: Extract<ResumePoint, { kind: 'failed' }>): Reached {
    const { rules } = this.#of;
    const { body } = point.record;
    if (body.kind !== 'EffectFailed' && body.kind !== 'EffectReconciled')
      throw new Error('not a failure');
    const { mutates, retry, recovery } = declaredOf(call);
    const { attempt } = point.started;
    const common = { mutates, attempt, maxAttempts: retry.maxAttempts };
    const ofProbe = body.kind === 'EffectReconciled';
    const decision = ofProbe
      ? rules.decideProbe({
          ...common,
          verdict: body.disposition === 'did_not_happen' ? 'did_not_happen' : 'inconclusive',
          live: true,
        })
      : rules.decideFailure({
          ...common,
          disposition: body.disposition,
          permanent: body.permanent,
          recovery,
          earlierDoubt: point.earlierDoubt,
        });
    const doubt = !ofProbe && (point.earlierDoubt || body.disposition === 'in_doubt');
    const next = { kind: 'announce' as const, attempt: attempt + 1, fresh: !doubt };
    if (decision.kind === 'retry') return { want: next };
    if (decision.kind === 'probe') return { want: { kind: 'probe', attempt, live: true } };
    const undecided = decision.kind === 'quarantined';
    const undoes = call.as === 'undo' || call.as === 'reversal';
    const again = undoes && body.disposition === 'did_not_happen';
    if (!undecided && again && this.#history.reopenedAfter(body.seq)) return { want: next };
    const disposition = undecided ? 'in_doubt' : body.disposition;
    return { seq: body.seq, error: errorOf(call.name, disposition, undecided) };
  }
}

const diverged: View = { kind: 'ends', status: 'quarantined', code: 'divergence' };

function request() {
  const bytes = new Uint8Array();
  return { actor: 'olga', reason: { kind: 'inline' as const, bytes }, scope: '', at: 0 as never };
}

function errorOf(
  code: string,
  disposition: EffectError['disposition'],
  undecided: boolean,
): EffectError {
  return new EffectError(code, { code, disposition, effectKey: '', step: 's', undecided });
}

/** As `statusOf` of the unwind. */
function statusOf(end: Parameters<GroupRules['takesBack']>[0]): 'failed' | 'cancelled' | null {
  if (end === null || end.kind === 'returned') return null;
  if (end.kind === 'cancelled') return 'cancelled';
  return end.error instanceof EffectError && end.error.undecided ? null : 'failed';
}
