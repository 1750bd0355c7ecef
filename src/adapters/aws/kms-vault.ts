// The vault on AWS: data keys wrapped by KMS under an encryption context, plain keys held briefly.
//   T12  Decrypt needs the row's wrapped key; a destroyed row leaves nothing to unwrap. A held key is used
//        only for a row that was just read with the same id and generation.
//   Ruling 21  the context holds tenant, a random key id and the generation, never a subject's name.
import { randomBytes } from 'node:crypto';
import type { KMSClient } from '@aws-sdk/client-kms';
import type { KeyRow } from '../../ports/subjects.ts';
import type { Sealer, Vault } from '../../ports/vault.ts';
import { base64url } from '../../protocol/digest.ts';
import { describeError, TurnstoneError } from '../../protocol/errors.ts';
import type { TenantId } from '../../protocol/ids.ts';
import { sealerOf } from '../envelope/envelope.ts';
import { KeyCache } from '../envelope/key-cache.ts';

export interface KmsVaultOptions {
  readonly keyId: string;
  /** Asked for on first use. */
  readonly client: () => Promise<KMSClient>;
  readonly monotonicMs: () => number;
}

export class KmsVault implements Vault {
  readonly #options: KmsVaultOptions;
  readonly #cache: KeyCache;

  constructor(options: KmsVaultOptions) {
    this.#options = options;
    this.#cache = new KeyCache({ monotonicMs: options.monotonicMs });
  }

  async create(tenant: TenantId, scope: string, generation: number): Promise<KeyRow> {
    const id = base64url(randomBytes(12));
    const { GenerateDataKeyCommand } = await import('@aws-sdk/client-kms');
    const client = await this.#options.client();
    const made = await asked(() =>
      client.send(
        new GenerateDataKeyCommand({
          KeyId: this.#options.keyId,
          KeySpec: 'AES_256',
          EncryptionContext: contextOf(tenant, id, generation),
        }),
      ),
    );
    if (made.CiphertextBlob === undefined || made.Plaintext === undefined)
      throw unavailable('it gave no key');
    made.Plaintext.fill(0);
    return { scope, id, generation, state: 'live', lifecycle: 0, wrapped: made.CiphertextBlob };
  }

  async sealer(tenant: TenantId, row: KeyRow): Promise<Sealer> {
    const { wrapped } = row;
    if (wrapped === null) {
      throw new TurnstoneError('subject_erased', 'the key of this scope was destroyed', {
        retry: 'never',
      });
    }
    const key = await this.#cache.get(tenant, row, () => this.#unwrap(tenant, row, wrapped));
    return sealerOf(row, key);
  }

  async #unwrap(tenant: string, row: KeyRow, wrapped: Uint8Array): Promise<Uint8Array> {
    const { DecryptCommand } = await import('@aws-sdk/client-kms');
    const client = await this.#options.client();
    const opened = await asked(() =>
      client.send(
        new DecryptCommand({
          KeyId: this.#options.keyId,
          CiphertextBlob: wrapped,
          EncryptionContext: contextOf(tenant, row.id, row.generation),
        }),
      ),
    );
    if (opened.Plaintext?.byteLength !== 32) throw unavailable('it gave no 32-byte key');
    return opened.Plaintext;
  }
}

/** What KMS says of a wrapping key that will not come back by itself (E284). */
const retired: ReadonlySet<string> = new Set([
  'DisabledException',
  'KMSInvalidStateException',
  'NotFoundException',
  'IncorrectKeyException',
  'InvalidCiphertextException',
]);

/** E330: a key service that throttles or fails is a fault to retry, never an erasure; a retired key is loud. */
async function asked<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (cause) {
    if (!(cause instanceof Error) || !retired.has(cause.name))
      throw unavailable(describeError(cause).message, cause);
    throw new TurnstoneError(
      'wrapping_key_retired',
      `the key that wraps this scope cannot be used any more: ${cause.name}`,
      { retry: 'never', cause },
    );
  }
}

function contextOf(tenant: string, id: string, generation: number): Record<string, string> {
  return { tenant, keyId: id, generation: String(generation) };
}

function unavailable(why: string, cause?: unknown): TurnstoneError {
  return new TurnstoneError('key_service_unavailable', `the key service cannot be used: ${why}`, {
    retry: 'now',
    cause,
  });
}
