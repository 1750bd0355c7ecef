// Bearer tokens of the local server only: `dev:<tenant>:<actor>:<role>`. AWS takes identity from claims.

import type { Identity } from '../api/api-request.ts';
import { roles } from '../api/api-request.ts';
import { parseId, tenantId } from '../protocol/ids.ts';

/** The identity of an Authorization header, or null for none or a broken one. */
export function devIdentity(authorization: string | undefined): Identity | null {
  const match = /^Bearer dev:([^:\s]+):([^:\s]+):([a-z]+)$/i.exec(authorization ?? '');
  if (match === null) return null;
  const role = roles.find((known) => known === match[3]);
  if (role === undefined) return null;
  try {
    return { tenant: tenantId('tenant', match[1]), actor: parseId('actor', match[2]), role };
  } catch {
    return null;
  }
}
