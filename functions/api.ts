// The API function: an HTTP API event in, src/api through, a proxy response out.
import middy from '@middy/core';
import httpSecurityHeaders from '@middy/http-security-headers';
import type {
  APIGatewayProxyEventV2WithJWTAuthorizer,
  APIGatewayProxyStructuredResultV2,
  Context,
} from 'aws-lambda';
import { systemClock } from '../src/adapters/system/system-clock.ts';
import type { ApiRequest, Identity } from '../src/api/api-request.ts';
import { parseGrants, roles } from '../src/api/api-request.ts';
import { handle } from '../src/api/handle.ts';
import { problemOf } from '../src/api/problem.ts';
import { parseId, tenantId } from '../src/protocol/ids.ts';
import { invocationBounds, lambdaRuntime } from './wiring.ts';

const runtime = lambdaRuntime();

async function answer(
  event: APIGatewayProxyEventV2WithJWTAuthorizer,
  context: Context,
): Promise<APIGatewayProxyStructuredResultV2> {
  const detached: Promise<unknown>[] = [];
  const host = {
    runtime,
    bounds: () => invocationBounds(context.getRemainingTimeInMillis()),
    detach: (pass: Promise<unknown>) => {
      detached.push(pass.catch(() => undefined));
    },
    pause: (ms: number) => systemClock.sleep(Math.max(1, ms)),
  };
  const response = await handle(host, requestOf(event));
  await Promise.all(detached);
  return { statusCode: response.status, headers: { ...response.headers }, body: response.body };
}

function requestOf(event: APIGatewayProxyEventV2WithJWTAuthorizer): ApiRequest {
  const { body, isBase64Encoded } = event;
  return {
    method: event.requestContext.http.method,
    path: event.rawPath,
    query: new URLSearchParams(event.rawQueryString),
    headers: Object.fromEntries(
      Object.entries(event.headers).flatMap(([name, value]) =>
        value === undefined ? [] : [[name.toLowerCase(), value]],
      ),
    ),
    body: body === undefined ? null : Buffer.from(body, isBase64Encoded ? 'base64' : 'utf8'),
    identity: identityOf(event),
  };
}

/** Tenant, actor, role and grants from the authorizer's claims; anything missing or unknown is nobody. */
function identityOf(event: APIGatewayProxyEventV2WithJWTAuthorizer): Identity | null {
  const claims = event.requestContext.authorizer?.jwt?.claims ?? {};
  const role = roles.find((known) => known === String(claims.role ?? ''));
  if (role === undefined) return null;
  try {
    return {
      tenant: tenantId('tenant', String(claims.tenant ?? '')),
      actor: parseId('sub', String(claims.sub ?? '')),
      role,
      ...(claims.grants === undefined ? {} : { grants: parseGrants(claims.grants) }),
    };
  } catch {
    return null;
  }
}

export const handler = middy<
  APIGatewayProxyEventV2WithJWTAuthorizer,
  APIGatewayProxyStructuredResultV2
>()
  .use(httpSecurityHeaders())
  .onError((request) => {
    const response = problemOf(request.error);
    request.response = {
      statusCode: response.status,
      headers: { ...response.headers },
      body: response.body,
    };
  })
  .handler(answer);
