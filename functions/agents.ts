// The agents of a deployment besides `plan`: none here. `cdk deploy -c agents=your-module.ts` bundles yours instead.
import type { AgentDefinition } from '../src/runtime/agent-definition.ts';

export const agents = (): readonly AgentDefinition[] => [];
