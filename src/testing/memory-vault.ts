// A vault whose keys live in this process: real AES-256-GCM, no key service.

import type { KeyObject } from 'node:crypto';
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  randomBytes,
} from 'node:crypto';
import type { KeyRow } from '../ports/subjects.ts';
import type { SealContext, Sealer, Vault } from '../ports/vault.ts';
import { base64url, framed } from '../protocol/digest.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { TenantId } from '../protocol/ids.ts';

export class MemoryVault implements Vault {
  create(_tenant: TenantId, scope: string, generation: number): Promise<KeyRow> {
    const id = base64url(randomBytes(12));
    return Promise.resolve({
      scope,
      id,
      generation,
      state: 'live',
      lifecycle: 0,
      wrapped: randomBytes(32),
    });
  }

  sealer(_tenant: TenantId, row: KeyRow): Promise<Sealer> {
    const { wrapped } = row;
    if (wrapped === null) {
      return Promise.reject(
        new TurnstoneError('subject_erased', 'the key of this scope was destroyed', {
          retry: 'never',
        }),
      );
    }
    const key = createSecretKey(wrapped);
    return Promise.resolve({
      scope: row.scope,
      generation: row.generation,
      seal: (plain, context) => seal(key, plain, context),
      open: (sealed, context) => open(key, sealed, context),
      mac: (domain, bytes) =>
        base64url(
          createHmac('sha256', key)
            .update(framed(domain, [bytes]))
            .digest(),
        ),
    });
  }
}

function seal(key: KeyObject, plain: Uint8Array, context: SealContext): Uint8Array {
  const iv = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', key, iv);
  cipher.setAAD(bound(context));
  return Buffer.concat([iv, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function open(key: KeyObject, sealed: Uint8Array, context: SealContext): Uint8Array {
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, 12), {
      authTagLength: 16,
    });
    decipher.setAAD(bound(context));
    decipher.setAuthTag(sealed.subarray(sealed.byteLength - 16));
    const body = sealed.subarray(12, sealed.byteLength - 16);
    return Buffer.concat([decipher.update(body), decipher.final()]);
  } catch (cause) {
    throw new TurnstoneError(
      'payload_unreadable',
      'a sealed payload does not open under its key and context',
      {
        retry: 'never',
        cause,
      },
    );
  }
}

function bound(context: SealContext): Uint8Array {
  const { tenant, thread, turn, use, at } = context;
  return framed('turnstone.seal.1', [tenant, thread, turn, use, at]);
}
