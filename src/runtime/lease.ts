// The lease of one pass: taken by its first write, renewed at a third of its length, compared on a
// monotonic clock right before an effect acts (page 09, B9).
//   LE-3  a renewal that fails stops the renewing; the next append is fenced. A renewal never claims.

import type { TurnRef, Writer } from '../ports/store.ts';
import type { EpochMs } from '../protocol/ids.ts';
import type { Pass } from './pass.ts';
import type { Runtime } from './runtime.ts';

export class Lease {
  readonly writer: Writer;
  readonly #runtime: Runtime;
  readonly #ref: TurnRef;
  #pass: Pass | null = null;
  #cancel: () => void = () => undefined;
  #stopped = false;

  constructor(runtime: Runtime, ref: TurnRef, writer: Writer) {
    this.#runtime = runtime;
    this.#ref = ref;
    this.writer = writer;
  }

  /** The pass whose acts this lease covers. */
  watch(pass: Pass): void {
    this.#pass = pass;
  }

  /** A lease that is being asked for now; `taken` starts its renewal once the store agreed. */
  taking(): { readonly until: EpochMs; taken(): void } {
    const { clock, settings } = this.#runtime;
    const askedAt = clock.monotonicMs();
    const until = (clock.now() + settings.leaseMs) as EpochMs;
    return {
      until,
      taken: () => {
        this.#cover(askedAt);
        if (settings.renew) this.#arm();
      },
    };
  }

  /** Stops renewing on every way out of a pass. */
  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  #cover(askedAt: number): void {
    if (this.#pass !== null) {
      this.#pass.leaseUntilMonotonicMs = askedAt + this.#runtime.settings.leaseMs;
    }
  }

  #arm(): void {
    if (this.#stopped) return;
    const { clock, settings } = this.#runtime;
    this.#cancel = clock.timer(Math.floor(settings.leaseMs / 3), () => {
      this.#renew().catch((cause: unknown) => {
        this.#runtime.telemetry.emit('lease.renewal_failed', {
          turnId: this.#ref.turn,
          cause: String(cause),
        });
        this.#arm();
      });
    });
  }

  async #renew(): Promise<void> {
    const { store, clock, settings, telemetry } = this.#runtime;
    const askedAt = clock.monotonicMs();
    const now = clock.now();
    const until = (now + settings.leaseMs) as EpochMs;
    const renewed = await store.renew(this.#ref, this.writer, until, now);
    if (renewed.kind === 'done') this.#cover(askedAt);
    if (renewed.kind === 'lost') {
      telemetry.emit('lease.lost', { turnId: this.#ref.turn, epoch: this.writer.epoch });
      return;
    }
    this.#arm();
  }
}
