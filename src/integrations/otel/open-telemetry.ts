// Turns, passes and effect attempts as OpenTelemetry spans, below whatever span is active where a turn is delivered.
//
// Own lines stay where they are: what is emitted inside a span is an event of that span as well. No payload reaches
// a span: prompts, answers and tool arguments are sealed in the journal, and stay there.
import {
  type Context,
  context,
  type Span,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import type {
  SpanStart,
  Telemetry,
  TelemetryFields,
  TelemetrySpan,
} from '../../ports/telemetry.ts';
import { endAttributes, spanWords } from './span-words.ts';

export interface OpenTelemetryOptions {
  /** Where lines go besides: the host's own telemetry. Default: nowhere. */
  readonly lines?: Telemetry;
  /** Default: the tracer `turnstone` of the registered provider, looked up with the first span. */
  readonly tracer?: Tracer;
}

/** Telemetry that opens spans; nothing leaves without a provider registered or given. */
export function openTelemetry({ lines, tracer }: OpenTelemetryOptions = {}): Telemetry {
  const made = (): Tracer => tracer ?? trace.getTracer('turnstone');
  return new OpenTelemetry(made, lines ?? null, null);
}

class OpenTelemetry implements Telemetry {
  readonly #tracer: () => Tracer;
  readonly #lines: Telemetry | null;
  /** The span this one stands below; null: whatever is active. */
  readonly #above: Span | null;

  constructor(tracer: () => Tracer, lines: Telemetry | null, above: Span | null) {
    this.#tracer = tracer;
    this.#lines = lines;
    this.#above = above;
  }

  emit(name: string, fields: TelemetryFields): void {
    this.#lines?.emit(name, fields);
    const known = Object.entries(fields).filter(([, value]) => value !== null);
    const event = Object.fromEntries(known) as Record<string, string | number | boolean>;
    (this.#above ?? trace.getActiveSpan())?.addEvent(name, event);
  }

  open(start: SpanStart): TelemetrySpan {
    const above = context.active();
    const parent = this.#above === null ? above : trace.setSpan(above, this.#above);
    const { name, kind, attributes } = spanWords(start);
    const span = this.#tracer().startSpan(name, { kind, attributes }, parent);
    return this.#opened(span, trace.setSpan(parent, span));
  }

  #opened(span: Span, inside: Context): TelemetrySpan {
    return {
      below: new OpenTelemetry(this.#tracer, this.#lines, span),
      within: (work) => context.with(inside, work),
      end: (end) => {
        span.setAttributes(endAttributes(end));
        if (end.error !== undefined)
          span.setStatus({ code: SpanStatusCode.ERROR, message: end.error });
        span.end();
      },
    };
  }
}
