// Live signals that never decide anything: a sink that throws is not heard of again (K-20).
import type { Telemetry } from '../ports/telemetry.ts';

/** A telemetry whose failures stay its own; `onFailure` is told once for each. */
export function safeTelemetry(sink: Telemetry, onFailure: (error: unknown) => void): Telemetry {
  return {
    emit: (name, fields) => {
      try {
        sink.emit(name, fields);
      } catch (error) {
        onFailure(error);
      }
    },
  };
}
