// Runs every tier of the tests, one after another, and sums what they said.
//
// The last line is `N passed, N failed` (and `, N skipped` when something was). A tier whose tests
// could not run says why, loudly; with TURNSTONE_REQUIRE_LOCAL_AWS=1 (CI) that is a failure.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const tiers = ['guards', 'unit', 'replay', 'conformance', 'simulation', 'infra', 'e2e'];
const wanted = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'turnstone-test-'));
const sums = { passed: 0, failed: 0, skipped: 0 };

interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly numFailedTestSuites: number;
  readonly success: boolean;
}

function run(tier: string): Promise<number> {
  const file = join(folder, `${tier}.json`);
  const args = [
    'run',
    '--project',
    tier,
    '--passWithNoTests',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${file}`,
  ];
  return new Promise((resolve) => {
    const child = spawn('vitest', args, { stdio: 'inherit', shell: false });
    child.on('error', (error) => {
      process.stderr.write(`turnstone: cannot start vitest: ${error.message}\n`);
      resolve(1);
    });
    child.on('exit', (code) => resolve(code ?? 1));
  });
}

function add(tier: string, code: number): void {
  let report: Report;
  try {
    report = JSON.parse(readFileSync(join(folder, `${tier}.json`), 'utf8'));
  } catch {
    process.stdout.write(`${tier}: no report\n`);
    if (code !== 0) sums.failed += 1;
    return;
  }
  const skipped = report.numPendingTests + report.numTodoTests;
  sums.passed += report.numPassedTests;
  sums.failed += report.numFailedTests;
  sums.skipped += skipped;
  if (code !== 0 && report.numFailedTests === 0) sums.failed += 1;
  process.stdout.write(
    `${tier}: ${report.numPassedTests} passed, ${report.numFailedTests} failed, ${skipped} skipped\n`,
  );
}

for (const tier of wanted.length > 0 ? wanted : tiers) add(tier, await run(tier));
rmSync(folder, { recursive: true, force: true });

const strict = process.env.TURNSTONE_REQUIRE_LOCAL_AWS === '1';
if (sums.skipped > 0) {
  process.stdout.write(`${sums.skipped} skipped: no emulator (see the reason above)\n`);
  if (strict) sums.failed += sums.skipped;
}
const tail = sums.skipped > 0 ? `, ${sums.skipped} skipped` : '';
process.stdout.write(`${sums.passed} passed, ${sums.failed} failed${tail}\n`);
process.exitCode = sums.failed > 0 || sums.passed === 0 ? 1 : 0;
