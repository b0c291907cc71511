import { configDefaults, defineConfig } from 'vitest/config';
import { longestFirst } from './test/support/longest-first.js';
import { RetriedTests, retry } from './test/support/retries.js';

/** `npm test`: every rule of the interface, against the in-memory fakes, the local disk and the stand-ins. */
export default defineConfig({
  test: {
    include: ['src/**/*.spec.ts', 'test/**/*.spec.ts'],
    exclude: [...configDefaults.exclude, 'test/integration/**', 'test/tenant/**', '**/*.slow.spec.ts'],
    environment: 'node',
    globalSetup: ['test/support/build-meanwhile.ts', 'test/support/auth0-description.ts', 'test/support/temporary-directory.ts'],
    isolate: false,
    // Many tests wait, so that more workers than cores are busy.
    maxWorkers: 4,
    // The cores are busy with tests, so that more threads for the garbage of one worker only take processor time.
    execArgv: ['--single-threaded-gc'],
    // Those that use dist follow when it is built: ready-line, team-adapters, token, start-refused.
    sequence: { sequencer: longestFirst(['local-disk', 'auth0', 'stored-uploads', 'large-bodies', 'directory-view', 'idempotency-keys', 'client', 'move-store', 's3', 'embedded', 'ready-line', 'team-adapters', 'token', 'start-refused']) },
    testTimeout: 60_000,
    retry,
    hookTimeout: 60_000,
    reporters: ['default', new RetriedTests(), ['json', { outputFile: 'dist/test-results.json' }]],
  },
});
