// Live signals that never decide anything: a sink that throws is not heard of again (K-20).
import type { Telemetry } from '../ports/telemetry.ts';
import type { ErrorReason } from '../protocol/error-stream.ts';
import { errorReason } from '../protocol/error-stream.ts';

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

/** Puts one entry on the error stream; throws `invalid_request` for a reason outside the vocabulary (T122). */
export function tellError(
  sink: Telemetry,
  reason: ErrorReason,
  fields: Readonly<Record<string, string | number | boolean | null>>,
): void {
  sink.emit(`error.${errorReason(reason)}`, fields);
}
