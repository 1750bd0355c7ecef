// A LangGraph saver on the tables of the stack, for a function of your own with the same environment and grants.
import type { GraphSaverOptions } from '../src/integrations/langgraph/graph-saver.ts';
import { GraphSaver } from '../src/integrations/langgraph/graph-saver.ts';
import { lambdaStore } from './wiring.ts';

/** Reads TURNSTONE_TABLE_* and TURNSTONE_KEY_ID; throws naming the one that is missing. */
export function openGraphSaver(
  options: Pick<GraphSaverOptions, 'tenant' | 'subject' | 'serde'>,
): GraphSaver {
  const { store, vault } = lambdaStore();
  return new GraphSaver({ store, graphs: store.graphs, vault, ...options });
}
