// Identities and instants: branded texts that were checked once, at the door.
//   Ruling 10  1 to 256 characters of A-Z a-z 0-9 . _ : - @ ; `.` and `..` are refused.
import { TurnstoneError } from './errors.ts';
import { limits } from './limits.ts';

declare const brand: unique symbol;
type Branded<T, Name extends string> = T & { readonly [brand]: Name };

export type TenantId = Branded<string, 'TenantId'>;
export type ThreadId = Branded<string, 'ThreadId'>;
export type TurnId = Branded<string, 'TurnId'>;
export type AgentName = Branded<string, 'AgentName'>;
export type SubjectId = Branded<string, 'SubjectId'>;
/** Milliseconds since the epoch, a whole number. */
export type EpochMs = Branded<number, 'EpochMs'>;

const idPattern = /^[A-Za-z0-9._:@-]+$/;

/** Checks a caller's id; throws `invalid_request` naming the field, what was expected and what came. */
export function parseId(field: string, value: unknown): string {
  const expected = `1 to ${limits.idCharacters} characters of A-Z a-z 0-9 . _ : - @, not "." or ".."`;
  if (typeof value !== 'string') throw invalid(field, expected, typeof value);
  const legal = idPattern.test(value) && value.length <= limits.idCharacters;
  if (!legal || value === '.' || value === '..') throw invalid(field, expected, shown(value));
  return value;
}

export const tenantId = (field: string, value: unknown): TenantId =>
  parseId(field, value) as TenantId;
export const threadId = (field: string, value: unknown): ThreadId =>
  parseId(field, value) as ThreadId;
export const turnId = (field: string, value: unknown): TurnId => parseId(field, value) as TurnId;
export const agentName = (field: string, value: unknown): AgentName =>
  parseId(field, value) as AgentName;
export const subjectId = (field: string, value: unknown): SubjectId =>
  parseId(field, value) as SubjectId;

/** Checks an instant; throws `invalid_request` unless it is a whole number of milliseconds from 0. */
export function epochMs(value: number): EpochMs {
  if (!Number.isSafeInteger(value) || value < 0)
    throw invalid('instant', 'milliseconds since the epoch', String(value));
  return value as EpochMs;
}

/** ISO 8601 UTC with milliseconds (ruling 24). */
export function toIso(instant: number): string {
  return new Date(instant).toISOString();
}

/** Checks a step name: 1 to 256 printable characters; the empty name means "outside a step". */
export function parseStepName(field: string, value: unknown): string {
  return parseName(field, value);
}

/** Checks an effect kind: 1 to 256 printable characters. */
export function parseEffectKind(field: string, value: unknown): string {
  return parseName(field, value);
}

function parseName(field: string, value: unknown): string {
  const expected = `1 to ${limits.nameCharacters} printable characters`;
  if (typeof value !== 'string') throw invalid(field, expected, typeof value);
  const printable = !/[\p{Cc}\p{Cs}]/u.test(value);
  if (value === '' || value.length > limits.nameCharacters || !printable) {
    throw invalid(field, expected, shown(value));
  }
  return value;
}

function shown(value: string): string {
  const text = value.length > 40 ? `${value.slice(0, 40)}… (${value.length} characters)` : value;
  return JSON.stringify(text);
}

function invalid(field: string, expected: string, got: string): TurnstoneError {
  return new TurnstoneError('invalid_request', `${field}: expected ${expected}, got ${got}`, {
    retry: 'never',
    details: { field, expected, got },
  });
}
