// The KMS vault under a key service that throttles, fails or answers nonsense: a fault, never an erasure.
import { KMSClient } from '@aws-sdk/client-kms';
import { expect, test } from 'vitest';
import { KmsVault } from '../../../src/adapters/aws/kms-vault.ts';
import { tenantId } from '../../../src/protocol/ids.ts';

const tenant = tenantId('tenant', 'acme');
const row = {
  scope: 's1',
  id: 'key-1',
  generation: 1,
  state: 'live' as const,
  lifecycle: 0,
  wrapped: new Uint8Array(64),
};

/** A vault whose every request ends as told, inside the SDK, before anything is sent. */
function vaultOver(end: () => Promise<{ response: unknown; output: object }>): KmsVault {
  const client = new KMSClient({
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    maxAttempts: 1,
  });
  client.middlewareStack.add(
    () => async () => {
      const { response, output } = await end();
      return { response, output: { ...output, $metadata: {} } };
    },
    { step: 'finalizeRequest', name: 'told', priority: 'high' },
  );
  return new KmsVault({ keyId: 'k', client: async () => client, monotonicMs: () => 0 });
}

test('E330 ER-5 throttling, faults and an answer without a key are faults to retry, never "erased" [T12]', async () => {
  for (const name of ['ThrottlingException', 'KMSInternalException', 'TimeoutError']) {
    const vault = vaultOver(async () => {
      throw Object.assign(new Error('Rate exceeded'), { name });
    });
    for (const work of [() => vault.sealer(tenant, row), () => vault.create(tenant, 's1', 1)]) {
      await expect(work()).rejects.toMatchObject({
        code: 'key_service_unavailable',
        retry: 'now',
      });
    }
  }
  const mute = vaultOver(async () => ({ response: {}, output: {} }));
  await expect(mute.sealer(tenant, row)).rejects.toMatchObject({ code: 'key_service_unavailable' });
  await expect(mute.create(tenant, 's1', 1)).rejects.toMatchObject({
    code: 'key_service_unavailable',
  });
});

test('E330 only a row without its wrapped key is erased, and the service is not asked for it [T12]', async () => {
  let asked = 0;
  const vault = vaultOver(async () => {
    asked += 1;
    throw new Error('never');
  });
  await expect(vault.sealer(tenant, { ...row, wrapped: null })).rejects.toMatchObject({
    code: 'subject_erased',
    retry: 'never',
  });
  expect(asked).toBe(0);
});
