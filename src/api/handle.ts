// One request to one response: route, role, handler, problem. Never throws.
import { TurnstoneError } from '../protocol/errors.ts';
import type { ApiRequest, ApiResponse } from './api-request.ts';
import type { ApiHost, Handler } from './handler.ts';
import { problem, problemOf } from './problem.ts';
import type { Route } from './routes.ts';
import { routes, routesNotYet } from './routes.ts';

interface Match {
  readonly params: Readonly<Record<string, string>>;
}

/** Answers a request; an error that is not the caller's is told to telemetry and answered opaquely. */
export async function handle(host: ApiHost, request: ApiRequest): Promise<ApiResponse> {
  try {
    return await dispatch(host, request);
  } catch (error) {
    const response = problemOf(error);
    if (response.status >= 500) {
      const { name, message } =
        error instanceof Error ? error : { name: 'unknown', message: String(error) };
      host.runtime.telemetry.emit('api.failed', { path: request.path, error: name, message });
    }
    return response;
  }
}

async function dispatch(host: ApiHost, request: ApiRequest): Promise<ApiResponse> {
  const allowed: string[] = [];
  for (const route of [...routes, ...routesNotYet]) {
    const match = matchPath(route.path, request.path);
    if (match === null) continue;
    if (route.method !== request.method) {
      allowed.push(route.method);
      continue;
    }
    const refusal = refuse(request, route);
    if (refusal !== null) return refusal;
    const identity = request.identity ?? anonymous;
    return handlerOf(route)({ host, request, identity, params: match.params });
  }
  if (allowed.length > 0) {
    const response = problem({
      status: 405,
      code: 'method_not_allowed',
      detail: `expected ${allowed.join(', ')}`,
    });
    return { ...response, headers: { ...response.headers, allow: allowed.join(', ') } };
  }
  throw new TurnstoneError('not_found', `no route ${request.method} ${request.path}`, {
    retry: 'never',
  });
}

function handlerOf(route: Route | (typeof routesNotYet)[number]): Handler {
  if ('handle' in route) return route.handle;
  throw new TurnstoneError(
    'not_implemented',
    `${route.method} ${route.path} is not in this build`,
    {
      retry: 'never',
    },
  );
}

const anonymous = { tenant: '' as never, actor: '', role: 'user' as const };

function refuse(
  request: ApiRequest,
  { roles, grant }: Pick<Route, 'roles' | 'grant'>,
): ApiResponse | null {
  if (roles === null) return null;
  if (request.identity === null) {
    const response = problem({
      status: 401,
      code: 'unauthorized',
      detail: 'expected a valid bearer token',
    });
    return { ...response, headers: { ...response.headers, 'www-authenticate': 'Bearer' } };
  }
  const { role, grants } = request.identity;
  if (!roles.includes(role)) {
    return forbidden(`role "${role}" may not call this route; expected ${roles.join(', ')}`);
  }
  if (grant === undefined || grants === undefined || grants.includes(grant)) return null;
  const held = grants.length === 0 ? 'none' : grants.join(', ');
  return forbidden(`this route needs the grant "${grant}"; the token holds ${held}`);
}

function forbidden(detail: string): ApiResponse {
  return problem({ status: 403, code: 'forbidden', detail });
}

/** The parameters of a path under a template, or null. */
export function matchPath(template: string, path: string): Match | null {
  const wanted = template.split('/');
  const given = path.split('/');
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const value = given[index] ?? '';
    if (part.startsWith('{')) {
      const decoded = decodeSegment(value);
      if (decoded === null) return null;
      params[part.slice(1, -1)] = decoded;
    } else if (part !== value) return null;
  }
  return { params };
}

function decodeSegment(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
