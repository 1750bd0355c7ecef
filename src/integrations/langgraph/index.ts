// LangGraph on Turnstone: `import { GraphSaver } from 'turnstone/langgraph'`.
export { GraphSaver, type GraphSaverOptions } from './graph-saver.ts';
