// The OpenAPI 3.1 document, made from the very schemas that validate requests.
import { toJsonSchema } from '@valibot/to-json-schema';
import type * as v from 'valibot';
import type { Route } from './routes.ts';
import { routes } from './routes.ts';
import { problemSchema } from './schemas.ts';

/** The document of the routes this build has. */
export function openapiDocument(): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const methods = paths[route.path] ?? {};
    methods[route.method.toLowerCase()] = operation(route);
    paths[route.path] = methods;
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Turnstone',
      version: '1',
      description:
        'Runs the turns of AI agents: no outward act happens twice by accident, none is lost silently, every doubt is named.',
    },
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: { Problem: schemaOf(problemSchema) },
    },
  };
}

function operation(route: Route): Record<string, unknown> {
  const problemContent = {
    'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } },
  };
  const parameters = [...pathParameters(route.path), ...queryParameters(route)];
  return {
    summary: route.summary,
    ...(route.roles === null
      ? { security: [] }
      : { security: [{ bearer: [] }], 'x-roles': route.roles }),
    ...(route.grant === undefined ? {} : { 'x-grant': route.grant }),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: { 'application/json': { schema: schemaOf(route.body) } },
          },
        }),
    responses: {
      200: {
        description: 'The answer',
        ...(route.answer === undefined
          ? {}
          : { content: { 'application/json': { schema: schemaOf(route.answer) } } }),
      },
      default: { description: 'A problem (RFC 9457) with a stable code', content: problemContent },
    },
  };
}

function pathParameters(path: string): Record<string, unknown>[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
}

function queryParameters(route: Route): Record<string, unknown>[] {
  if (route.query === undefined) return [];
  const { properties = {} } = schemaOf(route.query) as { properties?: Record<string, unknown> };
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: false,
    schema,
  }));
}

function schemaOf(schema: v.GenericSchema): Record<string, unknown> {
  const { $schema: _dialect, ...rest } = toJsonSchema(schema, { errorMode: 'ignore' });
  return rest;
}
