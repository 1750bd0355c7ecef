// The order in which a pass hears of outcomes, live and on replay.
//
// Owns: settling one outcome at a time and letting the agent's code run to its next calls in between,
// so that the same journal always produces the same calls (ruling 6). Does not own: what an outcome is.
//   T7  recorded outcomes come first, in journal order; a new dispatch starts only when all of history
//       was asked for, so a divergence is found before anything new is dispatched.
// One macrotask separates two outcomes; no timer is involved (F37).

/** Delivers one outcome to the agent's code. */
export type Deliver = () => void;

interface Recorded {
  readonly seq: number;
  readonly prepare: () => Promise<Deliver>;
}

export interface SchedulerHooks {
  /** History is settled as far as it was asked for; false keeps new dispatches from starting. */
  readonly frontier: () => boolean;
  /** Nothing is left to deliver, start or wait for. */
  readonly idle: () => void;
  readonly failed: (error: unknown) => void;
}

export class Scheduler {
  readonly #hooks: SchedulerHooks;
  readonly #recorded: Recorded[] = [];
  readonly #outcomes: Deliver[] = [];
  readonly #waiting: (() => void)[] = [];
  #inFlight = 0;
  #held = 0;
  #preparing = false;
  #scheduled = false;
  #stopped = false;
  #live = false;

  constructor(hooks: SchedulerHooks) {
    this.#hooks = hooks;
  }

  /** True once history was used up and dispatches act. */
  get live(): boolean {
    return this.#live;
  }

  /** Calls that have started and not yet settled. */
  get inFlight(): number {
    return this.#inFlight;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Queues a recorded outcome; the lowest sequence number is delivered first. */
  replay(seq: number, prepare: () => Promise<Deliver>): void {
    this.#recorded.push({ seq, prepare });
    this.kick();
  }

  /** Queues a dispatch that must wait for the end of history. */
  whenLive(start: () => void): void {
    this.#waiting.push(start);
    this.kick();
  }

  /** Counts a call as in flight until the function it returns is called with its outcome. */
  begin(): (deliver: Deliver) => void {
    this.#inFlight += 1;
    let open = true;
    return (deliver) => {
      if (!open) return;
      open = false;
      this.#outcomes.push(deliver);
      this.kick();
    };
  }

  /** Keeps dispatches from starting, and the pass from resting, until the function it returns is called. */
  hold(): () => void {
    this.#held += 1;
    return () => {
      this.#held -= 1;
      this.kick();
    };
  }

  /** Counts a call that will never settle in this pass (parked) as gone. */
  abandon(): void {
    this.#inFlight -= 1;
    this.kick();
  }

  stop(): void {
    this.#stopped = true;
  }

  kick(): void {
    if (this.#scheduled || this.#preparing || this.#stopped) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#tick();
    });
  }

  #tick(): void {
    if (this.#stopped || this.#preparing) return;
    if (this.#recorded.length > 0) return this.#deliverRecorded();
    const outcome = this.#outcomes.shift();
    if (outcome !== undefined) {
      this.#inFlight -= 1;
      outcome();
      return this.kick();
    }
    if (this.#held > 0) return;
    if (this.#waiting.length > 0) {
      if (!this.#live && !this.#hooks.frontier()) return;
      this.#live = true;
      for (const start of this.#waiting.splice(0)) start();
      return this.kick();
    }
    if (this.#inFlight === 0) this.#hooks.idle();
  }

  #deliverRecorded(): void {
    let first = 0;
    for (const [index, entry] of this.#recorded.entries()) {
      if (entry.seq < (this.#recorded[first]?.seq ?? Number.POSITIVE_INFINITY)) first = index;
    }
    const [entry] = this.#recorded.splice(first, 1);
    if (entry === undefined) return;
    this.#preparing = true;
    entry.prepare().then(
      (deliver) => {
        this.#preparing = false;
        if (this.#stopped) return;
        deliver();
        this.kick();
      },
      (error: unknown) => {
        this.#preparing = false;
        this.#hooks.failed(error);
      },
    );
  }
}
