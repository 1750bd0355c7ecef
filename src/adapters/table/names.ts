// Names a caller chose, hashed into keys (page 09, section 1): short, fixed in length, and telling nothing
// to who reads a table without the tenant's secret.

import type { ThreadRef, TurnRef } from '../../ports/store.ts';
import { base64url, hashParts, hmacParts } from '../../protocol/digest.ts';
import type { SubjectId, TenantId } from '../../protocol/ids.ts';
import { spread, type ThreadHash, type TurnHash, type TurnPlace } from './layout.ts';

/** Where the secrets of tenants come from; an implementation caches them. */
export interface NameSecrets {
  /** At least 16 bytes, the same for every process and for ever. */
  secret(tenant: TenantId): Promise<Uint8Array>;
}

const threadChars = 27;
const turnChars = 22;
const graphChars = 16;
const knownMax = 2_000;
/** Key rows of a tenant itself, so that no single row is read by every turn (B17). */
const tenantScopes = 16;

export class Names {
  readonly #secrets: NameSecrets;
  /** Hashes of names in use; a pass asks for the same few again and again. */
  readonly #known = new Map<string, string>();

  constructor(secrets: NameSecrets) {
    this.#secrets = secrets;
  }

  async thread(ref: ThreadRef): Promise<ThreadHash> {
    return this.#hash(ref.tenant, 'turnstone.th.1', [ref.tenant, ref.thread], threadChars);
  }

  async turn(ref: TurnRef): Promise<TurnPlace> {
    const thread = await this.thread(ref);
    const turn: TurnHash = await this.#hash(
      ref.tenant,
      'turnstone.tu.1',
      [ref.tenant, ref.thread, ref.turn],
      turnChars,
    );
    return { thread, turn };
  }

  /** `s` and a hash for a subject, `t0` to `t15` for the tenant's own rows, chosen by thread. */
  async scope(ref: ThreadRef, subject: SubjectId | null): Promise<string> {
    if (subject === null) return `t${spread(await this.thread(ref), tenantScopes)}`;
    return this.subject(ref.tenant, subject);
  }

  /** A tenant's own name where its lists stand. */
  async tenant(tenant: TenantId): Promise<string> {
    return this.#hash(tenant, 'turnstone.te.1', [tenant], turnChars);
  }

  async wait(tenant: TenantId, id: string): Promise<string> {
    return this.#hash(tenant, 'turnstone.wa.1', [tenant, id], threadChars);
  }

  async event(tenant: TenantId, source: string, id: string): Promise<string> {
    return this.#hash(tenant, 'turnstone.ev.1', [tenant, source, id], threadChars);
  }

  async match(tenant: TenantId, type: string, correlation: string): Promise<string> {
    return this.#hash(tenant, 'turnstone.ma.1', [tenant, type, correlation], threadChars);
  }

  async intent(tenant: TenantId, id: string): Promise<string> {
    return this.#hash(tenant, 'turnstone.in.1', [tenant, id], threadChars);
  }

  async receipt(tenant: TenantId, kind: string, key: string): Promise<string> {
    return this.#hash(tenant, 'turnstone.re.1', [tenant, kind, key], threadChars);
  }

  async memory(tenant: TenantId, id: string): Promise<string> {
    return this.#hash(tenant, 'turnstone.me.1', [tenant, id], threadChars);
  }

  async matter(tenant: TenantId, id: string): Promise<string> {
    return this.#hash(tenant, 'turnstone.ca.1', [tenant, id], threadChars);
  }

  async subject(tenant: TenantId, subject: string): Promise<string> {
    return `s${await this.#hash(tenant, 'turnstone.su.1', [tenant, subject], threadChars)}`;
  }

  /** A namespace or a task of a graph's thread. */
  async graph(tenant: TenantId, name: string): Promise<string> {
    return this.#hash(tenant, 'turnstone.gr.1', [tenant, name], graphChars);
  }

  async part(tenant: TenantId, digest: string): Promise<string> {
    return this.#hash(tenant, 'turnstone.pa.1', [tenant, digest], threadChars);
  }

  /** Needs no secret: a tenant's secret may itself be kept behind a key row. */
  keyRow(tenant: TenantId, scope: string): string {
    return base64url(hashParts('turnstone.ke.1', [tenant, scope])).slice(0, threadChars);
  }

  async #hash(
    tenant: TenantId,
    domain: string,
    parts: readonly string[],
    chars: number,
  ): Promise<string> {
    const name = JSON.stringify([domain, tenant, ...parts]);
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const secret = await this.#secrets.secret(tenant);
    const hash = base64url(hmacParts(secret, domain, parts)).slice(0, chars);
    const [oldest] = this.#known.keys();
    if (this.#known.size >= knownMax && oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(name, hash);
    return hash;
  }
}
