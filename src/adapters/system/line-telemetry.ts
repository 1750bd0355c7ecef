// Live signals as JSON lines; the outbox, not these, is what anybody may rely on (K-71).
import type { Telemetry } from '../../ports/telemetry.ts';

/** Writes one JSON line a signal through `write`. */
export function lineTelemetry(write: (line: string) => void, now: () => number): Telemetry {
  return {
    emit: (name, fields) => {
      write(`${JSON.stringify({ at: new Date(now()).toISOString(), event: name, ...fields })}\n`);
    },
  };
}
