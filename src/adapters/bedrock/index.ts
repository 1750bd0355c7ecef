// Models of Amazon Bedrock: `import { bedrockModel } from 'turnstone/bedrock'`.
export { bedrockFailures } from './bedrock-failure.ts';
export { type BedrockOptions, bedrockModel } from './bedrock-model.ts';
export type { ConverseExtras, Structured } from './converse-request.ts';
