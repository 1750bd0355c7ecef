// One execution of an agent's code over a turn's journal: live past its end, or strict.
//
// Owns: the scheduler, the contexts handed to the code, and how a pass ends. Does not own: the lease,
// the transaction that concludes, or what an effect's outcome means (effect-runner.ts).
//   T5/T6/T7  every outcome reaches the code through the scheduler, in an order the journal repeats.
//   Decision 6  a swallowed doubt still quarantines: the verdict reads the journal, not the code's word.

import type { StopRequest, TurnRef } from '../ports/store.ts';
import type { Sealer } from '../ports/vault.ts';
import type { Budget } from '../protocol/budget.ts';
import type { FoldedState, StateChange } from '../protocol/checkpoint.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import { Meter } from '../protocol/meter.ts';
import type { RecordBody, Site } from '../protocol/record.ts';
import type { AgentDefinition } from './agent-definition.ts';
import type { DeclaredEffect } from './declared-effect.ts';
import { runEffect } from './effect-runner.ts';
import type { History } from './history.ts';
import type { JournalWriter, WriterEnd } from './journal-writer.ts';
import { never } from './never.ts';
import type { Divergence } from './resume-point.ts';
import { attemptKey } from './resume-point.ts';
import type { Runtime } from './runtime.ts';
import { Scheduler } from './scheduler.ts';
import { TurnScope } from './turn-scope.ts';

export interface PassSetup {
  readonly runtime: Runtime;
  readonly ref: TurnRef;
  readonly agent: AgentDefinition;
  readonly input: unknown;
  readonly subject: string | null;
  readonly budget: Budget | null;
  readonly seed: Uint8Array;
  readonly admittedAt: EpochMs;
  readonly revision: number;
  readonly state: FoldedState;
  readonly scope: string;
  readonly sealer: Sealer;
  readonly history: History;
  /** Null in a strict pass: it writes nothing (ST-4). */
  readonly writer: JournalWriter | null;
  /** Wall instant the host ends this pass, or null. */
  readonly deadlineAt: EpochMs | null;
  readonly drain: AbortSignal | null;
}

export type PassEnd =
  | { readonly kind: 'returned'; readonly value: unknown }
  | { readonly kind: 'threw'; readonly error: unknown }
  | { readonly kind: 'diverged'; readonly divergence: Divergence }
  /** The pass stopped before an announcement; `wakeAt` is null for "as soon as possible". */
  | { readonly kind: 'parked'; readonly wakeAt: EpochMs | null }
  | { readonly kind: 'timeout' }
  /** A stop request was seen at a boundary; what was in flight has finished. */
  | { readonly kind: 'cancelled'; readonly request: StopRequest }
  /** A strict pass met an announcement without an outcome. */
  | { readonly kind: 'undecidable'; readonly site: Site }
  | { readonly kind: 'broken'; readonly error: unknown }
  | { readonly kind: 'ended'; readonly end: WriterEnd };

export class Pass {
  readonly setup: PassSetup;
  readonly scheduler: Scheduler;
  readonly abort = new AbortController();
  readonly changes: StateChange[] = [];
  readonly stepNames = new Set<string>();
  readonly meter = new Meter();
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
  #lookedAt = 0;
  #instant: EpochMs;
  #cancelTimers: (() => void)[] = [];
  #restartTimeout: () => void = () => undefined;
  leaseUntilMonotonicMs = Number.POSITIVE_INFINITY;

  constructor(setup: PassSetup) {
    this.setup = setup;
    this.#instant = setup.admittedAt;
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

  get draining(): boolean {
    return this.#draining;
  }

  /** Instant of the last settled record. */
  get instant(): EpochMs {
    return this.#instant;
  }

  /** True when the code's main function has ended: nothing new may start outside an open step. */
  get mainEnded(): boolean {
    return this.#main !== null && this.#openSteps === 0;
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
    if (this.#end !== null) return never();
    return runEffect(this, site, declared);
  }

  /** Queues a dispatch for the end of history, remembering the first for a divergence report. */
  whenLive(site: Site, declared: DeclaredEffect, start: () => void): void {
    this.#firstWaiting.push({ site, declared });
    this.scheduler.whenLive(start);
  }

  /** Milliseconds between the admission and the last settled record. */
  get elapsedMs(): number {
    return this.#instant - this.setup.admittedAt;
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
    if (body.at > this.#instant) this.#instant = body.at as EpochMs;
  }

  /** A call that may not start any more: it waits for the next pass (drain rule). */
  park(wakeAt: EpochMs | null): void {
    this.#parked += 1;
    if (wakeAt !== null && (this.#wakeAt === null || wakeAt < this.#wakeAt)) this.#wakeAt = wakeAt;
    this.scheduler.kick();
  }

  /** Honours a stop request: nothing new starts, what is in flight finishes (CA-2). */
  cancel(request: StopRequest): void {
    this.#stopRequest = request;
    this.drain();
  }

  /** A step boundary: looks for a stop request when the last look is `limits.stopLookMs` old (B3). */
  async boundary(): Promise<void> {
    const { runtime, ref, writer } = this.setup;
    if (writer?.held !== true || this.#stopRequest !== null) return;
    const now = runtime.clock.monotonicMs();
    if (now - this.#lookedAt < limits.stopLookMs) return;
    this.#lookedAt = now;
    const finish = this.scheduler.begin();
    const request = await runtime.store.stopOf(ref);
    finish(() => {
      if (request !== null) this.cancel(request);
    });
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
    this.stop({ kind: 'diverged', divergence });
  }

  async #runMain(root: TurnScope): Promise<void> {
    try {
      const value = await this.setup.agent.run(root, this.setup.input);
      this.#main = { kind: 'returned', value };
    } catch (error) {
      this.#main = { kind: 'threw', error };
    }
    this.scheduler.kick();
  }

  #frontier(): boolean {
    const left = this.setup.history.unread();
    if (left === undefined) return true;
    const asked = this.#firstWaiting[0];
    if (!('site' in left.body)) return true;
    this.diverged({
      site: left.body.site,
      recorded: recordedAs(left.body),
      asked:
        asked === undefined
          ? null
          : { kind: asked.declared.kind, key: attemptKey(asked.site, 1, asked.declared) },
      moved: 'missing',
      seq: left.body.seq,
    });
    return false;
  }

  #idle(): void {
    if (this.setup.writer?.busy === true) return;
    if (this.#stopRequest !== null)
      return this.stop({ kind: 'cancelled', request: this.#stopRequest });
    if (this.#main !== null && (this.#openSteps === 0 || this.#parked === 0)) {
      if (!this.#frontier()) return;
      return this.stop(this.#main);
    }
    if (this.#parked > 0 || this.#draining) this.stop({ kind: 'parked', wakeAt: this.#wakeAt });
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
    if (!this.strict) this.#watchProgress();
  }

  #watchProgress(): void {
    const { clock, settings } = this.setup.runtime;
    let cancel = (): void => undefined;
    const arm = (): void => {
      cancel();
      cancel = clock.timer(settings.turnTimeoutMs, () => {
        if (this.scheduler.inFlight > 0) arm();
        else this.stop({ kind: 'timeout' });
      });
    };
    this.#restartTimeout = arm;
    this.#cancelTimers.push(() => {
      this.#restartTimeout = () => undefined;
      cancel();
    });
    arm();
  }
}

/** What a record says was asked for. */
function recordedAs(body: Extract<RecordBody, { site: Site }>): Divergence['recorded'] {
  if (body.kind !== 'EffectStarted') return { kind: 'a refused effect', key: body.key, attempt: 0 };
  return { kind: body.effect, key: body.key, attempt: body.attempt };
}

/** Text of a site for people: `step reserve, effect 2`. */
export function describeSite(site: Site): string {
  const where = site.step === '' ? 'outside a step' : `step ${site.step}`;
  const phase = site.phase === 'forward' ? '' : ' (undo)';
  return `${where}${phase}, effect ${site.ordinal}`;
}
