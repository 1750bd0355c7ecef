// One execution of an agent's code over a turn's journal: live past its end, or strict.
//
// Owns: the scheduler, the contexts handed to the code, and how a pass ends. Does not own: the lease,
// the transaction that concludes, or what an effect's outcome means (effect-runner.ts).
//   T5/T6/T7  every outcome reaches the code through the scheduler, in an order the journal repeats.
//   Decision 6  a swallowed doubt still quarantines: the verdict reads the journal, not the code's word.

import type { StopRequest } from '../ports/store.ts';
import type { StateChange } from '../protocol/checkpoint.ts';
import { doubtsOf } from '../protocol/doubt.ts';
import type { AgentError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import { Meter } from '../protocol/meter.ts';
import type { RecordBody, Site } from '../protocol/record.ts';
import { runAct, type StagedAct } from './acts.ts';
import { type AtomicMember, runAtomic } from './atomic-members.ts';
import type { DeclaredEffect } from './declared-effect.ts';
import { runEffect } from './effect-runner.ts';
import { abortGroups, type GroupScope, settling } from './groups.ts';
import { Labels } from './labelled.ts';
import type { StagedMemory } from './memories.ts';
import { never } from './never.ts';
import { notAwaited, type PassEnd, type PassSetup } from './pass-setup.ts';
import { progressWatch } from './progress-watch.ts';
import type { KeyUse } from './receipts.ts';
import { ReplayBook } from './replay-book.ts';
import { type Divergence, missingFrom } from './resume-point.ts';
import { Scheduler } from './scheduler.ts';
import { TenantMeter } from './tenant-meter.ts';
import { type Act, type EffectError, TurnSuspendedError } from './turn-context.ts';
import type { StagedEvent } from './turn-events.ts';
import { TurnScope } from './turn-scope.ts';
import type { StepState, UnwindEnd, UnwindStart } from './unwind.ts';
import { decideUnwind, recordForwardEnd, runUnwind, severest, takesBack } from './unwind.ts';
import { type OpenWait, runWait, type WaitSpec } from './wait-runner.ts';

export class Pass {
  readonly setup: PassSetup;
  readonly scheduler: Scheduler;
  readonly abort = new AbortController();
  readonly changes: StateChange[] = [];
  readonly stepNames = new Set<string>();
  readonly meter = new Meter();
  readonly tenant: TenantMeter;
  readonly replay: ReplayBook;
  /** Acts of this pass, whoever staged them first. */
  readonly staged: StagedAct[] = [];
  /** Events of this pass in order. */
  readonly events: StagedEvent[] = [];
  /** Facts of this pass, whoever staged them first. */
  readonly memories: StagedMemory[] = [];
  readonly labels: Labels;
  /** A selection that is gone: why code leaves its journal (ME-10). */
  lostMemory: AgentError | null = null;
  /** Steps as this pass met them, with how each is taken back. */
  readonly steps = new Map<string, StepState>();
  /** First uses of business keys, by kind and key (K-35). */
  readonly keys = new Map<string, KeyUse>();
  /** What the first step that nobody can decide ended with. */
  undecided: EffectError | null = null;
  /** Groups that were opened in this pass. */
  readonly groups = new Set<GroupScope>();
  readonly #waiting = new Map<string, OpenWait>();
  readonly #firstWaiting: { site: Site; declared: DeclaredEffect }[] = [];
  readonly #done: Promise<PassEnd>;
  #finish: (end: PassEnd) => void = () => undefined;
  #end: PassEnd | null = null;
  #main: { kind: 'returned'; value: unknown } | { kind: 'threw'; error: unknown } | null = null;
  #openSteps = 0;
  #parked = 0;
  #wakeAt: EpochMs | null = null;
  #draining = false;
  #stopRequest: StopRequest | null = null;
  #interrupted = false;
  /** The forward phase has ended for good: open groups are taken back, then the unwind is walked. */
  #unwinding = false;
  #walking = false;
  #unwound: UnwindEnd | null = null;
  /** Dispatches that were started and not settled, waits left out. */
  #outstanding = 0;
  #lookedAt = 0;
  #instant: EpochMs;
  #cancelTimers: (() => void)[] = [];
  #restartTimeout: () => void = () => undefined;
  readonly #broken = (error: unknown): void => this.stop({ kind: 'broken', error });
  leaseUntilMonotonicMs = Number.POSITIVE_INFINITY;

  constructor(setup: PassSetup) {
    this.setup = setup;
    this.tenant = new TenantMeter(setup.runtime, setup.ref);
    this.replay = new ReplayBook(setup);
    this.#instant = setup.admittedAt;
    this.labels = new Labels(setup.agent.inputLabel);
    this.#lookedAt = setup.runtime.clock.monotonicMs();
    for (const body of setup.history.bodies()) this.meter.add(body);
    this.#done = new Promise((resolve) => {
      this.#finish = resolve;
    });
    this.scheduler = new Scheduler({
      frontier: () => this.#frontier(),
      idle: () => this.#idle(),
      failed: (error) => this.stop({ kind: 'broken', error }),
    });
  }

  get strict(): boolean {
    return this.setup.writer === null;
  }

  /** True when only what is recorded may run forward: the turn is being stopped or unwound (decisions 4, 5). */
  get historyOnly(): boolean {
    return this.#stopRequest !== null || this.#unwinding || this.setup.history.unwind !== null;
  }

  get stopRequest(): StopRequest | null {
    return this.#stopRequest;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** Instant of the last settled record. */
  get instant(): EpochMs {
    return this.#instant;
  }

  /** True when the code's main function has ended: nothing new may start outside an open step. */
  get mainEnded(): boolean {
    return (this.#main !== null && this.#openSteps === 0) || this.#unwinding;
  }

  /** Runs the code until it ends, is stopped, or may not go on. */
  async run(): Promise<PassEnd> {
    this.#watch();
    if (this.#stopRequest !== null) this.scheduler.kick();
    const root = new TurnScope(this, '');
    void this.#runMain(root);
    const end = await this.#done;
    for (const cancel of this.#cancelTimers) cancel();
    this.scheduler.stop();
    this.abort.abort(new Error('the pass has ended'));
    return end;
  }

  /** Ends the pass once; the first end counts. */
  stop(end: PassEnd): void {
    if (this.#end !== null) return;
    this.#end = end;
    this.#finish(end);
  }

  /** Dispatches one declared effect of the agent's code [T5, T7]. */
  dispatch(site: Site, declared: DeclaredEffect): Promise<unknown> {
    return this.#counted(() => runEffect(this, site, declared));
  }

  /** Writes a group's atomic members [T9]. */
  together(members: readonly AtomicMember[]): Promise<unknown> {
    return this.#counted(() => runAtomic(this, members));
  }

  /** Runs a call and counts it until it settled; nothing starts once the pass has ended. */
  #counted(call: () => Promise<unknown>): Promise<unknown> {
    if (this.#end !== null || this.#interrupted) return never();
    this.#outstanding += 1;
    return call().finally(() => {
      this.#outstanding -= 1;
    });
  }

  /** Asks a person, an event or an instant; settles in the pass that finds the answer. */
  wait(site: Site, spec: WaitSpec): Promise<unknown> {
    if (this.#end !== null || this.#interrupted) return never();
    return runWait(this, site, spec);
  }

  /** Stages a deferred act [T1]. */
  act(site: Site, act: Act): Promise<string> {
    if (this.#end !== null || this.#interrupted) return never();
    return runAct(this, site, act);
  }

  /** A wait nobody has settled: its branch rests until the whole pass does. */
  rests(wait: OpenWait): void {
    this.#waiting.set(wait.id, wait);
    this.scheduler.kick();
  }

  /**
   * Queues a dispatch for the end of history, remembering the first for a divergence report. A fresh one of
   * the forward phase never starts while the turn is being stopped or unwound.
   */
  whenLive(
    site: Site,
    declared: DeclaredEffect,
    start: () => void,
    of: { readonly fresh: boolean },
  ): void {
    const ends = declared.reversal || declared.finishes;
    const fresh = of.fresh && site.phase === 'forward' && !ends;
    if (fresh && this.historyOnly) return this.scheduler.kick();
    this.#firstWaiting.push({ site, declared });
    this.scheduler.whenLive(start);
  }

  /** True when an announcement of the forward phase may not start any more: only an open doubt is still settled. */
  stops(site: Site, doubt: boolean): boolean {
    return this.#stopRequest !== null && site.phase === 'forward' && !doubt;
  }

  /** Milliseconds since the admission, for the live start of a step, which journals what they decide (E100). */
  elapsedMs(): number {
    return Math.max(this.setup.runtime.clock.now(), this.#instant) - this.setup.admittedAt;
  }

  stepOpened(): void {
    this.#openSteps += 1;
  }

  stepClosed(): void {
    this.#openSteps -= 1;
    this.scheduler.kick();
  }

  /** Moves the turn's clock to a settled record. */
  heard(body: RecordBody): void {
    this.labels.heard(body);
    if (body.at > this.#instant) this.#instant = body.at as EpochMs;
  }

  /** A call that may not start any more: it waits for the next pass (drain rule). */
  park(wakeAt: EpochMs | null): void {
    this.#parked += 1;
    this.replay.letGo();
    if (wakeAt !== null && (this.#wakeAt === null || wakeAt < this.#wakeAt)) this.#wakeAt = wakeAt;
    this.scheduler.kick();
  }

  /** Honours a stop request: nothing new starts, what is in flight finishes (CA-2). */
  cancel(request: StopRequest): void {
    this.#stopRequest = request;
    this.scheduler.kick();
  }

  /**
   * A step boundary: looks for a stop request when the last look is `limits.stopLookMs` old (B3). Dispatches wait for
   * the look, the code does not: how long it took must not decide which call comes first (T7).
   */
  boundary(): void {
    const { runtime, ref, writer } = this.setup;
    if (writer?.held !== true || this.#stopRequest !== null) return;
    const now = runtime.clock.monotonicMs();
    if (now - this.#lookedAt < limits.stopLookMs) return;
    this.#lookedAt = now;
    const release = this.scheduler.hold();
    runtime.store.stopOf(ref).then((request) => {
      if (request !== null) this.cancel(request);
      release();
    }, this.#broken);
  }

  /** Stops new announcements; what is in flight finishes. */
  drain(): void {
    this.#draining = true;
    this.scheduler.kick();
  }

  /** A write was acknowledged: the pass may have waited for nothing else. */
  progressed(): void {
    this.#restartTimeout();
    this.scheduler.kick();
  }

  diverged(divergence: Divergence): void {
    const error = this.lostMemory;
    if (error !== null) return this.stop({ kind: 'threw', error });
    this.stop({ kind: 'diverged', divergence });
  }

  async #runMain(root: TurnScope): Promise<void> {
    try {
      const { agent, input } = this.setup;
      const run = () => agent.run(root, input);
      const value = await settling(() => root.group, run);
      this.#main =
        this.#outstanding === 0
          ? { kind: 'returned', value }
          : { kind: 'threw', error: notAwaited() };
    } catch (error) {
      this.#main = { kind: 'threw', error };
    }
    this.scheduler.kick();
  }

  #frontier(): boolean {
    const left = this.setup.history.unread(this.#walking ? 'any' : 'forward');
    // E336: an undo that lost what it had recalled leaves the rest of its slice unread; it is recorded as failed.
    if (left === undefined || (this.#walking && this.lostMemory !== null)) return true;
    const asked = this.#firstWaiting[0];
    if (!('site' in left.body)) return true;
    this.diverged(missingFrom(left.body, asked));
    return false;
  }

  #idle(): void {
    if (this.setup.writer?.busy === true) return;
    if (this.#unwound !== null) {
      if (this.#frontier()) this.stop({ kind: 'unwound', ...this.#unwound });
      return;
    }
    if (!this.#unwinding && this.#forwardIdle()) return;
    if (this.#parked > 0 || this.#draining)
      return this.stop({ kind: 'parked', wakeAt: this.#wakeAt });
    if (this.#waiting.size > 0) this.#rest();
  }

  /** The forward phase cannot move: true when that settles the pass or starts its unwind. */
  #forwardIdle(): boolean {
    const main = this.#main;
    const request = this.#stopRequest;
    if (request !== null && this.#parked === 0) {
      this.#endForward({ kind: 'cancelled', request });
      return true;
    }
    if (main !== null && (this.#openSteps === 0 || this.#parked === 0)) {
      if (this.#restsAt(main)) return false;
      this.#endForward(severest(main, this.undecided));
      return true;
    }
    if (!this.historyOnly || this.#parked > 0) return false;
    this.#endForward(null);
    return true;
  }

  /** Decision 6: a suspension that the code swallowed suspends all the same. */
  #restsAt(main: { kind: 'returned' | 'threw'; error?: unknown }): boolean {
    if (this.#waiting.size === 0 || this.historyOnly) return false;
    if (main.kind === 'threw') return main.error instanceof TurnSuspendedError;
    return this.#interrupted;
  }

  #endForward(end: Parameters<typeof decideUnwind>[1]): void {
    const open = takesBack(end) ? [...this.groups].filter((group) => group.open) : [];
    const bodies = [...this.setup.history.bodies(), ...(this.setup.writer?.added ?? [])];
    // A doubt keeps groups as they are, unless taking back had begun: then it is gone on with.
    const doubtful = this.setup.history.unwind === null && doubtsOf(bodies).length > 0;
    if (open.length === 0 || doubtful) return this.#decide(end);
    this.#unwinding = true;
    this.#interrupted = false;
    this.#waiting.clear();
    const settle = this.scheduler.begin();
    const takeBack = () => abortGroups(open).then(() => this.#decide(end), this.#broken);
    recordForwardEnd(this, end).then(() => settle(takeBack), this.#broken);
  }

  #decide(end: Parameters<typeof decideUnwind>[1]): void {
    if (!this.#frontier()) return;
    const settle = this.scheduler.begin();
    decideUnwind(this, end).then(
      (start) => settle(() => ('walk' in start ? this.#unwind(start) : this.stop(start))),
      this.#broken,
    );
  }

  #unwind(start: UnwindStart): void {
    this.#unwinding = true;
    this.#walking = true;
    this.#interrupted = false;
    this.#waiting.clear();
    runUnwind(this, start).then(
      (end) => {
        this.#unwound = end;
        this.scheduler.kick();
      },
      (error: unknown) => {
        if (!(error instanceof TurnSuspendedError)) this.stop({ kind: 'broken', error });
        this.scheduler.kick();
      },
    );
  }

  /** Everything left waits: the code is told once, so that siblings end by severity (CC-2), then the pass rests. */
  #rest(): void {
    const waits = [...this.#waiting.values()];
    if (!this.#interrupted) {
      this.#interrupted = true;
      for (const wait of waits) wait.interrupt(new TurnSuspendedError());
      return this.scheduler.kick();
    }
    if (this.strict) return this.stop({ kind: 'undecidable', site: (waits[0] as OpenWait).site });
    this.stop({ kind: 'suspended', waits });
  }

  #watch(): void {
    const { runtime, writer, drain, deadlineAt } = this.setup;
    if (writer !== null) void writer.ended.then((end) => this.stop({ kind: 'ended', end }));
    if (drain !== null) {
      if (drain.aborted) this.#draining = true;
      const onAbort = () => this.drain();
      drain.addEventListener('abort', onAbort, { once: true });
      this.#cancelTimers.push(() => drain.removeEventListener('abort', onAbort));
    }
    if (deadlineAt !== null) {
      const left = deadlineAt - runtime.settings.reserveMs - runtime.clock.now();
      if (left <= 0) this.#draining = true;
      else this.#cancelTimers.push(runtime.clock.timer(left, () => this.drain()));
    }
    if (this.strict) return;
    const { arm, cancel } = progressWatch(this);
    this.#restartTimeout = arm;
    this.#cancelTimers.push(() => {
      this.#restartTimeout = () => undefined;
      cancel();
    });
    arm();
  }
}
