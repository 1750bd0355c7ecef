// A LangGraph saver on the data folder of the embedded store, beside or without a server over it.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { LocalVault, openLocalSecrets } from '../adapters/local/local-vault.ts';
import { openSqliteStore } from '../adapters/sqlite/open-sqlite-store.ts';
import { systemClock } from '../adapters/system/system-clock.ts';
import { GraphSaver, type GraphSaverOptions } from '../integrations/langgraph/graph-saver.ts';

export interface LocalGraphSaver {
  readonly saver: GraphSaver;
  close(): Promise<void>;
}

/** Opens the folder (made when absent; keys apart in `keys`) and a saver over it. */
export function openGraphSaver(
  folder: string,
  options: Pick<GraphSaverOptions, 'tenant' | 'subject' | 'serde'>,
): LocalGraphSaver {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const secrets = openLocalSecrets(join(folder, 'keys'));
  const store = openSqliteStore({
    path: join(folder, 'turnstone.sqlite'),
    keysPath: join(folder, 'keys', 'keys.sqlite'),
    names: secrets,
    sleep: (ms) => systemClock.sleep(ms),
    random: Math.random,
  });
  const vault = new LocalVault(secrets, systemClock.monotonicMs);
  return {
    saver: new GraphSaver({ store, graphs: store.graphs, vault, ...options }),
    close: () => store.close(),
  };
}
