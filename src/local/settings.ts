// Settings of the local server from its environment; every refusal names the variable.
import { limits } from '../protocol/limits.ts';
import { parseTenantBudget, type TenantBudget } from '../protocol/tenant-budget.ts';

/** What a process over the data folder does besides serving HTTP. */
export type LocalWork = 'turns' | 'effects' | 'sweep';
const everyWork: readonly LocalWork[] = ['turns', 'effects', 'sweep'];

export interface LocalSettings {
  readonly host: string;
  readonly port: number;
  readonly data: string;
  readonly leaseMs: number;
  readonly turnTimeoutMs: number;
  readonly drainMs: number;
  readonly httpAllow: string | undefined;
  /** Module of your own agents, or undefined for none. */
  readonly agents: string | undefined;
  /** File of Cedar policies, or undefined for none. */
  readonly policy: string | undefined;
  /** What each tenant may spend in a period, or undefined for no ceiling. */
  readonly tenantBudget: TenantBudget | undefined;
  /** Turns of the inbox, deferred acts, the sweep: all of them unless `TURNSTONE_WORK` names some. */
  readonly work: ReadonlySet<LocalWork>;
}

/** Reads the settings; throws an Error naming the variable, what was expected and what came. */
export function readSettings(env: Readonly<Record<string, string | undefined>>): LocalSettings {
  return {
    host: env.HOST ?? '127.0.0.1',
    port: whole(env, 'PORT', 3000, 0, 65_535),
    data: env.TURNSTONE_DATA ?? '.turnstone',
    leaseMs: whole(env, 'TURNSTONE_LEASE_MS', limits.leaseMs, limits.leaseMinMs, 3_600_000),
    turnTimeoutMs: whole(env, 'TURNSTONE_TURN_TIMEOUT_MS', limits.turnTimeoutMs, 1, 3_600_000),
    drainMs: whole(env, 'TURNSTONE_DRAIN_MS', limits.drainMs, 0, 3_600_000),
    httpAllow: env.TURNSTONE_HTTP_ALLOW,
    agents: env.TURNSTONE_AGENTS === '' ? undefined : env.TURNSTONE_AGENTS,
    policy: env.TURNSTONE_POLICY === '' ? undefined : env.TURNSTONE_POLICY,
    tenantBudget: ceiling(env.TURNSTONE_TENANT_BUDGET ?? ''),
    work: workOf(env.TURNSTONE_WORK ?? ''),
  };
}

function workOf(text: string): ReadonlySet<LocalWork> {
  if (text === '') return new Set(everyWork);
  const names = text.split(',').map((name) => {
    const known = everyWork.find((one) => one === name.trim());
    if (known !== undefined) return known;
    throw new Error(`TURNSTONE_WORK: expected names of ${everyWork.join(', ')}, got "${name}"`);
  });
  return new Set(names);
}

function ceiling(text: string): TenantBudget | undefined {
  return text === '' ? undefined : parseTenantBudget('TURNSTONE_TENANT_BUDGET', text);
}

function whole(
  env: Readonly<Record<string, string | undefined>>,
  name: string,
  standard: number,
  least: number,
  most: number,
): number {
  const text = env[name];
  if (text === undefined || text === '') return standard;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= least && value <= most) return value;
  throw new Error(`${name}: expected a whole number from ${least} to ${most}, got "${text}"`);
}
