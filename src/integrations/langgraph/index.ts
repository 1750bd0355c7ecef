// LangGraph on Turnstone: `import { GraphSaver, runGraph } from 'turnstone/langgraph'`.
export {
  EffectToolNode,
  effectTool,
  effectToolOf,
  type ToolFace,
  type ToolTreatment,
} from './effect-tools.ts';
export { GraphSaver, type GraphSaverOptions } from './graph-saver.ts';
export { effectIn, type GraphTurn, turnOf } from './graph-turn.ts';
export { type GraphEnd, type GraphRun, runGraph } from './run-graph.ts';
