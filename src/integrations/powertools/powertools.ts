// Live signals through the logger, metrics and tracer of Powertools for AWS Lambda, or anything shaped like them.
//
// Nothing is imported: the interfaces below are the parts of Powertools that are used.
//   lines    one log item each, `event` and its fields as keys; what failed is a warning, what says `error.` an error
//   metrics  counts without dimensions of ours: TurnSucceeded, EffectAttempt, EffectAttemptFailed, EffectReplayed,
//            EffectProbe, EffectTokens, and one a line (LeaseLost, RelayFailed)
//   spans    X-Ray subsegments below the current segment; `turnstone_replay` is an annotation to filter by
import type {
  SpanEnd,
  SpanStart,
  Telemetry,
  TelemetryFields,
  TelemetrySpan,
} from '../../ports/telemetry.ts';

/** The part of Powertools' Logger that is used. */
export interface PowertoolsLogger {
  info(message: string, extra: Record<string, unknown>): void;
  warn(message: string, extra: Record<string, unknown>): void;
  error(message: string, extra: Record<string, unknown>): void;
}

/** The part of Powertools' Metrics that is used; whoever made it publishes what is stored. */
export interface PowertoolsMetrics {
  addMetric(name: string, unit: 'Count', value: number): unknown;
}

/** A segment or a subsegment of X-Ray. */
interface Segment {
  addNewSubsegment(name: string): Subsegment;
}

interface Subsegment extends Segment {
  addAnnotation(key: string, value: string | number | boolean): void;
  addMetadata(key: string, value: unknown, namespace?: string): void;
  addErrorFlag(): void;
  close(): void;
}

/** The part of Powertools' Tracer that is used. */
export interface PowertoolsTracer {
  isTracingEnabled(): boolean;
  getSegment(): Segment | undefined;
}

export interface PowertoolsParts {
  readonly logger?: PowertoolsLogger;
  readonly metrics?: PowertoolsMetrics;
  readonly tracer?: PowertoolsTracer;
}

/** Telemetry over whichever parts are given. */
export function powertools(parts: PowertoolsParts): Telemetry {
  return new Powertools(parts, null);
}

/** Fields that X-Ray indexes, as annotations; the rest is metadata. */
const indexed: readonly string[] = ['tenantId', 'threadId', 'turnId', 'effectKey', 'attempt'];

class Powertools implements Telemetry {
  readonly #parts: PowertoolsParts;
  /** The subsegment this one stands below; null: whatever is current. */
  readonly #above: Segment | null;

  constructor(parts: PowertoolsParts, above: Segment | null) {
    this.#parts = parts;
    this.#above = above;
  }

  emit(name: string, fields: TelemetryFields): void {
    const { logger, metrics } = this.#parts;
    metrics?.addMetric(metricName(name), 'Count', 1);
    const extra = { event: name, ...fields };
    if (name.startsWith('error.')) return logger?.error(name, extra);
    if (/[._](?:failed|lost|unsent)$/.test(name)) return logger?.warn(name, extra);
    logger?.info(name, extra);
  }

  open(start: SpanStart): TelemetrySpan {
    const { tracer } = this.#parts;
    const traced = tracer?.isTracingEnabled() === true;
    const above = traced ? (this.#above ?? tracer.getSegment()) : undefined;
    const segment = above?.addNewSubsegment(segmentName(start)) ?? null;
    if (segment !== null) describe(segment, start);
    return {
      below: new Powertools(this.#parts, segment),
      within: (work) => work(),
      end: (end) => {
        this.#count(start, end);
        if (segment !== null) close(segment, end);
      },
    };
  }

  #count({ kind }: SpanStart, { outcome, error, fields }: SpanEnd): void {
    const count = (name: string, value = 1) => this.#parts.metrics?.addMetric(name, 'Count', value);
    if (kind === 'turn') {
      count(fields?.['replayed'] === true ? 'TurnReplayed' : `Turn${metricName(outcome)}`);
    }
    if (kind === 'replay') count('EffectReplayed');
    if (kind === 'probe') count('EffectProbe');
    if (kind !== 'attempt') return;
    count('EffectAttempt');
    if (error !== undefined) count('EffectAttemptFailed');
    const tokens = fields?.['tokens'];
    if (typeof tokens === 'number' && tokens > 0) count('EffectTokens', tokens);
  }
}

function describe(segment: Subsegment, { kind, name, fields, asks }: SpanStart): void {
  const replay = kind === 'replay' || fields['began'] === 'strict';
  segment.addAnnotation('turnstone_replay', replay);
  segment.addAnnotation('turnstone_kind', kind);
  for (const field of indexed) {
    const value = fields[field] ?? null;
    if (value !== null) segment.addAnnotation(`turnstone_${field}`, value);
  }
  segment.addMetadata('span', { name, ...fields, ...asks }, 'turnstone');
}

function close(segment: Subsegment, { outcome, error, fields }: SpanEnd): void {
  segment.addAnnotation('turnstone_outcome', outcome);
  if (fields?.['replayed'] === true) segment.addAnnotation('turnstone_replay', true);
  segment.addMetadata('end', { outcome, error: error ?? null, ...fields }, 'turnstone');
  if (error !== undefined) segment.addErrorFlag();
  segment.close();
}

/** X-Ray takes letters, digits, spaces and a few signs in a name. */
function segmentName({ kind, name }: SpanStart): string {
  return `${kind} ${name}`.replace(/[^\w\s.:/%&#=+\-@]/g, '_');
}

/** `lease.lost` as `LeaseLost`. */
function metricName(event: string): string {
  return event
    .split(/[._]/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');
}
