import { defineConfig } from 'vitest/config';
import { RetriedTests, retry } from './test/support/retries.js';

export default defineConfig({
  test: {
    include: ['test/integration/**/*.spec.ts'],
    environment: 'node',
    globalSetup: ['test/support/build.ts', 'test/servers/prepare.mjs', 'test/clients/prepare.mjs'],
    isolate: false,
    maxWorkers: 2,
    // In CI, other tests run beside them.
    testTimeout: 120_000,
    retry,
    hookTimeout: 120_000,
    reporters: ['default', new RetriedTests()],
  },
});
