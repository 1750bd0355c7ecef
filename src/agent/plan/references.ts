// `${path}` references in the strings of a plan (page 05).
//   A string that is one reference keeps the value's type; `$${` is a literal `${`.
import { encode } from '../../protocol/canonical.ts';
import { AgentError } from '../../protocol/errors.ts';

/** What a path may begin with, and the values behind it. */
export type Roots = ReadonlyMap<string, unknown>;

const pattern = /\$\$\{|\$\{([^{}]*)\}/g;
const whole = /^\$\{([^{}]*)\}$/;

/** Every reference in a value, with the path of the string it stands in. */
export function referencesIn(
  value: unknown,
  path: string,
): readonly { path: string; reference: string }[] {
  if (typeof value === 'string') {
    return [...value.matchAll(pattern)].flatMap((match) =>
      match[1] === undefined ? [] : [{ path, reference: match[1] }],
    );
  }
  if (Array.isArray(value))
    return value.flatMap((item, index) => referencesIn(item, `${path}[${index}]`));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) => referencesIn(item, `${path}.${key}`));
}

/** The first name of a reference and the rest of its path; null when it is not a path. */
export function splitReference(
  reference: string,
): { root: string; rest: readonly string[] } | null {
  const names = reference.split('.').flatMap((part) => {
    const match = /^([^[\]]+)((?:\[\d+\])*)$/.exec(part);
    if (match === null) return [''];
    return [match[1] ?? '', ...[...(match[2] ?? '').matchAll(/\d+/g)].map(String)];
  });
  const [root, ...rest] = names;
  if (root === undefined || names.some((name) => name === '')) return null;
  return { root, rest };
}

/** The value with its references replaced; throws AgentError `unknown_reference` naming the reference. */
export function resolve(value: unknown, roots: Roots): unknown {
  if (typeof value === 'string') return resolveText(value, roots);
  if (Array.isArray(value)) return value.map((item) => resolve(item, roots));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, item]): [string, unknown] => [
    key,
    resolve(item, roots),
  ]);
  return Object.fromEntries(entries);
}

function resolveText(text: string, roots: Roots): unknown {
  const single = whole.exec(text);
  if (single?.[1] !== undefined) return lookUp(single[1], roots);
  return text.replace(pattern, (match, reference: string | undefined) => {
    if (reference === undefined) return match.slice(1);
    const value = lookUp(reference, roots);
    return typeof value === 'string' ? value : encode(value);
  });
}

/** The value a reference names, own members only. */
export function lookUp(reference: string, roots: Roots): unknown {
  const path = splitReference(reference);
  if (path === null || !roots.has(path.root)) throw unknown(reference);
  let value = roots.get(path.root);
  for (const name of path.rest) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name))
      throw unknown(reference);
    value = Reflect.get(value, name);
  }
  return value;
}

function unknown(reference: string): AgentError {
  return new AgentError(`unknown reference \${${reference}}`, { code: 'unknown_reference' });
}
