// What a forgetting removes, followed through derivation (page 01, 13.4). Pure.
//   ME-13 a cascade is decided over the whole lineage at once, through tombstones, version by version: a derivative that
//         was made again without the source keeps its current version and loses those that absorbed it.

/** A version of a fact, by hashed id and number. */
export interface VersionName {
  readonly key: string;
  readonly version: number;
}

/** A version with what it was derived from. */
export interface DerivedVersion {
  readonly version: number;
  readonly from: readonly VersionName[];
}

/** One id with all that is known of it; `current` is null for a tombstone. */
export interface LineageItem {
  readonly key: string;
  readonly current: number | null;
  /** Versions that stand. */
  readonly versions: readonly DerivedVersion[];
  /** Versions that are gone, with their edges. */
  readonly gone: readonly DerivedVersion[];
}

/** What is removed of one id: the whole of it, or only some versions. */
export interface Removal {
  readonly key: string;
  readonly whole: boolean;
  readonly versions: readonly DerivedVersion[];
}

const nameOf = ({ key, version }: VersionName): string => `${key}:${version}`;

/** Removes an id and leaves what was derived from it. */
export function forgetting(items: readonly LineageItem[], key: string): readonly Removal[] {
  return items.filter((item) => item.key === key && item.current !== null).map(whole);
}

/** Removes an id and every version that came from it, however far. */
export function cascading(items: readonly LineageItem[], key: string): readonly Removal[] {
  const tainted = new Set<string>();
  const versionsOf = (item: LineageItem): readonly DerivedVersion[] => [
    ...item.versions,
    ...item.gone,
  ];
  for (const item of items) {
    if (item.key !== key) continue;
    for (const { version } of versionsOf(item)) tainted.add(nameOf({ key, version }));
  }
  for (let grown = -1; grown !== tainted.size; ) {
    grown = tainted.size;
    for (const item of items) {
      for (const { version, from } of versionsOf(item)) {
        if (from.some((source) => tainted.has(nameOf(source))))
          tainted.add(nameOf({ key: item.key, version }));
      }
    }
  }
  return items.flatMap((item): Removal[] => {
    if (item.current === null) return [];
    const hit = (version: number): boolean => tainted.has(nameOf({ key: item.key, version }));
    if (item.key === key || hit(item.current)) return [whole(item)];
    const versions = item.versions.filter(({ version }) => hit(version));
    return versions.length === 0 ? [] : [{ key: item.key, whole: false, versions }];
  });
}

function whole(item: LineageItem): Removal {
  return { key: item.key, whole: true, versions: item.versions };
}
