// Journals of every release replay for ever: the chain verifies, every record decodes, the strict pass of
// today's code is verified, and a redelivery is answered with the recorded result.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { TurnStore } from '../../src/ports/store.ts';
import { readJournal } from '../../src/runtime/read-turn.ts';
import { verifyTurn } from '../../src/runtime/verify-turn.ts';
import { withTurn } from '../../src/runtime/with-turn.ts';
import { World } from '../../src/testing/world.ts';
import { memoryStore } from '../stores.ts';
import type { Recorded } from './recorded.ts';
import { fromText, recordedAgent } from './recorded.ts';

const folder = new URL('journals/', import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith('.json'));

/** A store that holds one recorded turn. */
function holding(recorded: Recorded): TurnStore {
  const { key, positions, head, end } = recorded;
  const begun = {
    head,
    checkpoint: null,
    end,
    first: positions[0] ?? null,
    key,
    scope: key.scope,
    work: null,
  };
  const verbs: Partial<TurnStore> = {
    begin: async () => begun,
    journal: async () => positions,
    key: async () => key,
    thread: async () => ({ head, checkpoint: null }),
  };
  return new Proxy<TurnStore>(memoryStore(), {
    get: (target, name) => {
      const verb: unknown = Reflect.get(verbs, name) ?? Reflect.get(target, name);
      return typeof verb === 'function' ? verb.bind(target) : verb;
    },
  });
}

test('there is a recorded journal', () => {
  expect(files.length).toBeGreaterThan(0);
});

test.each(files)('%s replays as it was written [T2 T7 T13]', async (name) => {
  const recorded = fromText(readFileSync(new URL(name, folder), 'utf8'));
  const agent = recordedAgent();
  const world = new World({ store: holding(recorded), agents: [agent] });
  const { runtime } = world.start();
  const journal = await readJournal(runtime, recorded.ref, { after: 0, limit: 1_000 });
  expect(journal?.verified).toBe(true);
  const kinds = journal?.records.map((record) => record.body.kind) ?? [];
  expect(kinds[0]).toBe('RunAdmitted');
  expect(kinds.at(-1)).toBe('RunConcluded');
  for (const kind of [
    'Note',
    'StepStarted',
    'StepFinished',
    'EffectStarted',
    'EffectDone',
    'EffectFailed',
    'EffectReconciled',
  ]) {
    expect(kinds).toContain(kind);
  }
  expect(await verifyTurn(runtime, recorded.ref)).toMatchObject({
    verdict: 'verified',
    outcome: 'succeeded',
  });
  const request = {
    ref: recorded.ref,
    agent,
    input: { order: 7, note: 'é😀' },
    subject: null,
    budget: null,
    actor: 'ann',
  };
  const answer = await withTurn(runtime, request);
  expect(answer).toMatchObject({
    kind: 'concluded',
    replayed: true,
    turn: {
      status: 'succeeded',
      result: {
        held: { hold: 'h1', at: new Date(0) },
        rate: 1.25,
        charge: { id: 'ch_1' },
        mail: { id: 'mail_1' },
      },
      spend: { steps: 3, effects: 4, attempts: 5, tokens: 3, minorUnits: 1990 },
    },
  });
});
