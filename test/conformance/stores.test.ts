// The port's suite on every back end: SQLite in memory and in a file, the local AWS, moto, and an endpoint of
// your own (TURNSTONE_TEST_DYNAMODB, e.g. DynamoDB Local).
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, inject, test } from 'vitest';
import type { TurnStore } from '../../src/ports/store.ts';
import { storeCases } from '../../src/testing/store-conformance.ts';
import { peopleCases } from '../../src/testing/store-conformance-people.ts';
import { dynamoStore, fileStore, memoryStore, skipLoudly } from '../stores.ts';

const folder = mkdtempSync(join(tmpdir(), 'turnstone-conformance-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

const backEnds: Record<string, (() => Promise<TurnStore>) | string> = {
  'sqlite in memory': async () => memoryStore(),
  'sqlite file': async () => {
    files += 1;
    return fileStore(join(folder, `store-${files}.sqlite`));
  },
};
for (const [name, endpoint] of Object.entries(inject('dynamodb'))) {
  const options = { oneAtATime: name === 'moto' };
  backEnds[name] =
    'url' in endpoint
      ? () => dynamoStore(endpoint.url, undefined, undefined, options)
      : endpoint.unavailable;
}
const own = process.env.TURNSTONE_TEST_DYNAMODB;
if (own !== undefined) backEnds['the endpoint given'] = () => dynamoStore(own);

describe.each(Object.entries(backEnds))('%s', (_name, open) => {
  for (const { title, run } of [...storeCases, ...peopleCases]) {
    if (typeof open === 'string') skipLoudly(`${title}: no emulator: ${open}`, () => undefined);
    else test(title, () => run(open));
  }
});

test('the suite covers the port', () => {
  expect(storeCases.length).toBeGreaterThan(18);
});
