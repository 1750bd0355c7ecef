// Graph savers for tests: one fresh store each, sealed under a vault of this process.
import { inject } from 'vitest';
import type { OnRequest } from '../../src/adapters/table/driver.ts';
import {
  GraphSaver,
  type GraphSaverOptions,
} from '../../src/integrations/langgraph/graph-saver.ts';
import type { GraphHolder } from '../../src/ports/graphs.ts';
import type { TurnStore } from '../../src/ports/store.ts';
import { MemoryVault } from '../../src/testing/memory-vault.ts';
import { dynamoStore, memoryStore } from '../stores.ts';

export type GraphTurnStore = TurnStore & GraphHolder;

/** Opens a store by its name; the reason why not where there is no endpoint. */
export type OpenGraphs = (onRequest?: OnRequest) => Promise<GraphTurnStore>;

export const engines: readonly { readonly name: string; readonly open: OpenGraphs | string }[] = [
  { name: 'sqlite', open: async (onRequest) => memoryStore(onRequest) },
  { name: 'dynamodb', open: dynamo() },
];

function dynamo(): OpenGraphs | string {
  const endpoint = inject('dynamodb').ministack;
  if (!('url' in endpoint)) return endpoint.unavailable;
  return (onRequest) => dynamoStore(endpoint.url, onRequest);
}

export function saverOf(
  store: GraphTurnStore,
  changes: Partial<GraphSaverOptions> = {},
): GraphSaver {
  const vault = new MemoryVault();
  return new GraphSaver({ store, graphs: store.graphs, vault, tenant: 'acme', ...changes });
}
