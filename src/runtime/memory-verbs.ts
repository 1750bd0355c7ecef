// What agent code does with memory: remember, recall, forget, sweep, each in its place of the turn.
//   ME-4, ME-9 a fact is staged and a selection recorded; ME-12 a refresh is an effect of its own; ME-15 a sweep
//   whose outcome is unknown is a person's: its count cannot be had again.
import { AgentError } from '../protocol/errors.ts';
import { epochMs } from '../protocol/ids.ts';
import { labelText } from '../protocol/labels.ts';
import type { Site } from '../protocol/record.ts';
import { splitScope } from '../protocol/scopes.ts';
import { remove } from './forget.ts';
import {
  checkFact,
  checkNotStaged,
  checkSubject,
  contentOf,
  demandOwn,
  ownerEffect,
  sourcesOf,
  stageFact,
} from './memories.ts';
import type { Pass } from './pass.ts';
import { materialise, recallEffect, selectedItems, touchEffect } from './recall.ts';
import { embedEffect, rankEffect, searchQuery } from './semantic.ts';
import { stageDispatch } from './staged-dispatch.ts';
import type {
  Effect,
  Forget,
  FoundItem,
  Recall,
  RecalledItem,
  Remember,
  Removed,
  Search,
  Swept,
} from './turn-context.ts';
import { EffectError } from './turn-context.ts';

/** The place in a turn that a verb is called from. */
export interface VerbPlace {
  readonly pass: Pass;
  readonly step: string;
  effect<T>(effect: Effect<T>): Promise<T>;
  nextSite(): Site;
}

export async function remember(place: VerbPlace, fact: Remember): Promise<void> {
  const { pass } = place;
  checkFact(pass, fact);
  const found = await place.effect(ownerEffect(pass, fact));
  const key = demandOwn(fact, found);
  const { id, purpose, expiresInMs = null, accessWindowMs } = fact;
  const { value: content, label } = contentOf(pass, fact);
  const derivedFrom = sourcesOf(fact, found);
  const site = place.nextSite();
  await stageDispatch(pass, site, {
    kind: 'memory.remember',
    args: {
      id,
      purpose,
      content,
      expiresInMs,
      ...(accessWindowMs === undefined ? {} : { accessWindowMs }),
      ...(derivedFrom.length === 0 ? {} : { derivedFrom }),
    },
    facts: (own) => ({ kind: 'MemoryStaged', site, key: own, purpose, label: labelText(label) }),
    staged: (body) => stageFact(pass, key, { ...fact, content }, derivedFrom, body),
  });
}

export async function recall(place: VerbPlace, query: Recall): Promise<readonly RecalledItem[]> {
  const { pass, step } = place;
  checkSubject(pass, query.subject);
  const found = await place.effect(recallEffect(pass, query));
  if (query.refreshAccess === true) await place.effect(touchEffect(pass, found));
  return settled(pass, () => materialise(pass, step, query, found));
}

export async function search(place: VerbPlace, query: Search): Promise<readonly FoundItem[]> {
  const { pass, step } = place;
  checkSubject(pass, undefined);
  searchQuery(query);
  const vector = await place.effect(embedEffect(query));
  const ranked = await place.effect(rankEffect(pass, query, vector));
  return settled(pass, async () => {
    const items = await selectedItems(pass, step, ranked.items);
    return items.map((item, at) => ({ ...item, score: ranked.items[at]?.score ?? 0 }));
  });
}

/** Reads a selection in its turn of the schedule; what it finds is seen in the open. */
function settled<T extends RecalledItem>(
  pass: Pass,
  read: () => Promise<readonly T[]>,
): Promise<readonly T[]> {
  const settle = pass.scheduler.begin();
  return new Promise((resolve, reject) => {
    read().then(
      (items) =>
        settle(() => {
          for (const item of items) pass.labels.see(item);
          resolve(items);
        }),
      (error: unknown) => {
        if (error instanceof AgentError) pass.lostMemory ??= error;
        const known = error instanceof AgentError || error instanceof EffectError;
        if (known) settle(() => reject(error));
        else pass.stop({ kind: 'broken', error });
      },
    );
  });
}

export async function forget(place: VerbPlace, { id, cascade = false }: Forget): Promise<Removed> {
  const { runtime, ref, scope } = place.pass.setup;
  checkSubject(place.pass, undefined);
  checkNotStaged(place.pass, id);
  return place.effect({
    kind: 'memory.forget',
    args: { id, cascade },
    recovery: 'retry',
    perform: async () => {
      const key = await runtime.store.memoryKey(ref.tenant, id);
      const kind = cascade ? 'cascade' : 'forget';
      return remove(runtime, ref.tenant, splitScope(scope).base, { kind, key, cutoff: null });
    },
  });
}

export async function sweepLapsed(place: VerbPlace): Promise<Swept> {
  const { runtime, ref, scope } = place.pass.setup;
  checkSubject(place.pass, undefined);
  return place.effect({
    kind: 'memory.sweep',
    args: {},
    recovery: 'operator',
    perform: async () => {
      const cutoff = epochMs(runtime.clock.now());
      const wanted = { kind: 'sweep', key: null, cutoff } as const;
      return { ...(await remove(runtime, ref.tenant, splitScope(scope).base, wanted)), cutoff };
    },
  });
}
