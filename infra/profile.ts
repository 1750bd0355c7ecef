// The figures of a stack: timeouts, lease and visibility, and how they relate. Read by infra alone; the
// functions get them through their environment.
import { limits } from '../src/protocol/limits.ts';

export interface Profile {
  readonly name: 'standard' | 'short';
  /** Timeout of the API function and the turn function, seconds. */
  readonly functionSeconds: number;
  readonly leaseMs: number;
  /** Visibility of the inbox: at least six times the function's timeout. */
  readonly visibilitySeconds: number;
  readonly reserveMs: number;
  /** Whether tables and logs go with the stack. */
  readonly disposable: boolean;
}

export const profiles: Readonly<Record<Profile['name'], Profile>> = {
  standard: {
    name: 'standard',
    functionSeconds: 60,
    leaseMs: 75_000,
    visibilitySeconds: 360,
    reserveMs: 5_000,
    disposable: false,
  },
  /** For tests on a local AWS: everything short, nothing kept (ruling 29). */
  short: {
    name: 'short',
    functionSeconds: 5,
    leaseMs: 6_000,
    visibilitySeconds: 30,
    reserveMs: 1_000,
    disposable: true,
  },
};

/** The profile by name; throws for an unknown one or figures that contradict each other. */
export function profileOf(name: string): Profile {
  const profile = name === 'standard' || name === 'short' ? profiles[name] : undefined;
  if (profile === undefined) throw new Error(`profile: expected standard or short, got "${name}"`);
  const { functionSeconds, leaseMs, visibilitySeconds, reserveMs } = profile;
  check(leaseMs > functionSeconds * 1000, 'a lease outlives the longest invocation');
  check(leaseMs >= limits.leaseMinMs, 'a lease is legal');
  check(visibilitySeconds >= 6 * functionSeconds, 'a slow turn is not redelivered under itself');
  check(reserveMs < functionSeconds * 1000, 'the reserve leaves time to work');
  return profile;
}

function check(holds: boolean, relation: string): void {
  if (!holds) throw new Error(`profile: ${relation}`);
}
