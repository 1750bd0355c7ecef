// Writes src/api/openapi.json from the route table and its schemas; `--check` compares instead.
import { readFileSync, writeFileSync } from 'node:fs';
import { openapiDocument } from '../src/api/openapi-document.ts';

const path = new URL('../src/api/openapi.json', import.meta.url);
const text = `${JSON.stringify(openapiDocument(), null, 2)}\n`;
if (process.argv.includes('--check')) {
  if (readFileSync(path, 'utf8') !== text) {
    process.stderr.write(
      'src/api/openapi.json is not what the schemas say; run `npm run openapi`\n',
    );
    process.exit(1);
  }
} else writeFileSync(path, text);
