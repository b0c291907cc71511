import { defineConfig } from 'vitest/config';
import { longestFirst } from './test/support/longest-first.js';
import { RetriedTests, retry } from './test/support/retries.js';

export default defineConfig({
  test: {
    include: ['test/integration/**/*.spec.ts'],
    environment: 'node',
    globalSetup: ['test/support/build.ts', 'test/servers/prepare.mjs', 'test/clients/prepare.mjs'],
    isolate: false,
    // Many tests wait, so that more workers than cores are busy.
    maxWorkers: 3,
    sequence: { sequencer: longestFirst(['replicas', 'soak', 'proxies', 'package-nest-11', 'package', 'keycloak-faults', 'keycloak-setup', 's3', 'image', 'move-store', 'object-storage', 'azure-blob']) },
    // In CI, other tests run beside them.
    testTimeout: 120_000,
    retry,
    hookTimeout: 120_000,
    reporters: ['default', new RetriedTests(), 'json'],
    outputFile: { json: 'dist/integration-test-results.json' },
  },
});
