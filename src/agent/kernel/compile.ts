// An agent compiled once: every mistake of its definition is named before its first turn (K-73, K-74).
//
//   K-54  a write without a confirmation, or with a mode nobody knows, is refused.
//   K-75  dangerous combinations are refused, not warned of.
import { TurnstoneError } from '../../protocol/errors.ts';
import type { Capability, ConfirmationMode, FactKey, Policy } from './capability.ts';

export interface CompiledCapability
  extends Required<
    Pick<Capability, 'id' | 'version' | 'description' | 'effect' | 'confirmation' | 'visibility'>
  > {
  readonly definition: Capability;
  readonly inputJson: Readonly<Record<string, unknown>>;
  readonly requires: readonly FactKey[];
  readonly provides: readonly FactKey[];
  readonly invalidates: readonly FactKey[];
}

export interface CompiledCapabilities {
  readonly byId: ReadonlyMap<string, CompiledCapability>;
  /** The one capability that publishes a fact. */
  readonly providers: ReadonlyMap<FactKey, CompiledCapability>;
  readonly facts: readonly FactKey[];
  /** What the authority half of the fingerprint covers, in an order that registration does not change (K-63). */
  readonly manifest: unknown;
  /** True when what `first` publishes is needed, however far, by `second` (K-81). */
  ordered(first: string, second: string): boolean;
}

const idPattern = /^[a-z][a-zA-Z0-9]*(?:[.-][a-zA-Z0-9]+)*$/;
const factPattern = /^[a-z][a-zA-Z0-9]*(?:[.-][a-zA-Z0-9]+)*@[1-9][0-9]*$/;
const effects: readonly string[] = ['none', 'read', 'write'];
const modes: readonly string[] = ['none', 'required', 'capability'];

/** Compiles or throws `invalid_agent`; `details.problem` is the code of K-73. */
export function compileCapabilities(
  capabilities: readonly Capability[],
  policies: readonly Policy[],
): CompiledCapabilities {
  const byId = new Map<string, CompiledCapability>();
  for (const definition of capabilities) {
    const compiled = compileOne(definition);
    if (byId.has(compiled.id)) {
      throw bad('duplicate_capability', compiled.id, 'an id that is used once', 'twice');
    }
    byId.set(compiled.id, compiled);
  }
  if (byId.size === 0) throw bad('no_capability', 'capabilities', 'at least one', 'none');
  checkPolicies(policies);
  const providers = providersOf(byId);
  const needs = needsOf(byId, providers);
  for (const id of byId.keys()) {
    if (reaches(needs, id, id)) {
      throw bad('capability_dependency_cycle', id, 'facts that do not need themselves', 'a cycle');
    }
  }
  const facts = [...new Set([...byId.values()].flatMap(factsOf))].toSorted();
  return Object.freeze({
    byId,
    providers,
    facts,
    manifest: manifestOf(byId, policies),
    ordered: (first: string, second: string) => reaches(needs, second, first),
  });
}

function compileOne(definition: Capability): CompiledCapability {
  const { id, description, effect } = definition;
  const version = definition.version ?? 1;
  if (typeof id !== 'string' || !idPattern.test(id)) {
    throw bad('invalid_capability_id', String(id), 'lower case, parts joined by . or -', shown(id));
  }
  checkVersion('invalid_capability_version', id, version);
  if (typeof description !== 'string' || description.trim() === '') {
    throw bad('invalid_capability_description', id, 'a description', shown(description));
  }
  if (!effects.includes(effect)) {
    throw bad('invalid_capability_effect', id, effects.join(', '), shown(effect));
  }
  const confirmation = confirmationOf(definition);
  const provides = Object.keys(definition.provides ?? {});
  const requires = definition.requires ?? [];
  const invalidates = definition.invalidates ?? [];
  for (const fact of [...provides, ...requires, ...invalidates]) {
    if (!factPattern.test(fact)) throw bad('invalid_fact', id, 'a fact as type@version', fact);
  }
  if (definition.automatic !== undefined && effect === 'write') {
    throw bad('invalid_automation', id, 'a capability that writes nothing', 'a write');
  }
  if (typeof definition.run !== 'function') {
    throw bad('invalid_capability', id, 'run, a function', typeof definition.run);
  }
  return Object.freeze({
    id,
    version,
    description,
    effect,
    confirmation,
    visibility: definition.visibility ?? 'full',
    definition: Object.freeze({ ...definition }),
    inputJson: jsonOf(definition),
    requires: Object.freeze([...requires]),
    provides: Object.freeze(provides),
    invalidates: Object.freeze([...invalidates]),
  });
}

function confirmationOf({ id, effect, confirmation }: Capability): ConfirmationMode {
  const mode = confirmation ?? 'none';
  if (effect === 'write' && (mode === 'none' || !modes.includes(mode))) {
    throw bad('write_confirmation_required', id, '"required" or "capability"', shown(mode));
  }
  if (!modes.includes(mode)) {
    throw bad('invalid_capability_confirmation', id, modes.join(', '), shown(mode));
  }
  if (effect !== 'write' && mode === 'capability') {
    throw bad('invalid_capability_confirmation', id, 'a write for "capability"', effect);
  }
  return mode;
}

function jsonOf(definition: Capability): Readonly<Record<string, unknown>> {
  const { id, input, output } = definition;
  if (typeof input?.['~standard']?.validate !== 'function') {
    throw bad('model_schema_required', id, 'input, a Standard Schema', typeof input);
  }
  if (typeof output?.['~standard']?.validate !== 'function') {
    throw bad('model_schema_required', id, 'output, a Standard Schema', typeof output);
  }
  const json =
    definition.inputJson ?? input['~standard'].jsonSchema?.input({ target: 'draft-2020-12' });
  if (json === undefined) {
    throw bad('model_schema_required', id, 'an input that says its JSON Schema, or inputJson', '');
  }
  return Object.freeze({ ...json });
}

function checkPolicies(policies: readonly Policy[]): void {
  const seen = new Set<string>();
  for (const { id, version = 1, decide } of policies) {
    if (!idPattern.test(id) || typeof decide !== 'function') {
      throw bad('invalid_policy', String(id), 'an id and a function', typeof decide);
    }
    checkVersion('invalid_policy', id, version);
    if (seen.has(id)) throw bad('invalid_policy', id, 'an id that is used once', 'twice');
    seen.add(id);
  }
}

/** Throws unless a version is a whole number from 1. */
export function checkVersion(problem: string, id: string, version: number): void {
  if (!Number.isSafeInteger(version) || version < 1) {
    throw bad(problem, id, 'a whole number from 1', String(version));
  }
}

function providersOf(
  byId: ReadonlyMap<string, CompiledCapability>,
): ReadonlyMap<FactKey, CompiledCapability> {
  const providers = new Map<FactKey, CompiledCapability>();
  for (const capability of byId.values()) {
    for (const fact of capability.provides) {
      const other = providers.get(fact);
      if (other !== undefined) {
        const both = `${other.id} and ${capability.id}`;
        throw bad('ambiguous_fact_provider', fact, 'one provider', both);
      }
      providers.set(fact, capability);
    }
  }
  for (const { id, requires } of byId.values()) {
    const lacking = requires.find((fact) => !providers.has(fact));
    if (lacking !== undefined) throw bad('missing_fact_provider', id, 'a provider of it', lacking);
  }
  return providers;
}

function needsOf(
  byId: ReadonlyMap<string, CompiledCapability>,
  providers: ReadonlyMap<FactKey, CompiledCapability>,
): ReadonlyMap<string, readonly string[]> {
  const of = ({ requires }: CompiledCapability) =>
    requires.flatMap((fact) => providers.get(fact)?.id ?? []);
  return new Map([...byId].map(([id, capability]) => [id, of(capability)]));
}

/** True when `from` needs `to`, directly or through others. */
function reaches(
  needs: ReadonlyMap<string, readonly string[]>,
  from: string,
  to: string,
  seen = new Set<string>(),
): boolean {
  return (needs.get(from) ?? []).some((next) => {
    if (next === to) return true;
    if (seen.has(next)) return false;
    seen.add(next);
    return reaches(needs, next, to, seen);
  });
}

function factsOf({ provides, requires, invalidates }: CompiledCapability): readonly FactKey[] {
  return [...provides, ...requires, ...invalidates];
}

function manifestOf(
  byId: ReadonlyMap<string, CompiledCapability>,
  policies: readonly Policy[],
): unknown {
  return {
    capabilities: [...byId.values()]
      .toSorted((left, right) => (left.id < right.id ? -1 : 1))
      .map((capability) => ({
        id: capability.id,
        version: capability.version,
        effect: capability.effect,
        confirmation: capability.confirmation,
        input: capability.inputJson,
        requires: capability.requires.toSorted(),
        provides: capability.provides.toSorted(),
        invalidates: capability.invalidates.toSorted(),
        automatic: capability.definition.automatic !== undefined,
      })),
    // Their order decides who is asked first, so it is kept.
    policies: policies.map(({ id, version = 1 }) => ({ id, version })),
  };
}

function shown(value: unknown): string {
  return JSON.stringify(value) ?? typeof value;
}

/** The refusal of a definition. */
export function bad(problem: string, of: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError('invalid_agent', `${of}: expected ${expected}, got ${got}`, {
    retry: 'never',
    details: { problem, field: of, expected, got },
  });
}
