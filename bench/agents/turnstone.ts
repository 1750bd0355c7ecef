// Contender: the same loop inside a turn of Turnstone, on its SQLite store.
import { join } from 'node:path';
import { generateText, isStepCount, wrapLanguageModel } from 'ai';
import { LocalVault, openLocalSecrets } from '../../src/adapters/local/local-vault.ts';
import { openSqliteStore } from '../../src/adapters/sqlite/open-sqlite-store.ts';
import { systemClock, systemEntropy } from '../../src/adapters/system/system-clock.ts';
import {
  effectCall,
  modelEffects,
  type ToolTreatment,
  toolEffects,
} from '../../src/integrations/ai-sdk/index.ts';
import type { EpochMs } from '../../src/protocol/ids.ts';
import { tenantId, threadId, turnId } from '../../src/protocol/ids.ts';
import { defineTurnAgent } from '../../src/runtime/agent-definition.ts';
import type { EffectCall, ProbeAnswer } from '../../src/runtime/turn-context.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import { heldQueues } from '../../src/testing/held-queue.ts';
import { mockModel, toolSet } from './mock-model.ts';
import { prompt, started } from './script.ts';

const { data, provider, laterMs } = started();

const probe = async ({ idempotencyKey }: EffectCall): Promise<ProbeAnswer> =>
  (await (await fetch(`${provider}/probe/${idempotencyKey}`)).json()) as ProbeAnswer;
const asked: ToolTreatment = { recovery: 'reconcile', probe };

const agent = defineTurnAgent({
  name: 'shop',
  run: async (context) => {
    const model = wrapLanguageModel({
      model: mockModel(provider),
      middleware: modelEffects(context),
    });
    const tools = toolEffects(
      context,
      toolSet(provider, (options) => effectCall(options).idempotencyKey),
      {
        search: { mutates: false },
        reserve: { recovery: 'idempotent' },
        charge: { recovery: 'idempotent' },
        ship: asked,
        mail: asked,
      },
    );
    return (await generateText({ model, tools, prompt, stopWhen: isStepCount(9) })).text;
  },
});

const secrets = openLocalSecrets(join(data, 'keys'));
const store = openSqliteStore({
  path: join(data, 'turns.sqlite'),
  names: secrets,
  sleep: (ms) => systemClock.sleep(ms),
  random: Math.random,
});
// Time has passed since the process before this one died: its lease has lapsed.
const clock = { ...systemClock, now: () => (systemClock.now() + laterMs) as EpochMs };
const answer = await withTurn(
  {
    store,
    vault: new LocalVault(secrets, systemClock.monotonicMs),
    queues: heldQueues(),
    clock,
    entropy: systemEntropy,
    telemetry: { emit: () => undefined },
    agents: new Map([[agent.name, agent]]),
    owner: `bench-${process.pid}`,
    settings: { leaseMs: 30_000, turnTimeoutMs: 60_000, reserveMs: 0, renew: true },
    later: async () => undefined,
  },
  {
    ref: {
      tenant: tenantId('tenant', 'acme'),
      thread: threadId('thread', 'lamp'),
      turn: turnId('turn', 't1'),
    },
    agent,
    input: null,
    subject: null,
    budget: null,
    actor: 'bench',
  },
);
await store.close();
if (answer.kind !== 'concluded' || answer.turn.status !== 'succeeded')
  throw new Error(`expected an answer, got ${JSON.stringify(answer)}`);
process.stdout.write(String(answer.turn.result));
