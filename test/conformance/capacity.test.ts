// What the store says a turn cost, beside what its requests cost on the wire by a calculator of its own.
import { expect, inject, test } from 'vitest';
import type { RequestInfo } from '../../src/adapters/table/driver.ts';
import type { CapacityMeter } from '../../src/testing/capacity-meter.ts';
import { meterCapacity } from '../../src/testing/capacity-meter.ts';
import { agentOf, Scene } from '../simulation/scene.ts';
import { dynamoStore, skipLoudly } from '../stores.ts';

const endpoint = inject('dynamodb').ministack;
const title =
  'cost: a ten-effect turn counted by the store is what its wire requests cost, at most 30 units';

async function compared(url: string): Promise<void> {
  const seen: RequestInfo[] = [];
  const meters: CapacityMeter[] = [];
  const store = await dynamoStore(url, (info) => seen.push(info), undefined, {
    meter: (client) => meters.push(meterCapacity(client)),
  });
  const scene = new Scene(
    store,
    agentOf(async (context) => {
      for (let n = 0; n < 10; n += 1) {
        await context.effect({
          kind: 'charge',
          args: { n },
          recovery: 'idempotent',
          perform: async () => ({ id: `ch_${n}` }),
        });
      }
    }),
  );
  await scene.conclude('warm');
  seen.length = 0;
  for (const meter of meters) meter.reset();
  await scene.conclude('t1');
  const [meter] = meters;
  const wire = meter?.total();
  const writes = seen.filter((info) => info.writes > 0);
  const units = (infos: readonly RequestInfo[]) => infos.reduce((sum, one) => sum + one.units, 0);
  expect(wire).toEqual({
    writes: writes.length,
    reads: seen.length - writes.length,
    writeUnits: units(writes),
    readUnits: units(seen.filter((info) => info.writes === 0)),
  });
  expect(wire?.writeUnits).toBeGreaterThan(10);
  expect(wire?.writeUnits).toBeLessThanOrEqual(30);
  await store.close();
}

if ('url' in endpoint) test(title, () => compared(endpoint.url));
else skipLoudly(`${title}: no emulator: ${endpoint.unavailable}`, () => undefined);
