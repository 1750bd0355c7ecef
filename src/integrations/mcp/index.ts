// Tools of MCP servers as effects: `import { mcpServer, mcpTools } from 'turnstone/mcp'`.
export type {
  McpAsk,
  McpHints,
  McpResult,
  McpServer,
  McpToolFacts,
} from './mcp-server.ts';
export { mcpServer } from './mcp-server.ts';
export type { McpTools, McpToolsOptions } from './mcp-tools.ts';
export { mcpTools } from './mcp-tools.ts';
export type { McpTreatment } from './mcp-treatment.ts';
