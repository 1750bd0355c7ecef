// What an agent is written with: `import { defineTurnAgent } from 'turnstone'`. The test kit is 'turnstone/testing'.
export type { AgentHost, AgentsModule } from './agent/agents-module.ts';
export {
  type EffectRequest,
  type HttpTreatment,
  httpCall,
  performHttp,
} from './agent/http-effect.ts';
export { completion, type ModelTreatment } from './agent/model-effect.ts';
export { type Compaction, compact, type Formation, formMemories } from './memory/compact.ts';
export { exactIndex } from './memory/exact-index.ts';
export type {
  Candidate,
  Embedder,
  Hit,
  IndexQuery,
  MemoryIndex,
  SearchPair,
} from './ports/embedder.ts';
export type { HttpAnswer, HttpCaller } from './ports/http-caller.ts';
export type { AtomicEntries } from './ports/lent.ts';
export type {
  Model,
  ModelAnswer,
  ModelCall,
  ModelFailure,
  ModelMessage,
  ModelOutcome,
  ModelRequest,
  ModelUsage,
} from './ports/model.ts';
export type { RetryPolicy } from './protocol/backoff.ts';
export type { Disposition, Recovery } from './protocol/effect-decision.ts';
export { AgentError, EffectNotAppliedError, TurnstoneError } from './protocol/errors.ts';
export type { Label, Sensitivity, Trust } from './protocol/labels.ts';
export { limits } from './protocol/limits.ts';
export type { ActPerformer, AgentDefinition, AgentOptions } from './runtime/agent-definition.ts';
export { defineTurnAgent } from './runtime/agent-definition.ts';
export { Labelled, type Sink } from './runtime/labelled.ts';
export { pairSearch } from './runtime/semantic.ts';
export type * from './runtime/turn-context.ts';
export {
  BudgetExhaustedError,
  EffectError,
  EffectFailure,
  GroupAbortedError,
  TurnDroppedError,
  TurnSuspendedError,
} from './runtime/turn-context.ts';
