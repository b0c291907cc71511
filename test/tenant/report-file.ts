import { readFileSync, rmSync } from 'node:fs';

export const REPORT = 'data/auth0-check/report.md';

/** Removes the report of an earlier run. */
export function setup(): void {
  rmSync(REPORT, { force: true });
}

/** Prints the report, if this run has written one. */
export function teardown(): void {
  try {
    process.stdout.write(`\n${readFileSync(REPORT, 'utf8')}\nThis is also in ${REPORT}.\n`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
