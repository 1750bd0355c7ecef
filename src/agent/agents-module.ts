// A module of the user's own agents, as `npm start` (TURNSTONE_AGENTS) and `cdk deploy` (-c agents=) take it.
import type { HttpCaller } from '../ports/http-caller.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { AgentDefinition } from '../runtime/agent-definition.ts';

/** What a host hands to agents when it starts. */
export interface AgentHost {
  /** Outbound HTTP through the host's allow-list; for `httpCall`. */
  readonly http: HttpCaller;
  /** The environment of the process or the function. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** What such a module exports. */
export interface AgentsModule {
  readonly agents: (host: AgentHost) => readonly AgentDefinition[];
  /** SQL that makes tables of your own in the embedded store, for atomic members; unused on AWS. */
  readonly ownTables?: string;
  /** Telemetry of your own over the host's lines: `openTelemetry` or `powertools`, or both. */
  readonly telemetry?: (lines: Telemetry) => Telemetry;
}

/** The agents of a module by name, after `own`; throws naming the module and what it lacks. */
export function agentsOf(
  own: readonly AgentDefinition[],
  module: unknown,
  name: string,
  host: AgentHost,
): ReadonlyMap<string, AgentDefinition> {
  const make: unknown = Reflect.get(Object(module), 'agents');
  if (typeof make !== 'function')
    throw new Error(`${name}: expected an export "agents", a function, got ${typeof make}`);
  const made: unknown = make(host);
  if (!Array.isArray(made))
    throw new Error(`${name}: expected "agents" to return an array, got ${typeof made}`);
  const agents = new Map<string, AgentDefinition>(own.map((agent) => [agent.name, agent]));
  for (const agent of made as readonly AgentDefinition[]) {
    if (typeof agent?.run !== 'function')
      throw new Error(`${name}: expected agents made by defineTurnAgent, got ${typeof agent}`);
    if (agents.has(agent.name)) throw new Error(`${name}: agent "${agent.name}" is there twice`);
    agents.set(agent.name, agent);
  }
  return agents;
}
