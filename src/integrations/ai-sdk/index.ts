// Loops of the AI SDK inside a turn: `import { modelEffects, toolEffects } from 'turnstone/ai-sdk'`.
export type { ModelTreatment } from '../../agent/model-effect.ts';
export { aiSdkModel } from './ai-sdk-model.ts';
export { loopResult } from './loop.ts';
export type { ModelEffectOptions } from './model-effects.ts';
export { modelEffects } from './model-effects.ts';
export type { ToolTreatment, ToolTreatments } from './tool-effects.ts';
export { effectCall, ToolRefusedError, toolEffects } from './tool-effects.ts';
export type { TurnApprovals } from './turn-approval.ts';
export { turnApproval } from './turn-approval.ts';
