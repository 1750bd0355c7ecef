// What an agent is written with: `import { defineTurnAgent } from 'turnstone'`. The test kit is 'turnstone/testing'.
export type { AgentHost, AgentsModule } from './agent/agents-module.ts';
export { Circuit, type CircuitOptions } from './agent/circuit.ts';
export {
  type EffectRequest,
  type HttpTreatment,
  httpCall,
  performHttp,
} from './agent/http-effect.ts';
export type {
  Call,
  Capability,
  CapabilityContext,
  CapabilityResult,
  ConfirmationMode,
  EffectClass,
  FactKey,
  ModelSchema,
  Policy,
  PolicyAsked,
  PolicyVerdict,
  PublishedFact,
  Question,
  Resumed,
} from './agent/kernel/capability.ts';
export type { Carryover, KernelLimits } from './agent/kernel/compiled-agent.ts';
export { defineAgent, type KernelAgentOptions } from './agent/kernel/define-agent.ts';
export type { Delivery } from './agent/kernel/kernel-input.ts';
export type { InteractionView, KernelResult } from './agent/kernel/run-kernel-turn.ts';
export type { StepView } from './agent/kernel/turn-book.ts';
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
  ModelTool,
  ModelToolCall,
  ModelToolResult,
  ModelUsage,
} from './ports/model.ts';
export type { RetryPolicy } from './protocol/backoff.ts';
export type { Disposition, Recovery } from './protocol/effect-decision.ts';
export { AgentError, EffectNotAppliedError, TurnstoneError } from './protocol/errors.ts';
export type { ExpiryDecision, ExpiryFacts, ExpiryPolicy } from './protocol/expiry-policy.ts';
export type { Label, Sensitivity, Trust } from './protocol/labels.ts';
export { limits } from './protocol/limits.ts';
export type { ActPerformer, AgentDefinition, AgentOptions } from './runtime/agent-definition.ts';
export { defineTurnAgent } from './runtime/agent-definition.ts';
export { approveUnder, type SilencePolicy } from './runtime/approve-under.ts';
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
