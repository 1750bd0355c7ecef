// The built-in index: exact cosine over what a recall would see, nothing kept but vectors of this process.
//   ME-24 content is embedded where it is opened, inside the turn's own effect; no vector is stored.
import type { Embedder, MemoryIndex } from '../ports/embedder.ts';
import { encode } from '../protocol/canonical.ts';
import { limits } from '../protocol/limits.ts';

/**
 * Ranks by cosine. `documents` embeds what is remembered, `queryRevision` names the queries it goes with (a model may
 * embed the two differently). Vectors are kept by commitment, at most `limits.searchVectorsKept`.
 */
export function exactIndex(documents: Embedder, queryRevision: string): MemoryIndex {
  const kept = new Map<string, readonly number[]>();
  const vectorOf = async (commitment: string, content: unknown, signal: AbortSignal) => {
    const known = kept.get(commitment);
    if (known !== undefined) return known;
    const text = typeof content === 'string' ? content : encode(content);
    const vector = await documents.embed(text, signal);
    kept.set(commitment, vector);
    const [oldest] = kept.keys();
    if (kept.size > limits.searchVectorsKept && oldest !== undefined) kept.delete(oldest);
    return vector;
  };
  return {
    queryRevision,
    rank: async ({ vector, limit, candidates, signal }) => {
      const scored = [];
      for (const { key, version, commitment, content } of await candidates()) {
        const document = await vectorOf(commitment, content, signal);
        scored.push({ key, version, commitment, score: cosine(vector, document) });
      }
      scored.sort((left, right) => right.score - left.score || (left.key < right.key ? -1 : 1));
      return { snapshot: `exact:${documents.revision}`, hits: scored.slice(0, limit) };
    },
  };
}

/** Cosine of two vectors of one length; 0 when either has no length. Throws for two lengths. */
export function cosine(left: readonly number[], right: readonly number[]): number {
  if (left.length !== right.length) {
    throw new RangeError(`vectors: expected ${left.length} numbers, got ${right.length}`);
  }
  let dot = 0;
  let a = 0;
  let b = 0;
  for (const [at, value] of left.entries()) {
    const other = right[at] ?? 0;
    dot += value * other;
    a += value * value;
    b += other * other;
  }
  return a === 0 || b === 0 ? 0 : dot / Math.sqrt(a * b);
}
