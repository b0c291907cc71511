import { defineConfig } from 'vitest/config';
import { longestFirst } from './test/support/longest-first.js';
import fast from './vitest.config.js';
import { RetriedTests } from './test/support/retries.js';

/** The specs of which `npm test` tries only a part of the cases. */
const WITH_MANY_CASES = [
  'src/authentication/passport.access-token-verifier.spec.ts',
  'src/commands/move-store.spec.ts',
  'src/common/json-reader.spec.ts',
  'src/ingestion/adapters/out/local-disk/stored-uploads/file-bytes.spec.ts',
  'src/ingestion/adapters/out/object-storage/stored-uploads/bucket-uploads.spec.ts',
  'test/e2e/guest.e2e.spec.ts',
  'test/process/first-build.spec.ts',
];

/** `npm run test:slow`: faults at every operation, storms, power cuts, and what only processes of their own show. */
export default defineConfig({
  test: {
    ...fast.test,
    include: ['src/**/*.slow.spec.ts', 'test/**/*.slow.spec.ts', ...WITH_MANY_CASES],
    env: { TEST_CASES: 'all' },
    globalSetup: ['test/support/build.ts', 'test/support/auth0-description.ts', 'test/support/temporary-directory.ts'],
    exclude: ['**/node_modules/**'],
    // Most of them wait for other processes.
    maxWorkers: 4,
    sequence: { sequencer: longestFirst(['faults', 'auth0-setup', 'auth0-faults', 'memory', 'removal', 'auth0-check', 'telling', 'volume', 'large-backlog']) },
    testTimeout: 180_000,
    hookTimeout: 180_000,
    reporters: ['default', new RetriedTests(), ['json', { outputFile: 'dist/slow-test-results.json' }]],
  },
});
