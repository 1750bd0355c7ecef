// Live signals: best effort, never decides an outcome (K-20, K-71).
export interface Telemetry {
  /** One structured line; `name` is a closed lower-case word, `fields` carry ids and figures, never payload. */
  emit(name: string, fields: Readonly<Record<string, string | number | boolean | null>>): void;
}
