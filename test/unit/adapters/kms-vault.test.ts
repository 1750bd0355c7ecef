// Goal: the vault on KMS asks it for keys, not for items, and its four bad answers are four different ones.
import type { KMSClient } from '@aws-sdk/client-kms';
import { expect, test } from 'vitest';
import { KmsVault } from '../../../src/adapters/aws/kms-vault.ts';
import { TurnstoneError } from '../../../src/protocol/errors.ts';
import { tenantId, threadId, turnId } from '../../../src/protocol/ids.ts';

const tenant = tenantId('tenant', 'acme');
const context = (at: number) => ({
  tenant,
  thread: threadId('thread', 'th'),
  turn: turnId('turn', 't1'),
  use: 'memory',
  at,
});

/** KMS as far as the vault uses it: a wrapped key is the plain one and its context, backwards. */
function service() {
  const calls: string[] = [];
  let fault: string | null = null;
  const contexts: unknown[] = [];
  const client = {
    send: (command: { constructor: { name: string }; input: Record<string, unknown> }) => {
      calls.push(command.constructor.name);
      contexts.push(command.input.EncryptionContext);
      if (fault !== null) {
        return Promise.reject(Object.assign(new Error('no'), { name: fault }));
      }
      if (command.constructor.name === 'GenerateDataKeyCommand') {
        const key = new Uint8Array(32).fill(calls.length);
        return Promise.resolve({ Plaintext: key.slice(), CiphertextBlob: key.toReversed() });
      }
      const blob = command.input.CiphertextBlob as Uint8Array;
      return Promise.resolve({ Plaintext: blob.toReversed() });
    },
  };
  return {
    calls,
    contexts,
    failWith: (name: string | null) => {
      fault = name;
    },
    client: async () => client as unknown as KMSClient,
  };
}

function vaultOf(kms: ReturnType<typeof service>, now: () => number = () => 0): KmsVault {
  return new KmsVault({ keyId: 'key', client: kms.client, monotonicMs: now });
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  return error instanceof TurnstoneError ? `${error.code} ${error.retry}` : String(error);
}

test('T12 KMS is asked for keys, not for items: 1,000 reads and writes over 10 subjects', async () => {
  const kms = service();
  let now = 0;
  const vault = vaultOf(kms, () => now);
  const scopes = Array.from({ length: 10 }, (_, n) => `s${n}`);
  const rows = await Promise.all(scopes.map((scope) => vault.create(tenant, scope, 1)));
  for (let n = 0; n < 1_000; n += 1) {
    const row = rows[n % 10];
    if (row === undefined) throw new Error('expected a row');
    const sealer = await vault.sealer(tenant, row);
    const sealed = sealer.seal(Uint8Array.of(n & 255), context(n));
    expect(sealer.open(sealed, context(n))).toEqual(Buffer.from([n & 255]));
  }
  const asked = (name: string) => kms.calls.filter((call) => call === name).length;
  expect(asked('GenerateDataKeyCommand')).toBe(10);
  expect(asked('DecryptCommand')).toBe(10);
  // Plain keys are held for a bounded time: past it the service is asked again.
  now = 60_001;
  for (const row of rows) await vault.sealer(tenant, row);
  expect(asked('DecryptCommand')).toBe(20);
  for (const sent of kms.contexts) {
    expect(sent).toEqual({ tenant: 'acme', keyId: expect.any(String), generation: '1' });
  }
});

test('E284 a destroyed key, a service that cannot be reached, an unknown envelope and a retired key are four answers [T12]', async () => {
  const kms = service();
  const vault = vaultOf(kms);
  const row = await vault.create(tenant, 's1', 1);
  const sealer = await vault.sealer(tenant, row);
  const sealed = sealer.seal(Uint8Array.of(1), context(1));
  expect(await codeOf(vault.sealer(tenant, { ...row, wrapped: null }))).toBe(
    'subject_erased never',
  );
  const cold = vaultOf(kms);
  for (const fault of ['ThrottlingException', 'TimeoutError', 'KMSInternalException']) {
    kms.failWith(fault);
    expect(await codeOf(cold.sealer(tenant, row)), fault).toBe('key_service_unavailable now');
  }
  for (const fault of ['DisabledException', 'KMSInvalidStateException', 'NotFoundException']) {
    kms.failWith(fault);
    expect(await codeOf(cold.sealer(tenant, row)), fault).toBe('wrapping_key_retired never');
  }
  kms.failWith(null);
  const later = Uint8Array.from(sealed);
  later[0] = 9;
  expect(await codeOf(Promise.resolve().then(() => sealer.open(later, context(1))))).toBe(
    'payload_unreadable never',
  );
  expect(() => sealer.open(later, context(1))).toThrow('expected format 1, got 9');
});

test('T12 a warm container opens nothing of a key row that was destroyed or replaced since', async () => {
  const kms = service();
  const vault = vaultOf(kms);
  const row = await vault.create(tenant, 's1', 1);
  const sealer = await vault.sealer(tenant, row);
  const sealed = sealer.seal(Uint8Array.of(7), context(1));
  const erased = { ...row, state: 'erased' as const, generation: 2, wrapped: null };
  expect(await codeOf(vault.sealer(tenant, erased))).toBe('subject_erased never');
  const returned = await vault.sealer(tenant, await vault.create(tenant, 's1', 2));
  expect(() => returned.open(sealed, context(1))).toThrow('cannot be read');
});
