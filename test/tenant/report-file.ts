import { readFileSync, rmSync } from 'node:fs';

export const REPORT = 'data/auth0-check/report.md';

/** Takes away what an earlier run has told. */
export function setup(): void {
  rmSync(REPORT, { force: true });
}

/** Shows what this one tells, once it has come so far. */
export function teardown(): void {
  try {
    process.stdout.write(`\n${readFileSync(REPORT, 'utf8')}\nThis is also in ${REPORT}.\n`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
