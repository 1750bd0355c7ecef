// The turn object of page 05 from a runtime view.
import { toIso } from '../protocol/ids.ts';
import type { TurnView } from '../runtime/turn-view.ts';

/** The turn as the contract has it; instants are ISO 8601 UTC. */
export function turnObject(
  view: TurnView,
  facts: { readonly replayed: boolean; readonly currentRevision?: number },
): Record<string, unknown> {
  return {
    threadId: view.thread,
    turnId: view.turn,
    agent: view.agent,
    status: view.status,
    replayed: facts.replayed,
    revision: view.revision,
    ...(facts.replayed && facts.currentRevision !== undefined
      ? { currentRevision: facts.currentRevision }
      : {}),
    ...(view.status === 'succeeded' && view.erased !== true ? { result: view.result ?? null } : {}),
    ...(view.error === undefined ? {} : { error: view.error }),
    waits: view.waits.map((wait) => ({ ...wait, until: toIso(wait.until) })),
    undecided: view.undecided.map((doubt) => ({ ...doubt, since: toIso(doubt.since) })),
    spend: view.spend,
    ...(view.erased === true ? { erased: true } : {}),
    createdAt: toIso(view.createdAt),
    updatedAt: toIso(view.updatedAt),
  };
}
