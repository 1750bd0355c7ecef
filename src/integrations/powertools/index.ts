// Live signals through Powertools for AWS Lambda: `import { powertools } from 'turnstone/powertools'`.
export type {
  PowertoolsLogger,
  PowertoolsMetrics,
  PowertoolsParts,
  PowertoolsTracer,
} from './powertools.ts';
export { powertools } from './powertools.ts';
