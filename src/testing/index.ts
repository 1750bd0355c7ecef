// The test kit: `import { World, exploreCrashes } from 'turnstone/testing'`.
export type { CapacityMeter, ImageBefore, MeteredCall, RequestCost } from './capacity-meter.ts';
export { itemSize, meterCapacity, requestCost } from './capacity-meter.ts';
export type { ExploredEnd, Scenario, Stage } from './crash-explorer.ts';
export { exploreCrashes, faultKinds } from './crash-explorer.ts';
export type {
  Assertion,
  EvaluationOptions,
  EvaluationReport,
  EvaluationScenario,
  EvaluationStep,
  EvaluationSuite,
  EvaluationTarget,
  RunState,
} from './evaluation.ts';
export { evaluate, evaluationLimits } from './evaluation.ts';
export { MemoryVault } from './memory-vault.ts';
export type { Checked, Model, Move } from './model-checker.ts';
export { checkModel, comesToRest } from './model-checker.ts';
export { type ProbeCase, probeCases } from './probe-conformance.ts';
export type { Fault, FaultKind } from './process.ts';
export { Process } from './process.ts';
export type { Behaviour, LedgerEntry, ProviderServer } from './provider-server.ts';
export { providerServer } from './provider-server.ts';
export { queueCases } from './queue-conformance.ts';
export { type ModelScript, ScriptedModel } from './scripted-model.ts';
export { ScriptedProvider } from './scripted-provider.ts';
export { injectSdkFaults } from './sdk-faults.ts';
export { storeCases } from './store-conformance.ts';
export { TurnedClock } from './turned-clock.ts';
export { brokenGroupRules, brokenUnwindRules, type MemberClass } from './undo-rules.ts';
export type { WorldOptions } from './world.ts';
export { World } from './world.ts';
