import { execFileSync } from 'node:child_process';

/**
 * Builds before the test suite if anything has changed since the last build, because some specs start the service from
 * dist, like its users.
 */
export default function build(): void {
  execFileSync(process.execPath, ['build-if-changed.mjs'], { stdio: 'inherit' });
}
