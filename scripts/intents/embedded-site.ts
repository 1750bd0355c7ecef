// The embedded store as several processes over one data folder: turns, two effectors, and the sweep that relays.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { QueueFile } from '../../src/adapters/local/queue-file.ts';
import { openForCheck } from '../check-deploy.ts';
import type { LocalServer } from '../local-server.ts';
import { callApi, startServer } from '../local-server.ts';
import type { Site } from './site.ts';
import { callMs, nothingOwed } from './site.ts';

/** Processes by what they do (`TURNSTONE_WORK`); each serves HTTP, only the first is asked. */
const crew = ['turns', 'effects', 'effects', 'sweep'] as const;

export async function embeddedSite(): Promise<Site> {
  const data = mkdtempSync(join(tmpdir(), 'turnstone-soak-intents-'));
  const start = (work: string): Promise<LocalServer> => startServer(data, { TURNSTONE_WORK: work });
  const running: LocalServer[] = [];
  for (const work of crew) running.push(await start(work));
  let next = 0;
  return {
    title: 'embedded store',
    roles: [...new Set(crew)],
    call: async (method, path, body) => {
      const url = running[0]?.url ?? '';
      const headers = { prefer: 'respond-async' };
      const options = { ...(body === undefined ? {} : { body }), headers, timeoutMs: callMs };
      return callApi(url, method, path, options).catch(() => null);
    },
    kill: async (role) => {
      const places = crew.flatMap((work, at) => (work === role ? [at] : []));
      const at = places[next % places.length] ?? 0;
      next += 1;
      await running[at]?.kill('SIGKILL');
      running[at] = await start(role);
      return true;
    },
    nudge: async () => undefined,
    atRest: async () => {
      const runtime = await openForCheck({ data, agents: undefined, policy: undefined });
      const files = ['inbox', 'intents'].map(
        (name) => new QueueFile(join(data, 'queues.sqlite'), name),
      );
      try {
        return files.every((file) => file.depth() === 0) && (await nothingOwed(runtime));
      } finally {
        for (const file of files) file.close();
        await runtime.store.close();
      }
    },
    stop: async () => {
      for (const process of running) await process.kill('SIGKILL');
      rmSync(data, { recursive: true, force: true });
    },
  };
}
