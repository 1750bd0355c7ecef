// The embedded vault: data keys wrapped by a root key in a file only its owner may read.
//   T12  destroying a wrapped row leaves every copy of its payloads unreadable; the root key alone opens nothing.
import { hkdfSync, randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { KeyRow } from '../../ports/subjects.ts';
import type { Sealer, Vault } from '../../ports/vault.ts';
import { base64url, framed } from '../../protocol/digest.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import type { TenantId } from '../../protocol/ids.ts';
import { openBytes, sealBytes, sealerOf } from '../envelope/envelope.ts';
import { KeyCache } from '../envelope/key-cache.ts';

/** The secrets of one data folder: the root key, and what caller-chosen names are hashed under. */
export interface LocalSecrets {
  readonly root: Uint8Array;
  /** Name secret of a tenant, 32 bytes. */
  secret(tenant: string): Promise<Uint8Array>;
}

/** Opens or makes `<folder>/root.key` (mode 0600). Throws `key_service_unavailable` for a file of another size. */
export function openLocalSecrets(folder: string): LocalSecrets {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, 'root.key');
  if (!existsSync(path)) makeOnce(path);
  const root = readFileSync(path);
  if (root.byteLength !== 32) {
    throw new TurnstoneError(
      'key_service_unavailable',
      `${path}: expected 32 bytes, got ${root.byteLength}`,
      {
        retry: 'never',
      },
    );
  }
  return {
    root,
    secret: (tenant) =>
      Promise.resolve(
        new Uint8Array(
          hkdfSync('sha256', root, new Uint8Array(0), framed('turnstone.names.1', [tenant]), 32),
        ),
      ),
  };
}

/** Two processes may start together: the file appears whole, and the first one made stands. */
function makeOnce(path: string): void {
  const draft = `${path}.${process.pid}.${base64url(randomBytes(6))}`;
  writeFileSync(draft, randomBytes(32), { mode: 0o600, flag: 'wx' });
  chmodSync(draft, 0o600);
  try {
    linkSync(draft, path);
  } catch (error) {
    if (!existsSync(path)) throw error;
  } finally {
    rmSync(draft);
  }
}

export class LocalVault implements Vault {
  readonly #root: Uint8Array;
  readonly #cache: KeyCache;

  constructor(secrets: LocalSecrets, monotonicMs: () => number) {
    this.#root = secrets.root;
    this.#cache = new KeyCache({ monotonicMs });
  }

  create(tenant: TenantId, scope: string, generation: number): Promise<KeyRow> {
    const id = base64url(randomBytes(12));
    const wrapped = sealBytes(this.#root, randomBytes(32), wrapContext(tenant, id, generation));
    return Promise.resolve({ scope, id, generation, state: 'live', lifecycle: 0, wrapped });
  }

  async sealer(tenant: TenantId, row: KeyRow): Promise<Sealer> {
    const { wrapped } = row;
    if (wrapped === null) {
      throw new TurnstoneError('subject_erased', 'the key of this scope was destroyed', {
        retry: 'never',
      });
    }
    const context = wrapContext(tenant, row.id, row.generation);
    const key = await this.#cache.get(tenant, row, async () =>
      openBytes(this.#root, wrapped, context),
    );
    return sealerOf(row, key);
  }
}

/** Ruling 21: tenant, a random key id and the generation; never the subject's name. */
function wrapContext(tenant: string, id: string, generation: number): Uint8Array {
  return framed('turnstone.wrap.1', [tenant, id, generation]);
}
