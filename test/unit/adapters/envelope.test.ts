import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { envelopeBytes, openBytes, sealBytes } from '../../../src/adapters/envelope/envelope.ts';
import { LocalVault, openLocalSecrets } from '../../../src/adapters/local/local-vault.ts';
import { tenantId, threadId, turnId } from '../../../src/protocol/ids.ts';

const key = Uint8Array.from({ length: 32 }, (_, n) => n);
const aad = new TextEncoder().encode('context');
const plain = new TextEncoder().encode('Ann owes 10');

test('the envelope is frozen by a vector [T12]', () => {
  const sealed = sealBytes(key, plain, aad, (count) => new Uint8Array(count).fill(count));
  expect(Buffer.from(sealed).toString('hex')).toMatchInlineSnapshot(
    `"01101010101010101010101010101010100c0c0c0c0c0c0c0c0c0c0c0cacfb468d05026e98341dd3810a7fad037e1011b469edd49c4f1a52"`,
  );
  expect(Buffer.from(openBytes(key, sealed, aad)).toString()).toBe('Ann owes 10');
  expect(sealed.byteLength).toBe(plain.byteLength + envelopeBytes);
});

test('every flipped bit, another key, another context and a cut tail fail to open [T12]', () => {
  const sealed = sealBytes(key, plain, aad);
  for (let bit = 0; bit < sealed.byteLength * 8; bit += 1) {
    const bent = Uint8Array.from(sealed);
    bent[bit >> 3] = (bent[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    expect(() => openBytes(key, bent, aad)).toThrow('cannot be read');
  }
  expect(() => openBytes(key.toReversed(), sealed, aad)).toThrow('cannot be read');
  expect(() => openBytes(key, sealed, plain)).toThrow('cannot be read');
  expect(() => openBytes(key, sealed.subarray(0, 20), aad)).toThrow('cannot be read');
});

test('two seals of one text share no bytes after the format', () => {
  const [left, right] = [sealBytes(key, plain, aad), sealBytes(key, plain, aad)];
  expect(Buffer.from(left.subarray(1)).equals(Buffer.from(right.subarray(1)))).toBe(false);
});

test('a payload opens in its own place only, under its own key, also after a restart [T12]', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'turnstone-keys-'));
  const tenant = tenantId('tenant', 'acme');
  const vault = () => new LocalVault(openLocalSecrets(folder), () => 0);
  const row = await vault().create(tenant, 't1', 1);
  const context = {
    tenant,
    thread: threadId('thread', 'th'),
    turn: turnId('turn', 't'),
    use: 'record',
    at: 3,
  };
  const sealed = (await vault().sealer(tenant, row)).seal(plain, context);
  const again = await vault().sealer(tenant, row);
  expect(Buffer.from(again.open(sealed, context)).toString()).toBe('Ann owes 10');
  for (const moved of [
    { at: 4 },
    { use: 'view' },
    { thread: threadId('thread', 'other') },
    { turn: turnId('turn', 'u') },
  ]) {
    expect(() => again.open(sealed, { ...context, ...moved })).toThrow('cannot be read');
  }
  await expect(vault().sealer(tenantId('tenant', 'other'), row)).rejects.toThrow('cannot be read');
  await expect(vault().sealer(tenant, { ...row, wrapped: null })).rejects.toMatchObject({
    code: 'subject_erased',
  });
  const other = await vault().create(tenant, 't1', 1);
  const stranger = await vault().sealer(tenant, other);
  expect(() => stranger.open(sealed, context)).toThrow('cannot be read');
  expect(again.mac('d', plain)).not.toBe(stranger.mac('d', plain));
  rmSync(folder, { recursive: true });
});
