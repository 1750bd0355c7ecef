// A pass whose code makes no journal progress for the whole turn limit fails (ruling 8) [T11].
import type { Pass } from './pass.ts';

/** A timer that is armed again by every progress; calls in flight are not the code's idleness. */
export function progressWatch(pass: Pass): {
  readonly arm: () => void;
  readonly cancel: () => void;
} {
  const { clock, settings } = pass.setup.runtime;
  let cancel = (): void => undefined;
  const arm = (): void => {
    cancel();
    cancel = clock.timer(settings.turnTimeoutMs, () => {
      if (pass.scheduler.inFlight > 0) arm();
      else pass.stop({ kind: 'timeout' });
    });
  };
  return { arm, cancel: () => cancel() };
}
