// How a call of an MCP tool is treated: by what this agent declares, made stricter by what the server hints. Pure.
//
//   A tool nobody declared mutates, a crash in it waits for a person, and a person must allow it.
//   A hint never loosens: `readOnly: true` and `idempotent: true` of a server change nothing.
import type { ToolTreatment } from '../ai-sdk/tool-effects.ts';
import type { McpHints } from './mcp-server.ts';

/** What an agent declares of a tool of a server. */
export interface McpTreatment extends Omit<ToolTreatment<Record<string, unknown>>, 'kind'> {
  /** `ignore` takes the declaration as it stands, whatever the server hints. Default `stricter`. */
  readonly hints?: 'stricter' | 'ignore';
}

/** The treatment of a tool; `declared` is undefined for one that was not. */
export function strictest(
  declared: McpTreatment | undefined,
  hints: McpHints,
): Omit<ToolTreatment<Record<string, unknown>>, 'kind'> {
  if (declared === undefined) return { mutates: true, recovery: 'operator', approval: true };
  const { hints: use = 'stricter', ...treatment } = declared;
  if (use === 'ignore') return treatment;
  const mutates = (treatment.mutates ?? true) || hints.readOnly === false;
  const strict = { ...treatment, mutates, ...recoveryOf(treatment, mutates, hints) };
  const destructive = hints.destructive === true && hints.readOnly !== true;
  return destructive ? { ...strict, approval: always(treatment.approval) } : strict;
}

/** Repeating is given up where a server denies that it may be, or that the tool only reads. */
function recoveryOf(
  { recovery, mutates: declared = true }: McpTreatment,
  mutates: boolean,
  { idempotent }: McpHints,
): Pick<McpTreatment, 'recovery'> {
  if (!mutates) return recovery === undefined ? {} : { recovery };
  const repeats = recovery === 'retry' || recovery === 'idempotent';
  const denied = repeats && idempotent === false;
  const turned = !declared && recovery !== 'idempotent' && recovery !== 'reconcile';
  if (denied || turned) return { recovery: 'operator' };
  return recovery === undefined ? {} : { recovery };
}

/** Asks a person for every call, as it would be shown anyway. */
function always(approval: McpTreatment['approval']): NonNullable<McpTreatment['approval']> {
  if (typeof approval !== 'function') return true;
  return (input) => {
    const asked = approval(input);
    return asked === false ? true : asked;
  };
}
