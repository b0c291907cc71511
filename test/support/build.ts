import { execFileSync } from 'node:child_process';

/** Builds once before the suite, because some specs start the service from dist, like its users. */
export default function build(): void {
  execFileSync(process.execPath, ['node_modules/@nestjs/cli/bin/nest.js', 'build'], { stdio: 'inherit' });
}
