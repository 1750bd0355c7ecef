// LangGraph's own validation suite over the saver, on every engine. It is written against a runner's globals.
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import type { CheckpointSaverTestInitializer } from '@langchain/langgraph-checkpoint-validation';
import * as vitest from 'vitest';
import type { GraphSaver } from '../../src/integrations/langgraph/graph-saver.ts';
import { skipLoudly } from '../stores.ts';
import { engines, type GraphTurnStore, saverOf } from './graph-savers.ts';

const { describe, it, expect, beforeAll, beforeEach, afterAll, afterEach } = vitest;
Object.assign(globalThis, { describe, it, expect, beforeAll, beforeEach, afterAll, afterEach });
const { validate, deltaChannelHistoryTests } = await import(
  '@langchain/langgraph-checkpoint-validation'
);

for (const { name, open } of engines) {
  if (typeof open === 'string') {
    skipLoudly(`LangGraph's validation suite (${name}): no emulator: ${open}`, () => undefined);
    continue;
  }
  const stores = new Map<BaseCheckpointSaver, GraphTurnStore>();
  const initializer: CheckpointSaverTestInitializer<GraphSaver> = {
    checkpointerName: `turnstone on ${name}`,
    createCheckpointer: async () => {
      const store = await open();
      const saver = saverOf(store);
      stores.set(saver, store);
      return saver;
    },
    destroyCheckpointer: (saver) => stores.get(saver)?.close(),
  };
  validate(initializer);
  deltaChannelHistoryTests(initializer);
}
