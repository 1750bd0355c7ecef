// Spans of turns for OpenTelemetry: `import { openTelemetry } from 'turnstone/otel'`.
export type { OpenTelemetryOptions } from './open-telemetry.ts';
export { openTelemetry } from './open-telemetry.ts';
