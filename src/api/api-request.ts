// A request and a response as every host hands them over: no framework, no Lambda type.
import type { TenantId } from '../protocol/ids.ts';

export const roles = ['user', 'approver', 'operator', 'admin'] as const;
export type Role = (typeof roles)[number];

/** What an operator may do to a quarantine, each a right of its own (ruling 23). */
export const grants = ['answer', 'reopen', 'abandon'] as const;
export type Grant = (typeof grants)[number];

/** Who calls: from the authorizer's claims or the local token, never from a body. */
export interface Identity {
  readonly tenant: TenantId;
  readonly actor: string;
  readonly role: Role;
  /** Rights of the role that this caller has; absent where the issuer does not tell them apart: all of them. */
  readonly grants?: readonly Grant[];
}

export interface ApiRequest {
  readonly method: string;
  /** Path without the query, still percent-encoded. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | null;
  /** Null when no token came or it was broken. */
  readonly identity: Identity | null;
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The grants a claim names, as text or as the gateway prints a list (`[a b]`); an unknown word gives nothing. */
export function parseGrants(claim: unknown): readonly Grant[] {
  const words = String(claim)
    .replace(/^\[|\]$/g, '')
    .split(/[\s,]+/);
  return grants.filter((grant) => words.includes(grant));
}

/** A JSON response. */
export function json(
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): ApiResponse {
  return {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers },
    body: JSON.stringify(body),
  };
}
