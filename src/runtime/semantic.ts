// Search by meaning over what is remembered (page 01, 13.6): embed, rank, screen, then read like a recall.
//   ME-20 two effects, whose records hold text, vector, revisions, snapshot, scores and commitments; ME-21 hits are
//         screened before they are recorded; ME-22 what they name is read and checked again, live and replayed.
import type { Hit, SearchPair } from '../ports/embedder.ts';
import { AgentError, TurnstoneError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';
import { splitScope } from '../protocol/scopes.ts';
import type { Pass } from './pass.ts';
import { badMemory, openVersion, standing } from './recall.ts';
import type { Effect, Search } from './turn-context.ts';
import { EffectFailure } from './turn-context.ts';

/** Wires an embedder with an index of its space; throws naming both revisions when they are not of one (ME-23). */
export function pairSearch(
  embedder: SearchPair['embedder'],
  index: SearchPair['index'],
): SearchPair {
  if (embedder.revision === index.queryRevision) return { embedder, index };
  throw new AgentError(
    `search: the index takes query vectors of "${index.queryRevision}", the embedder makes "${embedder.revision}"`,
    { code: 'search_mismatched' },
  );
}

export function embedEffect({ using, text }: Search): Effect<readonly number[]> {
  if (Buffer.byteLength(text) > limits.searchTextBytes) {
    throw badMemory('text', `at most ${limits.searchTextBytes} bytes`, 'more');
  }
  const { embedder } = using;
  return {
    kind: 'memory.embed',
    args: { text, revision: embedder.revision },
    mutates: false,
    perform: async ({ signal }) => {
      const vector = await embedder.embed(text, signal);
      if (vector.length === 0 || vector.some((value) => !Number.isFinite(value))) {
        throw malformed('embedding', 'numbers, at least one', 'something else');
      }
      return vector;
    },
  };
}

export interface Ranked {
  readonly cutoff: number;
  readonly snapshot: string;
  readonly items: readonly Hit[];
}

export function rankEffect(pass: Pass, query: Search, vector: readonly number[]): Effect<Ranked> {
  const { runtime, ref, scope, sealer } = pass.setup;
  const { using, purpose } = query;
  const limit = query.limit ?? limits.recallDefault;
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > limits.recallMax) {
    throw badMemory('limit', `1 to ${limits.recallMax}`, String(limit));
  }
  return {
    kind: 'memory.rank',
    args: { vector, revision: using.index.queryRevision, purpose, limit },
    mutates: false,
    policyFacts: { purpose },
    perform: async ({ signal }) => {
      const cutoff = Math.max(runtime.clock.now(), pass.instant);
      const visible = await standing(runtime, ref.tenant, scope, cutoff);
      const rows = visible.filter((row) => row.purpose === purpose);
      const elsewhere = new Set(
        visible.filter((row) => row.purpose !== purpose).map(({ key }) => key),
      );
      const candidates = () =>
        Promise.all(
          rows.map(async (row) => {
            const { content } = await openVersion(runtime, ref.tenant, sealer, row);
            const { key, version, commitment } = row;
            return { key, version, commitment, content };
          }),
        );
      const { snapshot, hits } = await using.index.rank({
        vector,
        purpose,
        limit,
        candidates,
        signal,
      });
      checkHits(hits, limit);
      await demandScope(pass, hits, elsewhere);
      const current = new Map(rows.map((row) => [row.key, row.version]));
      const items = hits.filter(({ key, version }) => current.get(key) === version);
      return { cutoff, snapshot, items };
    },
  };
}

/** E269: what an index may not answer is refused before anything of it is recorded. */
function checkHits(hits: readonly Hit[], limit: number): void {
  if (hits.length > limit) throw malformed('hits', `at most ${limit}`, `${hits.length}`);
  const bad = hits.find(({ score }) => !Number.isFinite(score));
  if (bad !== undefined) throw malformed('score', 'a finite number', `${bad.score}`);
}

/** E268: a hit outside the subject or the purpose is a refusal, not a miss. */
async function demandScope(
  pass: Pass,
  hits: readonly Hit[],
  elsewhere: ReadonlySet<string>,
): Promise<void> {
  const { runtime, scope } = pass.setup;
  const heads = await runtime.store.memoryHeads(
    scope,
    hits.map(({ key }) => key),
  );
  const { base } = splitScope(scope);
  const foreign = hits.some(({ key }, at) => heads[at]?.owner !== base || elsewhere.has(key));
  if (!foreign) return;
  throw new EffectFailure('search: the index named a fact of somebody else', {
    code: 'search_out_of_scope',
    disposition: 'did_not_happen',
    permanent: true,
  });
}

function malformed(what: string, expected: string, got: string): EffectFailure {
  return new EffectFailure(`search ${what}: expected ${expected}, got ${got}`, {
    code: 'search_malformed',
    disposition: 'did_not_happen',
    permanent: true,
  });
}

/** A search of nobody's memory is refused by name. */
export function searchQuery(query: Search): void {
  if (query.using?.embedder !== undefined && query.using.index !== undefined) return;
  throw new TurnstoneError(
    'invalid_request',
    'search.using: expected what pairSearch made, got something else',
    { retry: 'never', details: { field: 'search.using' } },
  );
}
