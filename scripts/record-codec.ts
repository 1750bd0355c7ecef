// Freezes the record codec of a release: `node scripts/record-codec.ts <release>`. Never overwrites.
import { existsSync, writeFileSync } from 'node:fs';
import { canonicalVersion } from '../src/protocol/canonical.ts';
import { recordMembers, recordVersion } from '../src/protocol/record-codec.ts';

const release = process.argv[2];
if (release === undefined || !/^\d+\.\d+\.\d+$/.test(release))
  throw new Error('expected a release, e.g. 0.1.0');
const path = new URL(`../test/replay/codec/${release}.json`, import.meta.url);
if (existsSync(path)) throw new Error(`${release} is frozen already and is never edited`);
const kinds = Object.entries(recordMembers).map(
  ([kind, members]) => `  ${JSON.stringify(kind)}: ${JSON.stringify(members)}`,
);
writeFileSync(
  path,
  `{"recordVersion": ${recordVersion}, "canonicalVersion": ${canonicalVersion}, "kinds": {\n${kinds.join(',\n')}\n}}\n`,
);
