// A module of own agents that watches: what `npm start` and a deployment tell goes through it.
import type { AgentsModule } from '../../src/agent/agents-module.ts';
import type { SpanStart, Telemetry } from '../../src/ports/telemetry.ts';

export const agents: AgentsModule['agents'] = () => [];

/** Tells spans as lines, besides the host's own. */
export const telemetry = (lines: Telemetry): Telemetry => {
  const own: Telemetry = {
    emit: (name, fields) => lines.emit(name, fields),
    open: ({ kind, name }: SpanStart) => ({
      below: own,
      within: (work) => work(),
      end: ({ outcome }) => lines.emit('span', { kind, name, outcome }),
    }),
  };
  return own;
};
