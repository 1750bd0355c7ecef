// Live signals: best effort, never decides an outcome (K-20, K-71).
//
// Nothing here carries payload: names are closed words, fields are ids and figures.

export type TelemetryFields = Readonly<Record<string, string | number | boolean | null>>;

export interface Telemetry {
  /** One structured line; `name` is a closed lower-case word, `fields` carry ids and figures, never payload. */
  emit(name: string, fields: TelemetryFields): void;
  /** Opens a span; absent where nobody measures. It ends once, also when its work throws. */
  open?(start: SpanStart): TelemetrySpan;
}

/** A stretch of work. Times are the adapter's own. */
export interface TelemetrySpan {
  /** Signals of what happens below this span. */
  readonly below: Telemetry;
  /** Runs work so that what it calls can be found below this span, without changing what it answers or throws. */
  within<T>(work: () => T): T;
  end(end: SpanEnd): void;
}

export interface SpanStart {
  /**
   * `turn`: one delivery; `pass`: one execution of an agent's code; `attempt` and `probe`: one live call to the
   * world; `replay`: an outcome that was read from the journal, and called nothing.
   */
  readonly kind: 'turn' | 'pass' | 'attempt' | 'probe' | 'replay';
  /** The agent's name, or the effect's kind. */
  readonly name: string;
  readonly fields: TelemetryFields;
  /** What kind of thing an effect asks, where it says so. */
  readonly asks?: EffectAsks;
}

/** What an effect asks, in the words of whoever watches; no part of its identity. */
export type EffectAsks =
  | { readonly kind: 'model'; readonly provider: string; readonly model: string }
  | { readonly kind: 'tool'; readonly tool: string; readonly call?: string };

export interface SpanEnd {
  /** What it came to, a closed lower-case word. */
  readonly outcome: string;
  /** Code of an error, when it failed. */
  readonly error?: string;
  readonly fields?: TelemetryFields;
}
