// Names of sealing scopes: a subject's or a tenant's, with the generation of its key.
//   T12  a subject that came back has another generation, so what was sealed before its erasure stays unread.

/** The scope's name as payloads carry it; the first generation has none, so that it stays short. */
export function scopeTag(base: string, generation: number): string {
  return generation <= 1 ? base : `${base}~${generation}`;
}

/** The key row and the generation a tag stands for. */
export function splitScope(tag: string): { readonly base: string; readonly generation: number } {
  const at = tag.lastIndexOf('~');
  if (at < 0) return { base: tag, generation: 1 };
  return { base: tag.slice(0, at), generation: Number(tag.slice(at + 1)) };
}

/** True for a scope of a person, whose key row every commit checks. */
export function isSubjectScope(tag: string): boolean {
  return tag.startsWith('s');
}
