// The secret that caller-chosen names are hashed under, on AWS: one row of the key table, wrapped by KMS.
//
// Loaded once a container and held for its life; it never rotates, because keys derive from it. Losing it
// loses the way to every item, so its row is made once, conditionally, and is as protected as the table.
import { hkdfSync } from 'node:crypto';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { KMSClient } from '@aws-sdk/client-kms';
import { framed } from '../../protocol/digest.ts';
import { TurnstoneError } from '../../protocol/errors.ts';

export interface KmsNamesOptions {
  readonly table: string;
  readonly keyId: string;
  readonly dynamo: DynamoDBClient;
  readonly kms: () => Promise<KMSClient>;
}

const place = { pk: { S: 'stack' }, sk: { S: 'names' } };
const context = { tenant: 'stack', keyId: 'names', generation: '1' };

/** Name secrets of a stack; `secret` derives one for each tenant. */
export class KmsNames {
  readonly #options: KmsNamesOptions;
  #root: Promise<Uint8Array> | null = null;

  constructor(options: KmsNamesOptions) {
    this.#options = options;
  }

  async secret(tenant: string): Promise<Uint8Array> {
    this.#root ??= this.#load();
    const loading = this.#root;
    const root = await loading.catch((error: unknown) => {
      if (this.#root === loading) this.#root = null;
      throw error;
    });
    return new Uint8Array(
      hkdfSync('sha256', root, new Uint8Array(0), framed('turnstone.names.1', [tenant]), 32),
    );
  }

  async #load(): Promise<Uint8Array> {
    const wrapped = (await this.#read()) ?? (await this.#make());
    const { DecryptCommand } = await import('@aws-sdk/client-kms');
    const client = await this.#options.kms();
    const opened = await client.send(
      new DecryptCommand({
        KeyId: this.#options.keyId,
        CiphertextBlob: wrapped,
        EncryptionContext: context,
      }),
    );
    if (opened.Plaintext === undefined) throw gone('KMS gave no plain secret');
    return opened.Plaintext;
  }

  async #read(): Promise<Uint8Array | null> {
    const { GetItemCommand } = await import('@aws-sdk/client-dynamodb');
    const { table, dynamo } = this.#options;
    const found = await dynamo.send(
      new GetItemCommand({ TableName: table, Key: place, ConsistentRead: true }),
    );
    return found.Item?.w?.B ?? null;
  }

  async #make(): Promise<Uint8Array> {
    const { PutItemCommand } = await import('@aws-sdk/client-dynamodb');
    const { GenerateDataKeyCommand } = await import('@aws-sdk/client-kms');
    const { table, dynamo, keyId } = this.#options;
    const client = await this.#options.kms();
    const made = await client.send(
      new GenerateDataKeyCommand({ KeyId: keyId, KeySpec: 'AES_256', EncryptionContext: context }),
    );
    if (made.CiphertextBlob === undefined) throw gone('KMS gave no wrapped secret');
    const put = new PutItemCommand({
      TableName: table,
      Item: { ...place, w: { B: made.CiphertextBlob } },
      ConditionExpression: 'attribute_not_exists(#pk)',
      ExpressionAttributeNames: { '#pk': 'pk' },
    });
    try {
      await dynamo.send(put);
      return made.CiphertextBlob;
    } catch (error) {
      const standing = await this.#read();
      if (standing === null) throw error;
      return standing;
    }
  }
}

function gone(why: string): TurnstoneError {
  return new TurnstoneError('key_service_unavailable', `the name secret cannot be opened: ${why}`, {
    retry: 'now',
  });
}
