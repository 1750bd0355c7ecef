// The tree as the guards read it: tracked and new files, with their text.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

/** Every file git tracks or would track, as text. */
export function files(): readonly SourceFile[] {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], {
    encoding: 'utf8',
  });
  return listed
    .split('\n')
    .filter((path) => path !== '' && existsSync(path) && !path.endsWith('.png'))
    .map((path) => ({ path, text: readFileSync(path, 'utf8') }));
}

/** TypeScript sources below a folder. */
export function sources(folder: string): readonly SourceFile[] {
  return files().filter(({ path }) => path.startsWith(`${folder}/`) && path.endsWith('.ts'));
}
