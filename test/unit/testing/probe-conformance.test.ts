// The probe suite lets a probe by identity pass and flags one by recency or by likeness.
import { expect, test } from 'vitest';
import type { Effect } from '../../../src/runtime/turn-context.ts';
import { probeCases } from '../../../src/testing/probe-conformance.ts';

interface Charge {
  readonly reference: string;
  readonly id: string;
}

/** An effect over a ledger of its own, whose probe finds a charge as told. */
function charging(find: (ledger: readonly Charge[], key: string) => Charge | undefined) {
  return async (): Promise<Effect<unknown>> => {
    const ledger: Charge[] = [];
    return {
      kind: 'charge',
      args: { amount: 10 },
      recovery: 'reconcile',
      perform: async ({ idempotencyKey }) => {
        ledger.push({ reference: idempotencyKey, id: `ch_${ledger.length + 1}` });
        return { id: ledger.at(-1)?.id };
      },
      probe: async ({ idempotencyKey }) => {
        const found = find(ledger, idempotencyKey);
        if (found === undefined) return { outcome: 'did_not_happen' };
        return { outcome: 'landed', output: { id: found.id } };
      },
    };
  };
}

async function broken(open: () => Promise<Effect<unknown>>): Promise<readonly string[]> {
  const failed: string[] = [];
  for (const { title, run } of probeCases) await run(open).catch(() => failed.push(title));
  return failed;
}

test('a probe by reference passes every case [T6]', async () => {
  const byReference = charging((ledger, key) => ledger.find(({ reference }) => reference === key));
  expect(await broken(byReference)).toEqual([]);
});

test('E64 RE-1 a probe by recency is flagged by the case of the twin, and so is one that guesses [T6]', async () => {
  const byRecency = charging((ledger) => ledger.at(-1));
  expect(await broken(byRecency)).toEqual(
    expect.arrayContaining([expect.stringMatching(/^E64 a twin/)]),
  );
  expect(await broken(charging(() => undefined))).toHaveLength(2);
  const byAttempt = charging((ledger, key) =>
    ledger.length === 1 ? undefined : ledger.find(({ reference }) => reference === key),
  );
  expect((await broken(byAttempt)).length).toBeGreaterThan(0);
});
