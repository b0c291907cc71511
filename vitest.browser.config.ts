import { defineConfig } from 'vitest/config';
import { RetriedTests, retry } from './test/support/retries.js';

/** `npm run test:browser`: Swagger UI in Chromium. */
export default defineConfig({
  test: {
    include: ['test/browser/**/*.spec.mjs'],
    environment: 'node',
    // One worker loads the sources of the service once for all of them.
    isolate: false,
    maxWorkers: 1,
    testTimeout: 360_000,
    retry,
    hookTimeout: 120_000,
    reporters: ['default', new RetriedTests()],
  },
});
