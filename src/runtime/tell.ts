// Live signals that never decide anything: a sink that throws is not heard of again (K-20).
import type { SpanEnd, SpanStart, Telemetry, TelemetrySpan } from '../ports/telemetry.ts';
import type { ErrorReason } from '../protocol/error-stream.ts';
import { errorReason } from '../protocol/error-stream.ts';
import { describeError } from '../protocol/errors.ts';

/** A telemetry whose failures stay its own; `onFailure` is told once for each. */
export function safeTelemetry(sink: Telemetry, onFailure: (error: unknown) => void): Telemetry {
  if (safe.has(sink)) return sink;
  const quietly = (act: () => void): void => {
    try {
      act();
    } catch (error) {
      onFailure(error);
    }
  };
  const made: Telemetry = {
    emit: (name, fields) => quietly(() => sink.emit(name, fields)),
    open: (start) => {
      const opened: TelemetrySpan[] = [];
      quietly(() => {
        if (sink.open !== undefined) opened.push(sink.open(start));
      });
      const [span] = opened;
      return span === undefined ? unwatched(made) : safeSpan(span, quietly, onFailure);
    },
  };
  safe.add(made);
  return made;
}

const safe = new WeakSet<Telemetry>();

function safeSpan(
  span: TelemetrySpan,
  quietly: (act: () => void) => void,
  onFailure: (error: unknown) => void,
): TelemetrySpan {
  return {
    below: safeTelemetry(span.below, onFailure),
    within: <T>(work: () => T): T => {
      // The work runs once, whatever the sink does, and its own error never passes through the sink.
      const ran: (() => T)[] = [];
      const once = (): void => {
        if (ran.length === 0) ran.push(outcomeOf(work));
      };
      quietly(() => span.within(once));
      once();
      return (ran[0] as () => T)();
    },
    end: (end) => quietly(() => span.end(end)),
  };
}

function outcomeOf<T>(work: () => T): () => T {
  try {
    const value = work();
    return () => value;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

/** A span nobody watches. */
function unwatched(below: Telemetry): TelemetrySpan {
  return { below, within: (work) => work(), end: () => undefined };
}

/** Opens a span where somebody measures. */
export function openSpan(telemetry: Telemetry, start: SpanStart): TelemetrySpan {
  return telemetry.open?.(start) ?? unwatched(telemetry);
}

/** Runs work in a span of its own; `of` tells what it came to. What it throws ends the span and goes on. */
export async function inSpan<T>(
  telemetry: Telemetry,
  start: SpanStart,
  work: (below: Telemetry) => Promise<T>,
  of: (value: T) => SpanEnd,
): Promise<T> {
  const span = openSpan(telemetry, start);
  try {
    const value = await span.within(() => work(span.below));
    span.end(of(value));
    return value;
  } catch (error) {
    const { name, code } = describeError(error);
    span.end({ outcome: 'threw', error: code ?? name });
    throw error;
  }
}

/** Puts one entry on the error stream; throws `invalid_request` for a reason outside the vocabulary (T122). */
export function tellError(
  sink: Telemetry,
  reason: ErrorReason,
  fields: Readonly<Record<string, string | number | boolean | null>>,
): void {
  sink.emit(`error.${errorReason(reason)}`, fields);
}
