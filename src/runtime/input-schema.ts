// Input of an agent against a Standard Schema: Zod, Valibot, ArkType and whatever else speaks it.
import { describeError, TurnstoneError } from '../protocol/errors.ts';

/** The part of a Standard Schema (version 1) that is used here. */
export interface InputSchema<T = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<T> | Promise<SchemaResult<T>>;
    readonly types?: { readonly input: unknown; readonly output: T } | undefined;
  };
}

type SchemaResult<T> =
  | { readonly value: T; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** Checks a value; throws `invalid_input` naming the first bad place, or a schema that only checks in its own time. */
export function checkInput<T>(schema: InputSchema<T>, input: unknown): T {
  const result = schema['~standard'].validate(input);
  if (result instanceof Promise) throw bad('', 'a schema that checks at once, got a promise');
  const issue = result.issues?.[0];
  if (issue !== undefined) throw bad(pathOf(issue), issue.message);
  return (result as { readonly value: T }).value;
}

/** Turns what a check of the user's own threw into the refusal callers see. */
export function refusedInput(error: unknown): TurnstoneError {
  if (error instanceof TurnstoneError) return error;
  return bad('', describeError(error).message, error);
}

function pathOf(issue: SchemaIssue): string {
  const keys = (issue.path ?? []).map((part) => (typeof part === 'object' ? part.key : part));
  return keys.map((key) => `.${String(key)}`).join('');
}

function bad(path: string, message: string, cause?: unknown): TurnstoneError {
  return new TurnstoneError('invalid_input', `input${path}: ${message}`, {
    retry: 'never',
    details: { field: `input${path}` },
    cause,
  });
}
