#!/usr/bin/env node
// `npx turnstone`: runs the command line under the Node 24 that came with the project.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const own = `${root}node_modules/.bin/node`;
const node = existsSync(own) ? own : process.execPath;
const { status } = spawnSync(node, [`${root}scripts/turnstone.ts`, ...process.argv.slice(2)], {
  stdio: 'inherit',
});
process.exit(status ?? 1);
