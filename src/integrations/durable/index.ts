// Existing handlers, made durable: `import { durable } from 'turnstone/durable'`.
export type { EventIdentity } from './deliver.ts';
export { TurnNotDoneError } from './deliver.ts';
export type { DurableHandler, DurableOptions, PlainHandler } from './durable.ts';
export { durable } from './durable.ts';
export type { DurableMiddlewareOptions } from './durable-middleware.ts';
export { durableTurn, turnOf } from './durable-middleware.ts';
export type { HandlerTreatment, HandlerTurn } from './handler-agent.ts';
